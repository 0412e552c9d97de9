"""The smallest case of each thing that is off. It is looked for once, after all tests and by the controller alone, so
that it does not depend on which worker came first."""

from dataclasses import dataclass

from impl import Implementation
from properties.case_files import scenario_from_text
from properties.cell_names import BY_NAME
from properties.context import Context
from properties.judge import Finding, UnlistedAnswer, Unsupported, listed_answer
from properties.shrinking import smallest
from properties.summary import Found, Result
from spec.laws import BY_ID
from spec.laws.base import Answer, Broken

Term = tuple[str, str, str]
"""Law id, pool kind, term that is off."""


@dataclass(frozen=True)
class Shown:
    """A finding and the implementation's answer to it, in words where it is none of the list."""

    finding: Finding
    answer: Answer | str


def finding_of(result: Result, found: Found) -> Finding:
    """The finding a test reported."""
    broken = Broken(found.term, found.expected, found.got, found.where)
    return Finding(BY_ID[result.law], BY_NAME[result.cell], scenario_from_text(found.case), broken)


def shown(finding: Finding, implementation: Implementation) -> Shown:
    """The finding with the answer to it."""
    try:
        return Shown(finding, listed_answer(implementation, finding.scenario))
    except (UnlistedAnswer, Unsupported) as said:
        return Shown(finding, str(said))


def smallest_of(result: Result, term: str, context: Context) -> Shown:
    """The smallest case of a term that is off in a cell."""
    found = next(found for found in result.found if found.term == term)
    draws = context.draws_per_cell
    finding = smallest(finding_of(result, found), context.implementation, draws, context.seed)
    return shown(finding, context.implementation)


def smallest_cases(context: Context) -> dict[Term, Shown]:
    """For each (law, pool kind, term) that no known fault explains, the smallest case, looked for in the first cell."""
    return {
        (law_id, pool, term): smallest_of(results[0], term, context)
        for (law_id, pool, term), results in context.summary.unexpected().items()
        if any(found.term == term for found in results[0].found)
    }
