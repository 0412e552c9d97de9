"""Any JSON and any damaged config is priced or refused: nothing but `Refused` is raised, nothing is changed.

10,000 configs, each put to every entry point that takes one, those of a target and those of a draft.
"""

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec.architectures import KNOWN, MTP_CLASSES, UNSUPPORTED
from spec.draft_shapes import draft_depth, draft_from_config, mtp_draft_from_target_config
from spec.model import ALGORITHMS, EAGLE, MTP, REFUSAL_KINDS, Refused
from spec.shapes import runs_with_window_pools, shape_from_config
from tests.configs import EXCERPTS, llama

ENTRY_POINTS: tuple[Callable[[Any], object], ...] = (
    shape_from_config,
    runs_with_window_pools,
    lambda config: mtp_draft_from_target_config(config, EAGLE),
    lambda config: mtp_draft_from_target_config(config, MTP, num_steps=2),
    *(lambda config, algorithm=algorithm: draft_from_config(config, algorithm) for algorithm in ALGORITHMS),
    lambda config: draft_depth(config, EAGLE),
)
"""Whatever takes a config: two questions about a target, the rest about a draft."""


def derive_everything(config: Any) -> int:
    """Call every entry point; only `Refused` may come out of one. Returns how many priced it."""
    priced = 0
    for derive in ENTRY_POINTS:
        try:
            derive(config)
            priced += 1
        except Refused as refused:
            assert refused.refusal.kind in REFUSAL_KINDS and refused.refusal.field
    return priced


FIELDS = sorted(
    {field for excerpt in EXCERPTS.values() for part in (excerpt, excerpt.get("text_config", {})) for field in part}
) + [
    "sliding_window_pattern",
    "local_layer_ids",
    "mtp_config",
    "sparse_attention_config",
    "index_topk_freq",
    "index_topk_pattern",
    "kv_cache_scheme",
    "num_mtp_modules",
]
ARCHITECTURES = sorted(KNOWN | set(MTP_CLASSES) | set(UNSUPPORTED))

SCALARS = st.none() | st.booleans() | st.integers() | st.integers(0, 8) | st.floats() | st.text(max_size=8)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
"""All of JSON."""

LIKELY = st.sampled_from(
    (None, True, False, 0, 1, 2, 4, 64, -1, 10**6, 10**12, 4.0, math.nan, math.inf, "", "4", "FSFS", "fp8", "float16")
    + tuple((name,) * 4 for name in ("full_attention", "sliding_attention", "full", "shared", 0, 1, 2, None, {}, []))
    + ([], {}, [0], [0, 1], [1, 1], [[0]], [None], [{}], {"n_layers": 2}, {"kda_layers": [1], "full_attn_layers": [2]})
)
"""What configs hold, and what is nearly that: one draw each."""
NAMES = st.sampled_from(ARCHITECTURES)
CHANGES = st.lists(st.tuples(st.sampled_from(FIELDS), LIKELY), max_size=6).map(dict)

FLAT = st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=8)
NAMED = st.builds(lambda config, name: config | {"architectures": [name]}, FLAT, NAMES)
NESTED = st.builds(lambda text: {"text_config": text}, NAMED)
ANYTHING = JSON | FLAT | NAMED | NESTED

SMALL = st.builds(
    lambda name, changes: llama(architectures=[name], kv_lora_rank=512, qk_rope_head_dim=64) | changes, NAMES, CHANGES
)
"""A small config that is nearly sound, under every class."""

TEXTS = {name: json.dumps(excerpt) for name, excerpt in EXCERPTS.items()}
DAMAGE = st.tuples(
    st.sampled_from(("remove", "replace", "shorten", "truncate", "rename")),
    st.booleans(),
    st.integers(0, 99),
    LIKELY,
    NAMES,
)
"""How, whether in the nested text, at which field, a new value, a new class."""


def damaged(name: str, damages: list[tuple[str, bool, int, object, str]]) -> dict[str, Any]:
    """An excerpt with a field removed, replaced, or half of it lost; cut off from a field on; or of another class."""
    config: dict[str, Any] = json.loads(TEXTS[name])
    for how, inside, at, value, architecture in damages:
        part = config.get("text_config") if inside else config
        if not isinstance(part, dict) or not part:
            continue
        fields = list(part)
        field = fields[at % len(fields)]
        if how == "remove":
            del part[field]
        elif how == "replace":
            part[field] = value
        elif how == "shorten" and isinstance(part[field], list | str):
            part[field] = part[field][: len(part[field]) // 2]
        elif how == "truncate":
            for later in fields[at % len(fields) :]:
                del part[later]
        elif how == "rename":
            config["architectures"] = [architecture]
    return config


DAMAGED = st.builds(damaged, st.sampled_from(sorted(EXCERPTS)), st.lists(DAMAGE, min_size=1, max_size=3))


@pytest.mark.parametrize("name", EXCERPTS)
def test_deriving_leaves_the_config_as_it_was(name: str) -> None:
    """Whatever is asked of it."""
    config = copy.deepcopy(EXCERPTS[name])
    assert derive_everything(config)
    assert config == EXCERPTS[name]


@settings(max_examples=600, derandomize=True, database=None, deadline=None)
@given(ANYTHING)
def test_any_json_is_priced_or_refused(config: Any) -> None:
    """Values of every type, alone, under known fields, under known classes."""
    derive_everything(config)


@settings(max_examples=3500, derandomize=True, database=None, deadline=None)
@given(SMALL)
def test_a_small_config_with_odd_fields_is_priced_or_refused(config: Any) -> None:
    """Up to six fields of any config, each with a value that some field may hold."""
    derive_everything(config)


@settings(max_examples=6000, derandomize=True, database=None, deadline=None)
@given(DAMAGED)
def test_a_damaged_excerpt_is_priced_or_refused(config: Any) -> None:
    """Fields removed, replaced, shortened, cut off from one on; the class exchanged."""
    derive_everything(config)
