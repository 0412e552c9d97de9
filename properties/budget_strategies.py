"""Budgets and caps: pages times the bytes of a page, give or take a byte; caps on and around the answer.

The price of a page is asked of the spec: a budget drawn blindly never meets a boundary.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from properties.shape_strategies import BOOLEANS, RARELY, AnyNumber
from spec.capped import capped_swa_rows
from spec.layers import (
    ALL_WINDOW_POOL,
    CAPPED_POOL,
    HYBRID_POOL,
)
from spec.model import (
    MemoryFigures,
    Scenario,
)
from spec.pools import admission_floor, bytes_per_token, stage_row_bytes
from spec.units import GiB, ceil_div

EXTRA_PAGES = st.one_of(st.integers(0, 3), st.integers(0, 40), st.integers(0, 5000))
REMAINDERS = st.sampled_from(("on the page", "a byte short", "a byte over", "between"))
FRACTIONS = st.integers(500, 950).map(lambda thousandths: Fraction(thousandths, 1000))
GIBIBYTES = st.integers(1, 141)
BUDGET_KINDS = st.sampled_from(("pages",) * 5 + ("memory figures", "GiB", "too small"))
CAP_KINDS = st.sampled_from(("none", "none", "none", "below", "at", "above"))
UNEVEN_READINGS = st.integers(0, 4096)
UNIT = st.integers(0, 10**6)
"""A draw of this, over 10**6, picks a place between two numbers that are known only later."""


def place(draw: DrawFn, lowest: int, highest: int) -> int:
    """A number from `lowest` to `highest`."""
    return lowest + draw(UNIT) * (max(lowest, highest) - lowest) // 10**6


@dataclass(frozen=True)
class StagePrice:
    """What a stage must hold before its first token, and what each token adds."""

    paid: int
    cell: int | Fraction


def stage_prices(scenario: Scenario, pool: str) -> list[StagePrice]:
    """The price of every stage of a drawn scenario."""
    swa_rows = capped_swa_rows(scenario) if pool == CAPPED_POOL else 0
    prices = []
    for stage in range(scenario.deployment.pp_size):
        row_bytes = stage_row_bytes(scenario, stage)
        cell = bytes_per_token(pool, row_bytes, scenario.swa_full_tokens_ratio)
        prices.append(StagePrice(swa_rows * row_bytes.swa, cell))
    return prices


def fewest_pages(scenario: Scenario, pool: str) -> int:
    """Pages with which the scenario starts: two rows, and a window pool that admits a request."""
    page_size = scenario.page_size
    floor = admission_floor(scenario.target.sliding_window_size or 0, page_size)
    if pool == HYBRID_POOL:
        return math.ceil(ceil_div(floor, page_size) / scenario.swa_full_tokens_ratio)
    if pool == ALL_WINDOW_POOL:
        return max(ceil_div(2, page_size), ceil_div(floor, page_size))
    return ceil_div(2, page_size)


def draw_stage_bytes(draw: DrawFn, price: StagePrice, page_size: int, pages: int) -> int:
    """Bytes of one stage that hold just `pages` pages: on the boundary, a byte beside it, or between two."""
    exact = price.paid + math.ceil(pages * page_size * price.cell)
    page_bytes = math.ceil(page_size * price.cell)
    remainder = draw(REMAINDERS)
    if remainder == "on the page":
        return exact
    if remainder == "a byte over":
        return exact + 1
    if remainder == "a byte short":
        return exact + page_bytes - 1
    return exact + place(draw, 0, page_bytes - 1)


def draw_budget(draw: DrawFn, scenario: Scenario, pool: str) -> tuple[tuple[int, ...] | MemoryFigures, int]:
    """A budget and about how many pages it buys."""
    prices = stage_prices(scenario, pool)
    kind = draw(BUDGET_KINDS)
    page_size = scenario.page_size
    if kind == "GiB":
        stage_bytes = tuple(draw(GIBIBYTES) * GiB - draw(UNIT) for _ in prices)
        left = [(had - price.paid) // price.cell for had, price in zip(stage_bytes, prices, strict=True) if price.cell]
        return stage_bytes, max(0, min(left) // page_size)
    pages = fewest_pages(scenario, pool) + draw(EXTRA_PAGES)
    if kind == "too small":
        pages = place(draw, 0, fewest_pages(scenario, pool) - 1) if draw(BOOLEANS) else 0
    more = [0] * len(prices) if draw(BOOLEANS) else [draw(EXTRA_PAGES) for _ in prices]
    stage_bytes = tuple(
        max(1, draw_stage_bytes(draw, price, page_size, pages + extra))
        for price, extra in zip(prices, more, strict=True)
    )
    if kind == "memory figures":
        return draw_memory_figures(draw, scenario, stage_bytes), pages
    return stage_bytes, pages


def draw_memory_figures(draw: DrawFn, scenario: Scenario, stage_bytes: tuple[int, ...]) -> MemoryFigures:
    """Readings of every rank that leave just the bytes of the dearest stage: the smallest readings sit on different
    ranks of different stages."""
    fraction = draw(FRACTIONS)
    free_before = draw(GIBIBYTES) * GiB
    free_after = max(stage_bytes) + math.ceil(free_before * (1 - fraction))
    uneven = draw(UNEVEN_READINGS)
    ranks, stages = scenario.deployment.tp_size, scenario.deployment.pp_size
    poorest = place(draw, 0, ranks * stages - 1) if isinstance(draw, AnyNumber) else 0

    def readings(least: int, at: int) -> tuple[tuple[int, ...], ...]:
        return tuple(
            tuple(least + uneven * abs(stage * ranks + rank - at) for rank in range(ranks)) for stage in range(stages)
        )

    last = ranks * stages - 1
    return MemoryFigures(readings(free_before, poorest), readings(free_after, last - poorest), fraction)


def draw_cap(draw: DrawFn, scenario: Scenario, pool: str, pages: int) -> int | None:
    """A user cap below, at or above what the budget buys, in rows."""
    kind = draw(CAP_KINDS)
    page_size = scenario.page_size
    if kind == "none":
        return None
    if kind == "at":
        return max(1, pages * page_size)
    if kind == "above":
        return pages * page_size + 1 + draw(UNIT)
    fewest = fewest_pages(scenario, pool)
    if draw(RARELY):
        fewest = 0
    return max(1, place(draw, fewest * page_size, pages * page_size))
