"""B: the sum of all pools against the bytes there are."""

import math

from spec.accounting import sold_bytes
from spec.budget import available_bytes
from spec.capped import cap_keeps_swa_rows, capped_swa_rows
from spec.laws.base import (
    HOLDS,
    NOT_JUDGED,
    ROW_FIELDS,
    SIZE_FIELDS,
    Broken,
    Case,
    Verdict,
    cap_may_bind,
    draft_is_resolved,
    stages,
    with_budget,
)
from spec.laws.floats import unless_float
from spec.layers import CAPPED_POOL, HYBRID_POOL, pool_kind
from spec.model import PoolSizes, Refusal, Scenario
from spec.pools import bytes_per_token, stage_row_bytes


def fits_the_budget(case: Case) -> Verdict:
    """Compares `spec/accounting.py` with the available bytes, stage by stage."""
    if isinstance(case.answer, Refusal) or not draft_is_resolved(case.scenario):
        return NOT_JUDGED
    for stage, available in enumerate(available_bytes(case.scenario)):
        allocated = sold_bytes(case.scenario, case.answer, stage)
        if allocated > available:
            return Broken("allocated bytes", f"at most {available}", allocated, f"a rank of stage {stage}")
    return HOLDS


def one_more_page_overflows(scenario: Scenario, stage: int, available: int, rows: int, swa_rows: int) -> bool:
    """`(N + P) * cell > A` on one rank of `stage`; capped: after the SWA pool is paid."""
    kind = pool_kind(scenario)
    row_bytes = stage_row_bytes(scenario, stage)
    paid = swa_rows * row_bytes.swa if kind == CAPPED_POOL else 0
    cell = bytes_per_token(kind, row_bytes, scenario.swa_full_tokens_ratio)
    return (rows + scenario.page_size) * cell > available - paid


def wastes_less_than_a_page(case: Case) -> Verdict:
    """A refusal for want of a page counts as zero rows. Not "one more page of real bytes would not fit": hybrid with
    A=4, F=S=1, r=1/2, P=1 solves to (2, 1), and (3, 1) costs 4."""
    return unless_float(case, wasted_page(case), (case.scenario, case.answer))


def wasted_page(case: Case) -> Verdict:
    """B2 of an exact answer."""
    scenario, answer = case.scenario, case.answer
    if not draft_is_resolved(scenario):
        return NOT_JUDGED
    if isinstance(answer, Refusal):
        if answer.kind not in ("no_page_fits", "swa_pool_leaves_no_room"):
            return NOT_JUDGED
        rows = 0
        swa_rows = capped_swa_rows(scenario) if pool_kind(scenario) == CAPPED_POOL else 0
    else:
        rows, swa_rows = answer.max_total_num_tokens, answer.swa_max_total_num_tokens
    if cap_may_bind(scenario, rows):
        return NOT_JUDGED
    if not any(
        one_more_page_overflows(scenario, stage, available, rows, swa_rows)
        for stage, available in enumerate(available_bytes(scenario))
    ):
        return Broken("max_total_num_tokens", "less than a page left on some rank", rows, "every rank has a page left")
    product = scenario.swa_full_tokens_ratio * rows
    if pool_kind(scenario) == HYBRID_POOL and not product - scenario.page_size < swa_rows <= product:
        return Broken("swa_max_total_num_tokens", f"above {product - scenario.page_size}, at most {product}", swa_rows)
    return HOLDS


def sells_whole_pages(case: Case) -> Verdict:
    """Every pool is a multiple of the page size."""
    if isinstance(case.answer, Refusal):
        return NOT_JUDGED
    for name in ROW_FIELDS:
        if getattr(case.answer, name) % case.scenario.page_size:
            return Broken(name, f"a multiple of {case.scenario.page_size}", getattr(case.answer, name))
    return HOLDS


def larger_budgets(scenario: Scenario) -> list[tuple[int, ...]]:
    """A byte more, a page more, and twice as much, on every stage."""
    now = available_bytes(scenario)
    page_bytes = [
        math.ceil(
            scenario.page_size
            * bytes_per_token(pool_kind(scenario), stage_row_bytes(scenario, stage), scenario.swa_full_tokens_ratio)
        )
        for stage in stages(scenario)
    ]
    return [
        tuple(available + 1 for available in now),
        tuple(available + page for available, page in zip(now, page_bytes, strict=True)),
        tuple(2 * available for available in now),
    ]


def more_memory_never_buys_less(case: Case) -> Verdict:
    """Asks again with a byte more, a page more and twice the bytes."""
    scenario, answer = case.scenario, case.answer
    if isinstance(answer, Refusal) or not cap_keeps_swa_rows(scenario):
        return NOT_JUDGED
    for stage_bytes in larger_budgets(scenario):
        more = case.ask(with_budget(scenario, stage_bytes))
        broken = less_than(answer, more, f"with {stage_bytes} bytes")
        if broken is not None:
            return broken
    return HOLDS


def less_than(before: PoolSizes, after: PoolSizes | Refusal, where: str) -> Broken | None:
    """The first size that fell, or the refusal that came, from `before` to `after`."""
    if isinstance(after, Refusal):
        return Broken("refusal", "an answer", after.kind, where)
    for name in SIZE_FIELDS:
        if getattr(after, name) < getattr(before, name):
            return Broken(name, f"at least {getattr(before, name)}", getattr(after, name), where)
    return None
