"""The pytest side: one test per (law, cell) in cell-major order, progress, and what is said at the end."""

import time
import traceback
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from impl import WrongAdapter
from properties.case_files import scenario_from_text
from properties.cell_names import POSITION, cells_text
from properties.cells import Cell
from properties.context import Context
from properties.counterexample import Counterexample, block_text, counterexample, traceback_text
from properties.issue import as_issue
from properties.known_update import updated, write_again
from properties.options import add_options, chosen_start_up_laws, context_of, replayed_case
from properties.replay import replay
from properties.report import case_path, write_report
from properties.show import paste_able, row_text
from properties.smallest import Shown, Term, smallest_cases, smallest_of
from properties.summary import BROKEN, HOLDS, KNOWN, PROPERTY, UNSUPPORTED, Result, result_of
from spec.laws import BY_ID, LAWS
from spec.laws.base import Law

CONTEXT = pytest.StashKey[Context]()
PROGRESS_STEPS = 10
"""Lines of progress of a whole run."""
WRONG_ADAPTER = "kv-wrong-adapter"
SUITE_FAILED = "kv-suite-failed"
"""The names under which a test reports that the adapter cannot go on, or that the suite itself raised, so that the
controller ends the run."""
CATEGORY = {HOLDS: "passed", KNOWN: "known", BROKEN: "broken", UNSUPPORTED: "broken"}
"""Under which word pytest counts a test of each verdict."""


NO_TRACEBACKS = ("auto", "no")
"""Values of `--tb` without which, and with which, no traceback is asked for."""


class LawBroken(Exception):
    """Ends a test whose law is broken. What is wrong is printed once for all cells, at the end."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The `--kv-` options."""
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """`--kv-replay` judges one case in place of a run."""
    if config.getoption("--kv-replay") is None:
        if config.getoption("--kv-as-issue"):
            raise pytest.UsageError("--kv-as-issue: --kv-replay names no case")
        return None
    case, context = replayed_case(config), context_of(config)
    try:
        if config.getoption("--kv-as-issue"):
            return as_issue(case, context)
        return replay(case, context, laws_are_given=config.getoption("--kv-law") is not None)
    except WrongAdapter as error:
        raise pytest.UsageError(f"--kv-impl: {error}") from error


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Look the options up once, before pytest opens its `junit.xml`."""
    context = config.stash[CONTEXT] = context_of(config)
    if not any(context.chosen_cells(law) for law in LAWS) and not chosen_start_up_laws(config):
        pytest.exit(
            f"nothing to judge: no law in --kv-law {config.getoption('--kv-law') or '*'} claims for "
            f"{context.implementation_name} a cell in --kv-cell {config.getoption('--kv-cell')!r}"
            + "".join(f"; {line}" for line in context.exempt_lines()),
            returncode=pytest.ExitCode.NO_TESTS_COLLECTED,
        )


def law_of(metafunc_or_item: Any) -> Law | None:
    """The law a test function of `properties/` judges: its `law` mark."""
    marks = getattr(metafunc_or_item.function, "pytestmark", [])
    return next((BY_ID[mark.args[0]] for mark in marks if mark.name == "law"), None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each cell a law claims."""
    law = law_of(metafunc)
    if law is not None:
        cells: list[Cell | None] = list(metafunc.config.stash[CONTEXT].chosen_cells(law)) or [None]
        marks = [pytest.param(cell, id=str(cell), marks=pytest.mark.xdist_group(str(cell))) for cell in cells]
        metafunc.parametrize("cell", marks)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Cell-major order, so that a corpus is drawn once; laws without a cell in this run are deselected."""
    judged, others, unchosen = [], [], []
    for item in items:
        call = getattr(item, "callspec", None)
        if call is None or "cell" not in call.params or law_of(item) is None:
            others.append(item)
        elif call.params["cell"] is None:
            unchosen.append(item)
        else:
            judged.append(item)
    judged.sort(key=lambda item: POSITION[str(item.callspec.params["cell"])])  # type: ignore[attr-defined]
    if unchosen:
        config.hook.pytest_deselected(items=unchosen)
    items[:] = [*others, *judged]
    config.stash[CONTEXT].tests = len(judged)


@pytest.fixture
def judge(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Judges the test's law in one cell of the run."""
    context = request.config.stash[CONTEXT]
    law = law_of(request)
    assert law is not None

    def judged(cell: Cell) -> None:
        try:
            result = context.judge(law, cell)
        except WrongAdapter as error:
            request.node.user_properties.append((WRONG_ADAPTER, str(error)))
            raise LawBroken(str(error)) from error
        except Exception as error:
            request.node.user_properties.append((SUITE_FAILED, failure_text(f"{law.id} in {cell}", error)))
            raise
        request.node.user_properties.append((PROPERTY, result.as_property()))
        if result.verdict in (BROKEN, UNSUPPORTED):
            fixed = [f"{fixed.fault} is fixed" for fixed in result.fixed]
            raise LawBroken(f"{law.id} {law.name}: {', '.join(result.unexpected + fixed)} in {cell}")

    yield judged


def results_in(report: pytest.TestReport) -> list[Result]:
    """What a test reported."""
    return [result_of(value) for name, value in report.user_properties if name == PROPERTY and isinstance(value, dict)]


def failure_text(doing: str, error: Exception) -> str:
    """What an exception of the suite says, which is no fault of who is judged."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"the suite itself failed on {doing}: {type(error).__name__}: {error} ({last.filename}:{last.lineno}); "
        "report it to kv-budget-spec, not to the engine"
    )


class Reporter:
    """Progress while a run goes on, and what is said at its end. Not on workers."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.context = config.stash[CONTEXT]
        self.facts: dict[Term, Counterexample] = {}
        self.expired: list[str] = []
        self.coverage = ""
        self.uncovered: list[str] = []
        self.update_line = ""
        self.reported = False

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, Any] | None:
        """A judged law is not a dot: thousands pass. A broken one is printed once for all its cells."""
        results = results_in(report) if report.when == "call" else []
        if not results:
            return None
        category = CATEGORY[results[0].verdict]
        return category, "", (category.upper(), {"red": True}) if category == "broken" else category.upper()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up, and print a line of progress now and then. An adapter that cannot go on ends the run."""
        for name, value in report.user_properties:
            if name == WRONG_ADAPTER:
                pytest.exit(f"--kv-impl: {value}", returncode=pytest.ExitCode.USAGE_ERROR)
            if name == SUITE_FAILED:
                pytest.exit(str(value), returncode=pytest.ExitCode.INTERNAL_ERROR)
        for result in results_in(report):
            if report.when == "call":
                self.count(result)
            elif report.when == "teardown":
                report.user_properties = readable(result)

    def count(self, result: Result) -> None:
        """One result."""
        context = self.context
        if not context.finished:
            for line in context.header():
                self.print_line(line)
        context.summary.add(result)
        context.finished += 1
        total = max(context.tests, context.finished)
        if context.finished % max(1, total // PROGRESS_STEPS) == 0:
            self.print_progress(result.cell, total)

    def print_progress(self, cell: str, total: int) -> None:
        """How far, where, how much."""
        summary = self.context.summary
        self.print_line(
            f"{100 * self.context.finished // total:3d} %  {time.monotonic() - self.context.started:5.1f} s  "
            f"{summary.judged.total():>9,} judgements  {summary.broken.total()} broken  {cell}"
        )

    def print_line(self, line: str) -> None:
        """A line of its own on the terminal, where there is one."""
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.write_line(line)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Shrink what is off, and write files. A run that was cut short is told as it is. A run in which every law
        holds is red all the same where a known failure has expired, or where a part of the engine is not judged."""
        context = self.context
        if not context.finished or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return
        try:
            self.expired, (self.coverage, self.uncovered) = expired_blocks(context), coverage_of(context)
            if exitstatus == pytest.ExitCode.OK and (self.expired or self.uncovered):
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
            smallest = smallest_cases(context)
            self.facts = {term: counterexample(case, context.implementation) for term, case in smallest.items()}
            if context.updates:
                after = updated(context.known, context.summary, smallest, self.pin, date.today())
                self.update_line = write_again(context.known, after)
            if context.report is not None:
                write_report(context, context.report, self.facts)
                self.reported = True
        except WrongAdapter as error:
            pytest.exit(f"--kv-impl: {error}", returncode=pytest.ExitCode.USAGE_ERROR)
        except Exception as error:
            pytest.exit(failure_text("what was found", error), returncode=pytest.ExitCode.INTERNAL_ERROR)

    def pin(self, result: Result, term: str) -> Shown:
        """The smallest case of a term that is off in a cell."""
        return smallest_of(result, term, self.context)

    def finding_blocks(self) -> list[str]:
        """One block for each (law, pool kind, term) that is off and that nobody expected, and the cells where it is."""
        blocks = []
        for term, results in self.context.summary.unexpected().items():
            law_id, pool, off = term
            places = "1 cell" if len(results) == 1 else f"{len(results)} cells"
            cells = cells_text(result.cell for result in results)
            text = self.case_text(self.facts[term]) if term in self.facts else unshrunk_text(results[0], off)
            blocks.append(f"BROKEN {law_id} on {pool} in {places}: {off}\n{text}\n{row_text('cells', cells)}")
        return blocks

    def case_text(self, facts: Counterexample) -> str:
        """What is wrong with the smallest case, how to see it again, and where it is written."""
        finding, context = facts.case.finding, self.context
        commands = [("replay", context.again(finding.law.id, str(finding.cell)))]
        if context.report is not None:
            commands.append(("case file", str(case_path(context.report, finding))))
        if self.config.option.tbstyle not in NO_TRACEBACKS:
            commands.append(
                ("traceback", traceback_text(context.implementation, finding.scenario) or "nothing is raised")
            )
        return block_text(facts, commands)

    def fixed_blocks(self) -> list[str]:
        """The known failures that no longer fail."""
        known = self.context.known
        return [
            f"FIXED {result.law} in {result.cell}: {fixed.term} of {fixed.fault}\n"
            + row_text("its case", fixed.said)
            + "\n"
            + row_text("fixed", f"remove it from {known.path}, as --kv-known-update does")
            for result in self.context.summary.in_order()
            for fixed in result.fixed
        ]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """What is broken, then the table, then what is known and left out, then the figures."""
        summary, context = self.context.summary, self.context
        if not summary.results:
            return
        uncovered = [f"UNCOVERED {complaint}" for complaint in self.uncovered]
        for block in (*self.finding_blocks(), *self.fixed_blocks(), *self.expired, *uncovered):
            terminalreporter.write_line("")
            terminalreporter.write_line(block)
        terminalreporter.write_line("")
        terminalreporter.write_line(summary.law_table())
        lines = [*summary.known_lines(context.known), *summary.unsupported_lines(), *context.exempt_lines()]
        if self.coverage:
            lines.append(f"judged: {self.coverage}")
        if self.update_line:
            lines.append(f"known failures: {self.update_line}")
        if self.reported:
            lines.append(f"report: {context.report}")
        seconds = time.monotonic() - context.started
        for line in (*lines, f"{summary.figures()}, in {seconds:.1f} s"):
            terminalreporter.write_line(line)


def expired_blocks(context: Context) -> list[str]:
    """The known failures whose date is past."""
    return [
        f"EXPIRED {name}, known until {fault.until}: {fault.reason}\n"
        + row_text("mend", f"fix it, or give it a later date in {context.known.path}")
        for name, fault in context.known.expired(date.today())
    ]


def coverage_of(context: Context) -> tuple[str, list[str]]:
    """How much of the engine is judged, and what is not; nothing of an implementation that does not say. An exemption
    that leaves nothing out is stale."""
    line, complaints = getattr(context.implementation, "coverage", lambda: ("", []))()
    return line, [*complaints, *context.stale_exemptions()]


def unshrunk_text(result: Result, term: str) -> str:
    """What is off where there is no smallest case: nothing was judged, or the run was cut short."""
    scenarios = [scenario_from_text(found.case) for found in result.found if found.term == term]
    return "\n".join(row_text("first case", paste_able(scenario)) for scenario in scenarios) or result.nothing


def readable(result: Result) -> list[tuple[str, object]]:
    """A result as the properties of a test in `junit.xml`."""
    counts = [("judged", result.judged), ("refused", result.refused)]
    terms = [("term", term) for term in result.terms]
    return [("law", result.law), ("cell", result.cell), ("verdict", result.verdict), *counts, *terms]


def pytest_sessionstart(session: pytest.Session) -> None:
    """Only the controller reports."""
    if not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(Reporter(session.config), "kv-reporter")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Workers draw with the controller's seed."""
    node.workerinput["kv_seed"] = node.config.stash[CONTEXT].seed


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """The controller collects nothing itself: the workers' count is the run's."""
    node.config.stash[CONTEXT].tests = len(ids)
