"""What the laws of drafts look at before they judge: each premise and each term, worked out on a small scenario."""

from dataclasses import replace

import pytest

from impl.resolve import resolve_draft
from spec.laws import BY_ID
from spec.laws.base import HOLDS, NOT_JUDGED, Broken, Case, DraftResolution, draft_is_resolved
from spec.laws.draft import (
    draft_matches_target,
    hangs_on_swa_rows,
    lost_more_than_the_draft,
    observed_price,
    rebalanced_heads,
    rebalanced_shapes,
    same_prices,
    shrinks,
    smallest_budget,
)
from spec.laws.resolve import LEFT_OVER, all_answer_alike, fallback_price
from spec.model import (
    DFLASH,
    EAGLE,
    FROZEN_KV_MTP,
    FULL,
    LINEAR,
    SWA,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Index,
    Latent,
    PoolSizes,
    Refusal,
    Scenario,
    active_draft,
)
from spec.pools import size_pools
from tests.test_law_clauses import judged
from tests.test_law_probes import CAPPED, FOUR, HYBRID, STAGES, TWO
from tests.wrong_answers import DEFAULT, MATCHING

RICH = {"hybrid": replace(HYBRID, budget=(1003,)), "capped": replace(CAPPED, budget=(1003,))}
RICH["stages"] = replace(STAGES, budget=(1003, 1003))
NO_PAGE = Refusal("no_page_fits", "available_bytes[0]", 0)
NO_WINDOW = Refusal("window_pool_too_small", "swa_max_total_num_tokens", 0)
SIZES = PoolSizes(40, 40, 10, 2, 39)


@pytest.mark.parametrize("law_id", ["D1", "D3", "D4", "D5", "D6", "D7", "D8"])
@pytest.mark.parametrize("scenario", RICH.values(), ids=RICH)
def test_the_spec_keeps_the_laws_of_drafts_in_every_window_pool(law_id: str, scenario: Scenario) -> None:
    """And on stages of which one has the draft."""
    assert judged(law_id, scenario) is HOLDS


def test_a_draft_that_loads_in_another_dtype_is_not_priced_by_what_it_holds() -> None:
    """A quantized checkpoint under auto; nor is one whose geometry is not read."""
    draft = Draft(replace(HYBRID.draft.shape, kv_checkpoint_dtype="fp8_e4m3"))
    assert draft_is_resolved(replace(HYBRID, draft=draft))
    assert not draft_is_resolved(replace(HYBRID, draft=draft, kv_cache_dtype="auto"))
    assert not draft_is_resolved(replace(HYBRID, draft=replace(draft, geometry_resolved=False)))


# D1: a draft of no layers.


def test_only_a_window_pool_too_small_hangs_on_swa_rows() -> None:
    assert [hangs_on_swa_rows(answer) for answer in (NO_WINDOW, NO_PAGE, SIZES)] == [True, False, False]


def answering(empty: object, plain: object):
    """An implementation that says this with a draft of no layers, and that without a draft."""
    return lambda scenario: plain if active_draft(scenario) is None else empty


@pytest.mark.parametrize(
    ("pool", "empty", "plain", "term"),
    [
        ("hybrid", replace(SIZES, swa_max_total_num_tokens=8), SIZES, "swa_max_total_num_tokens"),
        ("hybrid", NO_WINDOW, SIZES, "refusal"),
        ("hybrid", SIZES, NO_WINDOW, "refusal"),
        ("capped", NO_PAGE, SIZES, "refusal"),
    ],
)
def test_no_layers_cost_no_swa_rows_either(pool: str, empty: object, plain: object, term: str) -> None:
    verdict = judged("D1", RICH[pool], answering(empty, plain))
    assert isinstance(verdict, Broken) and verdict.term == term


@pytest.mark.parametrize(
    ("empty", "plain", "verdict"),
    [
        (replace(SIZES, swa_max_total_num_tokens=8), SIZES, HOLDS),
        (NO_WINDOW, SIZES, NOT_JUDGED),
        (SIZES, NO_WINDOW, NOT_JUDGED),
    ],
)
def test_draft_tokens_move_the_swa_rows_of_a_capped_pool(empty: object, plain: object, verdict: object) -> None:
    assert judged("D1", RICH["capped"], answering(empty, plain)) is verdict


# D2: a draft like its target.


def test_a_draft_matches_the_rows_it_goes_with() -> None:
    """Capped: the full rows. One pool for all layers: sliding ones too. None shares a workspace."""
    alike = Draft(AttentionShape((FULL,), TWO))
    assert draft_matches_target(replace(CAPPED, draft=alike), alike)
    unlike = Draft(AttentionShape((FULL,), FOUR))
    assert not draft_matches_target(replace(CAPPED, draft=unlike), unlike)
    sliding = AttentionShape((SWA, SWA), None, TWO, sliding_window_size=1)
    assert draft_matches_target(replace(HYBRID, target=sliding, window_pools=False, draft=alike), alike)
    quarter = Heads(1, 16, 16)
    shared = Draft(AttentionShape((FULL,), quarter), kv_cache_dtype="nvfp4")
    target = Scenario(AttentionShape((FULL,), quarter), (1,), shared, DFLASH, kv_cache_dtype="fp4_mx_block16")
    assert not draft_matches_target(target, shared)
    apart = replace(shared, kv_cache_dtype=None)
    assert draft_matches_target(replace(target, draft=apart), apart)


def test_every_row_of_a_draft_must_match() -> None:
    """Neither some layers on SWA rows, nor two kinds of rows on both sides."""
    follows = Draft(AttentionShape((FULL, SWA), TWO, TWO, sliding_window_size=1))
    assert not draft_matches_target(replace(HYBRID, draft=follows, speculative_algorithm=EAGLE), follows)
    sparse = AttentionShape((FULL, FULL), Latent(128, 0), index=Index(128, (0,)))
    both = Draft(sparse)
    assert not draft_matches_target(Scenario(sparse, (1,), both, EAGLE), both)


def test_neither_a_refusal_nor_a_draft_by_the_ratio_is_compared_with_the_ratio() -> None:
    matching = replace(DEFAULT, draft=MATCHING)
    assert judged("D2", matching) is HOLDS
    assert judged("D2", replace(matching, budget=(10,))) is NOT_JUDGED
    assert judged("D2", replace(matching, draft=replace(MATCHING, geometry_resolved=False))) is NOT_JUDGED


# D3: what a draft takes.


def test_a_capped_pool_without_its_swa_rows_is_not_compared() -> None:
    """Below them by a cap; or too poor to be given them."""
    assert judged("D3", replace(RICH["capped"], max_total_tokens=9)) is NOT_JUDGED
    many = replace(CAPPED, draft=replace(CAPPED.draft, num_draft_tokens=8), budget=(88,))
    assert judged("D3", many, lambda scenario: SIZES) is NOT_JUDGED


def test_no_pool_may_grow_with_a_draft() -> None:
    """SWA rows of a hybrid pool, full rows of any."""
    for scenario, field in ((HYBRID, "swa_max_total_num_tokens"), (CAPPED, "full_max_total_num_tokens")):
        verdict = shrinks(scenario, SIZES, replace(SIZES, **{field: 42}))
        assert isinstance(verdict, Broken) and (verdict.term, verdict.got) == (field, 42)


def test_a_target_loses_less_than_its_draft_and_a_page() -> None:
    """10 rows of 4 bytes; a page of 44/3, and 10/3 - 2 SWA rows of 4: 60 in all. The target keeps 10 x 2 and 2 x 4."""
    drafted = PoolSizes(10, 10, 2, 1, 9)
    assert lost_more_than_the_draft(HYBRID, PoolSizes(19, 19, 12, 1, 18), drafted, 0) is None
    broken = lost_more_than_the_draft(HYBRID, PoolSizes(20, 20, 12, 1, 19), drafted, 0)
    assert broken == Broken("target bytes", "less than 60 lost to a draft of 40", 60, "stage 0")


def test_the_swa_rows_of_a_capped_pool_are_not_lost() -> None:
    """10 rows of 4 bytes and a page of 12."""
    drafted = PoolSizes(10, 10, 10, 1, 9)
    assert lost_more_than_the_draft(CAPPED, PoolSizes(34, 34, 12, 1, 33), drafted, 0) is None
    broken = lost_more_than_the_draft(CAPPED, PoolSizes(36, 36, 8, 1, 35), drafted, 0)
    assert broken == Broken("target bytes", "less than 52 lost to a draft of 40", 52, "stage 0")


# D4: the draft's own geometry.


def test_widths_are_halved_where_both_are_even() -> None:
    assert rebalanced_heads(Heads(1, 3, 4)) == [Heads(1, 4, 3)]
    assert rebalanced_heads(Heads(1, 4, 3)) == [Heads(1, 3, 4)]
    assert rebalanced_heads(Heads(1, 4, 4)) == [Heads(2, 2, 2)]


def test_full_and_swa_heads_change_together_only_where_they_are_alike() -> None:
    shape = AttentionShape((FULL, SWA), Heads(1, 4, 2), Heads(1, 4, 2), sliding_window_size=1)
    changed = [Heads(2, 2, 1), Heads(1, 2, 4)]
    assert [(other.full, other.swa) for other in rebalanced_shapes(shape)] == [
        *((full, shape.swa) for full in changed),
        *((shape.full, swa) for swa in changed),
        *((both, both) for both in changed),
    ]
    assert len(rebalanced_shapes(replace(shape, swa=Heads(1, 2, 4)))) == 4


def test_prices_are_the_same_on_every_stage() -> None:
    """The first of two keeps its full layer, the second has another SWA geometry."""
    assert same_prices(STAGES, STAGES)
    assert not same_prices(STAGES, replace(STAGES, target=replace(STAGES.target, swa=TWO)))


@pytest.mark.parametrize(
    ("fewest", "hint", "asked"),
    [
        (7, 7, [7, 6]),
        (7, 3, [3, 3, 6, 12, 9, 7]),
        (7, 9, [9, 8, 9, 4, 6, 7]),
        (1, 0, [0, 1]),
    ],
)
def test_a_price_is_asked_for_no_oftener_than_it_must(fewest: int, hint: int, asked: list[int]) -> None:
    """Twice where the hint is right."""
    met: list[int] = []

    def sells(available: int) -> bool:
        met.append(available)
        return available >= fewest

    assert smallest_budget(sells, hint) == fewest
    assert met == asked


@pytest.mark.parametrize(
    ("scenario", "rows", "budgets"),
    [
        (HYBRID, 20, [(147,), (146,)]),  # 20 x 22/3 = 146.67
        (CAPPED, 18, [(148,), (147,)]),  # 40 + 18 x 6
        (STAGES, 18, [(2**62, 132), (2**62, 131)]),
    ],
)
def test_a_price_is_expected_at_what_the_spec_says(
    scenario: Scenario, rows: int, budgets: list[tuple[int, ...]]
) -> None:
    asked: list[object] = []

    def size(changed: Scenario) -> object:
        asked.append(changed.budget)
        return size_pools(changed)

    assert observed_price(Case(scenario, SIZES, size), scenario, rows) == budgets[0][-1]
    assert asked == budgets


def test_fields_that_change_the_price_may_change_the_size() -> None:
    """2 heads on 2 ranks: one of twice the width is whole on both."""
    heads = Heads(2, 4, 4)
    scenario = Scenario(
        AttentionShape((FULL,), heads),
        (1003,),
        Draft(AttentionShape((FULL,), heads)),
        EAGLE,
        deployment=Deployment(tp_size=2),
        kv_cache_dtype="fp8_e4m3",
    )
    assert judged("D4", scenario) is HOLDS


# D5, D6: what start-up knows.


def with_resolver(law_id: str, scenario: Scenario, resolve) -> object:
    """The law's verdict on the spec's sizes and this resolver."""
    return BY_ID[law_id].predicate(Case(scenario, size_pools(scenario), size_pools, resolve_draft=resolve))


def test_a_draft_without_rows_has_nothing_to_resolve() -> None:
    """One of its layers is enough to judge."""
    linear = Draft(AttentionShape((LINEAR,), TWO))
    some = Draft(AttentionShape((LINEAR, FULL), TWO))
    assert judged("D5", replace(RICH["hybrid"], draft=linear)) is NOT_JUDGED
    assert judged("D5", replace(RICH["hybrid"], draft=some)) is HOLDS


def test_a_resolved_draft_must_be_known() -> None:
    def knows_nothing(scenario: Scenario) -> DraftResolution | None:
        return None if active_draft(scenario).geometry_resolved else resolve_draft(scenario)

    broken = with_resolver("D5", RICH["hybrid"], knows_nothing)
    assert isinstance(broken, Broken) and broken.term == "warnings"
    broken = with_resolver("D6", RICH["hybrid"], lambda scenario: None)
    assert isinstance(broken, Broken) and broken.term == "draft dtype"


def test_a_stage_that_costs_nothing_still_has_its_byte() -> None:
    """A frozen-KV draft beside a stage of linear layers."""
    shape = AttentionShape((FULL, LINEAR), TWO)
    scenario = Scenario(
        shape, (100, 100), Draft(AttentionShape((FULL,), TWO)), FROZEN_KV_MTP, deployment=Deployment(pp_size=2)
    )
    assert judged("D5", scenario) is HOLDS


@pytest.mark.parametrize(
    ("more", "exact", "holds"), [(0, True, True), (1, True, False), (1, False, True), (2, False, False)]
)
def test_only_a_float_engine_may_need_a_byte_more_for_the_ratio(more: int, exact: bool, holds: bool) -> None:
    """20 rows."""
    unresolved = replace(HYBRID, draft=replace(HYBRID.draft, geometry_resolved=False))

    def size(scenario: Scenario) -> object:
        return size_pools(replace(scenario, budget=(max(1, scenario.budget[0] - more),)))

    case = Case(unresolved, SIZES, size, exact=exact)
    assert (fallback_price(case, unresolved, replace(SIZES, max_total_num_tokens=20)) is HOLDS) is holds


def test_a_dtype_as_wide_as_the_truth_is_safe() -> None:
    """fp8, though nobody can know it."""
    fp8 = DraftResolution(4, "fp8_e4m3")
    assert with_resolver("D6", RICH["hybrid"], lambda scenario: fp8) is HOLDS


def test_a_quantized_draft_may_fill_the_budget() -> None:
    """A draft that is resolved to its bf16 is priced 4 bytes a row and takes 2; to the byte where it is sold as 2."""
    shape = AttentionShape((FULL,), Heads(1, 1, 1))
    scenario = Scenario(shape, (40,), Draft(shape), EAGLE, kv_cache_dtype="fp8_e4m3")

    def sells_all(changed: Scenario) -> object:
        return PoolSizes(10, 10, 0, 2, 9)

    assert judged("D6", scenario, sells_all) is HOLDS
    assert isinstance(judged("D6", replace(scenario, budget=(39,)), sells_all), Broken)


# D7, D8: what must not matter.


def test_the_scenario_s_own_draft_is_left_over_too() -> None:
    asked: list[object] = []

    def size(scenario: Scenario) -> object:
        asked.append(scenario.draft)
        return size_pools(scenario)

    assert judged("D7", RICH["hybrid"], size) is HOLDS
    assert asked == [HYBRID.draft, None, LEFT_OVER, HYBRID.draft]


@pytest.mark.parametrize(
    ("answer", "expected", "verdict"),
    [(NO_PAGE, NO_PAGE, NOT_JUDGED), (NO_PAGE, SIZES, HOLDS), (SIZES, NO_PAGE, HOLDS), (SIZES, SIZES, HOLDS)],
)
def test_two_refusals_are_no_comparison(answer: object, expected: object, verdict: object) -> None:
    """One is: the draft may be what does not fit."""
    case = Case(HYBRID, answer, lambda scenario: expected)
    assert all_answer_alike(case, HYBRID, [("itself", HYBRID)]) is verdict
