"""`--kv-replay FILE --kv-as-issue`: the case as a report for the engine's tracker, in Markdown, with a script that
needs nothing of this project.
"""

import platform
from importlib.metadata import PackageNotFoundError, version

import pytest

from properties.case_files import RecordedCase
from properties.cells import cell_if_any
from properties.context import Context, can_be_asked
from properties.counterexample import Counterexample, counterexample, pool_table
from properties.judge import Finding, UnlistedAnswer, Unsupported, told, verdict
from properties.show import answer_text, figure
from properties.smallest import shown
from properties.words import budget_text, scenario_words
from spec.laws import BY_ID, LAWS
from spec.laws.base import Broken
from spec.model import Scenario
from spec.pools import size_pools

PACKAGES = ("torch",)
"""Whose versions a report names beside the engine's."""


def broken_law(case: RecordedCase, context: Context) -> Finding | None:
    """The case as a finding of the law in its file, or of the first that it breaks; None where it breaks none."""
    cell = cell_if_any(case.scenario)
    if cell is None:
        return None
    laws = LAWS if case.law is None else (BY_ID[case.law],)
    for law in laws:
        if not (law.claims(str(cell)) and can_be_asked(context.implementation, law)):
            continue
        try:
            outcome, _ = verdict(law, context.implementation, case.scenario)
        except Unsupported:
            continue
        if isinstance(outcome, Broken):
            return Finding(law, cell, case.scenario, outcome)
    return None


def versions(context: Context) -> list[str]:
    """The engine, Python, and what is installed of the packages that matter."""
    said = [f"{context.implementation.name} {context.implementation.version}", f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            said.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return said


def script_text(context: Context, scenario: Scenario, stage: int, title: str) -> str:
    """The script in a fence, or why there is none."""
    if not hasattr(context.implementation, "script"):
        return "This implementation writes no script of its own."
    try:
        return f"```python\n{told(context.implementation, 'script', scenario, stage, title)}```"
    except (Unsupported, UnlistedAnswer) as said:
        return f"No script: {said}."


def title_of(facts: Counterexample) -> str:
    """What is off, in a line."""
    finding = facts.case.finding
    off = facts.off_terms() or [f"{finding.broken.term}: expected {finding.broken.expected}, got {finding.broken.got}"]
    return f"KV budget: {off[0]}"


def issue_text(finding: Finding, context: Context) -> str:
    """The whole report."""
    facts = counterexample(shown(finding, context.implementation), context.implementation)
    scenario, broken, title = finding.scenario, finding.broken, title_of(facts)
    where = f"\n\nSized by `{facts.where}`." if facts.where else ""
    real = f"\n\nOn a real model: {facts.real.text()}" if facts.real is not None else ""
    allocated = f"Allocated: {facts.worst.text()}\n\n" if facts.worst is not None else ""
    pools = f"```\n{pool_table(facts.pools)}\n```\n" if facts.pools else ""
    return f"""\
# {title}

{finding.law.sentence} (law {finding.law.id})

## Versions

{", ".join(versions(context))}

## Smallest inputs

```
{scenario_words(scenario)}
{budget_text(scenario)}
```

## What happens

Sold: {answer_text(facts.case.answer)}

Expected: {answer_text(size_pools(scenario))}

{allocated}{pools}
Off: {broken.term}, expected {figure(broken.expected)}, got {figure(broken.got)}{where}{real}

## To see it

{script_text(context, scenario, facts.worst.stage if facts.worst else 0, title)}"""


def as_issue(case: RecordedCase, context: Context) -> int:
    """Print the report. Exit code 1 where there is one, 0 where the case breaks no law."""
    finding = broken_law(case, context)
    if finding is None:
        print(f"nothing to report: {context.implementation.name} breaks {case.law or 'any law'} no longer in this case")
        return int(pytest.ExitCode.OK)
    print(issue_text(finding, context))
    return int(pytest.ExitCode.TESTS_FAILED)
