"""Available bytes to tokens: the five pool kinds, the user cap, the rank minimum, the request limits.

Letters are those of the docstrings: F, S, D are bytes of one full row over all full layers a stage holds, of one SWA
row over all its SWA layers, and of all draft rows per full row (all-window: per SWA row); r is
`swa_full_tokens_ratio`; P the page size in tokens; A the available bytes of the stage; N the tokens sold.

Upstream: `model_executor/pool_configurator.py`, `mem_cache/kv_cache_configurator.py`.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from spec.advice import advised
from spec.budget import available_bytes
from spec.capped import capped_swa_rows, request_limit
from spec.cell import stage_positions, target_full_row_bytes, target_swa_row_bytes
from spec.draft import draft_price
from spec.layers import ALL_WINDOW_POOL, CAPPED_POOL, HYBRID_POOL, WINDOW_POOLS, pool_kind
from spec.model import PoolSizes, Refusal, Refused, Scenario, refuse
from spec.units import align_down
from spec.validity import check_int, check_scenario

MIN_REQUESTS = 2048
MAX_REQUESTS = 4096
"""Bounds of the running requests SGLang allows when the user gives no number."""
TOKENS_PER_REQUEST_SCALE = 512
"""Its estimate is N * 512 / context_len."""


@dataclass(frozen=True)
class RowBytes:
    """The prices of one rank of one stage: F, S and D, in bytes."""

    full: int
    swa: int
    draft: int


def stage_row_bytes(scenario: Scenario, stage: int) -> RowBytes:
    """F, S and D of a stage, each with the layers *it* holds; draft layers that follow SWA rows are part of S."""
    positions = stage_positions(scenario, stage)
    draft = draft_price(scenario, stage)
    return RowBytes(
        full=target_full_row_bytes(scenario, positions),
        swa=target_swa_row_bytes(scenario, positions) + draft.swa,
        draft=draft.full,
    )


def bytes_per_token(kind: str, row_bytes: RowBytes, ratio: Fraction) -> int | Fraction:
    """What one token of `max_total_num_tokens` costs on this rank (SGLang's "cell size"): F + D; hybrid F + r*S + D;
    all-window S + D. Capped: F + D, its SWA rows are paid beforehand."""
    if kind == HYBRID_POOL:
        return row_bytes.full + ratio * row_bytes.swa + row_bytes.draft
    if kind == ALL_WINDOW_POOL:
        return row_bytes.swa + row_bytes.draft
    return row_bytes.full + row_bytes.draft


def rows_that_fit(available: int, token_bytes: int | Fraction, page_size: int) -> int:
    """`align_down(floor(A / cell), P)`: the one division that sells memory."""
    return align_down(available // token_bytes, page_size)


def hybrid_swa_rows(full_rows: int, ratio: Fraction, page_size: int) -> int:
    """`align_down(floor(r * N), P)`."""
    return align_down(math.floor(ratio * full_rows), page_size)


def stage_rows(scenario: Scenario, stage: int, available: int) -> int | None:
    """N that one stage can hold, None where it holds nothing that costs. Refuses a stage that fits no page."""
    kind = pool_kind(scenario)
    row_bytes = stage_row_bytes(scenario, stage)
    swa_bytes = capped_swa_rows(scenario) * row_bytes.swa if kind == CAPPED_POOL else 0
    token_bytes = bytes_per_token(kind, row_bytes, scenario.swa_full_tokens_ratio)
    page_bytes = math.ceil(scenario.page_size * token_bytes)
    if swa_bytes + page_bytes > available:
        raise refuse(
            "swa_pool_leaves_no_room" if kind == CAPPED_POOL else "no_page_fits",
            f"available_bytes[{stage}]",
            available,
            "lower user_max_running_requests or raise mem_fraction_static"
            if kind == CAPPED_POOL
            else "raise mem_fraction_static, or lower page_size",
            needed=swa_bytes + page_bytes,
            available=available,
        )
    if token_bytes == 0:
        return None
    return rows_that_fit(available - swa_bytes, token_bytes, scenario.page_size)


def agreed_rows(scenario: Scenario) -> int:
    """The N every rank can hold: the smallest of the stages."""
    held = [stage_rows(scenario, stage, available) for stage, available in enumerate(available_bytes(scenario))]
    return min(rows for rows in held if rows is not None)


def capped_rows(scenario: Scenario, rows: int) -> int:
    """`align_down(min(cap, N), P)`: the user cap, in rows per rank."""
    if scenario.max_total_tokens is None:
        return rows
    return align_down(min(scenario.max_total_tokens, rows), scenario.page_size)


def pool_rows(scenario: Scenario, rows: int, *, below_cap: bool) -> tuple[int, int]:
    """(full rows, SWA rows) from the agreed number. Capped: the fixed SWA rows, never more than a binding user cap
    leaves full rows; the rank minimum is not a cap."""
    kind = pool_kind(scenario)
    if kind == ALL_WINDOW_POOL:
        return 0, rows
    if kind == HYBRID_POOL:
        return rows, hybrid_swa_rows(rows, scenario.swa_full_tokens_ratio, scenario.page_size)
    if kind == CAPPED_POOL:
        swa_rows = capped_swa_rows(scenario)
        return rows, min(swa_rows, rows) if below_cap else swa_rows
    return rows, 0


def admission_floor(sliding_window_size: int, page_size: int) -> int:
    """The smallest window pool that admits one request: `swa_rows - window - P >= P`."""
    return sliding_window_size + 2 * page_size


def check_admission(scenario: Scenario, swa_rows: int) -> None:
    """Refuse a window pool that could never admit a request. SGLang's own check, `swa_rows > window + P`, is weaker
    when the window is no multiple of the page: window 127, page 64, 192 rows passes and then refuses every request.
    """
    if pool_kind(scenario) not in WINDOW_POOLS:
        return
    window = scenario.target.sliding_window_size or 0
    floor = admission_floor(window, scenario.page_size)
    if swa_rows < floor:
        raise refuse(
            "window_pool_too_small",
            "swa_max_total_num_tokens",
            swa_rows,
            "raise swa_full_tokens_ratio, the token cap, or mem_fraction_static",
            needed=floor,
            available=swa_rows,
        )


def running_requests(scenario: Scenario, rows: int) -> int:
    """`min(R, N // 2)`: the user's number per attention replica, else an estimate from the context length."""
    if scenario.user_max_running_requests is not None:
        wanted = request_limit(scenario)
    else:
        estimate = rows * TOKENS_PER_REQUEST_SCALE // scenario.context_len
        wanted = max(MIN_REQUESTS, min(estimate, MAX_REQUESTS))
    requests = min(wanted, rows // 2)
    if requests <= 0:
        raise refuse(
            "no_running_request", "max_total_num_tokens", rows, "sell at least two rows", needed=2, available=rows
        )
    return requests


def request_length(scenario: Scenario, rows: int) -> int:
    """`min(context_len - 1, N * attn_dcp_size - 1)`: the longest request, in logical tokens."""
    length = min(scenario.context_len - 1, rows * scenario.deployment.attn_dcp_size - 1)
    if length <= 0:
        raise refuse("no_request_length", "context_len", scenario.context_len, needed=2, available=length + 1)
    return length


def finished_sizes(scenario: Scenario, rows: int, *, below_cap: bool) -> PoolSizes:
    """Every pool from the agreed number."""
    full_rows, swa_rows = pool_rows(scenario, rows, below_cap=below_cap)
    return sizes_of(scenario, rows, full_rows, swa_rows)


def sizes_of(scenario: Scenario, rows: int, full_rows: int, swa_rows: int) -> PoolSizes:
    """The pools with their limits, judged for admission and requests once, on the agreed sizes."""
    check_admission(scenario, swa_rows)
    return PoolSizes(
        max_total_num_tokens=rows,
        full_max_total_num_tokens=full_rows,
        swa_max_total_num_tokens=swa_rows,
        max_running_requests=running_requests(scenario, rows),
        max_req_len=request_length(scenario, rows),
    )


def checked_cap(scenario: Scenario, rows: int, cap: int) -> int:
    """`rows` after a cap, refused when less than a page is left."""
    if rows == 0:
        raise refuse(
            "cap_too_small",
            "max_total_tokens",
            cap,
            "raise max_total_tokens to at least a page",
            needed=scenario.page_size,
            available=cap,
        )
    return rows


def sizes_or_refusal(scenario: Scenario) -> PoolSizes | Refusal:
    """First the rank minimum, then the user cap, then every pool from that N."""
    try:
        check_scenario(scenario)
        rows = agreed_rows(scenario)
        kept = capped_rows(scenario, rows)
        if scenario.max_total_tokens is not None:
            checked_cap(scenario, kept, scenario.max_total_tokens)
        return finished_sizes(scenario, kept, below_cap=kept < rows)
    except Refused as refused:
        return refused.refusal


def starts(scenario: Scenario) -> bool:
    """Whether a scenario is sized at all."""
    return isinstance(sizes_or_refusal(scenario), PoolSizes)


def size_pools(scenario: Scenario) -> PoolSizes | Refusal:
    """The profile path: bytes to tokens. A refusal for want of memory says which fraction would start."""
    answer = sizes_or_refusal(scenario)
    return advised(scenario, answer, starts) if isinstance(answer, Refusal) else answer


def size_pools_from_max_tokens(scenario: Scenario, tokens: int) -> PoolSizes | Refusal:
    """The constraint path: every pool from a number of tokens, in rows per rank, whatever the bytes."""
    try:
        check_scenario(scenario)
        check_int("tokens", tokens, 1)
        rows = checked_cap(scenario, align_down(tokens, scenario.page_size), tokens)
        return finished_sizes(scenario, rows, below_cap=True)
    except Refused as refused:
        return refused.refusal
