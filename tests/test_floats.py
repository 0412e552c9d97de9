"""An engine that sizes hybrid pools in float: judged to a page on exact boundaries, and nowhere else."""

from dataclasses import replace
from fractions import Fraction

import pytest

from impl.optimized import Configurator
from properties.cells import CELLS
from properties.corpus import corpus_of
from properties.judge import judge_cell
from spec.budget import available_bytes
from spec.laws import BY_ID, LAWS
from spec.laws.answers import agrees_with_the_spec
from spec.laws.base import HOLDS, NOT_JUDGED, Broken, Case
from spec.laws.floats import float_answers, is_exact_in_float, may_need_a_byte_more, unless_float
from spec.layers import HYBRID_POOL, pool_kind
from spec.model import FULL, SWA, AttentionShape, Deployment, Heads, Refusal, Refused, Scenario
from spec.pools import size_pools, sizes_of, stage_row_bytes
from spec.units import align_down

WINDOWED = AttentionShape((FULL, SWA), Heads(1, 1, 1), Heads(1, 1, 1), sliding_window_size=1)
TENTH = Scenario(WINDOWED, (440,), page_size=2, swa_full_tokens_ratio=Fraction(1, 10))
"""4 bytes a full row, 4 an SWA row, 4.4 a token: 440 bytes are exactly 100 rows, and a tenth of them exactly 10."""


def hybrid_sizes(scenario, rows):
    """The answer with these rows, the SWA rows by float arithmetic."""
    if rows <= 0:
        return Refusal("no_page_fits", "available_bytes", 0)
    swa_rows = align_down(int(rows * float(scenario.swa_full_tokens_ratio)), scenario.page_size)
    try:
        return sizes_of(scenario, rows, rows, swa_rows)
    except Refused as refused:
        return refused.refusal


class Float(Configurator):
    """Sizes hybrid pools in float, as an engine does whose ratio is a command-line float."""

    exact = False
    pages_lost = 0

    def size_pools(self, scenario):
        """The smallest of the stages, then the cap; refusals are the configurator's."""
        answer = super().size_pools(scenario)
        if pool_kind(scenario) != HYBRID_POOL or isinstance(answer, Refusal):
            return answer
        ratio, page_size = float(scenario.swa_full_tokens_ratio), scenario.page_size
        held = []
        for stage, available in enumerate(available_bytes(scenario)):
            row_bytes = stage_row_bytes(scenario, stage)
            cell = row_bytes.full + row_bytes.draft + ratio * row_bytes.swa
            if cell:
                held.append(align_down(int(available / cell), page_size) - self.pages_lost * page_size)
        cap = scenario.max_total_tokens
        return hybrid_sizes(scenario, min(held) if cap is None else align_down(min(*held, cap), page_size))

    def size_pools_from_max_tokens(self, scenario, tokens):
        """The same from a number of tokens."""
        answer = super().size_pools_from_max_tokens(scenario, tokens)
        if pool_kind(scenario) != HYBRID_POOL or isinstance(answer, Refusal):
            return answer
        return hybrid_sizes(scenario, answer.max_total_num_tokens)


class LosesAPage(Float):
    """A page lower than float arithmetic is."""

    pages_lost = 1


CELLS_IN_FLOAT = [cell for cell in CELLS if cell.pool == HYBRID_POOL][::7]


@pytest.mark.parametrize("cell", CELLS_IN_FLOAT, ids=str)
def test_float_arithmetic_breaks_no_law(cell):
    """Every law that claims the cell, on ratios of all kinds."""
    corpus = corpus_of(cell, 40, run_seed=3)
    for law in LAWS:
        if law.claims(str(cell)):
            _, findings = judge_cell(law, cell, Float(), corpus)
            assert findings == ()


@pytest.mark.parametrize("law_id", ["B2", "B7", "Q1"])
def test_the_same_answers_break_the_laws_of_an_exact_implementation(law_id):
    """The tolerance is used: 440 / 4.4 is 99.99... in float."""
    answer = Float().size_pools(TENTH)
    assert answer == sizes(98, 8)
    for exact, expected in ((False, HOLDS), (True, Broken)):
        case = Case(TENTH, answer, Float().size_pools, exact=exact)
        verdict = BY_ID[law_id].predicate(case)
        assert verdict is expected or isinstance(verdict, Broken) and expected is Broken


@pytest.mark.parametrize("law_id", ["B2", "Q1"])
def test_a_page_lower_off_the_boundary_is_broken(law_id):
    """The tolerance is no licence to waste a page."""
    cell = CELLS_IN_FLOAT[0]
    _, findings = judge_cell(BY_ID[law_id], cell, LosesAPage(), corpus_of(cell, 40, run_seed=3))
    assert findings


def sizes(rows, swa_rows):
    """The answer with these rows."""
    return sizes_of(TENTH, rows, rows, swa_rows)


def judged(scenario, answer, *, exact=False):
    """Q1 on one answer."""
    return agrees_with_the_spec(Case(scenario, answer, size_pools, exact=exact))


def test_where_a_page_may_be_lost():
    """N, its SWA rows, or both: never more than a page, and never a page too many."""
    assert float_answers(TENTH) == [sizes(100, 10), sizes(100, 10), sizes(100, 8), sizes(98, 8)]
    for right in float_answers(TENTH):
        assert judged(TENTH, right) is HOLDS
    assert isinstance(judged(TENTH, sizes(98, 8), exact=True), Broken)
    assert isinstance(judged(TENTH, sizes(102, 10)), Broken)
    assert isinstance(judged(TENTH, sizes(96, 8)), Broken)
    assert isinstance(judged(TENTH, sizes(98, 6)), Broken)


def test_off_the_boundary_nothing_may_be_lost():
    """A byte more and N is no exact quotient, a ratio of halves is exact in float, a cap that binds is no quotient."""
    a_byte_more = replace(TENTH, budget=(441,))
    assert float_answers(a_byte_more) == [sizes(100, 10), sizes(100, 10), sizes(100, 8)]
    halves = replace(TENTH, swa_full_tokens_ratio=Fraction(1, 8), budget=(450,))
    assert size_pools(halves).max_total_num_tokens * Fraction(9, 2) == 450
    assert float_answers(halves) == [size_pools(halves)]
    capped = replace(TENTH, max_total_tokens=77)
    assert {answer.max_total_num_tokens for answer in float_answers(capped)} == {76}


def test_the_only_page_may_be_lost():
    """100 rows in one page of 100: the float engine is left with none and says so."""
    one_page = replace(TENTH, page_size=100, swa_full_tokens_ratio=Fraction(3, 5), budget=(640,))
    exact = size_pools(one_page)
    assert (exact.kind, exact.value) == ("window_pool_too_small", 0)
    assert Refusal("no_page_fits", "available_bytes", 0) in float_answers(one_page)
    assert judged(one_page, Refusal("no_page_fits", "available_bytes", 0)) is HOLDS


def test_one_stage_on_its_boundary_is_enough():
    """440 bytes are 100 rows of 4.4, 450 are not quite 102."""
    stages = replace(
        TENTH, target=replace(WINDOWED, layers=(FULL, SWA) * 2), deployment=Deployment(pp_size=2), budget=(440, 450)
    )
    assert {answer.max_total_num_tokens for answer in float_answers(stages)} == {100, 98}


def test_other_pools_divide_integers():
    """400 bytes are exactly 50 rows of 8."""
    full_length = replace(TENTH, window_pools=False, budget=(400,))
    assert size_pools(full_length).max_total_num_tokens == 50
    assert float_answers(full_length) == [size_pools(full_length)]


@pytest.mark.parametrize(
    ("ratio", "exact"), [("1", True), ("1/2", True), ("3/4", True), ("1/3", False), ("0.9", False)]
)
def test_sums_of_halves_are_exact_in_float(ratio, exact):
    """And nothing else."""
    assert is_exact_in_float(Fraction(ratio)) is exact


@pytest.mark.parametrize(
    ("exact", "changes", "may"),
    [
        (False, {}, True),
        (True, {}, False),
        (False, {"swa_full_tokens_ratio": Fraction(1, 8)}, False),
        (False, {"window_pools": False}, False),
    ],
)
def test_only_a_float_that_rounds_may_need_a_byte_more(exact, changes, may):
    """An exact engine never, nor one whose sums are exact."""
    assert may_need_a_byte_more(Case(TENTH, sizes(98, 8), size_pools, exact=exact), replace(TENTH, **changes)) is may


def test_only_a_complaint_is_forgiven():
    """What is not judged stays so."""
    case = Case(TENTH, sizes(98, 8), size_pools, exact=False)
    asked = (TENTH, sizes(98, 8))
    broken = Broken("max_total_num_tokens", 100, 98)
    assert [unless_float(case, verdict, asked) for verdict in (NOT_JUDGED, HOLDS, broken)] == [NOT_JUDGED, HOLDS, HOLDS]
    assert unless_float(case, broken, (TENTH, sizes(96, 8))) is broken


def test_a_refusal_before_the_solve_step_stands():
    """A budget below a page is no matter of rounding."""
    refused = replace(TENTH, budget=(5,))
    assert float_answers(refused) == [size_pools(refused)]
