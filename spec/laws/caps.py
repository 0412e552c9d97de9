"""C: the user cap."""

from dataclasses import replace

from spec.advice import SHORT_OF_MEMORY
from spec.laws.base import (
    HOLDS,
    NOT_JUDGED,
    Broken,
    Case,
    Verdict,
    first_difference,
    same_answers,
)
from spec.laws.budget import less_than
from spec.model import PoolSizes, Refusal, Scenario
from spec.units import align_down

CAP_TOO_SMALL = "cap_too_small"


def caps_to_try(scenario: Scenario, rows: int) -> list[int]:
    """Half of what is sold, a row less, just that, a row more, and the scenario's own cap; smallest first."""
    own = [] if scenario.max_total_tokens is None else [scenario.max_total_tokens]
    return sorted({cap for cap in (rows // 2, rows - 1, rows, rows + 1, *own) if cap > 0})


def a_cap_is_honoured(case: Case) -> Verdict:
    """Asks without a cap, then with caps around that answer. A cap may leave a window pool that admits nothing, or no
    request to run: those refusals are not its fault. Capped kind: SWA rows follow a binding cap down, so the constraint
    path, which knows no bytes, is compared where the cap binds."""
    scenario = case.scenario
    uncapped = case.ask(replace(scenario, max_total_tokens=None))
    if isinstance(uncapped, Refusal):
        return NOT_JUDGED
    before: PoolSizes | None = None
    for cap in caps_to_try(scenario, uncapped.max_total_num_tokens):
        capped = case.ask(replace(scenario, max_total_tokens=cap))
        verdict = capped_answer_is_right(case, uncapped, cap, capped)
        if verdict is not HOLDS:
            return verdict
        if isinstance(capped, PoolSizes):
            fallen = before and less_than(before, capped, f"a higher cap, {cap}")
            if fallen:
                return fallen
            before = capped
    return HOLDS


def capped_answer_is_right(case: Case, uncapped: PoolSizes, cap: int, capped: PoolSizes | Refusal) -> Verdict:
    """One cap: its answer is the smaller of cap and uncapped, aligned; the same cap twice changes nothing. A cap below
    a page leaves no rows, which is short of a window and of a request too."""
    scenario, rows = case.scenario, uncapped.max_total_num_tokens
    kept = align_down(min(cap, rows), scenario.page_size)
    if kept == rows:
        return same_answers(uncapped, capped, f"a cap of {cap} does not bind")
    if kept == 0:
        for answer, path in ((capped, ""), (case.ask_tokens(scenario, cap), ", the constraint path")):
            kind = answer.kind if isinstance(answer, Refusal) else "an answer"
            if kind != CAP_TOO_SMALL and kind not in SHORT_OF_MEMORY:
                return Broken("refusal", CAP_TOO_SMALL, kind, f"a cap of {cap}{path}")
        return HOLDS
    constrained = case.ask_tokens(scenario, cap)
    difference = first_difference(constrained, capped)
    if difference is not None:
        return replace(difference, where=f"a binding cap of {cap}, against the constraint path")
    if isinstance(capped, Refusal):
        return HOLDS
    if capped.max_total_num_tokens != kept:
        return Broken("max_total_num_tokens", kept, capped.max_total_num_tokens, f"a cap of {cap}")
    grown = less_than(capped, uncapped, f"without a cap of {cap}")
    if grown is not None:
        return grown
    again = case.ask(replace(scenario, max_total_tokens=capped.max_total_num_tokens))
    return same_answers(capped, again, f"capped again at the {capped.max_total_num_tokens} rows a cap of {cap} left")
