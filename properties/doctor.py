"""What a run would find here: versions, who is judged and how, what is left out, what clashes, and how to mend it.

python -m properties doctor --kv-impl sglang --kv-impl-path ../sglang/python
"""

import importlib.util
import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, entry_points, version

import pytest
from hypothesis.internal.conjecture import providers

from impl import PATH_VARIABLE, REGISTRY, Implementation
from properties.cells import CELLS
from properties.context import can_be_asked, exemptions_of, judged_cells
from properties.known import KnownFailures
from properties.options import known_failures, loaded
from properties.show import row_text
from properties.verbs import Parser
from spec.laws import LAWS

PACKAGES = ("pytest", "hypothesis", "pytest-xdist", "torch", "numpy", "sglang")
"""What a run uses, in the order told."""
MENDS = {
    "pytest-xdist": "install it: one worker judges everything, twice as long on two cores",
    "torch": "install torch: pools are built with it, and only the sources of spec/ can do without",
    "sglang": "install a release, or give --kv-impl-path; only --kv-impl sglang needs it",
    "numpy": "install numpy: torch warns at import, and the batched implementation cannot be judged",
}
"""What is lost without a package, and what to do."""
CLASHES = {
    "randomly": "it shuffles tests and reseeds Hypothesis: a corpus is drawn for every law anew; give -p no:randomly",
    "random_order": "it shuffles tests: a corpus is drawn for every law anew; give -p no:random_order",
    "rerunfailures": "it judges a broken law again and again; give -p no:rerunfailures",
    "flakefinder": "it judges every law many times; give -p no:flakefinder",
    "sugar": "it draws over the lines of progress; give -p no:sugar",
    "timeout": "a timeout of its own ends a law in the middle of a cell; give -p no:timeout, or a long one",
}
"""Plugins of pytest by the name of their entry point, and what to do beside them."""


@dataclass(frozen=True)
class Remark:
    """Something that is not as it could be, and how to mend it. `fails`: a run is red for it."""

    what: str
    mend: str
    fails: bool = False


def installed(package: str) -> str | None:
    """The version of a package, None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def version_line() -> str:
    """Python, and every package that a run uses."""
    found = [f"{package} {installed(package) or 'missing'}" for package in PACKAGES]
    return ", ".join([f"Python {platform.python_version()}", *found])


def missing_packages() -> Iterator[Remark]:
    """What cannot be done without."""
    for package, mend in MENDS.items():
        if installed(package) is None and importlib.util.find_spec(package.removeprefix("pytest-")) is None:
            yield Remark(f"{package} is missing", mend)


def plugin_clashes(names: Iterable[str]) -> Iterator[Remark]:
    """Plugins that change what a run does."""
    for name in names:
        if name.removeprefix("pytest_") in CLASHES:
            yield Remark(f"the pytest plugin {name} is installed", CLASHES[name.removeprefix("pytest_")])


def surroundings() -> Iterator[Remark]:
    """The environment of the run."""
    if os.environ.get(PATH_VARIABLE):
        yield Remark(
            f"{PATH_VARIABLE} is set to {os.environ[PATH_VARIABLE]!r}",
            "implementations are imported from there; unset it, or give --kv-impl-path",
        )
    if os.environ.get("PYTEST_ADDOPTS"):
        yield Remark(f"PYTEST_ADDOPTS is {os.environ['PYTEST_ADDOPTS']!r}", "every run gets these options; unset it")
    if not (hasattr(providers, "_get_local_constants") and hasattr(providers, "CONSTANTS_CACHE")):
        yield Remark(
            f"Hypothesis {installed('hypothesis')} mixes constants of local code into what it draws",
            "the gate may draw other scenarios after an edit; install a version of .ci/constraints.txt",
        )


def of_implementation(implementation: Implementation, known: KnownFailures, today: date) -> Iterator[Remark]:
    """What is new, stale or expired."""
    _, complaints = coverage_said(implementation)
    for complaint in complaints:
        yield Remark(
            complaint, "judge it, or leave it out with a reason and a date; take out what is stale", fails=True
        )
    for name, fault in known.expired(today):
        yield Remark(
            f"the known failure {name} expired on {fault.until}",
            f"fix it, or give it a later date in {known.path}",
            fails=True,
        )
    if "driven like" in implementation.version:
        yield Remark(
            f"{implementation.name} {implementation.version}: no row of its own",
            "run make gate; where it ends with exit code 4, teach impl/sglang/releases.py what it names",
        )


def coverage_said(implementation: Implementation) -> tuple[str, list[str]]:
    """How much of an engine is judged, and what is wrong with that; nothing of one that does not say."""
    said: tuple[str, list[str]] = getattr(implementation, "coverage", lambda: ("", []))()
    return said


def judged_lines(implementation: Implementation) -> Iterator[tuple[str, str]]:
    """What a whole run judges of it."""
    path = getattr(implementation, "path", None)
    where = f", {path}" if path else ""
    kind = type(implementation)
    yield "judged", f"{implementation.name} {implementation.version} by {kind.__module__}.{kind.__qualname__}{where}"
    verdicts = sum(len(judged_cells(implementation, law)) for law in LAWS)
    unasked = [law.id for law in LAWS if not can_be_asked(implementation, law)]
    without = f"; it cannot be asked for {', '.join(unasked)}" if unasked else ""
    yield "verdicts", f"{verdicts:,} in {len(CELLS)} cells{without}"
    line, _ = coverage_said(implementation)
    if line:
        yield "coverage", line
    for exemption in exemptions_of(implementation):
        yield "exempt", f"{exemption.laws} in {exemption.cells}: {exemption.reason}"


def known_line(known: KnownFailures) -> str:
    """The file of known failures."""
    if known.path is None:
        return "no file"
    return f"{known.path}, {len(known.entries)} entries of {len({entry.fault for entry in known.entries})} faults"


def print_remarks(remarks: list[Remark]) -> None:
    """Each with how to mend it."""
    for remark in remarks:
        print(row_text("FAILS" if remark.fails else "note", f"{remark.what}\n{remark.mend}"))


def main(arguments: Sequence[str]) -> int:
    """Exit code 0; 1 where a run would be red before a law is judged; 4 where nobody can be judged."""
    parser = Parser(prog="python -m properties doctor", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--kv-impl", default="configurator", metavar="NAME", help=f"{', '.join(REGISTRY)}, module:object"
    )
    parser.add_argument("--kv-impl-path", metavar="DIR", help="the folder to import it from")
    given = parser.parse_args(arguments)
    print(row_text("versions", version_line()))
    clashes = plugin_clashes(point.name for point in entry_points(group="pytest11"))
    remarks = [*missing_packages(), *clashes, *surroundings()]
    print_remarks(remarks)
    try:
        implementation = loaded(given.kv_impl, given.kv_impl_path)
        known = known_failures(implementation, None, updates=False)
    except pytest.UsageError as error:
        print(row_text("FAILS", f"{error}\nno run can begin: exit code 4"))
        return int(pytest.ExitCode.USAGE_ERROR)
    for name, text in judged_lines(implementation):
        print(row_text(name, text))
    print(row_text("known", known_line(known)))
    more = list(of_implementation(implementation, known, date.today()))
    print_remarks(more)
    remarks += more
    failing = sum(remark.fails for remark in remarks)
    print(f"{len(remarks)} remark{'' if len(remarks) == 1 else 's'}, {failing} of which make a run red")
    return int(pytest.ExitCode.TESTS_FAILED if failing else pytest.ExitCode.OK)
