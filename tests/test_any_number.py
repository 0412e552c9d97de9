"""Scenarios of any numbers: valid, in their cells, met by what usual ones miss; and asked of agreement alone."""

from dataclasses import replace

import pytest

from impl.optimized import Configurator
from properties.any_number import ANY_SCENARIOS, ASKED_LAWS, SHARE
from properties.cells import CELLS, cell_of
from properties.context import Context
from properties.corpus import PROFILES, drawn_scenarios
from properties.judge import verdict
from spec.laws import BY_ID, LAWS
from spec.laws.base import Broken
from spec.layers import CAPPED_POOL, HYBRID_POOL, pool_kind
from spec.model import EAGLE, FROZEN_KV_MTP, LINEAR, STANDALONE, MemoryFigures, PoolSizes, active_draft
from spec.validity import check_scenario
from tests.test_known_failures import run

GATE = PROFILES["gate"]


@pytest.fixture(scope="module")
def drawn():
    """What the gate profile draws beside its corpora."""
    draws = -(-GATE.draws_per_cell // SHARE)
    return {cell: drawn_scenarios(cell, draws, GATE.seed, ANY_SCENARIOS) for cell in CELLS}


def every(drawn):
    """All scenarios."""
    return (scenario for scenarios in drawn.values() for scenario in scenarios)


def test_each_is_valid_and_in_its_cell(drawn):
    for cell, scenarios in drawn.items():
        for scenario in scenarios:
            check_scenario(scenario)
            assert cell_of(scenario) == cell


def cut(name, most):
    """An operator's number that is cut."""
    return lambda scenario: replace(scenario, **{name: min(getattr(scenario, name) or 0, most) or None})


def cut_window(scenario):
    window = scenario.target.sliding_window_size
    return replace(scenario, target=replace(scenario.target, sliding_window_size=window and min(window, 1024)))


def cut_draft(scenario):
    draft = scenario.draft
    return replace(scenario, draft=draft and replace(draft, num_draft_tokens=min(draft.num_draft_tokens, 16)))


def three_decimals(scenario):
    thousandths = max(1, scenario.swa_full_tokens_ratio * 1000 // 1)
    return replace(scenario, swa_full_tokens_ratio=type(scenario.swa_full_tokens_ratio)(thousandths, 1000))


def chunks_always(scenario):
    return replace(scenario, chunked_prefill_size=max(1, scenario.chunked_prefill_size or 0))


def frozen_costs(scenario):
    frozen = scenario.speculative_algorithm == FROZEN_KV_MTP
    return replace(scenario, speculative_algorithm=EAGLE) if frozen else scenario


def one_fp8(scenario):
    stored = scenario.target.kv_checkpoint_dtype
    other = stored if stored == "fp8_e4m3" else None
    return replace(scenario, target=replace(scenario.target, kv_checkpoint_dtype=other))


def first_rank(scenario):
    budget = scenario.budget
    if not isinstance(budget, MemoryFigures):
        return scenario
    first = budget.free_before_load[0][0]
    alike = tuple((first,) * len(stage) for stage in budget.free_before_load)
    return replace(scenario, budget=replace(budget, free_before_load=alike))


def no_linear_draft(scenario):
    draft = active_draft(scenario)
    standalone = scenario.speculative_algorithm == STANDALONE
    linear = draft is not None and not standalone and LINEAR in draft.shape.layers
    return replace(scenario, speculative_algorithm=None) if linear else scenario


def no_draft_on_replicas(scenario):
    deployment = scenario.deployment
    both = deployment.pp_size > 1 and deployment.attn_dp_size > 1
    return replace(scenario, speculative_algorithm=None) if both else scenario


def through_a_float(scenario):
    budget = scenario.budget
    return replace(scenario, budget=tuple(int(float(one)) for one in budget)) if isinstance(budget, tuple) else scenario


def page_more_on(condition):
    """A page more where something holds."""

    def wrong(scenario, answer):
        if not isinstance(answer, PoolSizes) or not condition(scenario):
            return answer
        return replace(answer, max_total_num_tokens=answer.max_total_num_tokens + scenario.page_size)

    return wrong


READS = {
    "windows up to 1,024": cut_window,
    "contexts up to 131,072": cut("context_len", 131072),
    "pages up to 256": cut("page_size", 256),
    "40 requests": cut("user_max_running_requests", 40),
    "16 draft tokens": cut_draft,
    "ratios of three decimals": three_decimals,
    "chunks that are never off": chunks_always,
    "a frozen draft that costs": frozen_costs,
    "one FP8 of checkpoints": one_fp8,
    "the first rank for all": first_rank,
    "no draft with linear layers": no_linear_draft,
    "no draft on replicas of stages": no_draft_on_replicas,
    "budgets that floats count": through_a_float,
}
"""What somebody may take a scenario for; scenarios of usual numbers are the same to them."""
SAYS = {
    "more than 8 ranks": page_more_on(
        lambda scenario: scenario.deployment.tp_size > 8 and cell_of(scenario).deployment == "tp"
    ),
    "more than 4 stages": page_more_on(lambda scenario: scenario.deployment.pp_size > 4),
    "triton": page_more_on(lambda scenario: scenario.attention_backend == "triton"),
}
"""Where somebody may sell a page too many."""


def wrong(name):
    """The implementation that is wrong there."""

    class Wrong(Configurator):
        def size_pools(self, scenario):
            answer = Configurator.size_pools(self, READS.get(name, lambda same: same)(scenario))
            return SAYS.get(name, lambda same, answer: answer)(scenario, answer)

    return Wrong()


def is_found(implementation, scenarios):
    """Whether a law that is asked breaks on one of them."""
    return any(
        isinstance(verdict(BY_ID[law], implementation, scenario)[0], Broken)
        for scenario in scenarios
        for law in ASKED_LAWS
    )


@pytest.mark.parametrize("name", [*READS, *SAYS])
def test_what_usual_numbers_miss_is_found(name, drawn, gate_corpora):
    usual = [scenario for scenarios in gate_corpora.values() for scenario in scenarios[::9]]
    assert is_found(wrong(name), every(drawn))
    assert not is_found(wrong(name), usual)


def test_pools_that_miss_one_condition_of_the_capped_one_are_met(drawn):
    off = [scenario for scenario in every(drawn) if scenario.disable_radix_cache]
    hybrid = [scenario for scenario in off if pool_kind(scenario) == HYBRID_POOL]
    assert any(scenario.user_max_running_requests is None for scenario in hybrid)
    assert any(scenario.user_max_running_requests is not None for scenario in hybrid)
    assert any(
        scenario.is_decode_role and not scenario.chunked_prefill_size
        for scenario in off
        if pool_kind(scenario) == CAPPED_POOL
    )
    assert any(
        scenario.speculative_algorithm not in (None, STANDALONE) and LINEAR in scenario.draft.shape.layers
        for scenario in every(drawn)
        if active_draft(scenario) is not None
    )


class UsualAlone(Configurator):
    any_number = False


def test_agreement_alone_is_asked_about_them_and_not_of_everybody():
    cell = CELLS[0]
    context: Context = run(Configurator())
    for law in LAWS:
        more = len(context.asked_of(law, cell)) - len(context.corpus(cell))
        assert (more > 0) == (law.id in ASKED_LAWS)
    assert run(UsualAlone()).asked_of(BY_ID["Q1"], cell) == context.corpus(cell)
