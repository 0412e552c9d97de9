"""A case as a report for the engine's tracker, and both sides of a case beside each other."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from impl.faults import FAULTS
from impl.optimized import Configurator
from properties.case_files import RecordedCase
from properties.issue import as_issue
from properties.side_by_side import side_by_side
from spec.model import Scenario
from spec.terms import BudgetTerms, budget_terms
from tests.test_gate import WRONG_USE, gate
from tests.test_prices import DEFAULT, HYBRID
from tests.wrong_implementations import CannotJudgeAfterAll, DividesByZero, OnePageTooMany, Sound


def reported(implementation: Any, scenario: Scenario, law: str | None, capsys: pytest.CaptureFixture[str]) -> tuple:
    """(exit code, what is printed)."""
    context = SimpleNamespace(implementation=implementation)
    code = as_issue(RecordedCase(scenario, law, None), context)  # type: ignore[arg-type]
    return code, capsys.readouterr().out


def fault(name: str) -> Any:
    """A known-bad implementation."""
    return next(one() for one in FAULTS if one.__name__ == name)


@pytest.mark.parametrize("law", ["B1", None])
def test_a_report_has_all_a_tracker_asks_for(law: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = reported(fault("NoDraftOnHybrid"), HYBRID, law, capsys)
    assert code == 1
    assert text.startswith("# KV budget: draft pool: priced 0 B/token, allocated 8 B/token\n")
    for heading in ("## Versions", "## Smallest inputs", "## What happens", "## To see it"):
        assert heading in text
    assert "NoDraftOnHybrid 0.1, Python 3." in text and "--speculative-algorithm DFLASH" in text
    assert "OVER by" in text and "`impl/faults/draft.py:" in text and "On a real model: " in text
    assert "This implementation writes no script of its own." in text


def test_a_script_is_put_in_a_fence(capsys: pytest.CaptureFixture[str]) -> None:
    scripted = OnePageTooMany()
    scripted.script = lambda scenario, stage, title: f"# {title}\nprint({stage})\n"  # type: ignore[attr-defined]
    _, text = reported(scripted, DEFAULT, "B1", capsys)
    assert "\n```python\n# KV budget: allocated bytes: expected at most " in text and text.endswith("\n```\n")


def test_a_script_that_cannot_be_written_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    scripted = OnePageTooMany()
    scripted.script = lambda *_: 1 / 0  # type: ignore[attr-defined]
    assert "No script: ZeroDivisionError: division by zero." in reported(scripted, DEFAULT, "B1", capsys)[1]


def test_an_answer_that_is_none_is_reported_too(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = reported(DividesByZero(), HYBRID, "B1", capsys)
    assert code == 1 and "Sold: ZeroDivisionError: cell size is 0" in text


@pytest.mark.parametrize("implementation", [Sound(), CannotJudgeAfterAll()])
@pytest.mark.parametrize("law", ["B1", None])
def test_a_case_that_breaks_nothing_is_no_report(
    implementation: Any, law: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = reported(implementation, HYBRID, law, capsys)
    assert code == 0 and text.startswith("nothing to report: ")


def test_a_case_without_a_cell_is_no_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert reported(OnePageTooMany(), replace(HYBRID, page_size=0), None, capsys)[0] == 0


def test_a_report_is_of_a_case() -> None:
    done = gate("--kv-as-issue")
    assert done.code == WRONG_USE and "--kv-as-issue: --kv-replay names no case" in done.text


def both_sides(implementation: Any, scenario: Scenario) -> list[str]:
    """The rows of the tables, spacing aside."""
    terms = budget_terms(scenario)
    assert isinstance(terms, BudgetTerms)
    return [" ".join(line.split()) for line in side_by_side(implementation, scenario, terms).splitlines()]


def test_every_number_is_told_by_both_sides() -> None:
    rows = both_sides(fault("NoDraftOnHybrid"), HYBRID)
    assert rows[0] == "stage 0, 4,096 B the spec NoDraftOnHybrid"
    assert "S, bytes of an SWA row 8 8" in rows
    assert "D, bytes of the draft a token 8 0 <- differs" in rows
    assert "draft resolved, bytes a row 8 8" in rows
    assert not any("differs" in row for row in both_sides(Configurator(), DEFAULT))
    assert sum(row.startswith("stage ") for row in both_sides(Configurator(), DEFAULT)) == 2


def test_who_cannot_be_asked_tells_nothing() -> None:
    rows = both_sides(DividesByZero(), HYBRID)
    assert "cell, bytes a token 14.667 - <- differs" in rows
    assert not any(row.startswith("draft the spec") for row in rows)
