"""The sizing of the sweep behind the interface of implementations, so that the laws of `spec/laws/` can judge it
and the reporter can show it. Prices are the spec's, sizes are those of `formulas.py`."""

from typing import cast

from impl import Implementation
from impl.places import place_of
from properties.sweep.formulas import KINDS, NO_CAP, NO_OTHER, RIGHT, Block, Formulas
from spec.budget import available_bytes
from spec.capped import capped_swa_rows
from spec.draft import draft_price
from spec.layers import ALL_WINDOW_POOL, CAPPED_POOL, WINDOW_POOLS, pool_kind
from spec.model import PoolSizes, Refusal, Refused, Scenario, refuse
from spec.pools import request_length, running_requests, stage_row_bytes
from spec.validity import check_int, check_scenario


def block_of_stage(scenario: Scenario, stage: int) -> Block:
    """A stage as a block of the kernel."""
    kind, row_bytes, ratio = pool_kind(scenario), stage_row_bytes(scenario, stage), scenario.swa_full_tokens_ratio
    fixed = capped_swa_rows(scenario) if kind == CAPPED_POOL else 0
    window = (scenario.target.sliding_window_size or 0) if kind in WINDOW_POOLS else 0
    prices = (row_bytes.full, row_bytes.swa, row_bytes.draft, draft_price(scenario, stage).swa)
    settings = (ratio.numerator, ratio.denominator, fixed, scenario.page_size, window, NO_OTHER)
    return Block._make(map(float, (KINDS.index(kind), *prices, *settings)))


class Swept:
    """One scenario at a time. `formulas`: the sizing, right or wrong. Exact where floats count the numbers of the stage
    that sets N, as in a sweep; how much more others have does not matter."""

    name = "sweep"
    version = "0.1"

    def __init__(self, formulas: Formulas = RIGHT) -> None:
        self.formulas = formulas

    def supports(self, scenario: Scenario) -> str | None:
        """Everything."""
        return None

    def where(self, scenario: Scenario) -> str:
        """The formula that is judged: the first that is not the right one."""
        wrong = (mine for mine, right in zip(self.formulas, RIGHT, strict=True) if mine is not right)
        return place_of(next(wrong, self.formulas.rows_that_fit))

    def rows_of(self, scenario: Scenario) -> int:
        """N of all stages."""
        rows = NO_OTHER
        for stage, available in enumerate(available_bytes(scenario)):
            block = block_of_stage(scenario, stage)
            terms = self.formulas.terms(block)
            if terms.cell > 0:
                rows = self.formulas.rows_that_fit(float(available), rows, block.page, terms)
            elif terms.paid > available:
                rows = 0.0
        return int(rows)

    def sized(self, scenario: Scenario, rows: int, cap: float, *, below_cap: bool) -> PoolSizes:
        """Every pool from N and a cap."""
        block, kind = block_of_stage(scenario, 0), pool_kind(scenario)
        kept = float(rows) if cap == NO_CAP else self.formulas.capped_rows(float(rows), cap, block.page)
        swa = self.formulas.swa_rows(kept, float(below_cap or kept < rows), block.page, self.formulas.terms(block))
        if kept < 1 or not self.formulas.starts(kept, swa, block):
            short = "no_page_fits" if cap >= rows else "cap_too_small"
            window = kind in WINDOW_POOLS and kept >= 1
            raise refuse("window_pool_too_small" if window else short, "max_total_num_tokens", int(kept))
        whole = int(kept)
        return PoolSizes(
            whole,
            0 if kind == ALL_WINDOW_POOL else whole,
            int(swa),
            running_requests(scenario, whole),
            request_length(scenario, whole),
        )

    def size_pools(self, scenario: Scenario) -> PoolSizes | Refusal:
        """Bytes to tokens."""
        try:
            check_scenario(scenario)
            cap = NO_CAP if scenario.max_total_tokens is None else float(scenario.max_total_tokens)
            return self.sized(scenario, self.rows_of(scenario), cap, below_cap=False)
        except Refused as refused:
            return refused.refusal

    def size_pools_from_max_tokens(self, scenario: Scenario, tokens: int) -> PoolSizes | Refusal:
        """Tokens to pools, whatever the bytes."""
        try:
            check_scenario(scenario)
            check_int("tokens", tokens, 1)
            return self.sized(scenario, tokens, float(tokens), below_cap=True)
        except Refused as refused:
            return refused.refusal


def implementation_of(formulas: Formulas = RIGHT) -> Implementation:
    """A sizing as an implementation; it has none of the methods that are optional."""
    return cast(Implementation, Swept(formulas))
