"""One law over one cell: count what was judged, keep the first scenario that breaks it in each term."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from impl import CannotJudge, Implementation
from properties.cells import Cell
from spec.laws.base import NOT_JUDGED, SIZE_FIELDS, Answer, Broken, Case, Law, Verdict, is_valid
from spec.model import REFUSAL_KINDS, PoolSizes, Refusal, Scenario


class UnlistedAnswer(Exception):
    """The implementation raised, or returned something that is neither PoolSizes in whole rows nor a listed Refusal."""

    def __init__(self, scenario: Scenario, what: str) -> None:
        super().__init__(what)
        self.scenario = scenario


class Unsupported(Exception):
    """The implementation says, with this reason, that it cannot judge a scenario."""


@dataclass(frozen=True)
class Finding:
    """A scenario that breaks a law."""

    law: Law
    cell: Cell
    scenario: Scenario
    broken: Broken


@dataclass(frozen=True)
class Tally:
    """What one law met in one cell. A judgement is the law evaluated on an answer that is not a refusal; unsupported
    counts, by reason, the scenarios the implementation cannot judge."""

    scenarios: int
    judged: int
    refused: int
    unsupported: Counter[str]

    def __add__(self, other: "Tally") -> "Tally":
        """Both together."""
        return Tally(
            self.scenarios + other.scenarios,
            self.judged + other.judged,
            self.refused + other.refused,
            self.unsupported + other.unsupported,
        )


def told(implementation: Implementation, method: str, scenario: Scenario, *more: Any) -> Any:
    """What one method of the implementation says of a scenario. Anything it raises is a finding."""
    try:
        reason = implementation.supports(scenario)
        said = getattr(implementation, method)(scenario, *more) if reason is None else None
    except CannotJudge as reason:
        raise Unsupported(str(reason)) from reason
    except (Exception, SystemExit) as error:
        raise UnlistedAnswer(scenario, f"{type(error).__name__}: {error}") from error
    if reason is not None:
        raise Unsupported(reason)
    return said


def listed_answer(implementation: Implementation, scenario: Scenario, method: str = "size_pools", *more: Any) -> Answer:
    """The implementation's answer. Anything it returns beside the list is a finding."""
    answer = told(implementation, method, scenario, *more)
    if isinstance(answer, Refusal) and answer.kind in REFUSAL_KINDS:
        return answer
    if isinstance(answer, PoolSizes) and all(isinstance(getattr(answer, name), int) for name in SIZE_FIELDS):
        return answer
    raise UnlistedAnswer(scenario, repr(answer))


def supports(implementation: Implementation, scenario: Scenario) -> bool:
    """Whether the implementation can judge a scenario. Anything it raises is a finding."""
    try:
        return implementation.supports(scenario) is None
    except Exception as error:
        raise UnlistedAnswer(scenario, f"{type(error).__name__}: {error}") from error


def case_of(implementation: Implementation, scenario: Scenario) -> Case:
    """The scenario, the answer, and the same implementation to ask again."""
    return Case(
        scenario=scenario,
        answer=listed_answer(implementation, scenario),
        ask=lambda changed: listed_answer(implementation, changed),
        ask_tokens=lambda changed, tokens: listed_answer(implementation, changed, "size_pools_from_max_tokens", tokens),
        resolve_draft=lambda changed: told(implementation, "resolve_draft", changed),
        allocated_bytes=lambda changed, sizes: told(implementation, "allocated_bytes", changed, sizes),
        can_ask=lambda changed: is_valid(changed) and supports(implementation, changed),
        exact=getattr(implementation, "exact", True),
    )


def verdict(law: Law, implementation: Implementation, scenario: Scenario) -> tuple[Verdict, bool]:
    """The law's verdict on one scenario, and whether the answer was a refusal. Raises Unsupported where the scenario,
    or a changed one the law asks about, cannot be judged."""
    try:
        case = case_of(implementation, scenario)
        return law.predicate(case), isinstance(case.answer, Refusal)
    except UnlistedAnswer as error:
        where = "" if error.scenario == scenario else f"asked about {error.scenario!r}"
        return Broken("unlisted answer", "PoolSizes or a listed Refusal", str(error), where), False


def judge_cell(
    law: Law, cell: Cell, implementation: Implementation, corpus: Sequence[Scenario]
) -> tuple[Tally, tuple[Finding, ...]]:
    """The law over a corpus. Judging goes on after a finding, so that the counts do not depend on it; the first
    finding of each term is kept, so that one that is known cannot hide another."""
    judged = refused = 0
    unsupported: Counter[str] = Counter()
    findings: dict[str, Finding] = {}
    for scenario in corpus:
        try:
            outcome, is_refusal = verdict(law, implementation, scenario)
        except Unsupported as reason:
            unsupported[str(reason)] += 1
            continue
        refused += is_refusal
        if outcome is not NOT_JUDGED and not is_refusal:
            judged += 1
        if isinstance(outcome, Broken):
            findings.setdefault(outcome.term, Finding(law, cell, scenario, outcome))
    return Tally(len(corpus), judged, refused, unsupported), tuple(findings.values())
