"""The points of a space: numbered, cut into jobs, and each turned into the scenario it stands for.

A block is a cell under a setting; its points are the budgets of `kernel.py`. Blocks are numbered through all kinds, and
so are points: point i is budget i % (sizes * PLACES) of block i // (sizes * PLACES).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from properties.sweep.axes import Space, WrongSpace
from properties.sweep.formulas import KINDS, NO_OTHER, Block, terms
from properties.sweep.geometry import Cells, Geometry, cells_of_space, scenario_of
from properties.sweep.kernel import FLOAT_BOUND, PLACES, block_of, kernel_of, range_of
from spec.capped import capped_swa_rows
from spec.layers import CAPPED_POOL, HYBRID_POOL, WINDOW_POOLS
from spec.model import Scenario

BLOCKS_OF_A_JOB = 2**12
"""Blocks that are judged between two looks at the progress."""
FEWEST_BYTES_OF_A_PAGE = 4
"""Below that the budgets of a page fall together."""


@dataclass(frozen=True)
class Setting:
    """What a block has beside its prices."""

    ratio: Fraction
    requests: int
    chunked_prefill_size: int
    page_size: int
    window: int
    first_stage_pages: int


@dataclass(frozen=True)
class Job:
    """Blocks start, start + step, ... below stop of one kind, by their numbers in that kind."""

    kind: int
    start: int
    stop: int
    step: int

    @property
    def blocks(self) -> int:
        """How many."""
        return len(range(self.start, self.stop, self.step))


@dataclass(frozen=True)
class KindOfPoints:
    """The blocks of one kind: cell b // len(settings) under setting b % len(settings). rows: the settings as the kernel
    reads them, of shape (settings, 6). first_block: the number of the first among all kinds."""

    cells: Cells
    settings: tuple[Setting, ...]
    rows: Any
    first_block: int

    @property
    def number(self) -> float:
        """The kind as the kernel reads it."""
        return float(KINDS.index(self.cells.kind))

    @property
    def blocks(self) -> int:
        """How many."""
        return len(self.cells.prices) * len(self.settings)

    def block(self, number: int) -> Block:
        """One of them."""
        cell, setting = divmod(number, len(self.settings))
        return Block(*map(float, block_of(self.number, self.cells.prices[cell], self.rows[setting])))


def settings_of(space: Space, kind: str) -> tuple[Setting, ...]:
    """Every combination of the settings that the kind reads; the others stay at their first value."""
    axes = dict(space.settings)
    unread = {
        "swa_full_tokens_ratio": kind != HYBRID_POOL,
        "user_max_running_requests": kind != CAPPED_POOL,
        "chunked_prefill_size": kind != CAPPED_POOL,
        "sliding_window_size": kind not in WINDOW_POOLS,
    }
    chosen = {name: values[:1] if unread.get(name, False) else values for name, values in axes.items()}
    ratios = tuple(Fraction(ratio) for ratio in chosen["swa_full_tokens_ratio"])
    names = ("user_max_running_requests", "chunked_prefill_size", "page_size", "sliding_window_size")
    numbers = [chosen[name] for name in (*names, "first_stage_pages")]
    return tuple(Setting(ratio, *rest) for ratio, *rest in product(ratios, *numbers))


def geometry_scenario(geometry: Geometry, setting: Setting, budget: tuple[int, ...]) -> Scenario:
    """A geometry under a setting, on so many bytes a stage."""
    capped = {
        "user_max_running_requests": setting.requests,
        "chunked_prefill_size": setting.chunked_prefill_size,
    }
    return scenario_of(
        geometry,
        budget,
        window=setting.window,
        page_size=setting.page_size,
        swa_full_tokens_ratio=setting.ratio,
        **(capped if geometry.kind == CAPPED_POOL else {}),
    )


def setting_rows(cells: Cells, settings: tuple[Setting, ...]) -> Any:
    """p, q, fixed SWA rows, page, window, and N of the first stage."""
    windowed, capped = cells.kind in WINDOW_POOLS, cells.kind == CAPPED_POOL
    rows = [
        (
            setting.ratio.numerator,
            setting.ratio.denominator,
            capped_swa_rows(geometry_scenario(cells.geometry(0), setting, (1,))) if capped else 0,
            setting.page_size,
            setting.window if windowed else 0,
            setting.first_stage_pages * setting.page_size or NO_OTHER,
        )
        for setting in settings
    ]
    return np.array(rows, dtype=np.float64)


class Points:
    """All points of a space. Raises WrongSpace where floats would not count them exactly."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.budgets = space.sizes * PLACES
        self.kinds: list[KindOfPoints] = []
        for kind in space.kinds:
            cells, settings = cells_of_space(space, kind), settings_of(space, kind)
            entry = KindOfPoints(cells, settings, setting_rows(cells, settings), self.blocks)
            self.check(entry)
            self.kinds.append(entry)

    @property
    def blocks(self) -> int:
        """Blocks of all kinds."""
        return sum(entry.blocks for entry in self.kinds)

    @property
    def count(self) -> int:
        """How many points."""
        return self.blocks * self.budgets

    def check(self, kind: KindOfPoints) -> None:
        """The largest number of a kind is exact, its cheapest page has room for four budgets."""
        prices, rows = kind.cells.prices, np.where(np.isfinite(kind.rows), kind.rows, 0.0)
        above = range_of(block_of(kind.number, prices.max(axis=0), rows.max(axis=0)), self.space.sizes)
        if above >= FLOAT_BOUND:
            raise WrongSpace(f"{kind.cells.kind}: numbers up to {above:,} come up, {FLOAT_BOUND:,} is too many")
        cheapest = terms(block_of(kind.number, prices.min(axis=0), kind.rows.min(axis=0))._replace(p=0.0))
        if cheapest.cell * kind.rows[:, 3].min() < FEWEST_BYTES_OF_A_PAGE * cheapest.units:
            raise WrongSpace(f"{kind.cells.kind}: a page of less than {FEWEST_BYTES_OF_A_PAGE} bytes")

    def jobs(self, shard: int = 0, shards: int = 1) -> Iterator[Job]:
        """The blocks of one shard, every `shards`-th, in jobs."""
        for place, kind in enumerate(self.kinds):
            start = (shard - kind.first_block) % shards
            stride = BLOCKS_OF_A_JOB * shards
            for first in range(start, kind.blocks, stride):
                yield Job(place, first, min(first + stride, kind.blocks), shards)

    def index(self, kind: KindOfPoints, block: int, pages: int, place: int) -> int:
        """The number of a point."""
        return ((kind.first_block + block) * self.space.sizes + pages) * PLACES + place

    def located(self, index: int) -> tuple[KindOfPoints, int, int, int]:
        """(kind, block in the kind, pages, place) of a point."""
        number, budget = divmod(index, self.budgets)
        kind = next(entry for entry in reversed(self.kinds) if entry.first_block <= number)
        return kind, number - kind.first_block, *divmod(budget, PLACES)

    def block_budgets(self, block: Block, pages: int) -> tuple[int, ...]:
        """The budgets of a number of pages."""
        return tuple(int(one) for one in kernel_of(is_compiled=False).budgets(terms(block), block.page, float(pages)))

    def scenario(self, index: int) -> Scenario:
        """The scenario of a point. A first stage has the bytes for its rows and no more, and no draft."""
        kind, number, pages, place = self.located(index)
        cell, setting = divmod(number, len(kind.settings))
        block, chosen = kind.block(number), kind.settings[setting]
        budget: tuple[int, ...] = (self.block_budgets(block, pages)[place],)
        if chosen.first_stage_pages:
            first_stage = block._replace(swa=block.swa - block.draft_swa, draft=0.0, draft_swa=0.0)
            budget = (self.block_budgets(first_stage, chosen.first_stage_pages)[0], *budget)
        return geometry_scenario(kind.cells.geometry(cell), chosen, budget)
