"""Scenarios of a cell: categories first, tight numbers next, the rest derived. Nothing is filtered."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from properties.budget_strategies import draw_budget, draw_cap
from properties.cells import CELLS, DRAFTS, Cell
from properties.dtype_choices import DtypeChoice, dtype_choices
from properties.shape_strategies import (
    BOOLEANS,
    DRAFT_DEPTHS,
    DRAFT_TOKENS,
    HEAD_DIMS,
    RARELY,
    AnyNumber,
    draw_deployment,
    draw_draft,
    draw_target,
)
from spec.layers import (
    CAPPED_POOL,
    attn_tp_size,
)
from spec.model import (
    FROZEN_KV_MTP,
    FULL,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Scenario,
)

PAGES = st.sampled_from((1, 1, 2, 3, 7, 16, 32, 64, 128, 256))
RATIOS = st.one_of(
    st.sampled_from((Fraction(1), Fraction(4, 5), Fraction(1, 2), Fraction(1, 10), Fraction(1, 4))),
    st.integers(1, 999).map(lambda thousandths: Fraction(thousandths, 1000)),
)
CONTEXT_LENS = st.sampled_from((2, 7, 64, 4096, 40960, 131072))
REQUESTS = st.integers(1, 40)
CHUNKS = st.sampled_from((8, 1, 64, 8192))
ALGORITHM_NAMES = st.sampled_from(tuple(DRAFTS.values()))
NO_CHUNKS = st.sampled_from((None, -1, 0))
IDLE_USES = st.sampled_from(("no draft", "no draft", "left over", "draft worker"))
EXTRA_SLOTS = st.integers(0, 8)
EVICTION_INTERVALS = st.integers(0, 4)


def draw_idle_draft(draw: DrawFn, deployment: Deployment) -> dict[str, Any]:
    """Draft fields that cost no row: left over on the plain path, those of the draft worker itself, or of a draft that
    reads the target's rows and writes none."""
    use = draw(IDLE_USES)
    if use == "no draft":
        return {}
    heads = Heads(attn_tp_size(deployment), draw(HEAD_DIMS), draw(HEAD_DIMS))
    draft = Draft(AttentionShape((FULL,) * draw(DRAFT_DEPTHS), heads), num_draft_tokens=draw(DRAFT_TOKENS))
    if use == "left over":
        return {"draft": draft}
    if use == "frozen KV":
        return {"draft": replace(draft, kv_cache_dtype="bf16"), "speculative_algorithm": FROZEN_KV_MTP}
    return {"draft": draft, "speculative_algorithm": draw(ALGORITHM_NAMES), "is_draft_worker": True}


def draw_limits(draw: DrawFn, cell: Cell) -> dict[str, Any]:
    """Requests and what the capped pool is sized from; other pools miss one of its conditions."""
    capped = cell.pool == CAPPED_POOL
    decode = draw(RARELY)
    limits: dict[str, Any] = {
        "context_len": draw(CONTEXT_LENS),
        "disable_overlap_schedule": draw(BOOLEANS),
        "is_decode_role": decode,
        "decode_extra_slots": draw(EXTRA_SLOTS) if decode else 0,
        "swa_eviction_interval": draw(EVICTION_INTERVALS),
        "user_max_running_requests": draw(REQUESTS) if capped or draw(BOOLEANS) else None,
        "chunked_prefill_size": draw(CHUNKS),
        "disable_radix_cache": capped,
    }
    return limits | (draw_switches(draw, capped, decode) if isinstance(draw, AnyNumber) else {})


def draw_switches(draw: DrawFn, capped: bool, decode: bool) -> dict[str, Any]:
    """Chunked prefill off where the pool kind does not hang on it, and the radix cache off where another condition of
    the capped pool is missing."""
    switches: dict[str, Any] = {"chunked_prefill_size": draw(NO_CHUNKS)} if draw(BOOLEANS) else {}
    if capped:
        return switches if decode else {}
    if draw(BOOLEANS):
        return switches
    if draw(BOOLEANS):
        return switches | {"disable_radix_cache": True, "user_max_running_requests": None}
    no_decode = {"is_decode_role": False, "decode_extra_slots": 0}
    return {"disable_radix_cache": True, "chunked_prefill_size": draw(NO_CHUNKS), **no_decode}


def like(choice: DtypeChoice, cell: Cell) -> DtypeChoice:
    """The choice with a backend that is as plain, and, without a draft to compare with, a checkpoint in the other
    FP8."""
    backend = {"fa3": "triton"}.get(choice.backend, choice.backend)
    if cell.draft == "none" and choice.checkpoint == choice.target_dtype == "fp8_e4m3":
        return replace(choice, backend=backend, checkpoint="fp8_e5m2", target_dtype="fp8_e5m2")
    return replace(choice, backend=backend)


def draw_scenario(draw: DrawFn, cell: Cell) -> Scenario:
    """A valid scenario of `cell`. It may still be refused: too little memory is part of the space."""
    deployment = draw_deployment(draw, cell)
    choice = draw(draw(dtype_choices(cell)))
    if isinstance(draw, AnyNumber):
        choice = like(choice, cell)
    target, window_pools = draw_target(draw, cell, deployment, choice)
    scenario = Scenario(
        target=target,
        budget=(1,) * deployment.pp_size,
        deployment=deployment,
        page_size=draw(PAGES),
        kv_cache_dtype=choice.asked,
        attention_backend=choice.backend,
        window_pools=window_pools,
        swa_full_tokens_ratio=draw(RATIOS),
        **draw_limits(draw, cell),
    )
    if cell.draft == "none":
        scenario = replace(scenario, **draw_idle_draft(draw, deployment))
    else:
        draft = draw_draft(draw, cell, target, choice, attn_tp_size(deployment))
        scenario = replace(scenario, draft=draft, speculative_algorithm=DRAFTS[cell.draft])
    budget, pages = draw_budget(draw, scenario, cell.pool)
    return replace(scenario, budget=budget, max_total_tokens=draw_cap(draw, scenario, cell.pool, pages))


@st.composite
def scenarios_of(draw: DrawFn, cell: Cell) -> Scenario:
    """A valid scenario of `cell`."""
    return draw_scenario(draw, cell)


SCENARIOS = {cell: scenarios_of(cell) for cell in CELLS}
"""One strategy a cell, a module constant each: Hypothesis validates a strategy once."""
