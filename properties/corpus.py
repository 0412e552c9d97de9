"""The scenarios of one cell, drawn once and judged by every law.

A corpus is the cell's catalog examples (real models), then what Hypothesis generates with a seed of the cell's own:
without one, a derandomized run would draw the same values in every cell. Nothing is shrunk here; that is done on a
failure only (`properties/judge.py`).
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from hypothesis.strategies import SearchStrategy

from properties.cells import CELLS, Cell, cell_of
from properties.strategies import SCENARIOS
from spec import catalog
from spec.layers import attn_tp_size, target_head_ranks
from spec.model import AttentionShape, Deployment, Draft, Heads, Scenario
from spec.units import GiB

CATALOG_TP_SIZES = (1, 2, 4, 8)
CATALOG_BUDGET_BYTES = 40 * GiB
"""What an 80 GiB card has left, more or less, beside the weights of a mid-size model."""


MORE_ROUNDS = 4
"""How often more is drawn for an implementation that supports little of a cell."""
LAST_ROUND = 40
"""How often, where a law has judged nothing yet."""
NEXT_ROUND = 2**32
"""Between the seeds of two rounds: above those of cells and runs."""


@dataclass(frozen=True)
class Profile:
    """How much one run draws. `seed` None means a new one each run, printed in the header."""

    draws_per_cell: int
    seed: int | None


PROFILES = {
    "gate": Profile(draws_per_cell=26, seed=0),
    "nightly": Profile(draws_per_cell=200, seed=None),
    "dev": Profile(draws_per_cell=6, seed=0),
}
"""gate: the same scenarios every run, for CI. nightly: many, new ones. dev: a glance while editing."""


def splits(shape: AttentionShape, ranks: int) -> bool:
    """Whether the model's KV heads split evenly over, or are replicated on, so many ranks."""
    heads = [geometry.num_kv_heads for geometry in (shape.full, shape.swa) if isinstance(geometry, Heads)]
    return all(count % ranks == 0 or ranks % count == 0 for count in heads)


def runs_on(deployment: Deployment, target: AttentionShape, draft: Draft | None) -> bool:
    """Whether target and draft both split over the ranks of a deployment."""
    if not splits(target, target_head_ranks(deployment)):
        return False
    return draft is None or splits(draft.shape, attn_tp_size(deployment))


def catalog_scenarios() -> list[tuple[str, Scenario]]:
    """Every priced model and every pair at tp 1, 2, 4 and 8 where the heads divide, by name."""
    deployments = [Deployment(tp_size=tp_size) for tp_size in CATALOG_TP_SIZES]
    base = [
        (target.name, Scenario(target.shape, (CATALOG_BUDGET_BYTES,), window_pools=target.window_pools, page_size=64))
        for target in catalog.targets()
    ]
    base += [(f"{pair.target.name} + {pair.draft_name}", pair_scenario(pair)) for pair in catalog.pairs()]
    return [
        (f"{name} tp {deployment.tp_size}", replace(scenario, deployment=deployment))
        for name, scenario in base
        for deployment in deployments
        if runs_on(deployment, scenario.target, scenario.draft)
    ]


def pair_scenario(pair: catalog.CatalogPair) -> Scenario:
    """One target and its draft as served, on one rank."""
    return Scenario(
        target=pair.target.shape,
        budget=(CATALOG_BUDGET_BYTES,),
        draft=pair.draft,
        speculative_algorithm=pair.speculative_algorithm,
        kv_cache_dtype=pair.kv_cache_dtype,
        window_pools=pair.target.window_pools,
        swa_full_tokens_ratio=pair.swa_full_tokens_ratio,
        page_size=64,
    )


def catalog_by_cell() -> dict[Cell, tuple[Scenario, ...]]:
    """The catalog's scenarios, each in the cell it belongs to."""
    found: dict[Cell, list[Scenario]] = {cell: [] for cell in CELLS}
    for _, scenario in catalog_scenarios():
        found[cell_of(scenario)].append(scenario)
    return {cell: tuple(scenarios) for cell, scenarios in found.items()}


CATALOG = catalog_by_cell()


def cell_seed(cell: Cell, run_seed: int) -> int:
    """The seed of one cell's draws."""
    return zlib.crc32(str(cell).encode()) + run_seed


@contextmanager
def no_constants_of_ours() -> Iterator[None]:
    """Hypothesis mixes the constants of local modules into what it draws, of ours and of an engine given by its path:
    an edit anywhere would draw other scenarios, and the gate would not be the same run twice. There is no setting for
    it, so its own look-up is replaced meanwhile, and what it remembers of it is forgotten. A version without these
    names draws as it likes."""
    if not (hasattr(providers, "_get_local_constants") and hasattr(providers, "CONSTANTS_CACHE")):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(providers, "_get_local_constants", Constants)
        providers.CONSTANTS_CACHE.cache.clear()
        yield
        providers.CONSTANTS_CACHE.cache.clear()


def drawn_scenarios(
    cell: Cell, draws: int, run_seed: int, strategies: Mapping[Cell, SearchStrategy[Scenario]] = SCENARIOS
) -> list[Scenario]:
    """What Hypothesis generates for a cell, without shrinking, database or deadline. `strategies`: of usual numbers,
    or of any (`any_number.py`)."""
    drawn: list[Scenario] = []

    @seed(cell_seed(cell, run_seed))
    @settings(
        max_examples=draws,
        phases=(Phase.generate,),
        database=None,
        deadline=None,
        suppress_health_check=tuple(HealthCheck),
    )
    @given(strategies[cell])
    def collect(scenario: Scenario) -> None:
        drawn.append(scenario)

    with no_constants_of_ours():
        collect()
    return drawn


def corpus_of(cell: Cell, draws: int, run_seed: int) -> tuple[Scenario, ...]:
    """The distinct scenarios of one cell, its catalog examples first."""
    return tuple(dict.fromkeys((*CATALOG[cell], *drawn_scenarios(cell, draws, run_seed))))


def supported_round(
    cell: Cell, draws: int, run_seed: int, supports: Callable[[Scenario], bool], again: int
) -> list[Scenario]:
    """What an implementation supports of as many scenarios drawn again."""
    return list(filter(supports, drawn_scenarios(cell, draws, run_seed + again * NEXT_ROUND)))


def supported_corpus(
    cell: Cell, draws: int, run_seed: int, supports: Callable[[Scenario], bool]
) -> tuple[Scenario, ...]:
    """The corpus for an implementation that cannot judge everything: where it supports less than three quarters of
    what was drawn, as many are drawn again, a few times, and those it supports are added, so that its laws have
    something to judge. One that supports everything has the corpus alone."""
    corpus = corpus_of(cell, draws, run_seed)
    supported = sum(map(supports, corpus))
    for again in range(1, MORE_ROUNDS + 1):
        if 4 * supported >= 3 * draws:
            break
        longer = tuple(dict.fromkeys((*corpus, *supported_round(cell, draws, run_seed, supports, again))))
        supported += len(longer) - len(corpus)
        corpus = longer
    return corpus
