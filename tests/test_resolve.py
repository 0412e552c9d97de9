"""The draft at start-up: resolved once, one warning when it cannot be, and no bug swallowed."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from impl.resolve import resolve_draft, resolve_draft_from_config
from spec.model import (
    DFLASH,
    EAGLE,
    FULL,
    MTP,
    SWA,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Scenario,
)
from spec.pools import size_pools

CONFIGS = Path(__file__).parent / "data" / "configs"
QWEN = json.loads((CONFIGS / "Qwen--Qwen3-0.6B.json").read_text(encoding="utf-8"))
TARGET = AttentionShape((FULL,) * 36, Heads(8, 128, 128))
SWITCHES = Draft(AttentionShape((FULL,) * 5, Heads(1, 1, 1)), num_steps=3, topk=2, num_draft_tokens=8)
SCENARIO = Scenario(TARGET, (2**34,), draft=SWITCHES, speculative_algorithm=EAGLE)


def test_bytes_are_those_of_every_layer_on_one_rank():
    """28 layers of 8 heads of 128: 114688 bytes, half of that on two ranks; DCP is the caller's business."""
    resolved, resolution = resolve_draft_from_config(SCENARIO, QWEN)
    assert (resolution.bytes_per_row, resolution.dtype, resolution.warnings) == (114688, "bf16", ())
    two_ranks = replace(resolved, deployment=Deployment(tp_size=2))
    assert resolve_draft(two_ranks).bytes_per_row == 114688 // 2
    sharded = replace(resolved, deployment=Deployment(tp_size=2, attn_dcp_size=2))
    assert resolve_draft(sharded).bytes_per_row == 114688 // 2


def test_the_operators_switches_stay():
    """Only the geometry comes from the config."""
    resolved, _ = resolve_draft_from_config(SCENARIO, QWEN)
    assert (resolved.draft.num_steps, resolved.draft.topk, resolved.draft.num_draft_tokens) == (3, 2, 8)
    assert len(resolved.draft.shape.layers) == 28


def test_multi_layer_eagle_has_a_layer_for_each_step():
    """3 steps, not 2 branches or 8 tokens, of one layer of 4096 bytes each."""
    resolved, resolution = resolve_draft_from_config(replace(SCENARIO, speculative_algorithm=MTP), QWEN)
    assert len(resolved.draft.shape.layers) == 3
    assert resolution.bytes_per_row == 3 * 4096


def test_swa_layers_count_at_their_own_width():
    """Whether their rows follow the SWA pool is sizing's business."""
    shape = AttentionShape((FULL, SWA), Heads(1, 8, 8), Heads(2, 8, 8), sliding_window_size=4)
    scenario = replace(SCENARIO, draft=Draft(shape), speculative_algorithm=DFLASH)
    assert resolve_draft(scenario).bytes_per_row == 32 + 64


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({**QWEN, "architectures": ["NobodyKnowsForCausalLM"]}, "NobodyKnowsForCausalLM"),
        ({key: value for key, value in QWEN.items() if key != "num_hidden_layers"}, "num_hidden_layers"),
        ({**QWEN, "num_key_value_heads": 0}, "num_key_value_heads"),
        ({}, "architectures"),
    ],
)
def test_an_unreadable_config_gives_one_warning_no_bytes_and_the_layer_ratio(config, named):
    """The warning says what and why; start-up goes on with the depth the server counts."""
    unresolved, resolution = resolve_draft_from_config(SCENARIO, config)
    assert resolution.bytes_per_row is None
    assert len(resolution.warnings) == 1
    assert named in resolution.warnings[0]
    assert "layer ratio" in resolution.warnings[0]
    assert not unresolved.draft.geometry_resolved
    by_ratio = replace(SCENARIO, draft=replace(SWITCHES, geometry_resolved=False))
    assert size_pools(unresolved) == size_pools(by_ratio)
    assert size_pools(unresolved).max_total_num_tokens == 2**34 // (147456 + 5 * 4096)


def test_only_the_algorithm_in_use_is_resolved():
    """The plain path and the draft worker look at no draft and warn of nothing."""
    for idle in (replace(SCENARIO, speculative_algorithm=None), replace(SCENARIO, is_draft_worker=True)):
        assert resolve_draft(idle) is None
        assert resolve_draft_from_config(idle, {}) == (idle, None)


def test_a_bug_is_not_swallowed():
    """Only what cannot be resolved falls back; upstream catches everything, and a bug looks like an unknown draft."""

    class Broken(dict):
        def get(self, *_):
            raise ZeroDivisionError("a bug")

        __getitem__ = __contains__ = __iter__ = get

    with pytest.raises(ZeroDivisionError):
        resolve_draft_from_config(SCENARIO, Broken())


def test_the_dtype_is_known_before_the_draft_is_loaded():
    """`auto` is the model dtype, fa4 in a DFLASH draft the compute dtype, whatever the server asks."""
    shape = replace(SWITCHES.shape, model_dtype="fp16", kv_checkpoint_dtype="fp8_e4m3")
    draft = replace(SWITCHES, shape=shape)
    assert resolve_draft(replace(SCENARIO, draft=draft)).dtype == "fp16"
    fa4 = replace(SCENARIO, draft=replace(draft, attention_backend="fa4"), kv_cache_dtype="fp8_e4m3")
    assert resolve_draft(fa4).dtype == "fp8_e4m3"
    assert resolve_draft(replace(fa4, speculative_algorithm=DFLASH)).dtype == "fp16"
