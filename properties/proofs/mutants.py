"""Functions made wrong, one way each: what a claim must be refuted on.

A mutant replaces one function of `spec/` or one method of a configurator where the sizing calls it; the law's own
predicate and prices stay as they are.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import spec.pools
from impl.configurator import (
    AllSWAPoolConfigurator,
    DefaultPoolConfigurator,
    HybridSWAPoolConfigurator,
    MemoryPoolConfigurator,
    SWARequestCapPoolConfigurator,
)
from spec.layers import ALL_WINDOW_POOL, CAPPED_POOL, HYBRID_POOL
from spec.model import active_draft
from spec.pools import RowBytes, bytes_per_token, rows_that_fit
from spec.units import align_down, align_up

CLASSES = (
    DefaultPoolConfigurator,
    HybridSWAPoolConfigurator,
    AllSWAPoolConfigurator,
    SWARequestCapPoolConfigurator,
)
RIGHT_ROW_BYTES = spec.pools.stage_row_bytes
"""F, S and D, whatever replaces their function."""


@dataclass(frozen=True)
class Mutant:
    """What is wrong, and the name in a module or class that is replaced while it is."""

    sentence: str
    place: Any
    name: str
    wrong: Callable[..., Any]

    def applied(self) -> AbstractContextManager[Any]:
        """The function replaced."""
        return patch.object(self.place, self.name, self.wrong)


def a_page_more(available: Any, token_bytes: Any, page_size: Any) -> Any:
    """Rows that no longer fit."""
    return rows_that_fit(available, token_bytes, page_size) + page_size


def a_page_less(available: Any, token_bytes: Any, page_size: Any) -> Any:
    """A page is left."""
    return rows_that_fit(available, token_bytes, page_size) - page_size


def rows_left_over(available: Any, token_bytes: Any, page_size: Any) -> Any:
    """The more memory, the fewer rows."""
    return align_down(2 * page_size - available, page_size)


def rows_of_the_price(available: Any, token_bytes: Any, page_size: Any) -> Any:
    """The dearer a token, the more rows."""
    return math.ceil(token_bytes) * page_size


def without_the_draft(kind: str, row_bytes: RowBytes, ratio: Any) -> Any:
    """The draft is forgotten; so is its part of S."""
    return bytes_per_token(kind, RowBytes(row_bytes.full, row_bytes.swa, 0), ratio)


def a_byte_more(kind: str, row_bytes: RowBytes, ratio: Any) -> Any:
    """A byte that no layer stores."""
    return bytes_per_token(kind, row_bytes, ratio) + 1


def a_fixed_byte(kind: str, row_bytes: RowBytes, ratio: Any) -> Any:
    """Rows of a byte, whatever the draft."""
    return 1 if row_bytes.draft != 0 else bytes_per_token(kind, row_bytes, ratio)


def the_draft_twice(kind: str, row_bytes: RowBytes, ratio: Any) -> Any:
    """The draft counted twice."""
    return bytes_per_token(kind, RowBytes(row_bytes.full, row_bytes.swa, 2 * row_bytes.draft), ratio)


def all_tokens(tokens: Any, page_size: Any) -> Any:
    """Pages that are not whole."""
    return tokens


def by_the_ratio(kind: str, row_bytes: RowBytes, ratio: Any) -> Any:
    """The ratio where there is nothing to relate."""
    return row_bytes.full + ratio * row_bytes.swa + row_bytes.draft


def a_draft_costs_a_byte(scenario: Any, stage: Any) -> RowBytes:
    """A draft costs a byte a row even where it has no layers."""
    right = RIGHT_ROW_BYTES(scenario, stage)
    return right if active_draft(scenario) is None else RowBytes(right.full, right.swa, right.draft + 1)


def cap_rounded_up(scenario: Any, rows: Any) -> Any:
    """More than the cap."""
    cap = scenario.max_total_tokens
    return rows if cap is None else align_up(min(cap, rows), scenario.page_size)


SPEC: dict[str, tuple[str, str, Callable[..., Any]]] = {
    "B1": ("sells a page more", "rows_that_fit", a_page_more),
    "B2": ("sells a page less", "rows_that_fit", a_page_less),
    "B3": ("sells a page less", "rows_that_fit", a_page_less),
    "B4": ("sells broken pages", "align_down", all_tokens),
    "B5": ("sells what memory lacks", "rows_that_fit", rows_left_over),
    "B6": ("sells as many rows as a token has bytes", "rows_that_fit", rows_of_the_price),
    "B7": ("adds a byte a token", "bytes_per_token", a_byte_more),
    "C1": ("rounds the cap up", "capped_rows", cap_rounded_up),
    "D1": ("prices a draft without layers", "stage_row_bytes", a_draft_costs_a_byte),
    "D3": ("prices any draft at a byte", "bytes_per_token", a_fixed_byte),
    "D4": ("counts the draft twice", "bytes_per_token", the_draft_twice),
    "W1": ("takes the ratio", "bytes_per_token", by_the_ratio),
    "W3": ("forgets the draft", "bytes_per_token", without_the_draft),
}
"""The wrong function of `spec/pools.py` for each law."""

COSTS = {cls: cls.__dict__["_paid_and_page_cost"] for cls in CLASSES}
"""What a page really costs."""


def cost(configurator: Any, full: Any, swa: Any, draft: Any) -> Any:
    """The right answer of a configurator, whatever replaces it."""
    return COSTS[type(configurator)](configurator, full, swa, draft)


def cost_without_the_draft(configurator: Any, full: Any, swa: Any, draft: Any) -> Any:
    """The draft is forgotten."""
    return cost(configurator, full, swa, 0)


def cost_of_the_draft_twice(configurator: Any, full: Any, swa: Any, draft: Any) -> Any:
    """The draft counted twice."""
    return cost(configurator, full, swa, 2 * draft)


def cost_and_a_byte(configurator: Any, full: Any, swa: Any, draft: Any) -> Any:
    """A byte a token that no layer stores."""
    return cost(configurator, full + 1, swa + 1, draft)


def cost_of_a_fixed_byte(configurator: Any, full: Any, swa: Any, draft: Any) -> Any:
    """Rows of a byte, whatever the draft."""
    return cost(configurator, 1, 1, 0) if draft != 0 else cost(configurator, full, swa, draft)


def cost_of_a_draft_and_a_byte(configurator: Any, full: Any, swa: Any, draft: Any) -> Any:
    """A draft costs a byte a row even where it has no layers."""
    return cost(configurator, full, swa, draft + (active_draft(configurator._scenario) is not None))


def cost_by_the_ratio(configurator: Any, full: Any, swa: Any, draft: Any) -> Any:
    """The ratio where there is nothing to relate."""
    ratio = configurator._scenario.swa_full_tokens_ratio
    return 0, (swa * ratio.numerator + draft * ratio.denominator) * configurator._page_size


def rows_and_one(configurator: Any, rows: Any, below_cap: Any) -> Any:
    """Pages that are not whole."""
    return rows + 1, rows + 1


def rows_that_start_over(configurator: Any, rows: Any, below_cap: Any) -> Any:
    """Beyond three pages, none."""
    wrapped = rows % (3 * configurator._page_size)
    return wrapped, wrapped


def cap_as_it_is(configurator: Any, cap: Any) -> Any:
    """The last page of a cap is broken."""
    return cap


CONFIGURATOR: dict[str, tuple[str, str, Callable[..., Any]]] = {
    "B1": ("forgets the draft", "_paid_and_page_cost", cost_without_the_draft),
    "B2": ("adds a byte a token", "_paid_and_page_cost", cost_and_a_byte),
    "B3": ("adds a byte a token", "_paid_and_page_cost", cost_and_a_byte),
    "B4": ("sells a row more", "_pool_rows", rows_and_one),
    "B5": ("starts over after three pages", "_pool_rows", rows_that_start_over),
    "B6": ("prices any draft at a byte", "_paid_and_page_cost", cost_of_a_fixed_byte),
    "B7": ("adds a byte a token", "_paid_and_page_cost", cost_and_a_byte),
    "C1": ("leaves the cap as it is", "_aligned_cap", cap_as_it_is),
    "D1": ("prices a draft without layers", "_paid_and_page_cost", cost_of_a_draft_and_a_byte),
    "D3": ("prices any draft at a byte", "_paid_and_page_cost", cost_of_a_fixed_byte),
    "D4": ("counts the draft twice", "_paid_and_page_cost", cost_of_the_draft_twice),
    "W1": ("takes the ratio", "_paid_and_page_cost", cost_by_the_ratio),
    "W3": ("forgets the draft", "_paid_and_page_cost", cost_without_the_draft),
}
"""The wrong method of a configurator for each law."""


def class_of(kind: str) -> type[MemoryPoolConfigurator]:
    """The configurator of a pool kind."""
    return {
        HYBRID_POOL: HybridSWAPoolConfigurator,
        ALL_WINDOW_POOL: AllSWAPoolConfigurator,
        CAPPED_POOL: SWARequestCapPoolConfigurator,
    }.get(kind, DefaultPoolConfigurator)


def inverting_mutant_of(clause: str, implementation: str) -> Mutant:
    """The wrong function for a clause of B3: a token too dear does not buy its size back, one too cheap buys more."""
    if clause == "B3":
        return mutant_of("B3", HYBRID_POOL, implementation)
    return mutant_of("B1", HYBRID_POOL, implementation)


def mutant_of(law: str, kind: str, implementation: str) -> Mutant:
    """The wrong function on which the law must be refuted."""
    if implementation == "spec":
        sentence, name, wrong = SPEC[law]
        return Mutant(sentence, spec.pools, name, wrong)
    sentence, name, wrong = CONFIGURATOR[law]
    return Mutant(sentence, class_of(kind), name, wrong)
