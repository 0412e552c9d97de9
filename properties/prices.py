"""What an implementation charges for a row of each pool, found by asking it: no implementation needs to say it.

Two budgets that differ by many pages, all other stages in plenty, differ in rows by what a token costs; without the
draft a token costs less by the draft's term, and with another ratio by the SWA rows'. What the same rows take is
counted from the buffers of `spec/accounting.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from impl import Implementation
from impl.reference import Reference
from properties.judge import UnlistedAnswer, Unsupported, listed_answer
from spec.accounting import sold_bytes, stage_buffers
from spec.budget import available_bytes
from spec.laws.base import is_valid
from spec.layers import ALL_WINDOW_POOL, CAPPED_POOL, HYBRID_POOL, WINDOW_POOLS, pool_kind
from spec.model import PoolSizes, Refused, Scenario
from spec.pools import bytes_per_token, stage_row_bytes

MANY_PAGES = 2**30
"""Pages between two budgets: the rounding of both is then far below the smallest difference of two prices."""
PLENTY_BYTES = 2**80
"""What the other stages have: they never set N."""
HALF, ONE = Fraction(1, 2), Fraction(1)
"""Two ratios of SWA to full rows."""


@dataclass(frozen=True)
class PoolPrice:
    """One pool on one rank of a stage: bytes charged for a row by the implementation and by the spec, bytes a row takes
    (draft: all its rows for one token), rows sold, bytes they take. A price is None where nobody can be asked."""

    stage: int
    pool: str
    priced: Fraction | None
    spec_priced: Fraction | None
    allocated: Fraction
    rows: int
    bytes: int

    @property
    def is_off(self) -> bool:
        """Whether a row is charged at anything but what the spec charges, which is what it takes where the draft is
        resolved."""
        return self.priced is not None and self.priced != self.spec_priced


@dataclass(frozen=True)
class StageBytes:
    """The rank where most is missing: bytes of the rows sold, bytes there are."""

    stage: int
    allocated: int
    available: int

    @property
    def over(self) -> int:
        """Bytes beyond what there is; below zero some are left."""
        return self.allocated - self.available

    def text(self) -> str:
        """`36 of 24 B, OVER by 12 B (50.0 %)`."""
        share = f"{100 * abs(self.over) / self.available:.1f} %" if self.available else "all"
        beyond = f"OVER by {self.over:,} B" if self.over > 0 else f"{-self.over:,} B left"
        return f"{self.allocated:,} of {self.available:,} B, {beyond} ({share})"


def on_stage(scenario: Scenario, stage: int, budget: int) -> Scenario:
    """The scenario with these bytes on one stage and plenty on the others, without a user cap."""
    stages = scenario.deployment.pp_size
    budgets = tuple(budget if one == stage else PLENTY_BYTES for one in range(stages))
    return replace(scenario, budget=budgets, max_total_tokens=None)


def rows_for(implementation: Implementation, scenario: Scenario) -> int | None:
    """Tokens sold, None where nothing is said, or a refusal."""
    if not is_valid(scenario):
        return None
    try:
        answer = listed_answer(implementation, scenario)
    except (UnlistedAnswer, Unsupported):
        return None
    return answer.max_total_num_tokens if isinstance(answer, PoolSizes) else None


def token_price(implementation: Implementation, scenario: Scenario, stage: int) -> Fraction | None:
    """Bytes charged for a token on one rank of a stage: a multiple of one over the ratio's denominator. 0 where more
    bytes there buy no more tokens, which others set; None where none are sold."""
    ratio = scenario.swa_full_tokens_ratio
    cell = bytes_per_token(pool_kind(scenario), stage_row_bytes(scenario, stage), ratio)
    step = max(1, int(cell)) * scenario.page_size * MANY_PAGES
    fewer, more = (rows_for(implementation, on_stage(scenario, stage, times * step)) for times in (1, 2))
    if not fewer or more is None or more < fewer:
        return None
    if more == fewer:
        return Fraction(0)
    return Fraction(round(Fraction(step, more - fewer) * ratio.denominator), ratio.denominator)


def difference(left: Fraction | None, right: Fraction | None) -> Fraction | None:
    """What one price is more than another, None where one is not known."""
    return None if left is None or right is None else left - right


def hybrid_prices(
    implementation: Implementation, scenario: Scenario, stage: int
) -> tuple[Fraction | None, Fraction | None]:
    """Bytes charged for a full row and for an SWA row of a hybrid pool, told apart by two ratios, both exact in float:
    what a draft adds to either is in it."""
    at_one, at_half = (
        token_price(implementation, replace(scenario, swa_full_tokens_ratio=ratio), stage) for ratio in (ONE, HALF)
    )
    half_swa = difference(at_one, at_half)
    swa = None if half_swa is None else 2 * half_swa
    return difference(at_one, swa), swa


def priced_rows(implementation: Implementation, scenario: Scenario, stage: int) -> dict[str, Fraction | None]:
    """Bytes charged for a row of each pool on one rank of a stage."""
    kind = pool_kind(scenario)
    plain = replace(scenario, speculative_algorithm=None)

    def price(changed: Scenario) -> Fraction | None:
        return token_price(implementation, changed, stage)

    token, without_draft = price(scenario), price(plain)
    prices = {"draft": difference(token, without_draft)}
    if kind == ALL_WINDOW_POOL:
        return {"swa": without_draft, **prices}
    if kind == CAPPED_POOL:
        return {"full": without_draft, "swa": capped_row_price(implementation, plain, stage, without_draft), **prices}
    if kind != HYBRID_POOL:
        return {"full": without_draft, **prices}
    full, swa = hybrid_prices(implementation, plain, stage)
    return {"full": full, "swa": swa, **prices}


def capped_row_price(
    implementation: Implementation, plain: Scenario, stage: int, full: Fraction | None
) -> Fraction | None:
    """Bytes charged for a row of a capped pool, which is paid for before any full row: what the fewest bytes that sell
    `MANY_PAGES` pages are beyond those pages."""
    if full is None:
        return None
    rows = plain.page_size * MANY_PAGES
    enough = 2 * int(full * rows) + stage_row_bytes(plain, stage).full + 2**50

    def sells(budget: int) -> bool:
        return (rows_for(implementation, on_stage(plain, stage, budget)) or 0) >= rows

    sizes = listed_sizes(implementation, on_stage(plain, stage, enough))
    if sizes is None or not sells(enough):
        return None
    paid = least(sells, enough) - full * rows
    return Fraction(round(paid), sizes.swa_max_total_num_tokens or 1)


def least(holds: Callable[[int], bool], most: int) -> int:
    """The smallest number for which it holds, which it does for `most` and goes on to."""
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def listed_sizes(implementation: Implementation, scenario: Scenario) -> PoolSizes | None:
    """The sizes sold, None for anything else."""
    try:
        answer = listed_answer(implementation, scenario)
    except (UnlistedAnswer, Unsupported):
        return None
    return answer if isinstance(answer, PoolSizes) else None


def pool_bytes(scenario: Scenario, sizes: PoolSizes, stage: int) -> dict[str, int]:
    """Bytes the rows sold take on one rank of a stage: full (its index included), SWA, draft."""
    taken: dict[str, int] = {}
    for buffer in stage_buffers(scenario, sizes, stage):
        pool = "draft" if buffer.owner == "draft" else "swa" if buffer.pool == "swa" else "full"
        taken[pool] = taken.get(pool, 0) + buffer.sold_bytes
    return taken


def unit_sizes(scenario: Scenario) -> PoolSizes:
    """Sizes of whole rows in the proportion of the pools, to take bytes a row from."""
    kind, ratio = pool_kind(scenario), scenario.swa_full_tokens_ratio
    rows = 8 * ratio.denominator
    swa = rows if kind in (ALL_WINDOW_POOL, CAPPED_POOL) else int(rows * ratio) if kind == HYBRID_POOL else 0
    return PoolSizes(rows, 0 if kind == ALL_WINDOW_POOL else rows, swa, 1, 1)


def pool_prices(implementation: Implementation, scenario: Scenario, sizes: PoolSizes, stage: int) -> list[PoolPrice]:
    """Every pool that a rank of the stage has, or is charged for."""
    unit = unit_sizes(scenario)
    taken, a_unit = pool_bytes(scenario, sizes, stage), pool_bytes(scenario, unit, stage)
    priced, spec_priced = (priced_rows(one, scenario, stage) for one in (implementation, Reference()))
    window = pool_kind(scenario) in WINDOW_POOLS
    full = sizes.full_max_total_num_tokens if window else sizes.max_total_num_tokens
    rows = {"full": full, "swa": sizes.swa_max_total_num_tokens, "draft": sizes.max_total_num_tokens}
    units = {
        "full": unit.max_total_num_tokens,
        "swa": unit.swa_max_total_num_tokens,
        "draft": unit.max_total_num_tokens,
    }
    return [
        PoolPrice(
            stage=stage,
            pool=pool,
            priced=priced.get(pool),
            spec_priced=spec_priced.get(pool),
            allocated=Fraction(a_unit.get(pool, 0), units[pool] or 1),
            rows=rows[pool],
            bytes=taken.get(pool, 0),
        )
        for pool in ("full", "swa", "draft")
        if a_unit.get(pool) or priced.get(pool)
    ]


def worst_bytes(scenario: Scenario, sizes: PoolSizes) -> StageBytes | None:
    """The stage where most is missing, by the spec's accounting; None where the spec finds no memory at all."""
    try:
        available = available_bytes(scenario)
    except Refused:
        return None
    stages = [StageBytes(stage, sold_bytes(scenario, sizes, stage), left) for stage, left in enumerate(available)]
    return max(stages, key=lambda stage: stage.over)
