"""Every intermediate number: it leads to the answer, and the parts are what is allocated."""

from dataclasses import replace
from fractions import Fraction

import pytest

from properties.cells import CELLS
from properties.corpus import corpus_of
from spec.accounting import sold_bytes, spare_bytes
from spec.layers import WINDOW_POOLS
from spec.model import (
    DFLASH,
    EAGLE,
    FULL,
    LINEAR,
    SWA,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Latent,
    PoolSizes,
    Refusal,
    Scenario,
)
from spec.pools import size_pools
from spec.terms import budget_terms, stage_parts
from tests.case_scenarios import drafted, layers_of_heads, served, windowed

SAMPLE = CELLS[::9]
"""Every pool kind, draft and deployment."""


@pytest.mark.parametrize("cell", SAMPLE, ids=str)
def test_the_numbers_lead_to_the_answer(cell) -> None:
    for scenario in corpus_of(cell, 6, run_seed=3):
        terms, answer = budget_terms(scenario), size_pools(scenario)
        if isinstance(terms, Refusal):
            assert replace(terms, advice="") == replace(answer, advice="")
            continue
        agreed = terms.agreed
        assert agreed.rows == min(stage.rows for stage in terms.stages if stage.rows is not None)
        if isinstance(answer, PoolSizes):
            kept = answer.max_total_num_tokens
            assert (agreed.kept_rows, agreed.swa_rows) == (kept, answer.swa_max_total_num_tokens)
            assert (agreed.running_requests, agreed.request_length) == (answer.max_running_requests, answer.max_req_len)
            assert (agreed.admission_floor is None) == (cell.pool not in WINDOW_POOLS)


@pytest.mark.parametrize("cell", SAMPLE, ids=str)
def test_the_parts_are_all_that_is_allocated(cell) -> None:
    for scenario in corpus_of(cell, 6, run_seed=3):
        answer = size_pools(scenario)
        for stage in range(scenario.deployment.pp_size if isinstance(answer, PoolSizes) else 0):
            parts = stage_parts(scenario, answer, stage)
            assert sum(part.sold_bytes for part in parts) == sold_bytes(scenario, answer, stage)
            assert sum(part.spare_bytes for part in parts) == spare_bytes(scenario, answer, stage)
            assert all(part.rows * part.row_bytes == part.sold_bytes for part in parts)


def test_one_budget_is_told_number_by_number() -> None:
    """90 bytes, 1 full layer of 4 and 1 window layer of 4 bytes, half as many window rows, a draft layer of 8."""
    scenario = drafted(
        windowed(1, 1, Heads(1, 1, 1), window=1), layers_of_heads(1, 2, 1, 1), 90, swa_full_tokens_ratio=Fraction(1, 2)
    )
    terms = budget_terms(scenario)
    target, draft = terms.models
    assert (terms.pool_kind, target.dtype, draft.loaded_dtype) == ("hybrid", "bf16", "bf16")
    assert (target.full_heads, target.swa_heads, draft.full_heads, draft.swa_heads) == (1, 1, 2, None)
    (stage,) = terms.stages
    assert (dict(stage.layers), stage.draft_layers) == ({"full": 1, "swa": 1, "linear": 0}, 1)
    assert (stage.full_row_bytes, stage.swa_row_bytes, stage.draft_row_bytes) == (4, 4, 8)
    assert (stage.token_bytes, stage.paid_bytes, stage.quotient, stage.rows) == (14, 0, 6, 6)
    assert (terms.agreed.kept_rows, terms.agreed.swa_rows, terms.agreed.admission_floor) == (6, 3, 3)
    parts = {(part.owner, part.pool, part.name): part for part in stage_parts(scenario, size_pools(scenario), 0)}
    assert parts["draft", "full", "k"].row_bytes == 4


def test_a_capped_budget_on_stages_is_told_number_by_number() -> None:
    """Two stages of a full layer of 8 and an SWA layer of 4 bytes on 2 ranks, in fp8: one request of 1 + 1 + 2 + 2
    rows, two chunks of 1 and a page make 10 SWA rows. A DFLASH draft of 2 of 4 heads lives on the last stage."""
    shape = AttentionShape((FULL, SWA) * 2, Heads(4, 2, 2), Heads(2, 3, 1), sliding_window_size=1)
    scenario = Scenario(
        shape,
        (100, 200),
        Draft(AttentionShape((FULL, FULL, LINEAR), Heads(4, 1, 1)), num_draft_tokens=1),
        DFLASH,
        page_size=2,
        kv_cache_dtype="fp8_e4m3",
        deployment=Deployment(tp_size=2, pp_size=2),
        user_max_running_requests=1,
        disable_radix_cache=True,
        chunked_prefill_size=1,
    )
    terms = budget_terms(scenario)
    assert [(model.head_ranks, model.full_heads, model.swa_heads) for model in terms.models] == [
        (2, 2, 1),
        (2, 2, None),
    ]
    first, last = terms.stages
    assert (first.draft_layers, last.draft_layers) == (0, 3)
    assert [(stage.full_row_bytes, stage.swa_row_bytes, stage.draft_row_bytes) for stage in terms.stages] == [
        (8, 4, 0),
        (8, 4, 8),
    ]
    assert [(stage.token_bytes, stage.paid_bytes) for stage in terms.stages] == [(8, 40), (16, 40)]
    assert [(stage.quotient, stage.rows) for stage in terms.stages] == [(60 // 8, 6), (160 // 16, 10)]
    agreed = terms.agreed
    assert (agreed.rows, agreed.kept_rows, agreed.full_rows, agreed.swa_rows) == (6, 6, 6, 10)
    assert (agreed.admission_floor, agreed.running_requests, agreed.request_length) == (5, 1, 5)
    parts = {(part.owner, part.pool, part.name): part for part in stage_parts(scenario, size_pools(scenario), 1)}
    assert parts["draft", "full", "k"].buffers == 2


def test_under_dcp_a_draft_is_split_over_more_ranks_than_its_target() -> None:
    """4 attention ranks, 2 of them DCP: the target's heads over 2, the draft's over 4."""
    heads = AttentionShape((FULL,), Heads(4, 1, 1))
    deployment = Deployment(tp_size=4, attn_dcp_size=2)
    scenario = Scenario(heads, (1000,), Draft(heads), EAGLE, kv_cache_dtype="auto", deployment=deployment)
    target, draft = budget_terms(scenario).models
    assert (target.head_ranks, target.full_heads, draft.head_ranks, draft.full_heads) == (2, 2, 4, 1)


def test_a_draft_s_dtype_is_told_before_and_after_its_weights_are_loaded() -> None:
    """bf16 is what is known before, fp8 what its checkpoint asks for; its SWA layers have heads of their own."""
    heads = Heads(2, 1, 1)
    shape = AttentionShape((SWA,), None, heads, sliding_window_size=2, kv_checkpoint_dtype="fp8_e4m3")
    target = AttentionShape((SWA,), None, heads, sliding_window_size=2)
    _, draft = budget_terms(Scenario(target, (1000,), Draft(shape), EAGLE)).models
    assert (draft.dtype, draft.loaded_dtype, draft.full_heads, draft.swa_heads) == ("bf16", "fp8_e4m3", None, 2)


def test_a_stage_where_nothing_costs_sets_no_rows() -> None:
    shape = AttentionShape((FULL, LINEAR), Latent(1, 1))
    terms = budget_terms(Scenario(shape, (40, 1), deployment=Deployment(pp_size=2)))
    assert [stage.rows for stage in terms.stages] == [10, None] and terms.agreed.rows == 10
    assert terms.models[0].full_heads is None


def test_a_row_of_one_byte_costs_something() -> None:
    """And a geometry that no layer uses has no heads to show."""
    shape = AttentionShape((FULL,), Latent(1, 0), Heads(2, 1, 1))
    terms = budget_terms(Scenario(shape, (7,), kv_cache_dtype="fp8_e4m3"))
    assert (terms.stages[0].token_bytes, terms.stages[0].rows) == (1, 7)
    assert (terms.models[0].full_heads, terms.models[0].swa_heads) == (None, None)


def test_a_budget_that_is_refused_shows_where() -> None:
    too_small = budget_terms(served(layers_of_heads(1, 1, 1), 3))
    assert too_small.stages[0].quotient == 0
    assert isinstance(too_small.agreed.running_requests, Refusal)
    assert budget_terms(served(layers_of_heads(1, 1, 1), 0)).kind == "no_memory_left"
    assert budget_terms(served(layers_of_heads(1, 1, 1), page_size=0)).kind == "invalid_input"
