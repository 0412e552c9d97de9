"""What an engine that sizes hybrid pools in float may answer beside the exact number, and where.

SGLang keeps `swa_full_tokens_ratio` as a float: `F + r*S + D` and `r*N` carry its rounding. Where the exact quotient
or product is a whole number of pages, the float may fall just below it: N is a page lower, or the SWA rows are, or
both; never higher. A ratio that is a sum of halves is exact in float, and so is every other pool kind, which divides
integers. An implementation says `exact = False` to be judged so.
"""

from fractions import Fraction

from spec.advice import SHORT_OF_MEMORY
from spec.budget import available_bytes
from spec.laws.base import HOLDS, SIZE_FIELDS, Answer, Broken, Case, Verdict, first_difference
from spec.layers import HYBRID_POOL, pool_kind
from spec.model import Refusal, Refused, Scenario
from spec.pools import (
    agreed_rows,
    bytes_per_token,
    capped_rows,
    hybrid_swa_rows,
    sizes_of,
    sizes_or_refusal,
    stage_row_bytes,
)

SHORTAGES = {*SHORT_OF_MEMORY, "cap_too_small"}
"""Refusals of too few rows, whatever took them."""
AFTER_SOLVING = ("window_pool_too_small", "no_running_request", "no_request_length")
"""Refusals of sizes that were solved for; all others come before."""


def is_exact_in_float(ratio: Fraction) -> bool:
    """Whether the ratio is a sum of halves."""
    return ratio.denominator & (ratio.denominator - 1) == 0


def is_on_a_boundary(scenario: Scenario, rows: int) -> bool:
    """Whether the bytes of some stage are exactly the price of `rows`."""
    ratio = scenario.swa_full_tokens_ratio
    return any(
        rows * bytes_per_token(HYBRID_POOL, stage_row_bytes(scenario, stage), ratio) == available
        for stage, available in enumerate(available_bytes(scenario))
    )


def float_rows(scenario: Scenario) -> list[int]:
    """N as the exact sum gives it and, on a boundary, a page lower."""
    rows = agreed_rows(scenario)
    return [rows, rows - scenario.page_size] if is_on_a_boundary(scenario, rows) else [rows]


def float_swa_rows(scenario: Scenario, rows: int) -> list[int]:
    """The SWA rows of N and, where `r*N` is a whole number of pages, a page lower."""
    ratio, page_size = scenario.swa_full_tokens_ratio, scenario.page_size
    swa_rows = hybrid_swa_rows(rows, ratio, page_size)
    return [swa_rows, swa_rows - page_size] if ratio * rows == swa_rows else [swa_rows]


def answer_of(scenario: Scenario, rows: int, swa_rows: int) -> Answer:
    """The hybrid answer with these rows, or its refusal."""
    try:
        return sizes_of(scenario, rows, full_rows=rows, swa_rows=swa_rows)
    except Refused as refused:
        return refused.refusal


def float_answers(scenario: Scenario) -> list[Answer]:
    """The exact answer first, then those a float engine may give in its place."""
    exact = sizes_or_refusal(scenario)
    if isinstance(exact, Refusal) and exact.kind not in AFTER_SOLVING:
        return [exact]
    if pool_kind(scenario) != HYBRID_POOL or is_exact_in_float(scenario.swa_full_tokens_ratio):
        return [exact]
    found = [exact]
    for held in float_rows(scenario):
        rows = capped_rows(scenario, held)
        if rows == 0:
            found.append(Refusal("no_page_fits", "available_bytes", 0))
            continue
        found += [answer_of(scenario, rows, swa_rows) for swa_rows in float_swa_rows(scenario, rows)]
    return found


def agree(expected: Answer, got: Answer, fields: tuple[str, ...] = SIZE_FIELDS) -> Broken | None:
    """The first field in which two answers differ. Which of several shortages a refusal names is the implementation's
    choice: a size of no rows is short of a page, of a window and of a request."""
    if isinstance(expected, Refusal) and isinstance(got, Refusal) and {expected.kind, got.kind} <= SHORTAGES:
        return None
    return first_difference(expected, got, fields)


def right_answers(case: Case, scenario: Scenario) -> list[Answer]:
    """The answers the implementation may give: the spec's, or those of a float engine."""
    return [sizes_or_refusal(scenario)] if case.exact else float_answers(scenario)


def unless_float(case: Case, verdict: Verdict, *asked: tuple[Scenario, Answer]) -> Verdict:
    """The verdict; HOLDS where it complains of a float engine all of whose answers are right to a page."""
    if not isinstance(verdict, Broken) or case.exact:
        return verdict
    for scenario, answer in asked:
        if all(agree(right, answer) for right in float_answers(scenario)):
            return verdict
    return HOLDS


def may_need_a_byte_more(case: Case, scenario: Scenario) -> bool:
    """Whether a price observed of the implementation may be a byte above the exact one."""
    return (
        not case.exact and pool_kind(scenario) == HYBRID_POOL and not is_exact_in_float(scenario.swa_full_tokens_ratio)
    )
