"""What the laws of bytes and scale look at before they judge: each premise and term, worked out on a small scenario."""

from dataclasses import replace
from fractions import Fraction

import pytest

from spec.laws.base import (
    HOLDS,
    NOT_JUDGED,
    Broken,
    Case,
    Law,
    cap_may_bind,
    draft_bytes,
    is_valid,
    plain_at_same_swa_rows,
    setting_stages,
)
from spec.laws.budget import one_more_page_overflows
from spec.laws.scale import dearer_scenarios, wider_heads
from spec.model import (
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
from tests.test_floats import TENTH
from tests.test_law_clauses import judged
from tests.test_law_probes import CAPPED, FOUR, HYBRID, STAGES, TWO
from tests.wrong_answers import SCENARIOS, moved

CAPPED_STAGES = replace(CAPPED, target=STAGES.target, deployment=STAGES.deployment, budget=(12, 76))
"""Stages of 2 and of 2 + 4 bytes a row; the second pays for 10 SWA rows of 4 first."""
BYTE_ROWS = Scenario(AttentionShape((FULL,), Latent(1, 0)), (5,), kv_cache_dtype="fp8_e4m3")
NO_PAGE = Refusal("no_page_fits", "available_bytes[0]", 0)


def holds(case: Case) -> object:
    """A law of nothing."""
    return HOLDS


def test_a_law_claims_a_cell_by_any_of_its_globs() -> None:
    law = Law("X1", "x", "X.", ("mla-*", "*_own-*"), holds)
    assert [law.claims(cell) for cell in ("mla-plain", "default_own-1", "default-plain")] == [True, True, False]


def test_what_the_spec_refuses_is_not_valid() -> None:
    assert is_valid(HYBRID) and not is_valid(replace(HYBRID, page_size=0))


@pytest.mark.parametrize(("rows", "may_bind"), [(4, False), (6, True), (8, True)])
def test_a_cap_may_bind_where_all_its_pages_are_sold(rows: int, may_bind: bool) -> None:
    """7 tokens are 3 pages of 2."""
    assert cap_may_bind(replace(HYBRID, max_total_tokens=7), rows) is may_bind
    assert not cap_may_bind(HYBRID, rows)


@pytest.mark.parametrize(
    ("budget", "setting"), [((12, 76), [0, 1]), ((16, 76), [1]), ((12, 88), [0]), ((13, 87), [0, 1])]
)
def test_a_stage_pays_for_its_swa_rows_before_it_sets_any(budget: tuple[int, int], setting: list[int]) -> None:
    """36 bytes beyond 40 hold 6 rows."""
    assert setting_stages(replace(CAPPED_STAGES, budget=budget)) == setting


def test_nothing_is_paid_before_the_rows_of_a_hybrid_pool() -> None:
    """To the byte: 12 and 44 hold 6 rows; a stage may hold rows of one byte."""
    assert setting_stages(replace(STAGES, budget=(12, 45))) == [0, 1]
    assert setting_stages(replace(STAGES, budget=(11, 44))) == [0]
    assert setting_stages(BYTE_ROWS) == [0]


def test_every_stage_must_be_left_a_byte_by_the_draft_s_swa_rows() -> None:
    """22 more SWA rows of 4 bytes, on the second stage."""
    drafted = replace(CAPPED_STAGES, draft=replace(CAPPED.draft, num_draft_tokens=8))
    assert plain_at_same_swa_rows(replace(drafted, budget=(100, 88))) is None
    assert plain_at_same_swa_rows(replace(drafted, budget=(100, 89))).budget == (100, 1)


def test_a_draft_takes_full_rows_and_swa_rows() -> None:
    """10 of 2 bytes and 3 of 8 on the last stage, where it lives."""
    draft = Draft(AttentionShape((FULL, SWA, SWA), TWO, FOUR, sliding_window_size=1))
    scenario = replace(STAGES, draft=draft, speculative_algorithm=EAGLE, swa_full_tokens_ratio=Fraction(1, 3))
    assert [draft_bytes(scenario, stage, PoolSizes(10, 10, 3, 1, 1)) for stage in (0, 1)] == [0, 44]


# B1, B2: bytes and pages to the last.


def test_all_bytes_may_be_sold() -> None:
    """5 rows of a byte in 5."""
    assert judged("B1", BYTE_ROWS) is HOLDS
    assert isinstance(judged("B1", replace(BYTE_ROWS, budget=(4,)), lambda scenario: PoolSizes(5, 5, 0, 2, 4)), Broken)


def test_a_page_more_overflows_by_a_byte() -> None:
    """Nothing is paid beforehand but the SWA rows of a capped pool."""
    assert [one_more_page_overflows(BYTE_ROWS, 0, available, 5, 0) for available in (5, 6)] == [True, False]
    assert [one_more_page_overflows(CAPPED, 0, available, 6, 10) for available in (87, 88)] == [True, False]


@pytest.mark.parametrize("wasted", [0, 1])
def test_a_refusal_sells_no_rows_and_has_paid_what_is_fixed(wasted: int) -> None:
    """One byte less than a page is no waste, a page is."""
    for scenario, needed in (
        (replace(BYTE_ROWS, page_size=2), 2),
        (replace(HYBRID, page_size=1), 8),
        (CAPPED, 40 + 12),
    ):
        poor = replace(scenario, budget=(needed - 1 + wasted,))
        kind = "swa_pool_leaves_no_room" if scenario is CAPPED else "no_page_fits"
        verdict = judged("B2", poor, lambda asked, kind=kind: Refusal(kind, "available_bytes[0]", 0))
        assert isinstance(verdict, Broken) and verdict.got == 0 if wasted else verdict is HOLDS


def test_a_page_may_be_left_on_all_stages_but_one() -> None:
    assert judged("B2", replace(STAGES, budget=(1000, 440))) is HOLDS


def test_a_whole_page_of_swa_rows_is_not_rounding() -> None:
    """A tenth of 100 rows is 10; 8 are a page less."""
    verdict = judged("B2", TENTH, lambda scenario: replace(size_pools(scenario), swa_max_total_num_tokens=8))
    assert verdict == Broken("swa_max_total_num_tokens", "above 8, at most 10", 8)


# B3: what is bought again.

SWA_ALONE = Scenario(
    AttentionShape((SWA, FULL), Heads(1, 1, 1), Heads(1, 1, 1), sliding_window_size=1),
    (20, 100),
    deployment=Deployment(pp_size=2),
    kv_cache_dtype="fp8_e4m3",
    swa_full_tokens_ratio=Fraction(1, 2),
)
"""A token costs half a row of 2 bytes on the first stage: one byte."""
LINEAR_FIRST = Scenario(
    AttentionShape((LINEAR, LINEAR, FULL, SWA), TWO, FOUR, sliding_window_size=1),
    (9, 100),
    deployment=Deployment(pp_size=2),
    kv_cache_dtype="fp8_e4m3",
    swa_full_tokens_ratio=Fraction(1, 2),
)
"""The first stage holds nothing that costs, the second 4 bytes a token: 25 rows, 12 SWA rows."""
JUST_ADMITS = replace(TENTH, budget=(249,), swa_full_tokens_ratio=Fraction(11, 100))
"""56 rows of 4.44 bytes; their 6 SWA rows are the fewest that admit a request, and 248 bytes are really allocated."""


@pytest.mark.parametrize(
    ("scenario", "budgets"),
    [
        (BYTE_ROWS, [(5,), (5,)]),
        (TENTH, [(440,), (440,), (439,), (440,)]),
        (SWA_ALONE, [(20, 100), (20, 40), (19, 39), (20, 40)]),
        (LINEAR_FIRST, [(9, 100), (1, 100), (1, 98)]),
        (JUST_ADMITS, [(249,), (249,), (248,), (248,)]),
    ],
)
def test_sizes_are_bought_at_their_price_a_byte_below_and_for_what_they_take(
    scenario: Scenario, budgets: list[tuple[int, ...]]
) -> None:
    """Hybrid pools all three, the byte below where a page costs one; a refusal there says nothing of rows."""
    asked = []

    def size(changed: Scenario) -> object:
        asked.append(changed.budget)
        return size_pools(changed)

    assert judged("B3", scenario, size) is HOLDS
    assert asked == budgets


def test_what_is_wrong_at_the_price_or_a_byte_below_is_seen() -> None:
    """A hybrid pool, right everywhere else."""
    roomy = replace(TENTH, budget=(444,))
    for wrong_at, expected, got in ((440, 100, 102), (439, 98, 100)):

        def size(scenario: Scenario, wrong_at: int = wrong_at) -> object:
            return moved(2)(scenario) if scenario.budget == (wrong_at,) else size_pools(scenario)

        verdict = judged("B3", roomy, size)
        assert isinstance(verdict, Broken) and (verdict.expected, verdict.got) == (expected, got)


# B6, B7, B8: other scenarios that are asked.


def test_ranks_are_doubled_from_what_they_are() -> None:
    scenario = replace(HYBRID, deployment=Deployment(tp_size=16, attn_dp_size=2, attn_dcp_size=4))
    replication = [dearer.deployment for what, dearer in dearer_scenarios(scenario) if what == "replication"]
    assert [(ranks.attn_dp_size, ranks.attn_dcp_size) for ranks in replication] == [(2, 8), (4, 4)]


def test_fewer_swa_rows_may_buy_more_full_rows() -> None:
    """8 requests on one replica, 52 SWA rows of 32 bytes and 8 full rows; on each of two 4, 28 and 196. Nor is a cap
    below the SWA rows judged."""
    shape = AttentionShape((FULL, SWA), Heads(2, 1, 1), Heads(1, 16, 16), sliding_window_size=1)
    scenario = replace(CAPPED, target=shape, draft=None, speculative_algorithm=None, user_max_running_requests=8)
    scenario = replace(scenario, deployment=Deployment(tp_size=2), budget=(1680,))
    assert judged("B6", scenario) is HOLDS
    assert judged("B6", replace(scenario, max_total_tokens=6)) is NOT_JUDGED


def test_k_and_v_are_widened_each_by_itself() -> None:
    assert wider_heads(Heads(2, 3, 5), 4) == Heads(2, 12, 20)


def test_every_way_to_scale_is_looked_at() -> None:
    """A sizing that is only wrong for dims three times as wide."""

    def size(scenario: Scenario) -> object:
        is_wide = scenario.target.full == Heads(4, 48, 24)
        return moved(4)(scenario) if is_wide else size_pools(scenario)

    assert isinstance(judged("B7", SCENARIOS["default"], size), Broken)


def test_a_workspace_that_more_layers_share_does_not_scale() -> None:
    """nvfp4: twice the layers, but one workspace."""
    shape = AttentionShape((FULL,) * 2, Heads(1, 16, 16))
    assert judged("B7", Scenario(shape, (10_000,), kv_cache_dtype="nvfp4")) is HOLDS


def test_layers_keep_their_stage_and_a_plain_target_has_no_others() -> None:
    """One full layer beside a full and an SWA one: reversed over the stages they would cost otherwise."""
    stages = replace(STAGES, target=replace(STAGES.target, layers=(FULL, FULL, SWA)), budget=(100, 1000))
    assert judged("B8", stages) is HOLDS
    assert judged("B8", replace(stages, speculative_algorithm=None)) is HOLDS
