"""E and Q: what an answer may look like, and that it is the spec's."""

import re

from spec.advice import SHORT_OF_MEMORY, STEPS, at_fraction
from spec.capped import cap_keeps_swa_rows
from spec.laws.base import HOLDS, NOT_JUDGED, Broken, Case, Verdict, same_answers
from spec.layers import ALL_WINDOW_POOL, WINDOW_POOLS, pool_kind
from spec.model import MemoryFigures, PoolSizes, Refusal, Scenario
from spec.pools import size_pools

ADVISED_FRACTION = re.compile(r"mem_fraction_static 0\.(\d{3})\b")
"""How a refusal names the fraction that would start."""
NO_FRACTION = "no mem_fraction_static below 1"
"""How it says that none would."""


def refuses_exactly_when_the_spec_does(case: Case) -> Verdict:
    """The refusal is compared by kind, names what is short, and its advice is followed. A scenario with memory figures
    that starts is asked again with a thousandth of them, so that the advice is met in every cell."""
    verdict = refusal_is_right(case, case.scenario, case.answer)
    if verdict is not HOLDS or isinstance(case.answer, Refusal):
        return verdict
    if not isinstance(case.scenario.budget, MemoryFigures):
        return HOLDS
    starved = at_fraction(case.scenario, 1)
    return refusal_is_right(case, starved, case.ask(starved))


def refusal_is_right(case: Case, scenario: Scenario, answer: PoolSizes | Refusal) -> Verdict:
    """Whether one answer is a refusal just where the spec's is, and one that helps."""
    expected = size_pools(scenario)
    kinds = [given.kind if isinstance(given, Refusal) else "an answer" for given in (expected, answer)]
    if kinds[0] != kinds[1]:
        return Broken("refusal", kinds[0], kinds[1])
    if isinstance(answer, PoolSizes):
        return HOLDS
    if not answer.field:
        return Broken("field", "the name of what is short", answer.field)
    if answer.kind == "cap_too_small" and answer.value != scenario.max_total_tokens:
        return Broken("cap", scenario.max_total_tokens, answer.value, "a cap refusal names the cap")
    advises = isinstance(scenario.budget, MemoryFigures) and answer.kind in SHORT_OF_MEMORY
    return advice_works(case, scenario, answer) if advises and cap_keeps_swa_rows(scenario) else HOLDS


def advice_works(case: Case, scenario: Scenario, refusal: Refusal) -> Verdict:
    """The fraction it names starts and a thousandth less does not; or it says that none does, and 0.999 does not."""
    named = ADVISED_FRACTION.search(refusal.advice)
    if named is None:
        if NO_FRACTION not in refusal.advice:
            return Broken("advice", "the smallest fraction that starts, or that none does", refusal.advice)
        starts = isinstance(case.ask(at_fraction(scenario, STEPS - 1)), PoolSizes)
        return Broken("advice", "0.999 starts", refusal.advice) if starts else HOLDS
    thousandths = int(named[1])
    if not isinstance(case.ask(at_fraction(scenario, thousandths)), PoolSizes):
        return Broken("advice", "a fraction that starts", refusal.advice)
    if thousandths > 1 and isinstance(case.ask(at_fraction(scenario, thousandths - 1)), PoolSizes):
        return Broken("advice", "the smallest fraction that starts", refusal.advice)
    return HOLDS


def nothing_non_positive_leaves_sizing(case: Case) -> Verdict:
    """Each pool that has layers; an all-window model's full pool is 0 by design."""
    scenario, answer = case.scenario, case.answer
    if isinstance(answer, Refusal):
        return NOT_JUDGED
    kind = pool_kind(scenario)
    positive = ["max_total_num_tokens", "max_running_requests", "max_req_len"]
    if kind != ALL_WINDOW_POOL:
        positive.append("full_max_total_num_tokens")
    if kind in WINDOW_POOLS:
        positive.append("swa_max_total_num_tokens")
    for name in positive:
        if getattr(answer, name) <= 0:
            return Broken(name, "above 0", getattr(answer, name))
    return HOLDS


def agrees_with_the_spec(case: Case) -> Verdict:
    """Field by field; refusals by kind."""
    return same_answers(size_pools(case.scenario), case.answer, "the spec's answer is expected")
