"""What the laws of ranks, windows, caps and answers look at before they judge: premises and terms, worked out."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

from spec.laws import BY_ID
from spec.laws.allocation import one_page_of
from spec.laws.answers import advice_works, differs_from_the_spec
from spec.laws.base import AMPLE_BYTES, HOLDS, NOT_JUDGED, Broken, Case, unable
from spec.laws.caps import caps_to_try
from spec.laws.ranks import weakest_stage_sets_rows
from spec.model import MemoryFigures, PoolSizes, Refusal, Scenario
from spec.pools import size_pools, sizes_of
from spec.units import align_down
from tests.test_floats import TENTH
from tests.test_law_clauses import judged
from tests.test_law_premises import BYTE_ROWS, CAPPED_STAGES, NO_PAGE
from tests.test_law_probes import CAPPED, HYBRID, STAGES

# R2: stages.


def test_one_stage_has_no_other_to_agree_with() -> None:
    """Nothing is asked; its rows are priced to the byte."""
    assert judged("R2", BYTE_ROWS) is HOLDS
    case = Case(BYTE_ROWS, PoolSizes(6, 6, 0, 3, 5), unable)
    assert BY_ID["R2"].predicate(case) == Broken("priced bytes", "at most 5", 6, "a rank of stage 0")
    assert BY_ID["R2"].predicate(replace(case, answer=PoolSizes(5, 5, 0, 2, 4))) is HOLDS


@pytest.mark.parametrize(
    ("together", "alone", "broken"),
    [
        (6, [6, 8], None),
        (6, [8, 6], None),
        (4, [6, 8], ("max_total_num_tokens", "the smallest of [6, 8]", 4)),
        (6, [6, None], ("refusal", "an answer without a cap, and with more memory elsewhere", "a refusal")),
    ],
)
def test_the_fewest_rows_of_the_stages_alone_are_sold(
    together: int, alone: list[int | None], broken: tuple[str, str, object] | None
) -> None:
    def size(scenario: Scenario) -> PoolSizes | Refusal:
        ample = [stage for stage, available in enumerate(scenario.budget) if available == AMPLE_BYTES]
        rows = alone[1 - ample[0]] if ample else together
        return NO_PAGE if rows is None else PoolSizes(rows, rows, 2, 1, 1)

    verdict = weakest_stage_sets_rows(Case(STAGES, NO_PAGE, size))
    assert verdict is HOLDS if broken is None else (verdict.term, verdict.expected, verdict.got) == broken


# W2, W3: window pools.

A_PAGE_LEFT = Broken("max_total_num_tokens", "less than 12 bytes left", 12, "stage 0")


@pytest.mark.parametrize(("swa_rows", "left"), [(6, None), (5, 1)])
def test_a_page_is_left_beside_the_window_and_a_page(swa_rows: int, left: int | None) -> None:
    """A window of 2 on pages of 2."""
    scenario = replace(TENTH, target=replace(TENTH.target, sliding_window_size=2))
    verdict = judged("W2", scenario, lambda asked: PoolSizes(60, 60, swa_rows, 1, 1))
    term, expected = "swa_max_total_num_tokens", "2 rows beside a window of 2 and a page"
    assert verdict is HOLDS if left is None else verdict == Broken(term, expected, left)


@pytest.mark.parametrize(
    ("scenario", "broken"),
    [
        (replace(CAPPED, budget=(76,)), None),
        (replace(CAPPED, budget=(87,)), None),
        (replace(CAPPED, budget=(75,)), Broken("priced bytes", "at most 75", 76, "stage 0")),
        (replace(CAPPED, budget=(88,)), A_PAGE_LEFT),
        (replace(CAPPED, budget=(88,), max_total_tokens=7), None),
        (replace(CAPPED, budget=(88,), max_total_tokens=8), A_PAGE_LEFT),
        (replace(CAPPED_STAGES, budget=(12, 1000)), None),
        (replace(CAPPED_STAGES, budget=(1000, 75)), Broken("priced bytes", "at most 75", 76, "stage 1")),
    ],
)
def test_full_rows_are_paid_with_their_draft_rows_after_the_swa_rows(scenario: Scenario, broken: Broken | None) -> None:
    """6 rows of 2 + 4 bytes, 10 SWA rows of 4; a cap that may bind, or another stage that sets N, leaves more."""
    verdict = judged("W3", scenario, lambda asked: PoolSizes(6, 6, 10, 1, 5))
    assert verdict == (broken or HOLDS)


# C1, A1: caps, buffers.


def test_half_of_an_odd_number_is_rounded_down() -> None:
    assert caps_to_try(HYBRID, 11) == [5, 10, 11, 12]


def test_a_cap_below_a_page_must_be_refused() -> None:
    """1 row on pages of 2."""
    scenario = replace(STAGES, max_total_tokens=1, budget=(1000, 1000))

    def answers_all_the_same(asked: Scenario) -> object:
        return size_pools(asked if asked.max_total_tokens != 1 else replace(asked, max_total_tokens=None))

    assert judged("C1", scenario) is HOLDS
    assert judged("C1", scenario, answers_all_the_same) == Broken("refusal", "cap_too_small", "an answer", "a cap of 1")


def test_a_page_of_each_pool_is_allocated_alone() -> None:
    full, swa = ("full", PoolSizes(4, 4, 0, 0, 0)), ("SWA", PoolSizes(0, 0, 4, 0, 0))
    for kind, pages in (("default", [full]), ("mla", [full]), ("hybrid", [full, swa]), ("capped", [full, swa])):
        assert one_page_of(kind, 4) == pages
    assert one_page_of("allswa", 4) == [("SWA", PoolSizes(4, 0, 4, 0, 0))]


def test_the_price_of_a_row_is_what_it_takes_beyond_the_spare_rows() -> None:
    """A spare byte, and a byte a row, where the rows sold take 3."""

    def allocate(scenario: Scenario, sizes: PoolSizes) -> tuple[int]:
        return (1 + 3 * sizes.max_total_num_tokens,)

    case = Case(BYTE_ROWS, size_pools(BYTE_ROWS), size_pools, allocated_bytes=allocate)
    assert BY_ID["A1"].predicate(case) == Broken("bytes per full row", 1, 3, "a rank of stage 0")


# E, Q: refusals, advice, the spec's answer.

FIGURES = MemoryFigures(((1000,),), ((500,),), Fraction("0.9"))
"""At fraction f there are 500 - 1000 * (1 - f) bytes: 2 at 0.502, which two rows of a byte take."""
MEASURED = replace(BYTE_ROWS, budget=FIGURES)


def advising(advice: str, starts_at: int) -> Callable[[Scenario], PoolSizes | Refusal]:
    """Starts from so many thousandths on, and advises this below."""

    def size(scenario: Scenario) -> PoolSizes | Refusal:
        enough = scenario.budget.mem_fraction_static >= Fraction(starts_at, 1000)
        return PoolSizes(2, 2, 0, 1, 1) if enough else replace(NO_PAGE, advice=advice)

    return size


@pytest.mark.parametrize(
    ("advice", "starts_at", "asked", "expected"),
    [
        ("mem_fraction_static 0.502 is", 502, [502, 501], None),
        ("mem_fraction_static 0.502 is", 503, [502], "a fraction that starts"),
        ("mem_fraction_static 0.502 is", 501, [502, 501], "the smallest fraction that starts"),
        ("mem_fraction_static 0.002 is", 1, [2, 1], "the smallest fraction that starts"),
        ("mem_fraction_static 0.001 is", 1, [1], None),
        ("no mem_fraction_static below 1 starts", 1000, [999], None),
        ("no mem_fraction_static below 1 starts", 999, [999], "0.999 starts"),
        ("more memory", 999, [], "the smallest fraction that starts, or that none does"),
    ],
)
def test_advice_is_tried(advice: str, starts_at: int, asked: list[int], expected: str | None) -> None:
    """And a thousandth less, if there is one."""
    met = []

    def size(scenario: Scenario) -> PoolSizes | Refusal:
        met.append(int(scenario.budget.mem_fraction_static * 1000))
        return advising(advice, starts_at)(scenario)

    case = Case(MEASURED, NO_PAGE, size)
    verdict = advice_works(case, MEASURED, replace(NO_PAGE, advice=advice))
    assert verdict is HOLDS if expected is None else isinstance(verdict, Broken) and verdict.expected == expected
    assert met == asked


def test_advice_is_asked_for_at_a_thousandth_of_the_memory() -> None:
    """None is due where memory is not short."""
    asked = []

    def size(scenario: Scenario) -> PoolSizes | Refusal:
        asked.append(scenario.budget.mem_fraction_static)
        return size_pools(scenario)

    assert judged("E3", MEASURED, size) is HOLDS
    assert asked[:2] == [Fraction("0.9"), Fraction("0.001")]
    assert judged("E3", replace(MEASURED, context_len=1)) is NOT_JUDGED


def test_one_of_everything_is_positive() -> None:
    assert judged("E2", BYTE_ROWS, lambda scenario: PoolSizes(1, 1, 0, 1, 1)) is HOLDS
    for field in ("max_total_num_tokens", "full_max_total_num_tokens", "max_running_requests", "max_req_len"):
        nothing = replace(PoolSizes(1, 1, 0, 1, 1), **{field: 0})
        assert judged("E2", BYTE_ROWS, lambda scenario, nothing=nothing: nothing) == Broken(field, "above 0", 0)


def test_a_float_engine_is_compared_with_every_answer_it_may_give_and_told_the_exact_one() -> None:
    """100 rows, or a page less."""
    for rows, differs in ((100, False), (98, False), (96, True), (102, True)):
        case = Case(TENTH, sizes_of(TENTH, rows, rows, align_down(rows // 10, 2)), size_pools, exact=False)
        wrong = differs_from_the_spec(case, ("max_total_num_tokens",))
        assert wrong == (Broken("max_total_num_tokens", 100, rows) if differs else None)
