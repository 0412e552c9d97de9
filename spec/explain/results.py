"""The three results, which are not each other: bytes a workload needs, bytes the pools reserve, tokens sold.

And what the two bars show: a rank's memory by owner, one token's bytes by term.
"""

from dataclasses import dataclass
from fractions import Fraction

from spec.accounting import sold_bytes, spare_bytes, stage_buffers
from spec.budget import available_bytes
from spec.capped import swa_rows_per_request
from spec.cell import stage_positions, target_swa_row_bytes
from spec.draft import draft_price
from spec.explain.setup import Setup
from spec.layers import ALL_WINDOW_POOL, CAPPED_POOL, HYBRID_POOL, pool_kind
from spec.model import PoolSizes, Refusal, Scenario
from spec.pools import RowBytes, agreed_rows, stage_row_bytes, stage_rows
from spec.units import align_up, ceil_div


@dataclass(frozen=True)
class Needed:
    """What so many requests of one context need. full_rows, swa_rows: of one request on one rank, whole pages;
    rank_bytes: of all of them on the rank that needs most. at_once: how many such requests the pools
    hold, None where refused."""

    context_tokens: int
    batch: int
    full_rows: int
    swa_rows: int
    rank_bytes: int
    at_once: int | None


@dataclass(frozen=True)
class Segment:
    """One part of a bar, in bytes."""

    name: str
    bytes: int | Fraction


@dataclass(frozen=True)
class Reserved:
    """What one rank of a stage reserves: bytes sold, bytes of spare rows, what is left of the available bytes."""

    stage: int
    sold_bytes: int
    spare_bytes: int
    available_bytes: int

    @property
    def left_bytes(self) -> int:
        """Available bytes that no row takes."""
        return self.available_bytes - self.sold_bytes


def rows_of_request(scenario: Scenario) -> tuple[int, int]:
    """Full and SWA rows that one request of `context_len` holds on one rank, in whole pages. DCP splits its tokens; of
    a window layer it never holds more than its window and what is on the way."""
    kind, page_size = pool_kind(scenario), scenario.page_size
    rows = align_up(ceil_div(scenario.context_len, scenario.deployment.attn_dcp_size), page_size)
    windowed = min(rows, align_up(swa_rows_per_request(scenario), page_size))
    if kind == ALL_WINDOW_POOL:
        return 0, windowed
    return rows, windowed if kind in (HYBRID_POOL, CAPPED_POOL) else 0


def rows_bytes(kind: str, price: RowBytes, full_rows: int, swa_rows: int) -> int:
    """Bytes of some rows: the draft's follow the full rows, without a full pool the SWA rows."""
    return (
        full_rows * price.full
        + swa_rows * price.swa
        + (swa_rows if kind == ALL_WINDOW_POOL else full_rows) * price.draft
    )


def requests_at_once(scenario: Scenario, sizes: PoolSizes, full_rows: int, swa_rows: int) -> int:
    """How many requests the pools hold side by side, none where one is longer than the longest request."""
    if scenario.context_len - 1 > sizes.max_req_len:
        return 0
    held = [sizes.max_running_requests]
    if full_rows:
        held.append(sizes.full_max_total_num_tokens // full_rows)
    if swa_rows:
        held.append(sizes.swa_max_total_num_tokens // swa_rows)
    return min(held)


def needed(setup: Setup, answer: PoolSizes | Refusal) -> Needed:
    """The bytes of the workload that was asked for, whatever there is."""
    scenario, kind = setup.scenario, pool_kind(setup.scenario)
    full_rows, swa_rows = rows_of_request(scenario)
    prices = [stage_row_bytes(scenario, stage) for stage in range(scenario.deployment.pp_size)]
    rank_bytes = setup.batch * max(rows_bytes(kind, price, full_rows, swa_rows) for price in prices)
    at_once = None
    if isinstance(answer, PoolSizes):
        at_once = requests_at_once(scenario, answer, full_rows, swa_rows)
    return Needed(scenario.context_len, setup.batch, full_rows, swa_rows, rank_bytes, at_once)


def reserved(scenario: Scenario, sizes: PoolSizes) -> tuple[Reserved, ...]:
    """What each stage reserves for the tokens sold."""
    return tuple(
        Reserved(stage, sold_bytes(scenario, sizes, stage), spare_bytes(scenario, sizes, stage), available)
        for stage, available in enumerate(available_bytes(scenario))
    )


def limiting_stage(scenario: Scenario) -> int:
    """The stage whose N is the smallest: the one the bars show."""
    rows = agreed_rows(scenario)
    held = [stage_rows(scenario, stage, available) for stage, available in enumerate(available_bytes(scenario))]
    return held.index(rows)


def pool_segments(scenario: Scenario, sizes: PoolSizes, stage: int) -> list[Segment]:
    """Sold bytes of the full, SWA and draft pools of a rank, then all spare rows."""
    sold = {"full pool": 0, "SWA pool": 0, "draft pool": 0}
    for buffer in stage_buffers(scenario, sizes, stage):
        name = "draft pool" if buffer.owner == "draft" else "SWA pool" if buffer.pool == "swa" else "full pool"
        sold[name] += buffer.sold_bytes
    spare = Segment("spare pages", spare_bytes(scenario, sizes, stage))
    return [Segment(name, count) for name, count in sold.items()] + [spare]


def memory_bar(setup: Setup, sizes: PoolSizes) -> tuple[Segment, ...]:
    """One rank's memory from the first byte to the last; parts of nothing are left out. Without the GPU's bytes: the
    available ones, beside which the spare pages lie."""
    scenario = setup.scenario
    stage = limiting_stage(scenario)
    pools = pool_segments(scenario, sizes, stage)
    weights = [Segment("weights", setup.weight_bytes or 0), Segment("draft weights", setup.draft_weight_bytes or 0)]
    if setup.gpu_bytes is None:
        left = available_bytes(scenario)[stage] - sum(one.bytes for one in pools[:-1])
        bar = [*pools[:-1], Segment("not sold", left)]
    else:
        parts = weights + pools
        bar = [*parts, Segment("slack", setup.gpu_bytes - sum(one.bytes for one in parts))]
    return tuple(one for one in bar if one.bytes)


def token_bar(scenario: Scenario) -> tuple[Segment, ...]:
    """The bytes of one token sold, by term, on the last stage, where the draft lives."""
    stage, kind, ratio = scenario.deployment.pp_size - 1, pool_kind(scenario), scenario.swa_full_tokens_ratio
    price, draft = stage_row_bytes(scenario, stage), draft_price(scenario, stage)
    swa = target_swa_row_bytes(scenario, stage_positions(scenario, stage))
    times = {HYBRID_POOL: ratio, ALL_WINDOW_POOL: Fraction(1)}.get(kind, Fraction(0))
    bar = (
        Segment("target, full rows", price.full),
        Segment("target, SWA rows", times * swa),
        Segment("draft, SWA rows", times * draft.swa),
        Segment("draft", price.draft),
    )
    return tuple(one for one in bar if one.bytes)
