"""The categories of a scenario, all their values, and the pairs of values that cannot meet."""

import math

from properties.cells import DEPLOYMENTS, DRAFTS, cell_of
from spec.budget import available_bytes
from spec.capped import capped_swa_rows
from spec.dtypes import FP4_DTYPES, KV_CACHE_DTYPES
from spec.layers import CAPPED_POOL, POOL_KINDS, WINDOW_POOLS, pool_kind
from spec.model import MemoryFigures, Refusal, Scenario
from spec.pools import agreed_rows, bytes_per_token, size_pools, stage_row_bytes
from spec.units import GiB, align_down

VALUES = {
    "pool": POOL_KINDS,
    "draft": ("none", *DRAFTS),
    "geometry": ("", "same", "own"),
    "deployment": DEPLOYMENTS,
    "kv dtype": KV_CACHE_DTYPES,
    "draft dtype": ("same", "other"),
    "page size": ("1", "2 to 15", "16 to 64", "65 to 256"),
    "user cap": ("none", "below", "above"),
    "budget": ("too small", "on the page", "a byte over", "a byte short", "between", "GiB"),
}
"""Every category of the scenario space and its values."""

PAGES = ((1, "1"), (15, "2 to 15"), (64, "16 to 64"), (256, "65 to 256"))
TOO_SMALL = ("no_page_fits", "swa_pool_leaves_no_room", "no_memory_left")


def pairs(one: str, values: tuple[str, ...], other: str, others: tuple[str, ...]) -> set[frozenset[tuple[str, str]]]:
    """Every pair of these values of two categories."""
    return {frozenset(((one, value), (other, another))) for value in values for another in others}


IMPOSSIBLE_PAIRS = (
    pairs("pool", WINDOW_POOLS, "deployment", ("dcp",))
    | pairs("pool", WINDOW_POOLS, "kv dtype", FP4_DTYPES)
    | pairs("draft", ("none",), "geometry", ("same", "own"))
    | pairs("draft", tuple(DRAFTS), "geometry", ("",))
    | pairs("draft", ("none",), "draft dtype", ("other",))
    | pairs("geometry", ("",), "draft dtype", ("other",))
    | pairs("budget", ("too small",), "user cap", ("below",))
)
"""Window pools run without DCP and store no FP4; no draft has no geometry and no dtype of its own; what buys nothing
cannot be capped."""


def categories(scenario: Scenario) -> dict[str, str]:
    """The value of every category."""
    cell = cell_of(scenario)
    return {
        "pool": cell.pool,
        "draft": cell.draft,
        "geometry": cell.geometry,
        "deployment": cell.deployment,
        "kv dtype": scenario.kv_cache_dtype,
        "draft dtype": cell.draft_dtype,
        "page size": next(name for most, name in PAGES if scenario.page_size <= most),
        "user cap": cap_category(scenario),
        "budget": budget_category(scenario),
    }


def buys_nothing(scenario: Scenario) -> bool:
    """Whether the bytes do not even buy a page."""
    answer = size_pools(scenario)
    return isinstance(answer, Refusal) and answer.kind in TOO_SMALL


def cap_category(scenario: Scenario) -> str:
    """Whether the user cap binds."""
    if scenario.max_total_tokens is None:
        return "none"
    if buys_nothing(scenario):
        return "above"
    return "below" if align_down(scenario.max_total_tokens, scenario.page_size) < agreed_rows(scenario) else "above"


def budget_category(scenario: Scenario) -> str:
    """Where the bytes of the last stage that costs anything lie beside a whole number of pages."""
    if buys_nothing(scenario):
        return "too small"
    kind = pool_kind(scenario)
    for stage, available in reversed(list(enumerate(available_bytes(scenario)))):
        row_bytes = stage_row_bytes(scenario, stage)
        page_bytes = scenario.page_size * bytes_per_token(kind, row_bytes, scenario.swa_full_tokens_ratio)
        if page_bytes == 0:
            continue
        if kind == CAPPED_POOL:
            available -= capped_swa_rows(scenario) * row_bytes.swa
        if available >= GiB and not isinstance(scenario.budget, MemoryFigures):
            return "GiB"
        pages = available // page_bytes
        over = available - math.ceil(pages * page_bytes)
        short = math.ceil((pages + 1) * page_bytes) - available
        return {0: "on the page", 1: "a byte over"}.get(over, "a byte short" if short == 1 else "between")
    raise AssertionError("a valid scenario has a stage that costs something")
