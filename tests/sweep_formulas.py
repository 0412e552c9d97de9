"""Wrong sizings for the sweep, one for each law: the formula that is off, and the law that must see it first."""

from properties.sweep.formulas import ALL_WINDOW, CAPPED, HYBRID, NO_OTHER, RIGHT, floor, larger, smaller


def a_free_draft(block):
    """The draft is not in the price."""
    return RIGHT.terms(block._replace(swa=block.swa - block.draft_swa, draft=0.0 * block.draft))


def a_free_draft_on_swa_rows(block):
    """What of the draft follows SWA rows is not in the price."""
    return RIGHT.terms(block._replace(swa=block.swa - block.draft_swa))


def a_page_less(available, other, page, terms):
    """One page fewer than fits."""
    rows = RIGHT.rows_that_fit(available, other, page, terms)
    return rows - page * (rows > 0.0)


def a_byte_short(available, other, page, terms):
    """The exact price of a page does not buy it."""
    return RIGHT.rows_that_fit(available - 1.0, other, page, terms)


def parts_of_pages(available, other, page, terms):
    """Rows that are no whole pages."""
    return smaller(floor((available - terms.paid) * terms.units / terms.cell), other)


def a_bad_seventh_page(available, other, page, terms):
    """Enough for seven pages buys six."""
    rows = RIGHT.rows_that_fit(available, other, page, terms)
    return rows - 2.0 * page * (rows == 7.0 * page)


def a_price_that_falls(block):
    """Hybrid: the dearer an SWA row, the cheaper a token."""
    right = RIGHT.terms(block)
    return right._replace(cell=right.cell + (block.kind == HYBRID) * (65536.0 - 2.0 * block.p * block.swa))


def a_fixed_overhead(block):
    """Eight bytes a token that nothing stands for."""
    right = RIGHT.terms(block)
    return right._replace(cell=right.cell + 8.0 * right.units)


def a_cap_that_is_not_asked(rows, cap, page):
    """The user cap changes nothing."""
    return rows + 0.0 * page * (cap > 0.0)


def a_draft_paid_twice(block):
    """The draft is in the price twice."""
    return RIGHT.terms(block._replace(draft=2.0 * block.draft))


def a_draft_on_swa_rows_paid_twice(block):
    """What of the draft follows SWA rows is in the price twice."""
    return RIGHT.terms(block._replace(swa=block.swa + block.draft_swa))


def everything_starts(rows, swa, block):
    """Whatever two rows there are is sold."""
    return (rows >= 2.0) & (swa >= 0.0) & (block.page > 0.0)


def the_last_stage_decides(available, other, page, terms):
    """What the first stage holds is not looked at."""
    return RIGHT.rows_that_fit(available, larger(other, NO_OTHER), page, terms)


def a_ratio_of_windows(block):
    """All-window pools take the ratio of hybrid ones."""
    right = RIGHT.terms(block)
    only_window = block.kind == ALL_WINDOW
    return right._replace(
        units=right.units + only_window * (block.q - 1.0),
        cell=right.cell * (1.0 + only_window * (block.p - 1.0)),
    )


def the_weaker_admission(rows, swa, block):
    """`swa > window + P`: upstream's own check."""
    return (rows >= 2.0) & ((block.window == 0.0) | (swa > block.window + block.page))


def swa_rows_for_nothing(block):
    """Capped: the SWA pool is not paid."""
    right = RIGHT.terms(block)
    return right._replace(paid=right.paid * (block.kind != CAPPED))


WRONG = {
    "B1": RIGHT._replace(terms=a_free_draft),
    "B2": RIGHT._replace(rows_that_fit=a_page_less),
    "B3": RIGHT._replace(rows_that_fit=a_byte_short),
    "B4": RIGHT._replace(rows_that_fit=parts_of_pages),
    "B5": RIGHT._replace(rows_that_fit=a_bad_seventh_page),
    "B6": RIGHT._replace(terms=a_price_that_falls),
    "B7": RIGHT._replace(terms=a_fixed_overhead),
    "C1": RIGHT._replace(capped_rows=a_cap_that_is_not_asked),
    "D3": RIGHT._replace(terms=a_draft_paid_twice),
    "E2": RIGHT._replace(starts=everything_starts),
    "R2": RIGHT._replace(rows_that_fit=the_last_stage_decides),
    "W1": RIGHT._replace(terms=a_ratio_of_windows),
    "W2": RIGHT._replace(starts=the_weaker_admission),
    "W3": RIGHT._replace(terms=swa_rows_for_nothing),
}
"""Law id, and a sizing that it must see."""
