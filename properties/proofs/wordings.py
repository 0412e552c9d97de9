"""Stronger wordings of laws that look true and are not: the solver finds where."""

from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import spec.laws.budget
import spec.laws.draft
import spec.laws.scale
from properties.proofs.claims import A_BYTE_LESS, changes_of, hybrid_inverting_claim
from properties.proofs.explore import Claim, Inputs
from properties.proofs.sizing import case_of, given, given_sold_bytes, priced_scenario
from spec.laws import BY_ID
from spec.laws.base import HOLDS, NOT_JUDGED, Broken, Verdict
from spec.layers import CAPPED_POOL, HYBRID_POOL, heads_per_rank
from spec.model import PoolSizes, Scenario
from spec.pools import hybrid_swa_rows


def hybrid_answer(inputs: Inputs) -> tuple[Scenario, PoolSizes | None]:
    """A hybrid scenario of one stage without a cap, and what the spec sells."""
    scenario = priced_scenario(inputs, HYBRID_POOL, 1, may_have_cap=False)
    answer = case_of(scenario, "spec").answer
    return scenario, answer if isinstance(answer, PoolSizes) else None


def one_page_more_never_fits(inputs: Inputs) -> Verdict:
    """B2, hybrid: one more page of full rows, with the SWA rows that go with it, costs more than there is."""
    with given():
        scenario, answer = hybrid_answer(inputs)
        if answer is None:
            return NOT_JUDGED
        rows = answer.max_total_num_tokens + scenario.page_size
        swa_rows = hybrid_swa_rows(rows, scenario.swa_full_tokens_ratio, scenario.page_size)
        cost = given_sold_bytes(scenario, PoolSizes(rows, rows, swa_rows, 0, 0), 0)
        available: Any = scenario.budget
        return HOLDS if cost > available[0] else Broken("one page more", f"over {available[0]}", cost)


def allocated_bytes_buy_the_size(inputs: Inputs) -> Verdict:
    """B3, hybrid: sizing the bytes that a size allocates gives it back."""
    with given():
        scenario, answer = hybrid_answer(inputs)
        if answer is None:
            return NOT_JUDGED
        allocated = given_sold_bytes(scenario, answer, 0)
        again = case_of(replace(scenario, budget=(allocated,)), "spec").answer
        if isinstance(again, PoolSizes) and again.max_total_num_tokens == answer.max_total_num_tokens:
            return HOLDS
        return Broken("max_total_num_tokens", answer.max_total_num_tokens, again)


def a_byte_less_is_a_page_less(inputs: Inputs) -> Verdict:
    """B3, hybrid: a byte less than the price of a size buys a page less, whatever a page costs."""
    with patch.object(spec.laws.scale, "cheapest_page", lambda scenario: 1):
        return hybrid_inverting_claim(A_BYTE_LESS, "spec")(inputs)


def capped_pools_grow_with_memory(inputs: Inputs) -> Verdict:
    """B5, capped: more memory never buys fewer rows, whatever the user cap."""
    scenario = priced_scenario(inputs, CAPPED_POOL, 1, may_have_cap=False)
    scenario = replace(scenario, max_total_tokens=inputs.integer("cap", 1))
    whatever_the_cap = patch.object(spec.laws.budget, "cap_keeps_swa_rows", lambda scenario: True)
    with given(), whatever_the_cap, changes_of("B5", inputs, CAPPED_POOL):
        return BY_ID["B5"].predicate(case_of(scenario, "spec"))


def a_hybrid_draft_costs_no_more_than_a_page(inputs: Inputs) -> Verdict:
    """D3, hybrid: the target loses less than the draft's bytes and a page, without what aligning SWA rows leaves."""
    scenario = priced_scenario(inputs, HYBRID_POOL, 1, may_have_cap=False)
    with given(), patch.object(spec.laws.draft, "HYBRID_POOL", "none"):
        return BY_ID["D3"].predicate(case_of(scenario, "spec"))


def heads_are_never_lost(inputs: Inputs) -> Verdict:
    """R1: no head is lost, whether or not one of heads and ranks divides the other."""
    heads, ranks = inputs.integer("heads", 1), inputs.integer("ranks", 1)
    held = heads_per_rank(heads, ranks) * ranks
    return HOLDS if held >= heads else Broken("heads of all ranks", heads, held)


def more_than_a_window_and_a_page_admits(inputs: Inputs) -> Verdict:
    """W2: whole pages of more rows than a window and a page leave a page beside them."""
    window, page_size = inputs.integer("window", 1), inputs.integer("P", 1)
    rows = inputs.integer("pages", 1) * page_size
    inputs.assume(rows > window + page_size)
    left = rows - window - page_size
    return HOLDS if left >= page_size else Broken("rows beside a window and a page", page_size, left)


@dataclass(frozen=True)
class Wording:
    """A claim that is false, and the law it strengthens."""

    law: str
    claim: Claim
    lemmas: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What it says, in words."""
        return self.claim.__name__.replace("_", " ")

    def __str__(self) -> str:
        return f"{self.law}-{self.claim.__name__}"


WORDINGS: tuple[Wording, ...] = (
    Wording("B2", one_page_more_never_fits),
    Wording("B3", allocated_bytes_buy_the_size),
    Wording("B3", a_byte_less_is_a_page_less),
    Wording("B5", capped_pools_grow_with_memory),
    Wording("D3", a_hybrid_draft_costs_no_more_than_a_page),
    Wording("R1", heads_are_never_lost),
    Wording("W2", more_than_a_window_and_a_page_admits),
)
