"""The sweep of a space: what its points are, that a wrong sizing is seen at its first point, that shards add up."""

from dataclasses import replace
from pathlib import Path

import pytest

import properties.sweep.points as points_module
from properties.cells import cell_of
from properties.judge import verdict
from properties.sweep.axes import WrongSpace, default_text, space_of
from properties.sweep.formulas import RIGHT, terms
from properties.sweep.geometry import entries, geometry_findings
from properties.sweep.kernel import PLACES
from properties.sweep.laws import LAWS
from properties.sweep.points import Points
from properties.sweep.results import Result, WrongResult, merged, read, write
from properties.sweep.results import document as result_document
from properties.sweep.run import KernelsDiffer, Sweep, points_of, swept
from properties.sweep.swept import implementation_of
from spec.cell import stage_positions
from spec.draft import draft_price
from spec.laws import BY_ID
from spec.laws.base import Broken
from spec.layers import POOL_KINDS, pool_kind
from spec.model import SWA, PoolSizes
from spec.pools import sizes_or_refusal, stage_row_bytes
from tests.sweep_formulas import WRONG, a_draft_on_swa_rows_paid_twice, a_free_draft_on_swa_rows

SMALL = (Path(__file__).parent / "data" / "small_space.toml").read_text(encoding="utf-8")
POINTS = points_of(SMALL)


def in_python(formulas=RIGHT, points=POINTS):
    """A sweep without the compiler: enough for a small space."""
    return Sweep(points, formulas, is_compiled=False)


def broken(formulas, law_id, index):
    """Whether the law of spec/laws is broken at a point."""
    scenario = POINTS.scenario(index)
    implementation = implementation_of(formulas)
    claims = BY_ID[law_id].claims(str(cell_of(scenario)))
    return claims and isinstance(verdict(BY_ID[law_id], implementation, scenario)[0], Broken)


# What a point is.


def test_the_points_are_every_combination():
    assert [kind.cells.kind for kind in POINTS.kinds] == list(POOL_KINDS)
    assert POINTS.count == POINTS.blocks * 24 * PLACES == 136 * 24 * 4
    assert POINTS.kinds[2].blocks == 8 * 2 * 2 * 2
    located = [POINTS.located(index) for index in range(POINTS.count)]
    assert [POINTS.index(*place) for place in located] == list(range(POINTS.count))


def test_a_scenario_has_the_prices_of_its_block_and_budgets_around_a_page():
    for index in range(0, POINTS.count, 61):
        kind, number, pages, place = POINTS.located(index)
        scenario, block = POINTS.scenario(index), kind.block(number)
        last = scenario.deployment.pp_size - 1
        row_bytes = stage_row_bytes(scenario, last)
        assert (block.full, block.swa, block.draft) == (row_bytes.full, row_bytes.swa, row_bytes.draft)
        assert block.draft_swa == draft_price(scenario, last).swa
        assert len(stage_positions(scenario, 0)) == len(stage_positions(scenario, last))
        assert (last == 1) == (block.other != float("inf"))
        budgets = POINTS.block_budgets(block, pages)
        assert scenario.budget[last] == budgets[place]
        assert list(budgets) == sorted(set(budgets)) and budgets[4] - budgets[3] == 1


def test_the_budgets_of_a_page_buy_just_so_many_pages():
    for kind in POINTS.kinds:
        for number in range(0, kind.blocks, 3):
            block = kind.block(number)._replace(other=float("inf"))
            for pages in range(1, 24):
                for budget in POINTS.block_budgets(block, pages)[:PLACES]:
                    assert RIGHT.rows_that_fit(budget, block.other, block.page, terms(block)) == pages * block.page


def test_the_default_space_has_a_billion_points_of_every_kind():
    points = points_of(default_text())
    assert points.count >= 10**9
    assert {kind.cells.kind for kind in points.kinds} == set(POOL_KINDS)


# Geometry to bytes a row.


def test_every_entry_of_the_maps_is_right():
    for kind in POOL_KINDS:
        found = list(entries(POINTS.space, kind))
        assert len(found) == len(set(found)) >= 4
        assert all(geometry_findings(geometry) == [] for geometry in found)


def test_a_wrong_price_is_counted(monkeypatch):
    monkeypatch.setattr("properties.sweep.geometry.price_of", lambda geometry: stage_price(geometry, 1))
    geometry = next(entries(POINTS.space, "hybrid"))
    (finding,) = [finding for finding in geometry_findings(geometry) if finding.law.id == "A1"]
    assert finding.broken.got - finding.broken.expected == 16


def stage_price(geometry, more):
    """F, S and D of a geometry, F some bytes dearer."""
    from properties.sweep.geometry import scenario_of

    price = stage_row_bytes(scenario_of(geometry, (1,)), 0)
    return replace(price, full=price.full + more)


def test_the_cells_are_the_distinct_prices():
    cells = POINTS.kinds[2].cells
    assert cells.geometries == len(cells.prices) == 2 * 1 * 1 * 4
    default = POINTS.kinds[0].cells
    assert default.geometries == 3 * 1 * 1 * 2, "DCP ranks divide the others"
    repeated = Points(space_of(SMALL.replace("num_kv_heads = [1]", "num_kv_heads = [1, 2]"))).kinds[2].cells
    assert repeated.geometries == 32 and len(repeated.prices) < 32


# A right sizing, and wrong ones.


def test_the_formula_that_is_judged_is_named():
    scenario = POINTS.scenario(0)
    assert "tests/sweep_formulas.py:" in implementation_of(WRONG["B1"]).where(scenario)
    assert "properties/sweep/formulas.py:" in implementation_of().where(scenario)


def test_a_right_sizing_keeps_every_law():
    result = swept(in_python())
    assert result.broken == {} and result.jobs is None
    assert result.judged == POINTS.count and result.samples == POINTS.count


@pytest.mark.parametrize(
    ("formula", "law_id"), [(a_free_draft_on_swa_rows, "B1"), (a_draft_on_swa_rows_paid_twice, "D3")]
)
def test_what_of_a_draft_follows_swa_rows_is_seen_where_there_are_such_rows(formula, law_id):
    result = swept(in_python(RIGHT._replace(terms=formula)), samples=10)
    scenario = POINTS.scenario(result.broken[law_id])
    assert SWA in scenario.draft.shape.layers and pool_kind(scenario) == "hybrid"
    assert broken(RIGHT._replace(terms=formula), law_id, result.broken[law_id])


ASKS_OTHERWISE = {
    "B3": "once a size, at its first budget",
    "B5": "for the next budget, not for a page more and twice as much",
    "B6": "for a dearer byte, not for more heads",
    "W1": "for one other ratio, not for three",
}
"""What the sweep asks where a law of spec/laws asks for something else, and may see it earlier."""


@pytest.mark.parametrize("law_id", LAWS)
def test_a_wrong_sizing_is_seen_at_its_first_point(law_id):
    """The law of spec/laws is broken at that point too, and at none before where both ask the same question."""
    formulas = WRONG[law_id]
    result = swept(in_python(formulas), samples=10)
    index = result.broken[law_id]
    finding, answer = in_python(formulas).finding(law_id, index)
    assert finding.law.id == law_id and finding.broken.term != "sweep"
    assert isinstance(answer, PoolSizes) or law_id in ("B2", "W1")
    first = next(point for point in range(index + 1) if broken(formulas, law_id, point))
    assert first == index or (law_id in ASKS_OTHERWISE and first < index)


def test_the_seventh_page_is_missed_where_it_would_be_bought():
    """One row a page: the last budget of six pages buys 6, a byte more buys 5."""
    assert swept(in_python(WRONG["B5"]), samples=10).broken["B5"] == 6 * PLACES + 3


@pytest.mark.parametrize("formulas", [RIGHT, WRONG["B4"]], ids=["right", "wrong"])
def test_the_compiled_loop_finds_what_python_finds(formulas):
    assert swept(Sweep(POINTS, formulas), samples=500) == replace(
        swept(in_python(formulas), samples=500), seconds=pytest.approx(0, abs=60)
    )


def test_a_block_about_which_the_loops_disagree_is_an_error(monkeypatch):
    sweep = in_python(WRONG["B1"])
    monkeypatch.setattr(Sweep, "broken_in_block", lambda self, kind, number: {"B4": 0})
    with pytest.raises(KernelsDiffer, match="default block 4"):
        swept(sweep)


def test_a_sizing_that_only_the_spec_can_tell_is_told():
    """Hybrid pools with a window half as wide keep every law but agreement."""
    formulas = RIGHT._replace(starts=lambda rows, swa, block: RIGHT.starts(rows, swa, block) & (rows < 20))
    result = swept(in_python(formulas))
    assert "Q1" in result.broken
    finding, _ = in_python(formulas).finding("Q1", result.broken["Q1"])
    assert finding.broken.term == "refusal"
    assert isinstance(sizes_or_refusal(finding.scenario), PoolSizes)


def test_a_law_that_holds_by_spec_laws_is_told_as_a_difference():
    finding, answer = in_python().finding("B1", 40)
    assert isinstance(answer, PoolSizes)
    assert finding.broken.term == "sweep" and "B1 holds" in finding.broken.expected


# Shards, and a sweep that is stopped.


@pytest.fixture
def small_jobs(monkeypatch):
    """Jobs of three blocks."""
    monkeypatch.setattr(points_module, "BLOCKS_OF_A_JOB", 3)


def test_shards_add_up_to_the_whole(small_jobs):
    sweep = in_python(WRONG["W3"])
    whole = swept(sweep, samples=0)
    parts = merged([swept(sweep, shard, 7, samples=0) for shard in range(7)])
    assert parts.broken == whole.broken and parts.judged == whole.judged == POINTS.count
    blocks = [
        (job.kind, block)
        for shard in range(7)
        for job in POINTS.jobs(shard, 7)
        for block in range(job.start, job.stop, job.step)
    ]
    assert len(blocks) == len(set(blocks)) == POINTS.blocks


def test_a_sweep_that_was_stopped_goes_on(small_jobs, tmp_path):
    sweep, path, seen = in_python(WRONG["B5"]), tmp_path / "state.json", []

    def stop_after_five(result):
        write(path, result_document(result))
        seen.append(result.judged)
        if len(seen) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        swept(sweep, samples=100, progress=stop_after_five)
    before = read(path)
    assert before.jobs == 5 and before.judged == seen[-1] < POINTS.count
    more = []
    result = swept(sweep, before=before, samples=100, progress=more.append)
    assert len(more) == len(list(POINTS.jobs())) - 5
    assert replace(result, seconds=0) == replace(swept(sweep, samples=100), seconds=0)
    assert swept(sweep, before=result) is result


SHARD = Result("a space", 100, ("1/2",), None, 50, 5, 1.0, {"B1": 7})


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ([SHARD], "overlap"),
        ([replace(SHARD, shards=("2/3",))], "overlap"),
        ([replace(SHARD, shards=("2/2",), space="another")], "of space another"),
        ([replace(SHARD, shards=("2/2",), points=101)], "of space a space"),
        ([replace(SHARD, shards=("2/2",), jobs=4)], "2/2 is not finished"),
    ],
)
def test_results_that_do_not_belong_together_are_refused(others, why):
    with pytest.raises(WrongResult, match=why):
        merged([SHARD, *others])


def test_the_first_point_of_all_shards_is_kept():
    other = replace(SHARD, shards=("2/2",), broken={"B1": 3, "C1": 9})
    assert merged([SHARD, other]) == Result("a space", 100, ("1/2", "2/2"), None, 100, 10, 2.0, {"B1": 3, "C1": 9})


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2}', '{"schema": 1}'])
def test_a_file_without_a_result_is_refused(tmp_path, text):
    path = tmp_path / "summary.json"
    path.write_text(text)
    with pytest.raises(WrongResult, match="summary.json"):
        read(path)


# Spaces that are none.


@pytest.mark.parametrize(
    ("there", "instead", "why"),
    [
        ("kinds = [", "kinds = 3 #", "kinds = 3: give a list"),
        ('"mla"', '"paged"', "'paged' is none, a pool kind. expected"),
        ("pages = 24", "pages = 0", r"budgets.pages = 0"),
        ("tp_size = [1, 2]", "tp_size = [1, 1]", "1 is given twice"),
        ("tp_size = [1, 2]", "tp_size = [true]", "True is none"),
        ("tp_size = [1, 2]", "tp_size = [3]\nep_size = [1]", "nobody reads 'ep_size'"),
        ("tp_size = [1, 2]", "", "ranks: tp_size is missing"),
        ('"0.333"', '"1.5"', "'1.5' is none, a decimal above 0"),
        ('"0.333"', '"half"', "'half' is none"),
        ('kv_cache_dtype = ["bf16"]', 'kv_cache_dtype = ["auto"]', "'auto' is none"),
        ("[budgets]", "[ranks]", "no TOML"),
        ("kinds", "budgets = 3\nkinds", "no TOML"),
        ("num_kv_heads = [1]", "num_kv_heads = [3]", "is refused: invalid_input: target.full.num_kv_heads=3"),
        ("page_size = [1, 4]", f"page_size = [{2**40}]", "is too many"),
        ("head_dim = [64]", "head_dim = [1]", "a page of less than 4 bytes"),
    ],
)
def test_what_is_no_space_is_refused_by_its_axis(there, instead, why):
    text = SMALL.replace(there, instead)
    if why.startswith("a page"):
        text = text.replace("v_head_dim = [64]", "v_head_dim = [1]").replace("layers = [0, 2]", "layers = [0]")
        text = text.replace("v_head_dim = [128]", "v_head_dim = [1]").replace('["bf16"]', '["fp8_e4m3"]')
    with pytest.raises(WrongSpace, match=why):
        Points(space_of(text))
