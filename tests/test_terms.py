"""Every intermediate number: it leads to the answer, and the parts are what is allocated."""

from dataclasses import replace
from fractions import Fraction

import pytest

from properties.cells import CELLS
from properties.corpus import corpus_of
from spec.accounting import sold_bytes, spare_bytes
from spec.layers import WINDOW_POOLS
from spec.model import FULL, LINEAR, AttentionShape, Deployment, Heads, Latent, PoolSizes, Refusal, Scenario
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


def test_a_stage_where_nothing_costs_sets_no_rows() -> None:
    shape = AttentionShape((FULL, LINEAR), Latent(1, 1))
    terms = budget_terms(Scenario(shape, (40, 1), deployment=Deployment(pp_size=2)))
    assert [stage.rows for stage in terms.stages] == [10, None] and terms.agreed.rows == 10
    assert terms.models[0].full_heads is None


def test_a_budget_that_is_refused_shows_where() -> None:
    too_small = budget_terms(served(layers_of_heads(1, 1, 1), 3))
    assert too_small.stages[0].quotient == 0
    assert isinstance(too_small.agreed.running_requests, Refusal)
    assert budget_terms(served(layers_of_heads(1, 1, 1), 0)).kind == "no_memory_left"
    assert budget_terms(served(layers_of_heads(1, 1, 1), page_size=0)).kind == "invalid_input"
