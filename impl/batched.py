"""Every pool kind for arrays of scenarios at once, exact or refused.

`size_batch` takes the prices and limits of n scenarios of one pool kind as columns and returns their pools as columns.
Nothing overflows and nothing is rounded: before a batch runs, `kernel_dtype` bounds every number that will be made by
the largest of each column, in Python ints, and picks the cheapest arithmetic that holds them all: float64 below 2**53,
where `floor(a / b)` is `a // b`, then int64, then uint64, then Python ints. `impl/batched_scenarios.py` makes columns
of scenarios.

Why float64 is exact there: a quotient of integers below 2**53 that is not whole lies at least 1/b below the next whole
number, further than the rounding of a division reaches, and rounding is monotone.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch

from spec.layers import ALL_WINDOW_POOL, CAPPED_POOL, HYBRID_POOL, POOL_KINDS, WINDOW_POOLS
from spec.model import refuse
from spec.pools import MAX_REQUESTS, MIN_REQUESTS, TOKENS_PER_REQUEST_SCALE

Column = Any
"""A NumPy array of integers, of shape (n,) or (n, stages); or a torch tensor of integers."""

STAGE_COLUMNS = ("available_bytes", "full", "swa", "draft")
POSITIVE = ("available_bytes", "page_size", "ratio_numerator", "ratio_denominator", "context_len", "attn_dcp_size")
"""Columns without a 0."""

PRICES = {
    **dict.fromkeys(POOL_KINDS, ("full", "draft")),
    HYBRID_POOL: ("full", "swa", "draft"),
    ALL_WINDOW_POOL: ("swa", "draft"),
}
"""What a page of each kind costs: a stage where all of it is 0 sets no N, and some stage must."""

FITS = "fits"
REFUSALS = (
    FITS,
    "no_page_fits",
    "swa_pool_leaves_no_room",
    "cap_too_small",
    "window_pool_too_small",
    "no_running_request",
    "no_request_length",
)
"""What `Sized.refusal` numbers, in the order in which a row is refused."""
NO_PAGE, NO_ROOM, SMALL_CAP, SMALL_WINDOW, NO_REQUEST, NO_LENGTH = range(1, len(REFUSALS))

KERNELS: tuple[tuple[int, Any], ...] = ((2**53, np.float64), (2**63, np.int64), (2**64, np.uint64))
"""(bound, dtype): the arithmetic for numbers below the bound. Above the last: Python ints."""


@dataclass(frozen=True)
class Batch:
    """n scenarios of one pool kind. Columns are integers of shape (n,); the first four, (n, stages).

    available_bytes: bytes of a rank of each stage that the pools may take; at least 1
    full, swa, draft: bytes of one row, F, S and D of `spec/pools.py`
    page_size: tokens; at least 1
    ratio_numerator, ratio_denominator: r as the operator wrote it, 0.8 is 4/5; at most 1, read by the hybrid pool alone
    fixed_swa_rows: SWA rows of the capped pool, in whole pages
    sliding_window_size: tokens, 0 without a window
    max_total_tokens: the user cap in rows a rank, 0 for none
    max_running_requests: the user's number for one attention replica, 0 for none
    context_len: tokens of the longest request; at least 1
    attn_dcp_size: ranks that share a sequence; at least 1
    """

    available_bytes: Column
    full: Column
    swa: Column
    draft: Column
    page_size: Column
    ratio_numerator: Column
    ratio_denominator: Column
    fixed_swa_rows: Column
    sliding_window_size: Column
    max_total_tokens: Column
    max_running_requests: Column
    context_len: Column
    attn_dcp_size: Column


@dataclass(frozen=True)
class Sized:
    """What became of n scenarios; columns of shape (n,), 0 in a row that is refused.

    max_total_num_tokens, full_max_total_num_tokens, swa_max_total_num_tokens: rows a rank
    max_running_requests: of an attention replica
    max_req_len: logical tokens
    refusal: a position in `REFUSALS`
    stage: the stage that refuses a row for want of bytes, else 0
    """

    max_total_num_tokens: Column
    full_max_total_num_tokens: Column
    swa_max_total_num_tokens: Column
    max_running_requests: Column
    max_req_len: Column
    refusal: Column
    stage: Column


def names(record: Batch | Sized) -> list[str]:
    """The columns of a record."""
    return [field.name for field in fields(record)]


def size_batch(kind: str, batch: Batch) -> Sized:
    """The pools of every row, profile path: bytes to tokens. A batch of torch tensors gives torch tensors.

    Raises `Refused` (`invalid_input`) with column, position and value of the first entry that is no number the column
    may have."""
    return answered(kind, batch, profile_path)


def size_batch_from_max_tokens(kind: str, batch: Batch, tokens: Column) -> Sized:
    """The pools of every row, constraint path: `tokens` rows a rank, of shape (n,), whatever the bytes.

    Raises `Refused` as `size_batch` does."""
    return answered(kind, replace(batch, max_total_tokens=tokens), constraint_path, ("max_total_tokens",))


def answered(
    kind: str, batch: Batch, path: Callable[[str, Batch], Sized], also_positive: tuple[str, ...] = ()
) -> Sized:
    """The answer in the arrays of the question: NumPy's, or torch's on the device of the first column."""
    if kind not in POOL_KINDS:
        raise refuse("invalid_input", "kind", kind, f"choose one of {', '.join(POOL_KINDS)}")
    columns = checked(kind, batch, (*POSITIVE, *also_positive))
    dtype = kernel_dtype(kind, columns)
    answer = path(kind, Batch(**{name: getattr(columns, name).astype(dtype) for name in names(columns)}))
    first = batch.available_bytes
    if not isinstance(first, torch.Tensor):
        return answer
    return Sized(**{name: torch.from_numpy(getattr(answer, name)).to(first.device) for name in names(answer)})


# What a column may hold.


def checked(kind: str, batch: Batch, positive: tuple[str, ...]) -> Batch:
    """The batch as NumPy arrays of integers that are in range and of one length, with a price in every row."""
    columns = {name: integers(name, getattr(batch, name)) for name in names(batch)}
    shape = columns["available_bytes"].shape
    for name, column in columns.items():
        expected = shape if name in STAGE_COLUMNS else shape[:1]
        if column.shape != expected or column.ndim not in (1, 2) or not column.size:
            raise refuse("invalid_input", name, column.shape, "give columns of one length", needed=expected)
        require(name, column, column >= (1 if name in positive else 0), "give an integer in range")
    ratio_is_sound = columns["ratio_numerator"] <= columns["ratio_denominator"]
    require("ratio_numerator", columns["ratio_numerator"], ratio_is_sound, "give a ratio of at most 1")
    priced = sum((columns[name] > 0 for name in PRICES[kind]), start=np.zeros(shape, dtype=bool))
    name = PRICES[kind][0]
    require(name, columns[name], priced.any(axis=1), "give a price above 0 on some stage")
    return Batch(**columns)


def integers(name: str, column: Column) -> Column:
    """A column as a NumPy array of integers, Python ints where they are longer than 64 bits. Floats are turned away:
    above 2**53 they are not the numbers that were meant."""
    array = column.cpu().numpy() if isinstance(column, torch.Tensor) else np.asarray(column)
    if array.dtype == object:
        sound = np.array([type(value) is int for value in array.ravel()], dtype=bool).reshape(array.shape)
        require(name, array, sound, "give integers")
    elif array.dtype.kind not in "iu":
        raise refuse("invalid_input", name, str(array.dtype), "give integers", needed="an integer dtype")
    return array


def require(name: str, column: Column, sound: Column, advice: str) -> None:
    """Refuses the first entry of a column that is not sound."""
    if not sound.all():
        position = tuple(int(axis) for axis in np.argwhere(~sound)[0])
        where = ", ".join(map(str, position))
        raise refuse("invalid_input", f"{name}[{where}]", int_or_value(column[position]), advice)


def int_or_value(value: Any) -> Any:
    """A NumPy integer as a Python int."""
    return int(value) if isinstance(value, np.integer) else value


# Which arithmetic holds all numbers.


def largest(column: Column) -> int:
    """The largest entry."""
    return int(column.max())


def bounds(kind: str, batch: Batch) -> list[int]:
    """Above every number that sizing makes, by the largest entry of each column.

    Terms that hang together are bounded by what they mean: rows times their price fit in the bytes, in units of 1/q
    byte, and so do p times the rows, which come with SWA rows that are paid for, or with full rows at p <= q.
    """
    most = {name: largest(getattr(batch, name)) for name in names(batch)}
    units = most["ratio_denominator"] if kind == HYBRID_POOL else 1
    page = most["page_size"] * (
        (most["full"] + most["draft"]) * units + most["swa"] * (most["ratio_numerator"] if kind == HYBRID_POOL else 1)
    )
    return [
        most["available_bytes"] * units,
        page,
        most["fixed_swa_rows"] * most["swa"] if kind == CAPPED_POOL else 0,
        most["fixed_swa_rows"],
        most["max_total_tokens"] * (most["ratio_numerator"] if kind == HYBRID_POOL else 1),
        most["sliding_window_size"] + 2 * most["page_size"],
        most["max_running_requests"],
        most["context_len"] * max(MAX_REQUESTS, most["attn_dcp_size"]),
    ]


def kernel_dtype(kind: str, batch: Batch) -> Any:
    """The cheapest arithmetic that is exact for a checked batch."""
    above = max(bounds(kind, batch))
    return next((dtype for bound, dtype in KERNELS if above < bound), object)


def quotient(dividend: Column, divisor: Column) -> Column:
    """`dividend // divisor` of numbers in range; `//` of NumPy's floats takes a remainder, which is slow."""
    return np.floor(dividend / divisor) if dividend.dtype == np.float64 else dividend // divisor


def whole_pages(rows: Column, page_size: Column) -> Column:
    """`align_down(rows, P)`."""
    return quotient(rows, page_size) * page_size


# The sizing itself.


def profile_path(kind: str, batch: Batch) -> Sized:
    """Bytes to tokens."""
    rows, short = agreed_rows(kind, batch)
    cap, page_size = batch.max_total_tokens, batch.page_size
    below_cap = (cap > 0) & (cap < rows)
    kept = np.where(below_cap, whole_pages(cap, page_size), rows)
    refusal = np.where(short.any(axis=1), NO_ROOM if kind == CAPPED_POOL else NO_PAGE, 0)
    refusal = np.where((refusal == 0) & below_cap & (cap < page_size), SMALL_CAP, refusal)
    return finished(kind, batch, kept, below_cap, refusal, short.argmax(axis=1))


def constraint_path(kind: str, batch: Batch) -> Sized:
    """Tokens, which stand where the user cap does, to pools."""
    cap = batch.max_total_tokens
    refusal = np.where(cap < batch.page_size, SMALL_CAP, 0)
    everywhere = np.ones(len(refusal), dtype=bool)
    return finished(kind, batch, whole_pages(cap, batch.page_size), everywhere, refusal, np.zeros_like(refusal))


def paid_and_page_cost(kind: str, batch: Batch) -> tuple[Column, Column, Column]:
    """(bytes paid before any page, bytes of a page, both by stage and in units; units a byte by row)."""
    pages = batch.page_size[:, None]
    units, nothing = np.ones_like(batch.page_size), np.zeros_like(batch.full)
    if kind == HYBRID_POOL:
        units = batch.ratio_denominator
        swa = batch.swa * batch.ratio_numerator[:, None]
        return nothing, ((batch.full + batch.draft) * units[:, None] + swa) * pages, units
    if kind == ALL_WINDOW_POOL:
        return nothing, (batch.swa + batch.draft) * pages, units
    paid = batch.swa * batch.fixed_swa_rows[:, None] if kind == CAPPED_POOL else nothing
    return paid, (batch.full + batch.draft) * pages, units


def agreed_rows(kind: str, batch: Batch) -> tuple[Column, Column]:
    """(the N every stage can hold, which stages are short of a page or of what is paid first). A stage where nothing
    costs anything sets no N."""
    paid, page_cost, units = paid_and_page_cost(kind, batch)
    there = batch.available_bytes * units[:, None]
    left = there - np.minimum(paid, there)
    costs = page_cost > 0
    pages = quotient(left, np.maximum(page_cost, 1))
    short = np.where(costs, pages < 1, there < paid)
    most = np.broadcast_to(there.max(axis=1, keepdims=True), there.shape)
    return np.where(costs, pages, most).min(axis=1) * batch.page_size, short


def pool_rows(kind: str, batch: Batch, rows: Column, below_cap: Column) -> tuple[Column, Column]:
    """(full rows, SWA rows) of the agreed N."""
    if kind == HYBRID_POOL:
        ratio_rows = quotient(rows * batch.ratio_numerator, batch.ratio_denominator)
        return rows, whole_pages(ratio_rows, batch.page_size)
    if kind == ALL_WINDOW_POOL:
        return np.zeros_like(rows), rows
    if kind == CAPPED_POOL:
        fixed = batch.fixed_swa_rows
        return rows, np.where(below_cap & (rows < fixed), rows, fixed)
    return rows, np.zeros_like(rows)


def running_requests(batch: Batch, rows: Column) -> Column:
    """`min(R, N // 2)`, R the user's number, else N * 512 // context_len within its bounds, which N above 8 contexts
    does not move."""
    context_len, given = batch.context_len, batch.max_running_requests
    scale = TOKENS_PER_REQUEST_SCALE
    counted = np.minimum(rows, context_len * (MAX_REQUESTS // scale))
    estimate = np.clip(quotient(counted * scale, context_len), MIN_REQUESTS, MAX_REQUESTS)
    return np.minimum(np.where(given > 0, given, estimate), quotient(rows, np.full_like(rows, 2)))


def request_length(batch: Batch, rows: Column) -> Column:
    """`min(context_len, N * attn_dcp_size)`, one more than the longest request; N above a context does not move it."""
    return np.minimum(batch.context_len, np.minimum(rows, batch.context_len) * batch.attn_dcp_size)


def finished(kind: str, batch: Batch, rows: Column, below_cap: Column, refusal: Column, stage: Column) -> Sized:
    """Every pool of the agreed N, or the first reason why a row has none."""
    full_rows, swa_rows = pool_rows(kind, batch, rows, below_cap)
    requests, length = running_requests(batch, rows), request_length(batch, rows)
    if kind in WINDOW_POOLS:
        floor = batch.sliding_window_size + 2 * batch.page_size
        refusal = np.where((refusal == 0) & (swa_rows < floor), SMALL_WINDOW, refusal)
    refusal = np.where((refusal == 0) & (requests < 1), NO_REQUEST, refusal)
    refusal = np.where((refusal == 0) & (length < 2), NO_LENGTH, refusal)
    whole = np.int64 if rows.dtype == np.float64 else rows.dtype
    sold = (refusal == 0).astype(rows.dtype)
    figures = (rows, full_rows, swa_rows, requests, np.maximum(length, 1) - 1)
    short_of_bytes = (refusal == NO_PAGE) | (refusal == NO_ROOM)
    stage = np.where(short_of_bytes, stage, 0)
    told = [column.astype(np.int64) for column in (refusal, stage)]
    return Sized(*((column * sold).astype(whole) for column in figures), *told)
