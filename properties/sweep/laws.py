"""The laws of `spec/laws/` that speak of sizes, on numbers: which of them are broken, as bits.

`laws_of(formulas)` gives the laws of a sizing. What a law expects comes from `formulas.py` itself, so that a wrong
sizing meets the right prices. A law of budgets is judged at each, a law of sizes (B3, C1) once for each size; as
there, what is not sold is not judged, but by B2 where no page fits.
"""

from typing import Any, NamedTuple, Protocol, TypeVar

from properties.sweep.formulas import ALL_WINDOW, CAPPED, Block, Formulas, Numbers, Terms, floor, larger, smaller

LAWS = ("B1", "B2", "B3", "B4", "B5", "B6", "B7", "C1", "D3", "E2", "R2", "W1", "W2", "W3")
"""Bit i of a verdict is set where law i is broken."""
B1, B2, B3, B4, B5, B6, B7, C1, D3, E2, R2, W1, W2, W3 = (1 << number for number in range(len(LAWS)))

SCALE = 3.0
"""The factor of B7."""
OTHER_RATIO = (1.0, 10.0)
"""The ratio that W1 asks again with."""


class Variants(NamedTuple):
    """What the sizing under test makes of a block, and of the blocks its laws compare it with: a byte dearer in a full
    row, or in an SWA row; every price times `SCALE`; no draft; another ratio."""

    own: Terms
    dearer_full: Terms
    dearer_swa: Terms
    scaled: Terms
    plain: Terms
    other_ratio: Terms


class Laws(NamedTuple):
    """variants(block); of_budget(block, right, variants, available, more); of_size(block, right, own, size_number,
    first, last): both give bits. answer(block, available): N, SWA rows, and whether they are sold."""

    variants: Any
    of_budget: Any
    of_size: Any
    answer: Any


Function = TypeVar("Function")


class Compiler(Protocol):
    """Makes a function faster that does the same."""

    def __call__(self, function: Function, /) -> Function:
        """The faster function."""


def plainly(function: Function) -> Function:
    """The function as it is: what stands for a compiler where none is used."""
    return function


def laws_of(formulas: Formulas, compiled: Compiler = plainly) -> Laws:
    """The laws, judging `formulas`; `compiled` is `numba.njit` or nothing."""
    own_terms, starts = compiled(formulas.terms), compiled(formulas.starts)
    rows_that_fit, capped_rows = compiled(formulas.rows_that_fit), compiled(formulas.capped_rows)
    swa_rows = compiled(formulas.swa_rows)

    @compiled
    def variants(block: Block) -> Variants:
        kind, full, swa, draft, on_swa, p, q, fixed, page, window, other = block
        scaled = (SCALE * full, SCALE * swa, SCALE * draft, SCALE * on_swa)
        rest = (fixed, page, window, other)
        return Variants(
            own_terms(block),
            own_terms(Block(kind, full + 1.0, swa, draft, on_swa, p, q, *rest)),
            own_terms(Block(kind, full, swa + 1.0, draft, on_swa, p, q, *rest)),
            own_terms(Block(kind, *scaled, p, q, *rest)),
            own_terms(Block(kind, full, swa - on_swa, 0.0 * draft, 0.0 * on_swa, p, q, *rest)),
            own_terms(Block(kind, full, swa, draft, on_swa, OTHER_RATIO[0], OTHER_RATIO[1], *rest)),
        )

    @compiled
    def sized(block: Block, terms: Terms, available: Numbers) -> tuple[Numbers, Numbers]:
        rows = rows_that_fit(available, block.other, block.page, terms)
        return rows, swa_rows(rows, 0.0, block.page, terms)

    @compiled
    def not_whole_pages(block: Block, rows: Numbers, swa: Numbers) -> Numbers:
        return (floor(rows / block.page) * block.page != rows) | (floor(swa / block.page) * block.page != swa)

    @compiled
    def cost(block: Block, rows: Numbers, swa: Numbers) -> Numbers:
        return rows * (block.full + block.draft) + swa * block.swa

    @compiled
    def of_budget(block: Block, right: Terms, asked: Variants, available: Numbers, more: Numbers) -> Numbers:
        page = block.page
        rows, swa = sized(block, asked.own, available)
        started = starts(rows, swa, block)
        broken = (started & (cost(block, rows, swa) > available)) * B1

        left, by_ratio = (available - right.paid) * right.units, swa - right.fixed
        page_left = ((rows + page) * right.cell <= left) & (rows < block.other)
        product = rows * right.rows_p
        off_ratio = (by_ratio * right.rows_q > product) | ((by_ratio + page) * right.rows_q <= product)
        broken |= ((started | (rows == 0.0)) & (page_left | off_ratio)) * B2
        broken |= (started & not_whole_pages(block, rows, swa)) * B4

        more_rows, more_swa = sized(block, asked.own, more)
        stopped = starts(more_rows, more_swa, block) == 0
        broken |= (started & ((more_rows < rows) | (more_swa < swa) | stopped)) * B5

        full_rows, full_swa = sized(block, asked.dearer_full, available)
        swa_dearer_rows, swa_dearer_swa = sized(block, asked.dearer_swa, available)
        risen = (full_rows > rows) | (full_swa > swa) | (swa_dearer_rows > rows) | (swa_dearer_swa > swa)
        broken |= (started & risen) * B6
        scaled_rows, scaled_swa = sized(block, asked.scaled, SCALE * available)
        broken |= (started & ((scaled_rows != rows) | (scaled_swa != swa))) * B7

        plain_rows, plain_swa = sized(block, asked.plain, available)
        lost = (plain_rows - rows) * block.full + (plain_swa - swa) * (block.swa - block.draft_swa)
        taken = rows * block.draft + swa * block.draft_swa
        unsold = (product - by_ratio * right.rows_q) * block.swa
        most_lost = taken * right.units + page * right.cell + unsold
        lost_more = lost * right.units >= most_lost
        broken |= (started & ((plain_rows < rows) | (plain_swa < swa) | lost_more)) * D3
        broken |= (rows > block.other) * R2

        has_window, all_window, capped = block.window > 0.0, block.kind == ALL_WINDOW, block.kind == CAPPED
        broken |= (started & ((rows <= 0.0) | (has_window & (swa <= 0.0)))) * E2
        broken |= (started & has_window & (swa - block.window - page < page)) * W2
        ratio_rows, ratio_swa = sized(block, asked.other_ratio, available)
        broken |= (all_window & ((ratio_rows != rows) | (ratio_swa != swa))) * W1
        unpaid = available - cost(block, rows, swa)
        broken |= (capped & started & ((unpaid < 0.0) | ((rows < block.other) & (unpaid >= page * right.cell)))) * W3
        return broken

    @compiled
    def capped_wrongly(
        block: Block, own: Terms, rows: Numbers, swa: Numbers, cap: Numbers, available: Numbers
    ) -> Numbers:
        page = block.page
        kept = capped_rows(rows, cap, page)
        kept_swa = swa_rows(kept, kept < rows, page, own)
        asked = smaller(cap, rows)
        wrong = (kept > asked) | (kept <= asked - page) | (kept_swa > swa)
        moved = (kept == rows) & (kept_swa != swa)
        twice = capped_rows(rows, kept, page) != kept
        over = (kept > 0.0) & (cost(block, kept, kept_swa) > available)
        admitted = starts(kept, kept_swa, block) & (block.window > 0.0) & (kept_swa - block.window - page < page)
        return (wrong | moved | twice | over) * C1 | not_whole_pages(block, kept, kept_swa) * B4 | admitted * W2

    @compiled
    def of_size(block: Block, right: Terms, own: Terms, pages: Numbers, available: Numbers, last: Numbers) -> Numbers:
        rows, swa = sized(block, own, available)
        last_rows, _ = sized(block, own, last)
        again, _ = sized(block, own, larger(cost(block, rows, swa), 1.0))
        expected = smaller(pages * block.page, block.other)
        broken = ((rows != expected) | (last_rows != expected) | (again > rows)) * B3
        broken |= capped_wrongly(block, own, rows, swa, floor(rows / 2.0), available)
        broken |= capped_wrongly(block, own, rows, swa, larger(rows - 1.0, 0.0), available)
        broken |= capped_wrongly(block, own, rows, swa, rows, available)
        broken |= capped_wrongly(block, own, rows, swa, rows + 1.0, available)
        return broken * starts(rows, swa, block)

    @compiled
    def answer(block: Block, available: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        rows, swa = sized(block, own_terms(block), available)
        return rows, swa, starts(rows, swa, block)

    return Laws(variants, of_budget, of_size, answer)
