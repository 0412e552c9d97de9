"""The `--kv-` options: what each means, and what is wrong with a value nobody knows (exit code 4)."""

import os
import secrets
import tempfile
import traceback
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from impl import PATH_VARIABLE, Implementation, UnknownImplementation, WrongAdapter, load
from properties.case_files import RecordedCase, WrongCase, read_case
from properties.cell_names import WrongPattern, cells_of, patterns_in
from properties.cells import CELLS, DEPLOYMENTS, DRAFTS, Cell
from properties.context import Context, judged_cells
from properties.corpus import PROFILES
from properties.known import KnownFailures, WrongKnownFile, read_known
from spec.laws import BY_ID, LAWS
from spec.laws.base import Law
from spec.laws.startup import START_UP_BY_ID
from spec.layers import POOL_KINDS


def add_options(parser: pytest.Parser) -> None:
    """The options; other plugins own the plain names."""
    group = parser.getgroup("kv", "KV-cache budget laws (pytest properties)")
    group.addoption(
        "--kv-impl",
        default="configurator",
        metavar="NAME",
        help="who is judged: spec, configurator, batched, sglang, or module:object (default: configurator)",
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
    group.addoption("--kv-law", metavar="GLOBS", help="laws to judge, ids or globs, comma-separated: B1,D*")
    group.addoption(
        "--kv-cell", default="*", metavar="GLOBS", help="cells to judge: 'hybrid-*', '{default,mla}-none-*-same'"
    )
    group.addoption(
        "--kv-known",
        metavar="FILE",
        help="the failures that are expected, or none (default: the file the implementation names, if any)",
    )
    group.addoption(
        "--kv-known-update",
        action="store_true",
        help="write that file again: drop what is fixed, add what is new",
    )
    group.addoption(
        "--kv-report", metavar="DIR", help="write report.json, junit.xml and a file for each case that breaks a law"
    )
    group.addoption(
        "--kv-replay", metavar="FILE", help="judge the one case of a file, and print every number on the way"
    )
    group.addoption(
        "--kv-as-issue",
        action="store_true",
        help="with --kv-replay: print the case as a report for the engine's tracker, with a script that needs it alone",
    )


def context_of(config: pytest.Config) -> Context:
    """The run that the options ask for. Raises `pytest.UsageError`."""
    name, path = config.getoption("--kv-impl"), config.getoption("--kv-impl-path")
    profile_name = chosen_profile(config)
    laws, cells = chosen_laws(config), chosen_cells(config)
    implementation = loaded(name, path)
    is_worker = hasattr(config, "workerinput")
    updates = config.getoption("--kv-known-update")
    return Context(
        implementation=implementation,
        implementation_name=name,
        given_path=path,
        profile_name=profile_name,
        seed=run_seed(config, profile_name),
        laws=laws,
        cells=cells,
        known=known_failures(implementation, config.getoption("--kv-known"), updates=updates),
        report=None if is_worker else report_folder(config),
        updates=updates,
    )


def chosen_profile(config: pytest.Config) -> str:
    """The name of `--kv-profile`."""
    name: str = config.getoption("--kv-profile")
    if name not in PROFILES:
        raise pytest.UsageError(f"--kv-profile: no profile {name!r}; choose one of {', '.join(PROFILES)}")
    return name


def law_globs(config: pytest.Config) -> list[str]:
    """The globs of `--kv-law`. Raises `pytest.UsageError` for one that no law matches."""
    given: str | None = config.getoption("--kv-law")
    globs = ["*"] if given is None else [glob.strip() for glob in given.split(",") if glob.strip()]
    known = (*BY_ID, *START_UP_BY_ID)
    for glob in globs:
        if not any(fnmatchcase(law_id, glob) for law_id in known):
            raise pytest.UsageError(f"--kv-law: no law matches {glob!r}; there are {', '.join(known)}")
    return globs


def is_chosen(config: pytest.Config, law_id: str) -> bool:
    """Whether `--kv-law` asks for a law."""
    return any(fnmatchcase(law_id, glob) for glob in law_globs(config))


def chosen_laws(config: pytest.Config) -> tuple[Law, ...]:
    """The laws of `--kv-law` that have cells, all of them where it is not given."""
    return tuple(law for law in LAWS if is_chosen(config, law.id))


def chosen_start_up_laws(config: pytest.Config) -> list[str]:
    """The ids of the start-up laws that are asked for: they have no cells, so all cells must be."""
    return [law_id for law_id in START_UP_BY_ID if is_chosen(config, law_id) and config.getoption("--kv-cell") == "*"]


def chosen_cells(config: pytest.Config) -> tuple[Cell, ...]:
    """The cells of `--kv-cell`."""
    try:
        names = cells_of(patterns_in(config.getoption("--kv-cell")))
    except WrongPattern as error:
        raise pytest.UsageError(
            f"--kv-cell: {error}; a cell is "
            "POOL-DRAFT[_same|_own]-DEPLOYMENT-same|other, for example hybrid-dflash_own-dp-same; "
            f"POOL is one of {', '.join(POOL_KINDS)}, DRAFT of none, {', '.join(DRAFTS)}, "
            f"DEPLOYMENT of {', '.join(DEPLOYMENTS)}"
        ) from error
    return tuple(cell for cell in CELLS if str(cell) in names)


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


def run_seed(config: pytest.Config, profile_name: str) -> int:
    """The seed of the run: a worker's is its controller's, then `--hypothesis-seed`, then the profile's, then new."""
    worker_input = getattr(config, "workerinput", None)
    if worker_input is not None:
        return int(worker_input["kv_seed"])
    given, seed = config.getoption("--hypothesis-seed", default=None), PROFILES[profile_name].seed
    if given is None and seed is not None:
        return seed
    if given in (None, "random"):
        return secrets.randbelow(2**31)
    try:
        return int(given)
    except ValueError:
        raise pytest.UsageError(f"--hypothesis-seed: {given!r} is neither a whole number nor random") from None


def known_failures(implementation: Implementation, given: str | None, *, updates: bool) -> KnownFailures:
    """The failures expected of an implementation: those of the file that is given or that it names. A file that is
    not there yet is empty where the implementation names it or the run writes it."""
    named: Path | None = getattr(implementation, "known_failures", lambda: None)() if given is None else None
    path = named if given is None else None if given == "none" else Path(given)
    if path is None:
        if updates:
            raise pytest.UsageError("--kv-known-update: --kv-known names no file, nor does the implementation")
        return KnownFailures()
    if updates:
        must_be_writable("--kv-known-update", path.parent)
    if not path.exists() and (updates or given is None):
        return KnownFailures(path)
    try:
        return read_known(path, lambda law: judged_cells(implementation, law))
    except WrongKnownFile as error:
        raise pytest.UsageError(f"--kv-known: {error}") from error


def must_be_writable(option: str, folder: Path) -> None:
    """Make the folder, and a file in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise pytest.UsageError(f"{option}: cannot write into {str(folder)!r}: {error.strerror}") from error


def report_folder(config: pytest.Config) -> Path | None:
    """The folder of `--kv-report`, made and tried before anything is judged. pytest writes its `junit.xml`."""
    given = config.getoption("--kv-report")
    if given is None:
        return None
    folder = Path(given)
    must_be_writable("--kv-report", folder)
    if config.option.xmlpath is not None:
        raise pytest.UsageError(f"--kv-report writes junit.xml, but --junit-xml={config.option.xmlpath} is given too")
    config.option.xmlpath = str(folder / "junit.xml")
    return folder


def replayed_case(config: pytest.Config) -> RecordedCase:
    """The case of `--kv-replay`. One of another implementation than the default is judged by whom `--kv-impl` names."""
    given = config.getoption("--kv-replay")
    try:
        case = read_case(Path(given))
    except (OSError, UnicodeDecodeError, WrongCase) as error:
        raise pytest.UsageError(f"--kv-replay: {given} cannot be read: {error}") from error
    words = [str(word) for word in config.invocation_params.args]
    is_named = any(word == "--kv-impl" or word.startswith("--kv-impl=") for word in words)
    if case.found_in not in ("", config.getoption("--kv-impl")) and not is_named:
        again = f": {case.command}" if case.command else ""
        raise pytest.UsageError(f"--kv-replay: {given} is a case of {case.found_in}; name who is judged{again}")
    return case
