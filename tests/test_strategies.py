"""The scenario space: all valid, each in its cell, every corner and every pair of categories met, repeatable."""

from contextlib import nullcontext
from itertools import combinations

import pytest
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from properties import corpus as corpus_module
from properties.cells import CELLS, DEPLOYMENTS, cell_of
from properties.corpus import CATALOG, catalog_scenarios, corpus_of, drawn_scenarios, supported_corpus
from properties.strategies import SCENARIOS
from spec import catalog
from spec.dtypes import FP4_DTYPES, KV_CACHE_DTYPES, draft_kv_dtype, target_kv_dtype
from spec.layers import WINDOW_POOLS, heads_per_rank, pool_kind, target_head_ranks
from spec.model import DFLASH_FAMILY, LINEAR, MTP, SWA, Heads, Latent, MemoryFigures, Refusal, active_draft
from spec.pools import size_pools
from spec.validity import check_scenario
from tests.categories import IMPOSSIBLE_PAIRS, VALUES, categories


def test_there_are_357_cells():
    """84 for each pool kind that runs under DCP, 63 for each that does not; all names differ."""
    assert len(CELLS) == len({str(cell) for cell in CELLS}) == 2 * 84 + 3 * 63 == 357


def test_every_scenario_is_valid_and_in_its_cell(gate_corpora):
    """Nothing drawn is refused as invalid or unsupported: those have a strategy of their own."""
    for cell, corpus in gate_corpora.items():
        for scenario in corpus:
            check_scenario(scenario)
            assert cell_of(scenario) == cell


def test_the_gate_draws_enough(gate_corpora):
    """At least 8000 distinct scenarios, at least 12 a cell."""
    assert sum(map(len, gate_corpora.values())) >= 8000
    assert min(map(len, gate_corpora.values())) >= 12


def test_every_pair_of_categories_is_met(gate_corpora):
    """Every value of every category beside every value of every other, except the pairs that do not exist."""
    met = set()
    for corpus in gate_corpora.values():
        for scenario in corpus:
            met |= {frozenset(pair) for pair in combinations(categories(scenario).items(), 2)}
    wanted = {
        frozenset(((one, value), (other, another)))
        for one, other in combinations(VALUES, 2)
        for value in VALUES[one]
        for another in VALUES[other]
    }
    assert {tuple(sorted(pair)) for pair in wanted - met - IMPOSSIBLE_PAIRS} == set()
    assert {tuple(sorted(pair)) for pair in met & IMPOSSIBLE_PAIRS} == set()
    assert {tuple(sorted(pair)) for pair in met - wanted} == set()


def holds(corpora, condition):
    """Whether any scenario meets a condition."""
    return any(condition(scenario) for corpus in corpora.values() for scenario in corpus)


CORNERS = {
    "replicated heads": lambda s: (
        isinstance(s.target.full, Heads) and s.target.full.num_kv_heads < target_head_ranks(s.deployment)
    ),
    "v_head_dim differs": lambda s: (
        isinstance(s.target.full, Heads) and s.target.full.head_dim != s.target.full.v_head_dim
    ),
    "linear layers": lambda s: LINEAR in s.target.layers,
    "a stage without KV layers": lambda s: (
        s.deployment.pp_size > 1 and set(s.target.layers[: len(s.target.layers) // s.deployment.pp_size]) == {LINEAR}
    ),
    "uneven stages": lambda s: len(s.target.layers) % s.deployment.pp_size,
    "sparse latents, index on some layers": lambda s: (
        s.target.index and isinstance(s.target.full, Latent) and len(s.target.index.layers) < len(s.target.layers)
    ),
    "an index beside heads": lambda s: s.target.index and isinstance(s.target.full, Heads),
    "a window model at full length": lambda s: SWA in s.target.layers and not s.window_pools,
    "no draft layers": lambda s: active_draft(s) and not s.draft.shape.layers,
    "several MTP runners": lambda s: (
        s.speculative_algorithm == MTP and active_draft(s) and len(s.draft.shape.layers) > 1
    ),
    "draft SWA layers on SWA rows": lambda s: (
        active_draft(s)
        and SWA in s.draft.shape.layers
        and pool_kind(s) == "hybrid"
        and s.speculative_algorithm not in DFLASH_FAMILY
        and not s.draft.swa_at_full_rows
    ),
    "a windowed DFLASH draft": lambda s: (
        active_draft(s) and SWA in s.draft.shape.layers and s.speculative_algorithm in DFLASH_FAMILY
    ),
    "unresolved geometry": lambda s: active_draft(s) and not s.draft.geometry_resolved,
    "unresolved draft dtype": lambda s: (
        active_draft(s) and draft_kv_dtype(s, s.draft) != draft_kv_dtype(s, s.draft, model_is_loaded=True)
    ),
    "a left-over draft": lambda s: s.draft is not None and s.speculative_algorithm is None,
    "a draft worker": lambda s: s.is_draft_worker,
    "draft on every stage": lambda s: active_draft(s) and s.deployment.draft_on_every_stage,
    "memory figures": lambda s: isinstance(s.budget, MemoryFigures),
    "fp8 checkpoint": lambda s: s.kv_cache_dtype == "auto" and s.target.kv_checkpoint_dtype,
    "nvfp4 workspace": lambda s: target_kv_dtype(s) == "nvfp4" and isinstance(s.target.full, Heads),
    "decode role, capped": lambda s: s.is_decode_role and pool_kind(s) == "capped",
    "window no multiple of the page": lambda s: (
        pool_kind(s) in WINDOW_POOLS and s.target.sliding_window_size % s.page_size
    ),
}


@pytest.mark.parametrize("corner", CORNERS)
def test_every_corner_is_met(gate_corpora, corner):
    """Corners that past bugs sat in."""
    assert holds(gate_corpora, CORNERS[corner])


def test_every_refusal_of_a_valid_scenario_is_met(gate_corpora):
    """All kinds but the two of invalid scenarios; nothing left in memory is met through hand-written figures."""
    kinds = {
        answer.kind
        for corpus in gate_corpora.values()
        for answer in map(size_pools, corpus)
        if isinstance(answer, Refusal)
    }
    assert kinds == {
        "no_page_fits",
        "swa_pool_leaves_no_room",
        "window_pool_too_small",
        "cap_too_small",
        "no_running_request",
    }


@pytest.mark.parametrize("cell", CELLS[::29], ids=str)
def test_the_same_seed_draws_the_same(cell):
    """And another seed others."""
    assert drawn_scenarios(cell, 8, 0) == drawn_scenarios(cell, 8, 0)
    assert drawn_scenarios(cell, 8, 0) != drawn_scenarios(cell, 8, 1)


@pytest.mark.parametrize("cell", CELLS[::29], ids=str)
def test_the_smallest_scenario_is_small(cell):
    """What shrinking ends in: page size 1, few layers, one rank a split needs."""
    smallest = find(
        SCENARIOS[cell],
        lambda scenario: True,
        settings=settings(
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=tuple(HealthCheck),
        ),
    )
    assert smallest.page_size == 1
    assert len(smallest.target.layers) <= max(2, smallest.deployment.pp_size)
    assert smallest.deployment.tp_size <= 4


def test_real_models_and_pairs_are_in_the_corpora():
    """All 78 priced targets and all 43 pairs, at every tp size on which their heads divide."""
    names = {name for name, _ in catalog_scenarios()}
    assert len(catalog.targets()) == 78
    assert len(catalog.pairs()) == 43
    assert all(f"{target.name} tp 1" in names for target in catalog.targets())
    assert all(f"{pair.target.name} + {pair.draft_name} tp 1" in names for pair in catalog.pairs())
    assert {"Phi-4 tp 1", "Phi-4 tp 2"} <= names
    assert not {"Phi-4 tp 4", "Phi-4 tp 8"} & names
    assert sum(map(len, CATALOG.values())) == len(catalog_scenarios())


def test_real_models_start():
    """At 40 GiB, but for those whose rows are too dear for one page."""
    refused = {name for name, scenario in catalog_scenarios() if isinstance(size_pools(scenario), Refusal)}
    assert refused == set()


def test_categories_have_all_their_values():
    """The table of values names every KV dtype and every deployment."""
    assert set(VALUES["kv dtype"]) == set(KV_CACHE_DTYPES)
    assert set(VALUES["deployment"]) == set(DEPLOYMENTS)
    assert heads_per_rank(1, 8) == 1
    assert set(FP4_DTYPES) < set(VALUES["kv dtype"])


def test_draws_do_not_hang_on_constants_in_the_code(monkeypatch):
    """A constant more in any module would otherwise draw other scenarios."""
    cell = CELLS[0]
    before = drawn_scenarios(cell, 40, 0)
    more = Constants(integers=set(range(1, 400)))
    monkeypatch.setattr(providers, "_get_local_constants", lambda: more)
    providers.CONSTANTS_CACHE.cache.clear()
    assert drawn_scenarios(cell, 40, 0) == before
    with monkeypatch.context() as patch:
        patch.setattr(corpus_module, "no_constants_of_ours", nullcontext)
        assert drawn_scenarios(cell, 40, 0) != before


def test_more_is_drawn_for_an_implementation_that_supports_little():
    """Of even page sizes alone: the corpus as it is, then what else is supported; half of it or more is no reason."""
    cell = CELLS[0]
    corpus = corpus_of(cell, 26, 0)
    assert supported_corpus(cell, 26, 0, lambda scenario: True) == corpus
    picky = supported_corpus(cell, 26, 0, lambda scenario: scenario.page_size == 128)
    assert picky[: len(corpus)] == corpus
    assert picky[len(corpus) :] and all(scenario.page_size == 128 for scenario in picky[len(corpus) :])
    assert picky == supported_corpus(cell, 26, 0, lambda scenario: scenario.page_size == 128)
