"""The boundaries a corpus must meet, and the laws that were judged on them: `python -m tests.boundaries`.

A boundary is where a rounding, a comparison or a minimum turns over. The table has, for each law and pool kind of the
gate profile, scenarios judged and refused, page sizes, and judged scenarios on each boundary.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from impl.optimized import Configurator
from properties.cells import CELLS, Cell
from properties.corpus import PROFILES, corpus_of
from properties.judge import verdict
from properties.show import table
from spec.laws import LAWS
from spec.laws.base import HOLDS, Law, setting_stages, stages
from spec.layers import HYBRID_POOL, POOL_KINDS, WINDOW_POOLS
from spec.model import PoolSizes, Scenario
from spec.pools import admission_floor, agreed_rows, size_pools
from tests.categories import categories

SEVERAL_PAGE_SIZES = 5
"""Page sizes each law must be judged at in each pool kind, one of them 1."""


@dataclass(frozen=True)
class Boundary:
    """One boundary: its name, whether the spec's answer to a scenario is on it, and the pool kinds and deployments
    that have it."""

    name: str
    is_met: Callable[[Scenario, PoolSizes], bool]
    pools: tuple[str, ...] = POOL_KINDS
    deployments: tuple[str, ...] = ("tp", "dp", "dcp", "pp")

    def is_in(self, cell: Cell) -> bool:
        """Whether the scenarios of a cell can be on it."""
        return cell.pool in self.pools and cell.deployment in self.deployments


def budget_is(category: str) -> Callable[[Scenario, PoolSizes], bool]:
    """The last stage that costs anything has bytes of this category."""
    return lambda scenario, answer: categories(scenario)["budget"] == category


def cap_is_the_answer(scenario: Scenario, answer: PoolSizes) -> bool:
    """The user cap is just what the bytes buy."""
    return scenario.max_total_tokens == agreed_rows(scenario)


def cap_binds(scenario: Scenario, answer: PoolSizes) -> bool:
    """The user cap, not the bytes, sets the rows."""
    return answer.max_total_num_tokens < agreed_rows(scenario)


def cap_is_no_whole_page(scenario: Scenario, answer: PoolSizes) -> bool:
    """A user cap that binds is aligned down."""
    return scenario.max_total_tokens not in (None, answer.max_total_num_tokens) and cap_binds(scenario, answer)


def ratio_product_is_integral(scenario: Scenario, answer: PoolSizes) -> bool:
    """r * N needs no rounding, though r is below 1."""
    ratio = scenario.swa_full_tokens_ratio
    return ratio < 1 and (ratio * answer.max_total_num_tokens).denominator == 1


def ratio_product_is_rounded(scenario: Scenario, answer: PoolSizes) -> bool:
    """r * N is no whole number of rows."""
    return (scenario.swa_full_tokens_ratio * answer.max_total_num_tokens).denominator > 1


def window_pool_is_on_the_floor(scenario: Scenario, answer: PoolSizes) -> bool:
    """A page less would admit no request."""
    floor = admission_floor(scenario.target.sliding_window_size or 0, scenario.page_size)
    return answer.swa_max_total_num_tokens - scenario.page_size < floor


def another_stage_sets_rows(scenario: Scenario, answer: PoolSizes) -> bool:
    """The weakest stage is not the last, which has the draft."""
    return stages(scenario)[-1] not in setting_stages(scenario)


def stages_tie(scenario: Scenario, answer: PoolSizes) -> bool:
    """Two stages hold the same rows, and no other fewer."""
    return len(setting_stages(scenario)) > 1


def rows_bound_the_requests(scenario: Scenario, answer: PoolSizes) -> bool:
    """N // 2 running requests."""
    return answer.max_running_requests == answer.max_total_num_tokens // 2


def rows_bound_the_length(scenario: Scenario, answer: PoolSizes) -> bool:
    """A request may fill the pool."""
    return answer.max_req_len < scenario.context_len - 1


BOUNDARIES = (
    Boundary("budget on the page", budget_is("on the page")),
    Boundary("budget a byte over", budget_is("a byte over")),
    Boundary("budget a byte short", budget_is("a byte short")),
    Boundary("cap on the answer", cap_is_the_answer),
    Boundary("cap binds", cap_binds),
    Boundary("cap no whole page", cap_is_no_whole_page),
    Boundary("ratio product integral", ratio_product_is_integral, (HYBRID_POOL,)),
    Boundary("ratio product rounded", ratio_product_is_rounded, (HYBRID_POOL,)),
    Boundary("window pool on the floor", window_pool_is_on_the_floor, WINDOW_POOLS),
    Boundary("another stage sets rows", another_stage_sets_rows, deployments=("pp",)),
    Boundary("stages tie", stages_tie, deployments=("pp",)),
    Boundary("rows bound the requests", rows_bound_the_requests),
    Boundary("rows bound the length", rows_bound_the_length),
)

NO_SUCH_PLACE = {
    ("B2", "*", "cap *"): "B2 speaks of sizes that no cap set",
    ("D2", "capped", "window pool on the floor"): "the SWA rows hang on requests, not on the prices D2 compares",
}
"""Law, globs of pool kinds and of boundaries it says nothing on, and why."""


@dataclass(frozen=True)
class Place:
    """One scenario of a corpus, its cell, and the boundaries the spec's answer is on."""

    cell: Cell
    scenario: Scenario
    boundaries: frozenset[str]


def place_of(cell: Cell, scenario: Scenario) -> Place:
    """Where a scenario lies."""
    answer = size_pools(scenario)
    names = (
        boundary.name
        for boundary in BOUNDARIES
        if isinstance(answer, PoolSizes) and boundary.is_in(cell) and boundary.is_met(scenario, answer)
    )
    return Place(cell, scenario, frozenset(names))


def expected(law: Law, pool: str) -> set[str]:
    """The boundaries on which a law must be judged in a pool kind."""
    cells = [cell for cell in CELLS if cell.pool == pool and law.claims(str(cell))]
    names = {boundary.name for boundary in BOUNDARIES if any(map(boundary.is_in, cells))}
    return {name for name in names if not is_no_place(law.id, pool, name)}


def is_no_place(law_id: str, pool: str, name: str) -> bool:
    """Whether a law says nothing on a boundary of a pool kind."""
    return any(
        law_id == law and fnmatchcase(pool, pools) and fnmatchcase(name, names) for law, pools, names in NO_SUCH_PLACE
    )


def is_judged(law: Law, scenario: Scenario) -> bool:
    """Whether the law holds for an answer of the configurator that is no refusal."""
    outcome, is_refusal = verdict(law, Configurator(), scenario)
    return outcome is HOLDS and not is_refusal


def never_met(law: Law, pool: str, places: Iterable[Place]) -> set[str]:
    """The boundaries and page sizes on which a law is judged nowhere in a pool kind."""
    missing = expected(law, pool)
    page_sizes: set[int] = set()
    for place in places:
        is_new = missing & place.boundaries or place.scenario.page_size not in page_sizes
        if place.cell.pool == pool and law.claims(str(place.cell)) and is_new and is_judged(law, place.scenario):
            missing -= place.boundaries
            page_sizes.add(place.scenario.page_size)
            if not missing and 1 in page_sizes and len(page_sizes) >= SEVERAL_PAGE_SIZES:
                return set()
    return missing | ({f"pages of {sorted(page_sizes)} tokens only"} if len(page_sizes) < SEVERAL_PAGE_SIZES else set())


def statistics(law: Law, pool: str, places: Iterable[Place]) -> list[str]:
    """One row of the table: cells, scenarios judged, refused and not judged, page sizes, and judged ones on each
    boundary."""
    counts: Counter[str] = Counter()
    page_sizes, cells = set(), set()
    for place in places:
        if place.cell.pool != pool or not law.claims(str(place.cell)):
            continue
        cells.add(place.cell)
        outcome, is_refusal = verdict(law, Configurator(), place.scenario)
        counts["refused" if is_refusal else "judged" if outcome is HOLDS else "not judged"] += 1
        if outcome is HOLDS and not is_refusal:
            page_sizes.add(place.scenario.page_size)
            counts.update(place.boundaries)
    names = ("judged", "refused", "not judged", *(boundary.name for boundary in BOUNDARIES))
    return [f"{law.id} {pool}", str(len(cells)), str(len(page_sizes)), *(str(counts[name]) for name in names)]


def main() -> None:
    """Prints the table, a row as it is counted."""
    profile = PROFILES["gate"]
    places = [
        place_of(cell, scenario)
        for cell in CELLS
        for scenario in corpus_of(cell, profile.draws_per_cell, profile.seed or 0)
    ]
    header = ["law, pool", "cells", "page sizes", "judged", "refused", "not judged", *(b.name for b in BOUNDARIES)]
    pools = [(law, pool) for law in LAWS for pool in POOL_KINDS if expected(law, pool)]
    print(table(header, [statistics(law, pool, places) for law, pool in pools]))


if __name__ == "__main__":
    main()
