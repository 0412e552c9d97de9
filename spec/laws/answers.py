"""E and Q: what an answer may look like, and that it is the spec's."""

import re
from dataclasses import replace
from fractions import Fraction

from spec.advice import SHORT_OF_MEMORY, STEPS, at_fraction
from spec.budget import available_bytes
from spec.capped import cap_keeps_swa_rows
from spec.laws.base import HOLDS, NOT_JUDGED, SIZE_FIELDS, Broken, Case, Verdict
from spec.laws.floats import agree, right_answers
from spec.layers import ALL_WINDOW_POOL, WINDOW_POOLS, pool_kind
from spec.model import MemoryFigures, PoolSizes, Refusal, Scenario

ADVISED_FRACTION = re.compile(r"mem_fraction_static 0\.(\d{3})\b")
"""How a refusal names the fraction that would start."""
WHAT_IS_SHORT = (*SIZE_FIELDS, "available_bytes", "max_total_tokens", "tokens", "context_len")
"""What a refusal of a valid scenario may name: a size, bytes (of a stage, `available_bytes[1]`), the cap, a length."""
NO_FRACTION = "no mem_fraction_static below 1"
"""How it says that none would."""


def differs_from_the_spec(case: Case, fields: tuple[str, ...]) -> Broken | None:
    """How an answer differs from the spec's, where it differs from every answer it may be (`laws/floats.py`)."""
    found = [agree(right, case.answer, fields) for right in right_answers(case, case.scenario)]
    return found[0] if all(found) else None


def refuses_exactly_when_the_spec_does(case: Case) -> Verdict:
    """Which of several shortages of memory is named is the implementation's choice: a size of no rows is short of a
    page, of a window and of a request. A run asks of valid scenarios alone: who judges an engine's own checks of input
    knows them."""
    scenario, answer = case.scenario, case.answer
    wrong = differs_from_the_spec(case, fields=())
    if wrong is not None:
        return wrong
    if isinstance(answer, PoolSizes):
        return HOLDS
    invalid = answer.kind in ("invalid_input", "unsupported")
    if not answer.field or not (invalid or answer.field.partition("[")[0] in WHAT_IS_SHORT):
        return Broken("field", "the name of what is short", answer.field)
    if answer.kind == "cap_too_small" and answer.value != scenario.max_total_tokens:
        return Broken("cap", scenario.max_total_tokens, answer.value, "a cap refusal names the cap")
    return HOLDS


def with_memory_figures(scenario: Scenario) -> Scenario:
    """The scenario with readings, its own or, where it has none, readings that leave the bytes of its poorest stage."""
    if isinstance(scenario.budget, MemoryFigures):
        return scenario
    available = min(available_bytes(scenario))
    readings = ((10 * available,),) * len(scenario.budget), ((2 * available,),) * len(scenario.budget)
    return replace(scenario, budget=MemoryFigures(*readings, Fraction("0.9")))


def advice_starts(case: Case) -> Verdict:
    """A scenario that starts is asked again with a thousandth of its memory, so that advice is met in every cell."""
    scenario, answer = case.scenario, case.answer
    if not cap_keeps_swa_rows(scenario):
        return NOT_JUDGED
    if isinstance(answer, Refusal):
        advises = isinstance(scenario.budget, MemoryFigures) and answer.kind in SHORT_OF_MEMORY
        return advice_works(case, scenario, answer) if advises else NOT_JUDGED
    starved = at_fraction(with_memory_figures(scenario), 1)
    refusal = case.ask(starved)
    if isinstance(refusal, PoolSizes):
        return NOT_JUDGED
    if refusal.kind not in SHORT_OF_MEMORY:
        return Broken("refusal", "a shortage of memory", refusal.kind, "mem_fraction_static 0.001")
    return advice_works(case, starved, refusal)


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
    """Field by field; refusals as in E1; a float engine to a page."""
    wrong = differs_from_the_spec(case, SIZE_FIELDS)
    return HOLDS if wrong is None else replace(wrong, where="the spec's answer is expected")
