"""Laws of sizing as claims about all integers: the predicates of `spec/laws/` themselves, asked about any change where
`pytest properties` asks about examples of one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import spec.laws.budget
import spec.laws.caps
import spec.laws.draft
import spec.laws.scale
import spec.laws.windows
from properties.proofs.explore import Claim, Inputs
from properties.proofs.sizing import (
    IMPLEMENTATIONS,
    LAYERS,
    STAGES,
    bytes_that_set_rows,
    case_of,
    given,
    given_sold_bytes,
    given_swa_rows,
    priced_scenario,
)
from spec.laws import BY_ID
from spec.laws.base import HOLDS, Answer, Broken, Case, Verdict
from spec.layers import CAPPED_POOL, HYBRID_POOL
from spec.model import FULL, SWA, AttentionShape, Heads, Refusal, Scenario
from spec.pools import bytes_per_token, stage_row_bytes

Changes = Callable[[Inputs, str], dict[tuple[Any, str], Any]]
"""What stands in for the examples of a law, by module and name."""


def bytes_more(inputs: Inputs, prefix: str, now: tuple[Any, ...]) -> tuple[Any, ...]:
    """Each number and anything on top."""
    return tuple(amount + inputs.integer(f"{prefix}{at}") for at, amount in enumerate(now))


def no_changes(inputs: Inputs, kind: str) -> dict[tuple[Any, str], Any]:
    """A law that asks about nothing else."""
    return {}


def any_larger_budget(inputs: Inputs, kind: str) -> dict[tuple[Any, str], Any]:
    """B5: any more bytes on any stage."""

    def larger(scenario: Scenario) -> list[tuple[Any, ...]]:
        budget: Any = scenario.budget
        return [bytes_more(inputs, "more", budget)]

    return {(spec.laws.budget, "larger_budgets"): larger}


def any_dearer_prices(inputs: Inputs, kind: str) -> dict[tuple[Any, str], Any]:
    """B6: any F, S and D that are no lower, which is more than the law asks for; the SWA rows of a capped pool stay."""

    def dearer(scenario: Scenario) -> list[tuple[str, Scenario]]:
        target: Any = scenario.target
        draft: Any = scenario.draft
        full = bytes_more(inputs, "dF", target.full_bytes) if FULL in LAYERS[kind] else target.full_bytes
        swa = bytes_more(inputs, "dS", target.swa_bytes) if SWA in LAYERS[kind] else target.swa_bytes
        dearer_draft = replace(draft, full_bytes=bytes_more(inputs, "dD", draft.full_bytes))
        changed = replace(scenario, target=replace(target, full_bytes=full, swa_bytes=swa), draft=dearer_draft)
        return [("prices", changed)]

    module = spec.laws.scale
    return {(module, "dearer_scenarios"): dearer, (module, "costs_no_less"): lambda before, after: True}


def any_scale(inputs: Inputs, kind: str) -> dict[tuple[Any, str], Any]:
    """B7: every byte times any k."""

    def scaled(scenario: Scenario, scale: Any) -> list[Scenario]:
        target: Any = scenario.target
        draft: Any = scenario.draft
        budget: Any = scenario.budget

        def times(amounts: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(scale * amount for amount in amounts)

        priced = [
            replace(holder, full_bytes=times(holder.full_bytes), swa_bytes=times(holder.swa_bytes))
            for holder in (target, draft)
        ]
        return [replace(scenario, target=priced[0], draft=priced[1], budget=times(budget))]

    module = spec.laws.scale
    return {(module, "SCALES"): (inputs.integer("k", 1),), (module, "scaled_scenarios"): scaled}


def any_two_caps(inputs: Inputs, kind: str) -> dict[tuple[Any, str], Any]:
    """C1: any cap, and any that is no lower."""
    cap = inputs.integer("some_cap", 1)
    caps = [cap, cap + inputs.integer("cap_more")]
    return {(spec.laws.caps, "caps_to_try"): lambda scenario, rows: caps}


def any_ratio(inputs: Inputs, kind: str) -> dict[tuple[Any, str], Any]:
    """W1: any other ratio."""
    return {(spec.laws.windows, "OTHER_RATIOS"): (inputs.ratio("other"),)}


def any_draft_price(inputs: Inputs, kind: str) -> dict[tuple[Any, str], Any]:
    """D4: fields swapped change no price (`D4 rows`); then any bytes more on the draft of the last stage. The fewest
    bytes that buy the rows are not searched for: they are shown to be the price. The other stage keeps its bytes, which
    are ample: they have bought the rows. Plain numbers are searched for, as in the law."""

    def deeper(scenario: Scenario, draft: Any) -> Scenario | None:
        *others, last = draft.full_bytes
        if last == 0:
            return None
        return replace(scenario, draft=replace(draft, full_bytes=(*others, last + inputs.integer("deeper", 1))))

    def swapped(scenario: Scenario, draft: Any) -> list[tuple[str, Scenario]]:
        other = AttentionShape(draft.shape.layers, Heads(inputs.integer("heads", 1), inputs.integer("dim", 1), 1))
        return [("the draft's", replace(scenario, draft=replace(draft, shape=other)))]

    def price(sells: Callable[[Any], bool], hint: Any) -> Any:
        assert sells(hint), "the price does not buy the rows"
        assert not sells(hint - 1), "a byte less buys the rows"
        return hint

    module = spec.laws.draft
    names: dict[str, Any] = {"one_layer_deeper": deeper, "rebalanced_scenarios": swapped}
    ample = inputs.integer("A0", 1)
    if not isinstance(ample, int):
        names |= {"smallest_budget": price, "AMPLE_BYTES": ample}
    return {(module, name): stand_in for name, stand_in in names.items()}


CHANGES: dict[str, Changes] = {
    "B5": any_larger_budget,
    "B6": any_dearer_prices,
    "B7": any_scale,
    "C1": any_two_caps,
    "D4": any_draft_price,
    "W1": any_ratio,
}
WITH_CAP = ("B1", "B4", "B5", "W3")
"""Laws proved with and without a user cap. C1 sets caps of its own and says what they do to any answer without one; the
others are proved without."""

THE_PRICE, A_BYTE_LESS, ALLOCATED = "B3", "B3 a byte less", "B3 allocated"
"""The three clauses of B3 for hybrid pools."""


@contextmanager
def changes_of(law: str, inputs: Inputs, kind: str) -> Iterator[None]:
    """The law's examples replaced by any change."""
    with ExitStack() as stack:
        for (module, name), stand_in in CHANGES.get(law, no_changes)(inputs, kind).items():
            stack.enter_context(patch.object(module, name, stand_in))
        yield


def fallback_below_the_price_oversells(kind: str, implementation: str) -> Claim:
    """Where the layer ratio prices a draft below its bytes, some budget sells more than there is. The witness: on each
    stage the bytes of a page (hybrid: of q pages at a ratio p/q) by the layer ratio."""

    def witness(scenario: Scenario, stage: int, rows: Any) -> Any:
        price, ratio = stage_row_bytes(scenario, stage), scenario.swa_full_tokens_ratio
        paid = given_swa_rows(scenario) * price.swa if kind == CAPPED_POOL else 0
        cell = bytes_per_token(kind, price, ratio)
        if kind != HYBRID_POOL:
            return paid + rows * cell
        # Plain fractions are in lowest terms, symbolic ones are not.
        reduced = 1 if cell.denominator == ratio.denominator else ratio.denominator // cell.denominator
        return rows // ratio.denominator * cell.numerator * reduced

    def claim(inputs: Inputs) -> Verdict:
        scenario, missing = priced_scenario(inputs, kind, may_have_cap=False), inputs.integer("missing", 1)
        rows = scenario.page_size * (scenario.swa_full_tokens_ratio.denominator if kind == HYBRID_POOL else 1)
        with given():
            budget = tuple(witness(scenario, stage, rows) for stage in range(STAGES))
            inputs.assume(min(budget) >= 1)
            answer = IMPLEMENTATIONS[implementation].size_pools(replace(scenario, budget=budget))
            if isinstance(answer, Refusal):
                return Broken("refusal", "an answer", answer.kind)
            taken = given_sold_bytes(scenario, answer, STAGES - 1) + missing * answer.max_total_num_tokens
        return HOLDS if taken > budget[-1] else Broken("bytes taken", f"over {budget[-1]}", taken)

    return claim


def answers_in_turn(case: Case, answers: list[Answer | None]) -> Case:
    """The case, whose questions are answered so in turn; None asks the implementation."""
    turns = iter(answers)

    def ask(scenario: Scenario) -> Answer:
        answer = next(turns)
        return case.ask(scenario) if answer is None else answer

    return replace(case, ask=ask)


def hybrid_inverting_claim(clause: str, implementation: str) -> Claim:
    """One clause of B3 for hybrid pools. The price buys the size: the law without its two others. A byte less, and the
    allocated bytes: the law where the price has bought the size, and the other of the two is not asked."""
    unasked = Refusal("no_running_request", "", None)
    module = spec.laws.scale
    by_clause: dict[str, dict[str, Any]] = {
        THE_PRICE: {"hybrid_inverts_pricing": lambda *_: HOLDS},
        A_BYTE_LESS: {"sold_bytes": lambda *_: 1},
        ALLOCATED: {"cheapest_page": lambda scenario: 0, "price_of_size": lambda scenario, rows: scenario.budget},
    }

    def claim(inputs: Inputs) -> Verdict:
        scenario = priced_scenario(inputs, HYBRID_POOL, may_have_cap=False)
        one_stage_costs(inputs, scenario, HYBRID_POOL)
        with given(), patch.multiple(module, **by_clause[clause]):
            case = case_of(scenario, implementation)
            if clause != THE_PRICE:
                case = answers_in_turn(case, [case.answer, None, unasked])
            return BY_ID["B3"].predicate(case)

    return claim


def one_stage_costs(inputs: Inputs, scenario: Scenario, kind: str) -> None:
    """First the first stage has a row that costs, then it has none and another has."""
    first, *others = bytes_that_set_rows(scenario, kind)
    if first < 1:
        inputs.assume(sum(others) >= 1)


def law_claim(law: str, kind: str, implementation: str) -> Claim:
    """The law's own predicate on any scenario of a pool kind."""

    def claim(inputs: Inputs) -> Verdict:
        scenario = priced_scenario(inputs, kind, may_have_cap=law in WITH_CAP)
        with given(), changes_of(law, inputs, kind):
            return BY_ID[law].predicate(case_of(scenario, implementation))

    return claim
