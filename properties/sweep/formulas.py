"""Sizing, and the laws of sizes, as arithmetic on whole numbers in float64.

Every function takes scalars or NumPy arrays of one shape and rounds like `spec/pools.py`. The numbers stay below 2**53
(`kernel.check_range` sees to it), where `floor(a / b)` of floats is `a // b`. `kernel.py` compiles them; the NumPy
yardstick runs them as they are.

Letters are those of `spec/pools.py`: F, S, D, r = p / q, P, A, N. A block is a row of prices and settings, see `Block`.
"""

from typing import Any, NamedTuple

import numpy as np

from spec.layers import ALL_WINDOW_POOL, CAPPED_POOL, DEFAULT_POOL, HYBRID_POOL, MLA_POOL

Numbers = Any
"""A float, or an array of floats; whole numbers all of them."""

KINDS = (DEFAULT_POOL, MLA_POOL, HYBRID_POOL, ALL_WINDOW_POOL, CAPPED_POOL)
HYBRID, ALL_WINDOW, CAPPED = KINDS.index(HYBRID_POOL), KINDS.index(ALL_WINDOW_POOL), KINDS.index(CAPPED_POOL)
"""Numbers of the kinds that are sized differently."""

NO_CAP = np.inf
"""A user cap that never binds."""
NO_OTHER = np.inf
"""N of a first stage that is not there."""


def floor(number: Numbers) -> Numbers:
    """The largest whole number not above."""
    return np.floor(number)


def smaller(one: Numbers, other: Numbers) -> Numbers:
    """The smaller of two."""
    return np.minimum(one, other)


def larger(one: Numbers, other: Numbers) -> Numbers:
    """The larger of two."""
    return np.maximum(one, other)


class Block(NamedTuple):
    """Prices and settings that a run of budgets shares.

    kind: a number of `KINDS`. full, swa, draft: F, S, D in bytes; draft_swa: the draft's part of S. p, q: the ratio.
    fixed: SWA rows of a capped pool. page: tokens. window: tokens, 0 without window pools. other: N that the first
    pipeline stage can hold, infinite where there is one stage; its price is the block's without the draft.
    """

    kind: Numbers
    full: Numbers
    swa: Numbers
    draft: Numbers
    draft_swa: Numbers
    p: Numbers
    q: Numbers
    fixed: Numbers
    page: Numbers
    window: Numbers
    other: Numbers


class Terms(NamedTuple):
    """What sizing makes of a block before it looks at the bytes.

    paid: bytes that are paid first. units: a byte has so many. cell: price of a row of N, in units. rows_p, rows_q:
    SWA rows per row of N. fixed: SWA rows whatever N.
    """

    paid: Numbers
    units: Numbers
    cell: Numbers
    rows_p: Numbers
    rows_q: Numbers
    fixed: Numbers


def terms(block: Block) -> Terms:
    """Hybrid: F + r*S + D a token in units of 1/q byte. All-window: S + D, an SWA row each. Capped: F + D after
    fixed SWA rows. Default and MLA: F + D."""
    hybrid, all_window, capped = block.kind == HYBRID, block.kind == ALL_WINDOW, block.kind == CAPPED
    units = 1.0 + hybrid * (block.q - 1.0)
    slope = hybrid * block.p + all_window * 1.0
    cell = (block.full + block.draft) * units + block.swa * slope
    fixed = capped * block.fixed
    return Terms(fixed * block.swa, units, cell, slope, units, fixed)


def rows_that_fit(available: Numbers, other: Numbers, page: Numbers, terms: Terms) -> Numbers:
    """N: the smaller of what the bytes buy, in whole pages, and what the other stage holds."""
    left = larger(available - terms.paid, 0.0) * terms.units
    return smaller(floor(left / (terms.cell * page)) * page, other)


def capped_rows(rows: Numbers, cap: Numbers, page: Numbers) -> Numbers:
    """`align_down(min(cap, N), P)`."""
    return floor(smaller(cap, rows) / page) * page


def swa_rows(kept: Numbers, below_cap: Numbers, page: Numbers, terms: Terms) -> Numbers:
    """`align_down(floor(r * N), P)`, N, or the fixed rows, which a binding cap takes along."""
    by_ratio = floor(floor(kept * terms.rows_p / terms.rows_q) / page) * page
    return by_ratio + terms.fixed - below_cap * larger(terms.fixed - kept, 0.0)


def starts(rows: Numbers, swa: Numbers, block: Block) -> Numbers:
    """Whether a size is sold: two rows at least, and a window pool admits a request."""
    return (rows >= 2.0) & ((block.window == 0.0) | (swa >= block.window + 2.0 * block.page))


class Formulas(NamedTuple):
    """The sizing under test, function by function; a test replaces one by a wrong one."""

    terms: Any = terms
    rows_that_fit: Any = rows_that_fit
    capped_rows: Any = capped_rows
    swa_rows: Any = swa_rows
    starts: Any = starts


RIGHT = Formulas()
"""The sizing as it should be."""
