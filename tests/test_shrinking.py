"""Counterexamples come out small: what is rare is found again, and bytes, pages and layers are cut."""

from dataclasses import replace
from fractions import Fraction

from impl.faults.draft import NoDraftOnHybrid
from impl.faults.sizes import CapNotAligned, WindowPoolBelowTheFloor
from impl.optimized import Configurator
from properties.cells import CELLS, cell_of
from properties.corpus import corpus_of
from properties.judge import Finding, verdict
from properties.shrinking import reduced, shrunk_draw, smallest, with_fewer_layers
from spec.laws import BY_ID
from spec.laws.base import Broken
from spec.model import (
    FULL,
    SWA,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Index,
    Latent,
    MemoryFigures,
    PoolSizes,
    Scenario,
)
from spec.pools import size_pools
from spec.units import GiB
from tests.kill_report import MOST_BYTES, MOST_LAYERS
from tests.wrong_implementations import ChangesItsMind, OnePageTooMany

DRAWS = 26


def test_what_could_be_left_at_its_default_is_left_out():
    """A page too many shows in any scenario, so nothing but what makes the cell is named."""
    finding = first_finding("Q1", OnePageTooMany(), cells_of("default", "tp")[:1])
    scenario = smallest(finding, OnePageTooMany(), DRAWS, 0).scenario
    plain = Scenario(scenario.target, scenario.budget, page_size=scenario.page_size)
    assert scenario == plain


def first_finding(law_id, implementation, cells, seed=0):
    """The first scenario of some cells that breaks a law."""
    for cell in cells:
        for scenario in corpus_of(cell, DRAWS, seed):
            broken, _ = verdict(BY_ID[law_id], implementation, scenario)
            if isinstance(broken, Broken):
                return Finding(BY_ID[law_id], cell, scenario, broken)
    raise AssertionError("nothing is broken")


def cells_of(pool, deployment):
    """The cells of a pool kind on some ranks."""
    return [cell for cell in CELLS if (cell.pool, cell.deployment) == (pool, deployment)]


def size_of(scenario):
    """Most layers of one kind, page size, most bytes on a stage."""
    shapes = [scenario.target] + ([scenario.draft.shape] if scenario.draft else [])
    return (
        max(shape.layers.count(kind) for shape in shapes for kind in (FULL, SWA)),
        scenario.page_size,
        max(scenario.budget),
    )


def test_a_counterexample_is_small_and_breaks_the_law_in_the_same_term():
    """Its cell stays, too."""
    finding = first_finding("B1", NoDraftOnHybrid(), cells_of("hybrid", "dp"))
    small = smallest(finding, NoDraftOnHybrid(), DRAWS, 0)
    layers, page_size, stage_bytes = size_of(small.scenario)
    assert layers <= MOST_LAYERS and page_size == 1 and stage_bytes < MOST_BYTES
    assert cell_of(small.scenario) == finding.cell and small.broken.term == finding.broken.term
    assert verdict(BY_ID["B1"], NoDraftOnHybrid(), small.scenario)[0] == small.broken


def test_what_one_scenario_of_a_corpus_shows_is_found_again():
    """The draws of the corpus are the draws of the search, so that rareness does not matter."""
    cell = cells_of("default", "tp")[0]
    rare = corpus_of(cell, DRAWS, 0)[-1]
    breaks = {rare: Broken("term", 0, 1)}.get
    assert shrunk_draw(cell, breaks, DRAWS, 0) == rare
    assert shrunk_draw(cell, breaks, DRAWS, 1) is None


def test_pages_stay_where_they_are_the_point():
    """A cap that is not aligned can only be seen on pages."""
    finding = first_finding("B4", CapNotAligned(), cells_of("default", "tp"))
    scenario = smallest(finding, CapNotAligned(), DRAWS, 0).scenario
    assert 1 < scenario.page_size <= 3 and max(scenario.budget) < MOST_BYTES


def test_a_finding_that_cannot_be_shown_again_stays_as_it_is():
    """An implementation that answers one question in two ways."""
    cells = cells_of("default", "tp")[:1]
    finding = first_finding("B1", ChangesItsMind(), cells)
    assert smallest(finding, Configurator(), DRAWS, 0) == finding


def test_bytes_pages_and_layers_are_cut_as_far_as_it_breaks():
    """Nothing but the window and the two kinds of layers is needed here."""
    heads = Heads(1, 1, 1)
    shape = AttentionShape((SWA, FULL, SWA, FULL), heads, heads, sliding_window_size=5)
    scenario = Scenario(shape, (GiB,), page_size=64)
    small = reduced(scenario, lambda tried: Broken("bytes", 0, 0) if tried.budget[0] > 5000 else None)
    assert (small.page_size, small.target.layers) == (1, (FULL, SWA)) or small.target.layers == (SWA, FULL)
    assert 5000 < small.budget[0] < 10_000


def test_readings_become_the_bytes_they_come_to():
    """Where these show it too: a law on readings needs them."""
    figures = MemoryFigures(((8 * GiB,),), ((5 * GiB,),), Fraction(3, 4))
    scenario = Scenario(AttentionShape((FULL,), Heads(1, 1, 1)), figures, swa_full_tokens_ratio=Fraction(1))
    small = reduced(scenario, lambda tried: Broken("bytes", 0, 0))
    assert small.budget == (1,)
    on_readings = reduced(scenario, lambda tried: None if isinstance(tried.budget, tuple) else Broken("bytes", 0, 0))
    assert on_readings == scenario
    nothing_left = replace(scenario, budget=replace(figures, free_after_all_weights=((GiB,),)))
    assert reduced(nothing_left, lambda tried: Broken("bytes", 0, 0)) == nothing_left


def test_what_shows_in_few_pages_is_shown_in_few():
    """Two stages, a window of a token, an SWA row a full row, a cap of a page."""
    heads = Heads(1, 1, 1)
    shape = AttentionShape((SWA, FULL) * 4, heads, heads, sliding_window_size=128)
    scenario = Scenario(
        shape,
        (GiB,) * 4,
        deployment=Deployment(pp_size=4),
        page_size=64,
        swa_full_tokens_ratio=Fraction(1, 1000),
        max_total_tokens=10**6,
    )
    small = reduced(scenario, lambda tried: Broken("cap", 0, 0) if tried.max_total_tokens else None)
    assert (small.deployment.pp_size, small.page_size, small.max_total_tokens) == (2, 1, 1)
    assert (small.target.sliding_window_size, small.swa_full_tokens_ratio) == (1, 1)
    assert max(small.budget) < 100
    assert reduced(scenario, lambda tried: Broken("cap", 0, 0)).max_total_tokens is None


def test_a_fixed_window_pool_stays_paid_for():
    """Few pages of a capped pool are those beside its SWA rows."""
    heads = Heads(1, 1, 1)
    shape = AttentionShape((SWA, FULL), heads, heads, sliding_window_size=5)
    scenario = Scenario(shape, (GiB,), user_max_running_requests=4, disable_radix_cache=True, chunked_prefill_size=8)
    starts = reduced(scenario, lambda tried: Broken("rows", 0, 0) if isinstance(size_pools(tried), PoolSizes) else None)
    assert starts.budget[0] < MOST_BYTES


def test_a_layer_goes_with_its_index():
    """The owners behind it move up."""
    shape = AttentionShape((FULL,) * 3, Latent(128, 2), index=Index(128, (0, 2)))
    scenario = Scenario(shape, (GiB,), draft=Draft(shape), speculative_algorithm="EAGLE")
    targets = [smaller.target for smaller in with_fewer_layers(scenario)][:3]
    assert [target.index.layers for target in targets] == [(1,), (0, 1), (0,)]
    assert [len(smaller.draft.shape.layers) for smaller in with_fewer_layers(scenario)] == [3, 3, 3, 2, 2, 2]


def test_a_rare_fault_comes_out_small():
    """One scenario in some hundreds shows it."""
    finding = first_finding("W2", WindowPoolBelowTheFloor(), cells_of("hybrid", "tp"), seed=1)
    layers, page_size, stage_bytes = size_of(smallest(finding, WindowPoolBelowTheFloor(), DRAWS, 1).scenario)
    assert layers <= MOST_LAYERS and 1 < page_size <= 16 and stage_bytes < MOST_BYTES
