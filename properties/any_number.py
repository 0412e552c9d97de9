"""Scenarios of any numbers, for the laws that hold an answer against the spec's.

The numbers of `strategies.py` are those people use and those where past bugs sat. An implementation that cuts at the
last one would be right on every scenario of theirs; so here each is any other half of the time, and choices are met
that cost nothing or that no real model makes.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, cast

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from impl import Implementation
from properties import budget_strategies as budgets
from properties import shape_strategies as shapes
from properties import strategies

ASKED_LAWS = ("Q1", "E1")
"""The laws that are asked of these scenarios."""
SHARE = 3
"""One of these for so many scenarios of usual numbers."""


def is_asked(law_id: str, implementation: Implementation) -> bool:
    """Whether an implementation is asked about any numbers for a law; it may leave them out."""
    return law_id in ASKED_LAWS and getattr(implementation, "any_number", True)


def or_any(usual: SearchStrategy[int], least: int, most: int) -> SearchStrategy[int]:
    """The usual numbers, and as often any from `least` to `most`."""
    return st.one_of(usual, st.integers(least, most))


ANY: Mapping[SearchStrategy[Any], SearchStrategy[Any]] = {
    strategies.PAGES: or_any(strategies.PAGES, 1, 1024),
    strategies.RATIOS: st.one_of(
        strategies.RATIOS, st.integers(1, 10**6).map(lambda millionths: Fraction(millionths, 10**6))
    ),
    strategies.CONTEXT_LENS: or_any(strategies.CONTEXT_LENS, 2, 2**20),
    strategies.REQUESTS: or_any(strategies.REQUESTS, 1, 4096),
    strategies.CHUNKS: or_any(strategies.CHUNKS, 1, 2**16),
    strategies.EXTRA_SLOTS: or_any(strategies.EXTRA_SLOTS, 0, 512),
    strategies.EVICTION_INTERVALS: or_any(strategies.EVICTION_INTERVALS, 0, 128),
    strategies.IDLE_USES: st.sampled_from(("no draft", "left over", "draft worker", "frozen KV")),
    shapes.HEAD_DIMS: or_any(shapes.HEAD_DIMS, 1, 640),
    shapes.BLOCKS: or_any(shapes.BLOCKS, 1, 24),
    shapes.LAYER_COUNTS: st.one_of(or_any(shapes.LAYER_COUNTS, 1, 13), st.integers(1, 130)),
    shapes.TENSOR_RANKS: st.one_of(shapes.TENSOR_RANKS, st.sampled_from((5, 12, 16, 32, 64))),
    shapes.STAGES: or_any(shapes.STAGES, 2, 9),
    shapes.WINDOWS: or_any(shapes.WINDOWS, 1, 2**15),
    shapes.DRAFT_DEPTHS: or_any(shapes.DRAFT_DEPTHS, 1, 9),
    shapes.STEPS: or_any(shapes.STEPS, 1, 24),
    shapes.TOPKS: or_any(shapes.TOPKS, 1, 16),
    shapes.DRAFT_TOKENS: or_any(shapes.DRAFT_TOKENS, 1, 128),
    budgets.EXTRA_PAGES: st.one_of(budgets.EXTRA_PAGES, st.integers(0, 2**40)),
}
"""A strategy of usual numbers, and what is drawn in its place."""


@st.composite
def any_scenario_of(draw: DrawFn, cell: Any) -> Any:
    """A valid scenario of `cell`."""
    return strategies.draw_scenario(cast(DrawFn, shapes.AnyNumber(draw, ANY)), cell)


ANY_SCENARIOS = {cell: any_scenario_of(cell) for cell in strategies.SCENARIOS}
"""One strategy a cell."""
