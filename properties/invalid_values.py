"""Fields that hold nonsense: what is no integer, no name, no switch, no record, no tuple, and which fields must be one.

A fault breaks a valid scenario of a cell. Those here change one field; `properties/invalid_combinations.py` has the
rest, `properties/invalid_strategies.py` draws them all.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from properties.cells import CELLS, DRAFTS, Cell
from spec.layers import CAPPED_POOL, HYBRID_POOL, MLA_POOL, POOL_KINDS, WINDOW_POOLS
from spec.model import Scenario

Record = TypeVar("Record")
Break = Callable[[DrawFn, Scenario], Scenario]
"""Puts one fault into a valid scenario."""


class Unusual:
    """What an array does where one value is wanted: it has no hash, and no comparison of it is true or false."""

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise ValueError("neither true nor false")

    def __eq__(self, other: object) -> bool:
        raise ValueError("neither equal nor different")

    def __repr__(self) -> str:
        return "UNUSUAL"


UNUSUAL = Unusual()
FLOATS = (0.5, 2.0, math.nan, math.inf, -math.inf)
NO_INTEGERS: tuple[object, ...] = (*FLOATS, True, False, Fraction(2), None, "1", b"1", [1], (1,), {}, UNUSUAL)
"""Though some of it equals one."""
NO_NAMES: tuple[object, ...] = ("", "BF16", "NGRAM", 0, 8, True, ["bf16"], ("auto",), {}, math.nan, UNUSUAL)
NO_FLAGS: tuple[object, ...] = (None, 0, 1, 1.0, "", "false", [], {}, UNUSUAL)
NO_RECORDS: tuple[object, ...] = ("full", 0, True, 2.0, (1, 2), [], {}, Fraction(1), UNUSUAL)
NO_TUPLES: tuple[object, ...] = (None, 0, True, "", "full", b"a", [], [0], ["full"], {}, {0: 1}, {0}, range(1), UNUSUAL)


@dataclass(frozen=True)
class Fault:
    """One way to be invalid: its name, the kind and field of the refusal it must get, where it can happen, and how."""

    name: str
    kind: str
    field: str
    cells: tuple[Cell, ...]
    breaks: Break


def cells(*pools: str, drafts: tuple[str, ...] = ("none", *DRAFTS)) -> tuple[Cell, ...]:
    """The cells of these pools (none given: all) and drafts."""
    return tuple(cell for cell in CELLS if cell.pool in (pools or POOL_KINDS) and cell.draft in drafts)


ALL = cells()
DRAFTED = cells(drafts=tuple(DRAFTS))
LATENT = cells(MLA_POOL)
WINDOWED = cells(*WINDOW_POOLS)
MIXED = cells(HYBRID_POOL, CAPPED_POOL)
WITH_FULL = cells(MLA_POOL, HYBRID_POOL, CAPPED_POOL)
"""Cells whose targets all have full layers: a default pool may hold SWA layers alone."""


def below(at_least: int, *, none_is_wrong: bool = True) -> SearchStrategy[object]:
    """What is no integer of at least `at_least`."""
    wrong = [value for value in NO_INTEGERS if none_is_wrong or value is not None]
    return st.integers(max_value=at_least - 1) | st.sampled_from(wrong)


def one_of(values: Iterable[object], *also: object) -> SearchStrategy[object]:
    """One of a table of wrong values."""
    return st.sampled_from((*values, *also))


def with_field(record: Record, path: str, new: object) -> Record:
    """`record` with the field at a dotted path replaced."""
    name, _, rest = path.partition(".")
    inner = with_field(getattr(record, name), rest, new) if rest else new
    changed: Record = replace(record, **{name: inner})  # type: ignore[type-var]
    return changed


def named(path: str) -> str:
    """How a refusal names a path: it speaks of the layers of the draft, not of those of its shape."""
    return path if path == "draft.shape" else path.replace("draft.shape.", "draft.")


def nonsense(name: str, path: str, where: tuple[Cell, ...], values: SearchStrategy[object]) -> Fault:
    """The field at `path` holds one of `values`, which mean nothing there."""
    return Fault(
        f"{path} {name}", "invalid_input", named(path), where, lambda draw, s: with_field(s, path, draw(values))
    )


POSITIVE = (
    *((f"deployment.{name}", ALL) for name in ("tp_size", "attn_dp_size", "attn_dcp_size", "pp_size")),
    ("page_size", ALL),
    ("context_len", ALL),
    ("target.sliding_window_size", WINDOWED),
    *((f"target.full.{name}", MIXED) for name in ("num_kv_heads", "head_dim", "v_head_dim")),
    *((f"target.swa.{name}", WINDOWED) for name in ("num_kv_heads", "head_dim", "v_head_dim")),
    ("target.full.kv_lora_rank", LATENT),
    *((f"draft.{name}", DRAFTED) for name in ("num_steps", "topk", "num_draft_tokens")),
)
NOT_NEGATIVE = (("decode_extra_slots", ALL), ("swa_eviction_interval", ALL), ("target.full.qk_rope_head_dim", LATENT))
CAPS = (("max_total_tokens", ALL), ("user_max_running_requests", ALL))
NAMES = (
    ("kv_cache_dtype", (None, "fp16", "fp32"), ALL),
    ("attention_backend", (None, "cuda"), ALL),
    ("target.model_dtype", (None, "auto", "fp8_e4m3"), ALL),
    ("target.kv_checkpoint_dtype", ("auto",), ALL),
    ("speculative_algorithm", ("eagle", "NEXTN"), ALL),
    ("draft.kv_cache_dtype", ("fp16", "fp32"), DRAFTED),
    ("draft.attention_backend", ("cuda",), DRAFTED),
    ("draft.shape.model_dtype", (None, "auto", "fp8_e4m3"), DRAFTED),
    ("draft.shape.kv_checkpoint_dtype", ("auto",), DRAFTED),
)
"""Names from a list, with wrong ones of their own; the rest of them may be None."""
FLAGS = (
    *((name, ALL) for name in ("is_draft_worker", "window_pools", "disable_radix_cache", "disable_overlap_schedule")),
    ("is_decode_role", ALL),
    ("deployment.draft_on_every_stage", ALL),
    ("draft.swa_at_full_rows", DRAFTED),
    ("draft.geometry_resolved", DRAFTED),
)
RECORDS = (
    ("deployment", (None,), ALL),
    ("target", (None,), ALL),
    ("target.full", (), WITH_FULL),
    ("target.swa", (), ALL),
    ("target.index", (), ALL),
    ("draft", (), DRAFTED),
    ("draft.shape", (None,), DRAFTED),
    ("draft.shape.full", (), DRAFTED),
    ("draft.shape.index", (), DRAFTED),
)
"""Records of `spec/model.py`; the rest of them may be None."""
TUPLES = (("target.layers", ALL), ("draft.shape.layers", DRAFTED))

NONSENSE = (
    *(nonsense("is no integer above 0", path, where, below(1)) for path, where in POSITIVE),
    *(nonsense("is no integer from 0 on", path, where, below(0)) for path, where in NOT_NEGATIVE),
    *(nonsense("is no cap", path, where, below(1, none_is_wrong=False)) for path, where in CAPS),
    nonsense("is no chunk", "chunked_prefill_size", ALL, one_of(value for value in NO_INTEGERS if value is not None)),
    *(nonsense("is on no list", path, where, one_of(NO_NAMES, *own)) for path, own, where in NAMES),
    *(nonsense("is no switch", path, where, one_of(NO_FLAGS)) for path, where in FLAGS),
    *(nonsense("is no record", path, where, one_of(NO_RECORDS, *own)) for path, own, where in RECORDS),
    *(nonsense("is no tuple", path, where, one_of(NO_TUPLES)) for path, where in TUPLES),
)
"""Every field of a scenario that has a type, a sign or a list of names."""
