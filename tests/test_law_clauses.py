"""Clauses of laws that the first wrong answer does not reach, and premises that keep a law silent."""

from dataclasses import replace
from fractions import Fraction

import pytest

from impl.resolve import resolve_draft
from impl.torch_pools import allocated_bytes
from spec.laws import BY_ID
from spec.laws.base import HOLDS, NOT_JUDGED, Broken, Case, unable
from spec.laws.draft import AMPLE_BYTES, smallest_budget
from spec.laws.scale import price_of_size
from spec.model import (
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
    Refusal,
    Scenario,
    active_draft,
)
from spec.pools import size_pools, size_pools_from_max_tokens, stage_row_bytes
from tests.wrong_answers import DEFAULT, DRAFT, SCENARIOS, moved


def judged(law_id, scenario, size=size_pools, size_from=size_pools_from_max_tokens):
    """The law's verdict on an implementation given as functions."""
    return BY_ID[law_id].predicate(Case(scenario, size(scenario), size, size_from, resolve_draft, allocated_bytes))


def assert_broken(verdict, term):
    """The verdict is that the law is broken in this term."""
    assert isinstance(verdict, Broken)
    assert verdict.term == term


@pytest.mark.parametrize("law_id", ["D1", "D2", "D3", "D4", "D5", "D6"])
def test_laws_of_a_draft_say_nothing_without_one(law_id):
    """The plain path, with the draft's fields left over."""
    assert judged(law_id, replace(DEFAULT, speculative_algorithm=None)) is NOT_JUDGED


def test_an_ability_that_is_not_offered_says_so():
    """A law that needs it must name it in `needs`."""
    with pytest.raises(NotImplementedError):
        unable(DEFAULT)


def test_memory_may_buy_less_without_a_refusal():
    """B5 names the size that fell."""

    def overflows(scenario):
        more = scenario.budget[0] > DEFAULT.budget[0]
        return size_pools(replace(scenario, budget=(500_000,)) if more else scenario)

    assert_broken(judged("B5", DEFAULT, overflows), "max_total_num_tokens")


def test_a_cap_below_a_page_is_refused_on_both_paths():
    """C1: the constraint path may not round it up to a page."""
    row_bytes = stage_row_bytes(DEFAULT, 0)
    one_page = replace(DEFAULT, budget=(DEFAULT.page_size * (row_bytes.full + row_bytes.draft),))
    assert size_pools(one_page).max_total_num_tokens == DEFAULT.page_size
    assert judged("C1", one_page) is HOLDS

    def rounds_up(scenario, tokens):
        return size_pools_from_max_tokens(scenario, max(tokens, scenario.page_size))

    verdict = judged("C1", one_page, size_from=rounds_up)
    assert_broken(verdict, "refusal")
    assert verdict.where.endswith("the constraint path")


def test_a_cap_may_lower_what_a_higher_cap_sells():
    """C1: more cap never buys less, here fewer running requests."""

    def stingy(answer, cap):
        if isinstance(answer, Refusal) or cap is None:
            return answer
        return replace(answer, max_running_requests=1 if cap > 100 else 2)

    def size(scenario):
        uncapped = size_pools(replace(scenario, max_total_tokens=None))
        cap = scenario.max_total_tokens
        binds = cap is not None and cap < uncapped.max_total_num_tokens
        return stingy(size_pools(scenario), cap if binds else None)

    def size_from(scenario, tokens):
        return stingy(size_pools_from_max_tokens(scenario, tokens), tokens)

    capped = replace(DEFAULT, max_total_tokens=40)
    assert_broken(judged("C1", capped, size, size_from), "max_running_requests")


@pytest.mark.parametrize(
    ("changes", "term"),
    [({"max_total_num_tokens": 4}, "max_total_num_tokens"), ({"max_req_len": 10**9}, "max_req_len")],
)
def test_a_wrong_capped_answer_is_seen_when_both_paths_agree_on_it(changes, term):
    """C1: not the smaller of cap and uncapped; or more than without the cap."""

    def wrong(answer):
        return answer if isinstance(answer, Refusal) else replace(answer, **changes)

    def size(scenario):
        answer = size_pools(scenario)
        uncapped = size_pools(replace(scenario, max_total_tokens=None))
        return answer if answer == uncapped else wrong(answer)

    def size_from(scenario, tokens):
        return wrong(size_pools_from_max_tokens(scenario, tokens))

    assert_broken(judged("C1", DEFAULT, size, size_from), term)


def test_allocated_bytes_that_buy_more_are_seen():
    """B3, hybrid: right at the price and a byte below, wrong at the bytes that are really allocated."""
    hybrid = replace(SCENARIOS["hybrid"], budget=(200_003,), swa_full_tokens_ratio=Fraction(3, 10))
    price = price_of_size(hybrid, size_pools(hybrid).max_total_num_tokens)[0]

    def generous_elsewhere(scenario):
        known = scenario.budget[0] in (hybrid.budget[0], price, price - 1)
        return size_pools(scenario) if known else moved(400)(scenario)

    assert judged("B3", hybrid) is HOLDS
    assert_broken(judged("B3", hybrid, generous_elsewhere), "max_total_num_tokens")


def test_a_byte_less_says_nothing_where_a_page_costs_less_than_a_byte():
    """B3, hybrid: a stage of one SWA layer, two bytes a row, a thousandth of a row a token."""
    shape = AttentionShape((SWA, FULL), Heads(1, 1, 1), Heads(1, 1, 1), sliding_window_size=1)
    scenario = Scenario(
        shape,
        (100_000, 100_000),
        deployment=Deployment(pp_size=2),
        kv_cache_dtype="fp8_e4m3",
        swa_full_tokens_ratio=Fraction(1, 1000),
    )
    assert judged("B3", scenario) is HOLDS


def test_a_binding_cap_that_took_swa_rows_is_not_inverted():
    """B3, capped: the bytes of the fixed SWA rows are not those of the answer."""
    assert judged("B3", replace(SCENARIOS["capped"], max_total_tokens=20)) is NOT_JUDGED


def test_the_order_of_draft_layers_is_looked_at():
    """B8: an implementation that takes the first draft layer for all."""
    shape = AttentionShape((SWA, FULL, FULL), Heads(8, 16, 16), Heads(1, 16, 16), sliding_window_size=4)
    scenario = replace(SCENARIOS["hybrid"], draft=Draft(shape))

    def first_layer_stands_for_all(asked):
        draft = active_draft(asked)
        layers = draft.shape.layers[:1] * len(draft.shape.layers)
        return size_pools(replace(asked, draft=replace(draft, shape=replace(draft.shape, layers=layers))))

    assert_broken(judged("B8", scenario, first_layer_stands_for_all), "max_total_num_tokens")


def test_a_draft_may_begin_with_a_layer_that_costs_nothing():
    """D4 repeats the first layer on full rows."""
    shape = AttentionShape((LINEAR, FULL), Heads(8, 16, 16))
    assert judged("D4", replace(DEFAULT, draft=Draft(shape))) is HOLDS


def test_a_quantized_twin_that_no_pool_stores_is_not_judged():
    """D6: a sparse draft whose latent is no multiple of 128 has no fp8 row."""
    sparse = AttentionShape((FULL,), Latent(100, 4), index=Index(128, (0,)))
    assert judged("D6", replace(SCENARIOS["mla"], draft=Draft(sparse))) is NOT_JUDGED


def test_a_capped_pool_too_poor_to_move_is_not_judged():
    """D1: with these bytes the plain pool cannot be given the drafted one's SWA rows."""
    many_tokens = replace(DRAFT, num_draft_tokens=64)
    assert judged("D1", replace(SCENARIOS["capped"], budget=(10,), draft=many_tokens)) is NOT_JUDGED


def test_a_stage_without_cost_sets_no_rows():
    """D3: the first stage holds linear layers only."""
    shape = AttentionShape((LINEAR, FULL), Heads(4, 16, 8))
    scenario = replace(DEFAULT, target=shape, deployment=Deployment(pp_size=2), budget=(10, 100_003))
    assert judged("D3", scenario) is HOLDS


@pytest.mark.parametrize("hint", [0, 1, 999, 1000, 1001, 10**6])
def test_a_price_is_found_whatever_the_hint(hint):
    """And a budget beyond any is given back when nothing sells."""
    assert smallest_budget(lambda stage_bytes: stage_bytes >= 1000, hint) == 1000
    assert smallest_budget(lambda stage_bytes: False, hint) > AMPLE_BYTES


def test_advice_is_not_asked_for_where_a_thousandth_of_the_memory_starts():
    """Nothing was loaded: the readings leave all but a thousandth of what was free."""
    rich = MemoryFigures(((8,),), ((1_000_000,),), Fraction("0.5"))
    assert judged("E3", replace(DEFAULT, budget=rich)) is NOT_JUDGED
    assert judged("E3", replace(DEFAULT, budget=(10,))) is NOT_JUDGED


def test_a_cap_below_a_page_may_be_refused_for_the_window_it_leaves():
    """A size of no rows is short of everything: the kind a refusal names first is the implementation's choice."""
    small = replace(SCENARIOS["hybrid"], max_total_tokens=3)

    def names_the_window(scenario):
        answer = size_pools(scenario)
        if isinstance(answer, Refusal) and answer.kind == "cap_too_small":
            return replace(answer, kind="window_pool_too_small", field="swa_max_total_num_tokens")
        return answer

    for law_id in ("E1", "Q1", "C1"):
        assert judged(law_id, small, names_the_window) is HOLDS

    def cannot_cap(scenario):
        return size_pools(scenario) if scenario.max_total_tokens is None else Refusal("unsupported", "page_size", 4)

    assert_broken(judged("C1", small, cannot_cap), "refusal")
