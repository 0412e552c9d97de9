"""The pytest side: options, one test per (law, cell) in cell-major order, progress, the table at the end."""

import os
import secrets
import shlex
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest

from impl import PATH_VARIABLE, Exemption, Implementation, UnknownImplementation, WrongAdapter, load
from properties.cells import CELLS, DEPLOYMENTS, DRAFTS, Cell
from properties.corpus import PROFILES, Profile, corpus_of
from properties.judge import Finding, Tally, UnlistedAnswer, judge_cell, listed_answer, shrunk
from properties.show import answer_text, finding_text
from properties.summary import PROPERTY, Summary
from spec.laws import BY_ID, LAWS
from spec.laws.base import Law
from spec.layers import POOL_KINDS
from spec.model import Scenario

CONTEXT = pytest.StashKey["Context"]()
PROGRESS_STEPS = 10
"""Lines of progress of a whole run."""
WRONG_ADAPTER = "kv-wrong-adapter"
"""The name under which a test reports that the adapter cannot go on, so that the controller ends the run."""


class LawBroken(Exception):
    """Ends a test whose law is broken. What is wrong is printed once for all cells, at the end."""


class Context:
    """One run: who is judged, how much is drawn, what was found."""

    def __init__(self, implementation: Implementation, implementation_name: str, profile_name: str, seed: int) -> None:
        self.implementation = implementation
        self.implementation_name = implementation_name
        self.exemptions: tuple[Exemption, ...] = getattr(implementation, "exemptions", tuple)()
        self.profile_name = profile_name
        self.profile = PROFILES[profile_name]
        self.seed = seed
        self.summary = Summary()
        self.given_path: str | None = None
        """`--kv-impl-path`."""
        self.started = time.monotonic()
        self.tests = 0
        self.finished = 0
        self._corpus: tuple[Cell, tuple[Scenario, ...]] | None = None
        self._shrunk: set[tuple[str, str, str]] = set()

    def corpus(self, cell: Cell) -> tuple[Scenario, ...]:
        """The cell's corpus; tests run cell by cell, so the last one is all that is kept."""
        if self._corpus is None or self._corpus[0] != cell:
            self._corpus = (cell, corpus_of(cell, self.profile.draws_per_cell, self.seed))
        return self._corpus[1]

    def text_of(self, finding: Finding) -> str | None:
        """The finding shrunk and printed, the first time its term is off in its pool kind; later None."""
        fault = (finding.law.id, finding.cell.pool, finding.broken.term)
        if fault in self._shrunk:
            return None
        self._shrunk.add(fault)
        smallest = shrunk(finding, self.implementation, self.seed)
        try:
            answer = answer_text(listed_answer(self.implementation, smallest.scenario))
        except UnlistedAnswer as error:
            answer = str(error)
        return finding_text(smallest, answer, self.replay(finding))

    def replay(self, finding: Finding) -> str:
        """The command that finds a finding again."""
        where = f"--kv-impl-path {shlex.quote(self.given_path)} " if self.given_path is not None else ""
        return (
            f"pytest properties --kv-impl {self.implementation_name} {where}--kv-profile {self.profile_name} "
            f"--kv-law {finding.law.id} --kv-cell {finding.cell} --hypothesis-seed={self.seed}"
        )

    def header(self) -> str:
        """Who is judged, from where, by how much."""
        path = getattr(self.implementation, "path", None)
        where = type(self.implementation).__module__ + (f", {path}" if path else "")
        return (
            f"kv: implementation {self.implementation.name} {self.implementation.version} "
            f"({where}), profile {self.profile_name} "
            f"({self.profile.draws_per_cell} draws a cell), seed {self.seed}"
        )


def pytest_addoption(parser: pytest.Parser) -> None:
    """The `--kv-` options; other plugins own the plain names."""
    group = parser.getgroup("kv", "KV-cache budget laws (pytest properties)")
    group.addoption(
        "--kv-impl",
        default="configurator",
        metavar="NAME",
        help="the implementation to judge: spec, configurator, sglang, or module:object (default: configurator)",
    )
    group.addoption(
        "--kv-impl-path",
        metavar="DIR",
        help="the folder to import it from: for sglang one that holds sglang/, of a checkout its python/",
    )
    group.addoption(
        "--kv-profile",
        default="gate",
        metavar="NAME",
        help="how much to draw: gate (repeatable, for CI), nightly (many, a new seed each run), dev (a glance)",
    )
    group.addoption(
        "--kv-law", default="*", metavar="GLOBS", help="laws to judge, ids or globs, comma-separated: B1,D*"
    )
    group.addoption("--kv-cell", default="*", metavar="GLOB", help="cells to judge: 'hybrid-*', '*-dflash_own-*'")


def pytest_configure(config: pytest.Config) -> None:
    """Look the options up once; a name nobody knows ends the run with exit code 4."""
    profile_name = config.getoption("--kv-profile")
    if profile_name not in PROFILES:
        raise pytest.UsageError(f"--kv-profile: no profile {profile_name!r}; choose one of {', '.join(PROFILES)}")
    for glob in law_globs(config):
        if not any(fnmatchcase(law_id, glob) for law_id in BY_ID):
            raise pytest.UsageError(f"--kv-law: no law matches {glob!r}; there are {', '.join(BY_ID)}")
    if not any(fnmatchcase(str(cell), config.getoption("--kv-cell")) for cell in CELLS):
        raise pytest.UsageError(
            f"--kv-cell: no cell matches {config.getoption('--kv-cell')!r}; a cell is "
            "POOL-DRAFT[_same|_own]-DEPLOYMENT-same|other, for example hybrid-dflash_own-dp-same; "
            f"POOL is one of {', '.join(POOL_KINDS)}, DRAFT of none, {', '.join(DRAFTS)}, "
            f"DEPLOYMENT of {', '.join(DEPLOYMENTS)}"
        )
    name = config.getoption("--kv-impl")
    implementation = loaded(name, config.getoption("--kv-impl-path"))
    config.stash[CONTEXT] = Context(implementation, name, profile_name, run_seed(config, PROFILES[profile_name]))
    config.stash[CONTEXT].given_path = config.getoption("--kv-impl-path")
    if not any(chosen_cells(config, law) for law in LAWS):
        pytest.exit(
            f"nothing to judge: no law in --kv-law {config.getoption('--kv-law')!r} claims for {name} "
            f"a cell in --kv-cell {config.getoption('--kv-cell')!r}"
            + "".join(f"; {line}" for line in exempt_lines(config)),
            returncode=pytest.ExitCode.NO_TESTS_COLLECTED,
        )


def loaded(name: str, path: str | None) -> Implementation:
    """The implementation of that name, from that folder if one is given. One that cannot be imported or built is a
    usage error too."""
    if path is not None:
        os.environ[PATH_VARIABLE] = os.path.abspath(path)
    try:
        implementation = load(name)
    except (UnknownImplementation, WrongAdapter) as error:
        raise pytest.UsageError(f"--kv-impl: {error}") from error
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise pytest.UsageError(
            f"--kv-impl: {name!r} cannot be loaded: {type(error).__name__}: {error} ({last.filename}:{last.lineno})"
        ) from error
    if path is not None and not hasattr(implementation, "path"):
        raise pytest.UsageError(f"--kv-impl-path: {name!r} is not imported from a folder, but {path!r} is given")
    return implementation


def run_seed(config: pytest.Config, profile: Profile) -> int:
    """The seed of the run: a worker's is its controller's, then `--hypothesis-seed`, then the profile's, then new."""
    worker_input = getattr(config, "workerinput", None)
    if worker_input is not None:
        return int(worker_input["kv_seed"])
    given = config.getoption("--hypothesis-seed", default=None)
    if given is None and profile.seed is not None:
        return profile.seed
    if given in (None, "random"):
        return secrets.randbelow(2**31)
    try:
        return int(given)
    except ValueError:
        raise pytest.UsageError(f"--hypothesis-seed: {given!r} is neither a whole number nor random") from None


def law_globs(config: pytest.Config) -> list[str]:
    """The globs of `--kv-law`."""
    return [glob.strip() for glob in config.getoption("--kv-law").split(",") if glob.strip()]


def law_of(metafunc_or_item: Any) -> Law | None:
    """The law a test function of `properties/` judges: its `law` mark."""
    marks = getattr(metafunc_or_item.function, "pytestmark", [])
    return next((BY_ID[mark.args[0]] for mark in marks if mark.name == "law"), None)


def asked_cells(config: pytest.Config, law: Law) -> list[Cell]:
    """The cells in which this run asks for a law, exempt ones too."""
    context = config.stash[CONTEXT]
    if context.implementation.name == "spec" and not law.judges_reference:
        return []
    if law.needs and not hasattr(context.implementation, law.needs):
        return []
    if not any(fnmatchcase(law.id, glob) for glob in law_globs(config)):
        return []
    cell_glob = config.getoption("--kv-cell")
    return [cell for cell in CELLS if law.claims(str(cell)) and fnmatchcase(str(cell), cell_glob)]


def exemption_of(config: pytest.Config, law: Law, cell: Cell) -> Exemption | None:
    """The first exemption of the implementation that covers a verdict."""
    return next((entry for entry in config.stash[CONTEXT].exemptions if entry.covers(law.id, str(cell))), None)


def chosen_cells(config: pytest.Config, law: Law) -> list[Cell]:
    """The cells in which this run judges a law."""
    return [cell for cell in asked_cells(config, law) if exemption_of(config, law, cell) is None]


def exempt_lines(config: pytest.Config) -> list[str]:
    """How many verdicts the run leaves out, and why."""
    counts: Counter[str] = Counter()
    laws: dict[str, dict[str, None]] = {}
    for law in LAWS:
        for cell in asked_cells(config, law):
            if (exemption := exemption_of(config, law, cell)) is not None:
                counts[exemption.reason] += 1
                laws.setdefault(exemption.reason, {})[law.id] = None
    return [
        f"exempt, {count:,} {'verdict' if count == 1 else 'verdicts'} of {', '.join(laws[reason])}: {reason}"
        for reason, count in counts.items()
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each cell a law claims."""
    law = law_of(metafunc)
    if law is not None:
        cells: list[Cell | None] = list(chosen_cells(metafunc.config, law)) or [None]
        marks = [pytest.param(cell, id=str(cell), marks=pytest.mark.xdist_group(str(cell))) for cell in cells]
        metafunc.parametrize("cell", marks)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Cell-major order, so that a corpus is drawn once; laws without a cell in this run are deselected."""
    position = {cell: number for number, cell in enumerate(CELLS)}
    judged, others, unchosen = [], [], []
    for item in items:
        call = getattr(item, "callspec", None)
        if call is None or "cell" not in call.params or law_of(item) is None:
            others.append(item)
        elif call.params["cell"] is None:
            unchosen.append(item)
        else:
            judged.append(item)
    judged.sort(key=lambda item: position[item.callspec.params["cell"]])  # type: ignore[attr-defined]
    if unchosen:
        config.hook.pytest_deselected(items=unchosen)
    items[:] = [*others, *judged]
    config.stash[CONTEXT].tests = len(judged)


@pytest.fixture
def judge(request: pytest.FixtureRequest, record_property: Any) -> Iterator[Any]:
    """Judges the test's law in one cell of the run."""
    context = request.config.stash[CONTEXT]
    law = law_of(request)
    assert law is not None

    def judged(cell: Cell) -> None:
        tally, finding = judge_cell(law, cell, context.implementation, context.corpus(cell))
        entry = {
            "law": law.id,
            "cell": str(cell),
            "pool": cell.pool,
            "scenarios": tally.scenarios,
            "judged": tally.judged,
            "refused": tally.refused,
            "unsupported": dict(tally.unsupported),
        }
        if finding is not None:
            entry |= {"term": finding.broken.term, "text": context.text_of(finding)}
        elif tally.judged == 0:
            entry |= {"term": "nothing judged", "text": nothing_judged_text(law, cell, tally)}
        record_property(PROPERTY, entry)
        if "term" in entry:
            raise LawBroken(f"{law.id} {law.name}: {entry['term']} in {cell}")

    def judged_by_a_right_adapter(cell: Cell) -> None:
        try:
            judged(cell)
        except WrongAdapter as error:
            record_property(WRONG_ADAPTER, str(error))
            raise LawBroken(str(error)) from error

    yield judged_by_a_right_adapter


def nothing_judged_text(law: Law, cell: Cell, tally: Tally) -> str:
    """Why a law that claims a cell gave no verdict there, which is a fault of the run."""
    return (
        f"{law.id} claims {cell} and judged none of {tally.scenarios} scenarios: {tally.refused} refused, "
        f"{tally.unsupported.total()} not supported by the implementation"
    )


def law_entries(report: pytest.TestReport) -> list[dict[str, Any]]:
    """The tallies a test reported."""
    return [value for name, value in report.user_properties if name == PROPERTY and isinstance(value, dict)]


class Reporter:
    """Progress while a run goes on, and the table at its end. Not on workers."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.context = config.stash[CONTEXT]

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, Any] | None:
        """A judged law is not a dot: thousands pass. A broken one is printed once for all its cells."""
        if report.when != "call" or not law_entries(report):
            return None
        if report.passed:
            return "passed", "", "PASSED"
        return "broken", "", ("BROKEN", {"red": True})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up, and print a line of progress now and then. An adapter that cannot go on ends the run."""
        for name, value in report.user_properties:
            if name == WRONG_ADAPTER:
                pytest.exit(f"--kv-impl: {value}", returncode=pytest.ExitCode.USAGE_ERROR)
        entries = law_entries(report) if report.when == "call" else []
        for entry in entries:
            if not self.context.finished:
                self.print_line(self.context.header())
            self.context.summary.add(entry)
            self.context.finished += 1
            total = max(self.context.tests, self.context.finished)
            step = max(1, total // PROGRESS_STEPS)
            if self.context.finished % step == 0:
                self.print_progress(entry["cell"], total)

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

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """What is broken, then the table, then the figures."""
        summary = self.context.summary
        if not summary.scenarios:
            return
        for block in summary.finding_blocks():
            terminalreporter.write_line("")
            terminalreporter.write_line(block)
        terminalreporter.write_line("")
        terminalreporter.write_line(summary.law_table())
        for line in summary.unsupported_lines():
            terminalreporter.write_line(line)
        for line in exempt_lines(self.config):
            terminalreporter.write_line(line)
        seconds = time.monotonic() - self.context.started
        terminalreporter.write_line(f"{summary.figures()}, in {seconds:.1f} s")


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
