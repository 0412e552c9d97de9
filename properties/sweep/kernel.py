"""The loops of the sweep: every budget of a block is generated, judged and forgotten; numba compiles them.

Budgets of a block: for 0, 1, 2, ... pages the price of them, a byte more, half way to the next page, and a byte less
than that, `PLACES` a number of pages.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple, cast

import numba
from numba.extending import overload

from properties.sweep.formulas import RIGHT, Block, Formulas, Numbers, Terms, floor, larger, smaller, terms
from properties.sweep.laws import Compiler, laws_of, plainly

PLACES = 4
"""Budgets for each number of pages."""
FLOAT_BOUND = 2**52
"""Every number of a sweep is smaller, so that floats are exact and `compiled_floor` is right."""

compiled = cast(Compiler, partial(numba.njit, nogil=True, error_model="numpy", forceinline=True))
"""Everything but the loop: inlined, so that the loop runs on vectors."""
compiled_loop = cast(Compiler, partial(numba.njit, nogil=True, error_model="numpy"))
"""The loop, which leaves the lock of the interpreter to others."""


@overload(floor)
def compiled_floor(number: Numbers) -> Any:
    """Of numbers from 0 to 2**52: adding 2**52 rounds to a whole number, which may be one too many. A call of the C
    library in its place would keep the loop from running on vectors."""

    def whole(number: Numbers) -> Numbers:
        rounded = (number + 4503599627370496.0) - 4503599627370496.0
        return rounded - 1.0 if rounded > number else rounded

    return whole


@overload(smaller)
def compiled_smaller(one: Numbers, other: Numbers) -> Any:
    """One instruction; NumPy's looks for NaN."""

    def chosen(one: Numbers, other: Numbers) -> Any:
        return other if other < one else one

    return chosen


@overload(larger)
def compiled_larger(one: Numbers, other: Numbers) -> Any:
    """One instruction; NumPy's looks for NaN."""

    def chosen(one: Numbers, other: Numbers) -> Any:
        return other if other > one else one

    return chosen


def price(right: Terms, page: Numbers, pages: Numbers) -> Numbers:
    """The fewest bytes, at least one, that buy so many pages."""
    units = pages * page * right.cell
    return larger(right.paid + floor((units + right.units - 1.0) / right.units), 1.0)


def block_of(kind: Numbers, cell: Any, setting: Any) -> Block:
    """The block of prices (F, S, D, the draft's part of S) and settings (p, q, fixed, page, window, other)."""
    prices = (cell[0], cell[1], cell[2], cell[3])
    return Block(kind, *prices, setting[0], setting[1], setting[2], setting[3], setting[4], setting[5])


class Kernel(NamedTuple):
    """scan(kind, cells, settings, start, stop, step, sizes, wanted): judges blocks start, start + step, ... up to the
    first that breaks a law of the bits `wanted`; gives the bits of that block and its number, or (0, stop). Block b
    has cell b // len(settings) and setting b % len(settings).
    budgets(right, page, pages): the `PLACES` budgets of a number of pages, and the next.
    judged(block, right, asked, pages, budgets): the bits of the size, and of each budget.
    answer(block, available): N, SWA rows, and whether they are sold.
    """

    scan: Callable[..., tuple[int, int]]
    budgets: Any
    judged: Any
    variants: Any
    answer: Any


@cache
def kernel_of(formulas: Formulas = RIGHT, *, is_compiled: bool = True) -> Kernel:
    """The loops around a sizing. Without compilation they give the same, slowly."""
    inlined = compiled if is_compiled else plainly
    variants, of_budget, of_size, answer = laws_of(formulas, inlined)
    right_terms, price_of, the_block = inlined(terms), inlined(price), inlined(block_of)

    @inlined
    def budgets(right: Terms, page: Numbers, pages: Numbers) -> Any:
        first, following = price_of(right, page, pages), price_of(right, page, pages + 1.0)
        gap = following - first
        return first, first + smaller(1.0, gap - 1.0), first + floor(gap / 2.0), following - 1.0, following

    @inlined
    def judged(block: Block, right: Terms, asked: Any, pages: Numbers, budgets: Any) -> Any:
        first, second, middle, last, following = budgets
        return (
            of_size(block, right, asked.own, pages, first, last),
            of_budget(block, right, asked, first, second),
            of_budget(block, right, asked, second, middle),
            of_budget(block, right, asked, middle, last),
            of_budget(block, right, asked, last, following),
        )

    def scan(
        kind: float, cells: Any, settings: Any, start: int, stop: int, step: int, sizes: int, wanted: int
    ) -> tuple[int, int]:
        for number in range(start, stop, step):
            block = the_block(kind, cells[number // len(settings)], settings[number % len(settings)])
            right, asked = right_terms(block), variants(block)
            broken = 0
            for size_number in range(sizes):
                pages = float(size_number)
                of_it = judged(block, right, asked, pages, budgets(right, block.page, pages))
                broken |= of_it[0] | of_it[1] | of_it[2] | of_it[3] | of_it[4]
            if broken & wanted:
                return broken, number
        return 0, stop

    return Kernel(compiled_loop(scan) if is_compiled else scan, budgets, judged, variants, answer)


def range_of(block: Block, sizes: int) -> int:
    """Above every number that is made of a block in the loop, in Python ints."""
    full, swa, draft, _, p, q, fixed, page, window = map(int, block[1:10])
    dearest = (full + swa + draft + 3) * q
    return 3 * (page * (sizes + 1) * dearest + fixed * (swa + 1) * q) + window + 2 * page
