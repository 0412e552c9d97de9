"""A: the price against what is really allocated."""

from fractions import Fraction

from spec.accounting import sold_bytes, spare_bytes
from spec.laws.base import HOLDS, NOT_JUDGED, Broken, Case, Verdict, draft_is_resolved, stages
from spec.layers import ALL_WINDOW_POOL, WINDOW_POOLS, pool_kind
from spec.model import PoolSizes, Refusal
from spec.pools import RowBytes, stage_row_bytes

NOTHING = PoolSizes(0, 0, 0, 0, 0)
"""No row sold: what is allocated is spare."""


def one_page_of(kind: str, page_size: int) -> list[tuple[str, PoolSizes]]:
    """A page of full rows alone, and where there are window pools a page of SWA rows alone."""
    if kind == ALL_WINDOW_POOL:
        return [("SWA", PoolSizes(page_size, 0, page_size, 0, 0))]
    full = [("full", PoolSizes(page_size, page_size, 0, 0, 0))]
    return [*full, ("SWA", PoolSizes(0, 0, page_size, 0, 0))] if kind in WINDOW_POOLS else full


def row_price(kind: str, rows: str, row_bytes: RowBytes) -> int:
    """What one full row, or one SWA row, costs on a stage: the draft goes with full rows, all-window with SWA rows."""
    if kind == ALL_WINDOW_POOL:
        return row_bytes.swa + row_bytes.draft
    return row_bytes.full + row_bytes.draft if rows == "full" else row_bytes.swa


def price_equals_allocation(case: Case) -> Verdict:
    """Allocates nothing, a page of each pool alone, and the answer: the intercept is the spare rows, the slope the
    price of a row, the sum what the accounting says."""
    scenario, answer = case.scenario, case.answer
    if isinstance(answer, Refusal) or not draft_is_resolved(scenario):
        return NOT_JUDGED
    intercept = case.allocated_bytes(scenario, NOTHING)
    for stage in stages(scenario):
        spare = spare_bytes(scenario, NOTHING, stage)
        if intercept[stage] != spare:
            return Broken("spare bytes", spare, intercept[stage], f"nothing sold, a rank of stage {stage}")
    for rows, sizes in one_page_of(pool_kind(scenario), scenario.page_size):
        broken = slope_differs(case, rows, sizes, intercept)
        if broken is not None:
            return broken
    for stage, allocated in enumerate(case.allocated_bytes(scenario, answer)):
        expected = sold_bytes(scenario, answer, stage) + intercept[stage]
        if allocated != expected:
            return Broken("allocated bytes", expected, allocated, f"the answer, a rank of stage {stage}")
    return HOLDS


def slope_differs(case: Case, rows: str, sizes: PoolSizes, intercept: tuple[int, ...]) -> Broken | None:
    """How a page of one pool's rows differs in allocation from its price, if it does."""
    scenario = case.scenario
    for stage, allocated in enumerate(case.allocated_bytes(scenario, sizes)):
        price = row_price(pool_kind(scenario), rows, stage_row_bytes(scenario, stage))
        if allocated - intercept[stage] != scenario.page_size * price:
            slope = Fraction(allocated - intercept[stage], scenario.page_size)
            return Broken(f"bytes per {rows} row", price, slope, f"a rank of stage {stage}")
    return None
