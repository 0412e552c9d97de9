"""Literal scenarios of every pool kind for the configurator's tests, and how they are put to it and to the spec."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

from impl.configurator import (
    AllSWAPoolConfigurator,
    DefaultPoolConfigurator,
    HybridSWAPoolConfigurator,
    MemoryPoolConfigurator,
    SWARequestCapPoolConfigurator,
)
from impl.optimized import Configurator
from spec.model import (
    EAGLE,
    FULL,
    LINEAR,
    SWA,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Index,
    Latent,
    MemoryFigures,
    PoolSizes,
    Refusal,
    Refused,
    Scenario,
)
from spec.pools import size_pools, size_pools_from_max_tokens
from spec.validity import check_scenario

GIB = 2**30


GQA = Heads(num_kv_heads=8, head_dim=128, v_head_dim=128)
SMALL = Heads(num_kv_heads=4, head_dim=64, v_head_dim=64)
LATENT = Latent(kv_lora_rank=512, qk_rope_head_dim=64)

DENSE = AttentionShape(layers=(FULL,) * 36, full=GQA)
LINEAR_MIX = AttentionShape(layers=(LINEAR, LINEAR, LINEAR, FULL) * 6, full=GQA)
GQA_INDEX = AttentionShape(layers=(FULL,) * 12, full=GQA, index=Index(64, (3, 1, 7, 11), stores_values=True))
MLA = AttentionShape(layers=(FULL,) * 61, full=LATENT)
SPARSE_MLA = AttentionShape(layers=(FULL,) * 61, full=LATENT, index=Index(128, tuple(range(0, 61, 2))))
WINDOW = AttentionShape(layers=(SWA, FULL) * 12, full=SMALL, swa=Heads(8, 64, 32), sliding_window_size=128)
WINDOW_ALIKE = replace(WINDOW, swa=SMALL)
ALL_WINDOW = AttentionShape(layers=(SWA,) * 32, full=None, swa=GQA, sliding_window_size=4096)

SAME_DRAFT = AttentionShape(layers=(FULL,) * 5, full=GQA)
OWN_DRAFT = AttentionShape(layers=(FULL,) * 3, full=Heads(4, 64, 96), model_dtype="fp16")
LATENT_DRAFT = AttentionShape(layers=(FULL,), full=LATENT, index=Index(128, (0,)))
WINDOW_DRAFT = AttentionShape(layers=(SWA, FULL, SWA), full=SMALL, swa=SMALL, sliding_window_size=64)

POOLS: dict[str, tuple[type[MemoryPoolConfigurator], Scenario]] = {
    "default": (DefaultPoolConfigurator, Scenario(DENSE, (40 * GIB,), page_size=64, context_len=32768)),
    "default_linear": (DefaultPoolConfigurator, Scenario(LINEAR_MIX, (40 * GIB,), page_size=16)),
    "default_index": (DefaultPoolConfigurator, Scenario(GQA_INDEX, (40 * GIB,), page_size=16)),
    "default_window": (DefaultPoolConfigurator, Scenario(WINDOW_ALIKE, (9 * GIB,), page_size=16, window_pools=False)),
    "mla": (DefaultPoolConfigurator, Scenario(MLA, (90 * GIB,), page_size=64, context_len=163840)),
    "mla_sparse": (DefaultPoolConfigurator, Scenario(SPARSE_MLA, (90 * GIB,), page_size=64, context_len=163840)),
    "hybrid": (HybridSWAPoolConfigurator, Scenario(WINDOW, (12 * GIB,), page_size=16, context_len=131072)),
    "allswa": (AllSWAPoolConfigurator, Scenario(ALL_WINDOW, (12 * GIB,), page_size=32, context_len=32768)),
    "capped": (
        SWARequestCapPoolConfigurator,
        Scenario(WINDOW, (24 * GIB,), page_size=16, user_max_running_requests=48, disable_radix_cache=True),
    ),
    "capped_decode": (
        SWARequestCapPoolConfigurator,
        Scenario(
            WINDOW,
            (24 * GIB,),
            page_size=64,
            user_max_running_requests=48,
            disable_radix_cache=True,
            chunked_prefill_size=None,
            is_decode_role=True,
            decode_extra_slots=9,
            disable_overlap_schedule=True,
        ),
    ),
}
DRAFTS: dict[str, Draft] = {
    "same": Draft(SAME_DRAFT, num_steps=1, topk=1, num_draft_tokens=16),
    "own": Draft(OWN_DRAFT, "fp8_e4m3", attention_backend="fa4", num_steps=5, topk=8, num_draft_tokens=64),
    "latent": Draft(LATENT_DRAFT, num_steps=3, topk=2, num_draft_tokens=4),
    "window": Draft(WINDOW_DRAFT, num_steps=2, topk=4, num_draft_tokens=6),
    "banded": Draft(WINDOW_DRAFT, swa_at_full_rows=True),
    "unresolved": Draft(OWN_DRAFT, geometry_resolved=False),
    "empty": Draft(AttentionShape(layers=(), full=None)),
}
DEPLOYMENTS = {
    "tp": Deployment(tp_size=2),
    "dp": Deployment(tp_size=8, attn_dp_size=4),
    "dcp": Deployment(tp_size=8, attn_dp_size=2, attn_dcp_size=2),
    "pp": Deployment(tp_size=2, pp_size=5),
    "pp_every": Deployment(tp_size=2, pp_size=3, draft_on_every_stage=True),
}


def both_ways(scenario: Scenario) -> list[PoolSizes | Refusal]:
    """The spec's answers to one scenario, after the configurator's were found equal, on both entry points."""
    configurator = Configurator()
    answers = [size_pools(scenario)]
    assert configurator.size_pools(scenario) == answers[0]
    for tokens in (1, 2, 63, 64, 1000, 1001, 400_000):
        answers.append(size_pools_from_max_tokens(scenario, tokens))
        assert configurator.size_pools_from_max_tokens(scenario, tokens) == answers[-1]
    return answers


def is_valid(scenario: Scenario) -> bool:
    """Whether the spec finds no fault."""
    try:
        check_scenario(scenario)
    except Refused:
        return False
    return True


def deployed(scenario: Scenario, deployment: Deployment) -> Scenario:
    """The scenario on other ranks, its bytes cut unevenly over their stages."""
    [whole] = scenario.budget if isinstance(scenario.budget, tuple) else (40 * GIB,)
    budget = tuple(whole - stage * 1_234_567 for stage in range(deployment.pp_size))
    return replace(scenario, deployment=deployment, budget=budget)


SOUND = replace(POOLS["default"][1], draft=DRAFTS["same"], speculative_algorithm=EAGLE)
SOUND_MLA = replace(POOLS["mla_sparse"][1], draft=DRAFTS["latent"], speculative_algorithm=EAGLE)
SOUND_WINDOW = replace(POOLS["hybrid"][1], draft=DRAFTS["window"], speculative_algorithm=EAGLE)
ODD: Any = 128.0
FIGURES = MemoryFigures(((80 * GIB, 79 * GIB),), ((60 * GIB, 61 * GIB),), Fraction("0.88"))
