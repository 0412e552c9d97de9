"""`pytest properties` with known failures, with report files, and on one case."""

import json
import re
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from impl import load
from properties.case_files import SCHEMA, RecordedCase, read_case
from properties.cells import CELLS
from properties.known_update import file_text
from properties.options import chosen_cells, known_failures, replayed_case, report_folder
from properties.replay import replay
from spec.laws import LAWS
from spec.model import PoolSizes
from tests.case_scenarios import layers_of_heads, served
from tests.test_gate import BROKEN, GREEN, NOTHING_JUDGED, ROOT, WORKERS, WRONG_USE, Run, gate_again, judging, row
from tests.test_known_failures import run, update
from tests.wrong_implementations import CannotJudgeAfterAll, DividesByZero, NamesItsKnownFailures, OnePageTooMany, Sound

STOPPED = 2
"""The exit code of a run that was interrupted."""
DEFAULT, MLA = "default-none-tp-same", "mla-none-tp-same"
SELECTION = ("--kv-cell", "{default,mla}-none-tp-same", "--kv-law", "B1,B4")
WRONG = (*SELECTION, *judging("OnePageTooMany"))


# What a run makes of the files; a process each.


@pytest.fixture(scope="module")
def known_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an update with workers writes, from nothing."""
    path = tmp_path_factory.mktemp("known") / "known.toml"
    done = gate_again(*WRONG, "--kv-known", str(path), "--kv-known-update", *WORKERS)
    assert done.code == BROKEN and len(done.blocks) == 2
    assert f"known failures: {path} written, 2 entries: 2 new, 0 gone" in done.text
    return path


def test_after_an_update_a_run_is_green(known_file: Path) -> None:
    """Here the implementation names the file itself."""
    options = (*judging("NamesItsKnownFailures"), "--kv-impl-path", str(known_file.parent), *WORKERS)
    done = gate_again(*SELECTION, *options)
    assert done.code == GREEN and not done.blocks
    assert f"kv: known failures {known_file}, 2 entries" in done.text
    assert done.table[0].startswith("B1 fits the budget known in 1 ")
    assert "known unexplained, 2 of 2 verdicts of B1: to be explained" in done.text.splitlines()
    assert re.search(r"^2 passed, .*2 known in ", done.text, re.M)


def test_workers_do_not_change_the_file(known_file: Path) -> None:
    after = update(run(OnePageTooMany(), laws=("B1", "B4"), cells=(DEFAULT, MLA)), date.today())
    assert file_text(after) == known_file.read_text(encoding="utf-8")


def test_a_fixed_fault_is_broken_until_it_is_removed(known_file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "1.toml"
    copy.write_bytes(known_file.read_bytes())
    done = gate_again(*SELECTION, *judging("Sound"), "--kv-known", str(copy), "--kv-known-update")
    assert done.code == BROKEN
    assert f"FIXED B1 in {DEFAULT}: allocated bytes of unexplained" in done.text
    assert f"remove it from {copy}, as --kv-known-update does" in done.text
    assert "written, 0 entries: 0 new, 2 gone" in done.text
    assert "[[known]]" not in copy.read_text(encoding="utf-8")


def test_a_file_that_cannot_be_used_is_wrong_use() -> None:
    done = gate_again("--kv-known", "pyproject.toml", "--kv-impl", "spec")
    assert done.code == WRONG_USE and "Traceback" not in done.text
    assert "--kv-known: pyproject.toml: nobody reads 'build-system'" in done.text


@pytest.fixture(scope="module")
def reported(known_file: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """A run with a known failure on one pool kind and a new one on the other."""
    folder, only_mla = tmp_path_factory.mktemp("report") / "new", known_file.parent / "mla.toml"
    head, default, mla = re.split(r"(?=\[\[known\]\])", known_file.read_text(encoding="utf-8"))
    assert DEFAULT in default
    only_mla.write_text(head + mla, encoding="utf-8")
    return gate_again(*WRONG, "--kv-known", str(only_mla), "--kv-report", str(folder)), folder


def test_a_report_says_who_and_what(reported: tuple[Run, Path]) -> None:
    done, folder = reported
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert done.code == BROKEN and f"report: {folder}" in done.text
    assert report["schema"] == SCHEMA and (report["profile"], report["seed"]) == ("dev", 0)
    assert report["impl"] == {"name": "one-page-too-many", "version": "0", "path": None}
    assert [law["id"] for law in report["laws"]] == [law.id for law in LAWS]
    verdicts = {law["id"]: law["verdict"] for law in report["laws"]}
    assert (verdicts["B1"], verdicts["B4"], verdicts["Q1"]) == ("broken", "holds", "not asked")
    assert [(one["law"], one["cell"], one["verdict"], one["terms"]) for one in report["verdicts"]] == [
        ("B1", DEFAULT, "broken", ["allocated bytes"]),
        ("B4", DEFAULT, "holds", []),
        ("B1", MLA, "known", ["allocated bytes"]),
        ("B4", MLA, "holds", []),
    ]
    (known,) = report["known"]
    assert (known["fault"], known["met"], known["not_met"]) == ("unexplained", [MLA], [])
    assert str(report["figures"]["cells"]) == done.figures[2]


def test_a_finding_has_its_figures_and_its_case(reported: tuple[Run, Path]) -> None:
    _, folder = reported
    findings = json.loads((folder / "report.json").read_text(encoding="utf-8"))["findings"]
    assert [(one["cell"], one["verdict"], one["fault"]) for one in findings] == [
        (DEFAULT, "broken", None),
        (MLA, "known", "unexplained"),
    ]
    for one in findings:
        place = (one["pool"], one["draft"], one["geometry"], one["deployment"], one["draft_dtype"])
        assert place in {(cell.pool, cell.draft, cell.geometry, cell.deployment, cell.draft_dtype) for cell in CELLS}
        assert one["tokens"] > one["spec_tokens"] and one["allocated_bytes"] > one["available_bytes"]
        assert (one["counterexample"] is None) == (one["verdict"] == "known")
        case = read_case(folder / one["case"])
        assert case.law == "B1" and isinstance(case.answer, PoolSizes)
        assert case.answer.max_total_num_tokens == one["tokens"]


def test_a_block_names_the_file_of_its_case(reported: tuple[Run, Path]) -> None:
    done, folder = reported
    (block,) = done.blocks
    path = Path(row(block, "case file"))
    assert path.parent == folder / "cases" and path.is_file()


def test_junit_names_law_and_verdict(reported: tuple[Run, Path]) -> None:
    _, folder = reported
    said = {}
    for test in ElementTree.parse(folder / "junit.xml").getroot().findall(".//testcase"):
        properties = {one.get("name"): one.get("value") for one in test.findall("properties/property")}
        said[properties["law"], properties["cell"]] = (properties["verdict"], len(test.findall("failure")))
    assert said["B1", DEFAULT] == ("broken", 1)
    assert said["B1", MLA] == ("known", 0) and len(said) == 4


def test_a_run_that_is_stopped_writes_nothing(known_file: Path, tmp_path: Path) -> None:
    """It tells what it has found, not shrunk."""
    path, folder = tmp_path / "1.toml", tmp_path / "report"
    files = ("--kv-known", str(path), "--kv-known-update", "--kv-report", str(folder))
    done = gate_again(*SELECTION, *judging("IsStopped"), *files)
    (block,) = done.blocks
    assert done.code == STOPPED and block.startswith("BROKEN B1 on default in 1 cell: allocated bytes")
    assert row(block, "first case").startswith("Scenario(") and "report: " not in done.text
    assert not path.exists() and not (folder / "report.json").exists()


# One case again.


def test_a_reported_case_is_replayed(reported: tuple[Run, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """By the command it names, on the faulty implementation; and on the spec."""
    _, folder = reported
    (path,) = (folder / "cases").glob("B1-default-*.json")
    program, properties, *options = json.loads(path.read_text(encoding="utf-8"))["replay"].split()
    assert (program, properties, options[-2:]) == ("pytest", "properties", ["--kv-replay", str(path)])
    done = gate_again(*options)
    assert done.code == BROKEN and "OVER by" in done.text and "B1 BROKEN" in done.text
    assert "in the file" not in done.text and "judgements on" not in done.text
    unnamed = gate_again("--kv-replay", str(path))
    assert unnamed.code == WRONG_USE and "is a case of" in unnamed.text and "--kv-impl" in unnamed.text
    assert replay(read_case(path), run(load("spec")), laws_are_given=False) == GREEN
    text = capsys.readouterr().out
    assert "B1 holds" in text and "in the file" in text and "allocated by its own pools" in text and " left" in text


def replayed(implementation: Any, case: RecordedCase, capsys: Any, laws: tuple[str, ...] = ("B1",)) -> tuple[int, str]:
    """Exit code and text of a replay; the laws count where the case names none."""
    code = replay(case, run(implementation, laws=laws, cells=()), laws_are_given=False)
    return code, capsys.readouterr().out


def test_a_replay_prints_every_number(capsys: pytest.CaptureFixture[str]) -> None:
    """90 bytes, 4 a row, pages of 4 tokens: a quotient of 22, 20 in whole pages."""
    case = RecordedCase(served(layers_of_heads(1, 1, 1), 90, page_size=4), "B1", None)
    code, text = replayed(Sound(), case, capsys)
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for line in ("quotient 22", "rows 20", "kept_rows 20", "running_requests 10", "max_total_num_tokens 20 20"):
        assert line in lines, line
    assert "target full k 1 2 20 40 8" in lines and code == GREEN


@pytest.mark.parametrize(
    ("implementation", "laws", "code", "said"),
    [
        (DividesByZero(), ("B1",), BROKEN, "sound ZeroDivisionError: cell size is 0"),
        (CannotJudgeAfterAll(), ("B1",), NOTHING_JUDGED, "B1 not supported"),
        (Sound(), ("D2",), NOTHING_JUDGED, "verdict"),
        (Sound(), ("B2", "W2"), GREEN, "B2 holds"),
        (Sound(), ("A1", "B1"), GREEN, "B1 holds"),
        (load("spec"), ("Q1",), NOTHING_JUDGED, "verdict"),
    ],
)
def test_a_replay_ends_like_a_run(
    implementation: Any, laws: tuple[str, ...], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    case = RecordedCase(served(layers_of_heads(1, 1, 1), 90), None, None)
    found, text = replayed(implementation, case, capsys, laws)
    said = said.replace("sound", implementation.name)
    assert found == code and said in " ".join(text.split())


@pytest.mark.parametrize(
    ("changes", "said"), [({"page_size": 0}, "invalid_input"), ({"page_size": 64}, "no_page_fits")]
)
def test_a_refused_case_is_replayed(changes: dict[str, int], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    case = RecordedCase(served(layers_of_heads(1, 1, 1), 90, **changes), "E1", None)
    code, text = replayed(Sound(), case, capsys)
    assert code == GREEN and f"refused: {said}" in text


# What the options may not be given.


def config(**given: Any) -> Any:
    """Options as pytest hands them over."""
    return SimpleNamespace(
        getoption=lambda name: given[name.removeprefix("--kv-")],
        option=SimpleNamespace(xmlpath=given.get("xmlpath")),
    )


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "report"):
        with pytest.raises(pytest.UsageError, match=re.escape(f"--kv-report: cannot write into '{folder}'")):
            report_folder(config(report=str(folder)))
    with pytest.raises(pytest.UsageError, match="--kv-report writes junit.xml, but --junit-xml=mine.xml"):
        report_folder(config(report=str(tmp_path), xmlpath="mine.xml"))
    with pytest.raises(pytest.UsageError, match="--kv-known-update: cannot write into"):
        known_failures(Sound(), str(tmp_path / "file" / "1.toml"), updates=True)


def test_a_known_file_must_be_there_unless_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "1.toml"
    with pytest.raises(pytest.UsageError, match=f"--kv-known: {re.escape(str(path))} cannot be read"):
        known_failures(Sound(), str(path), updates=False)
    assert known_failures(Sound(), str(path), updates=True).path == path
    for given in (None, "none"):
        assert known_failures(Sound(), given, updates=False).path is None
        with pytest.raises(pytest.UsageError, match="--kv-known-update: --kv-known names no file"):
            known_failures(Sound(), given, updates=True)


def test_a_file_an_implementation_names_may_come_later(known_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    implementation = NamesItsKnownFailures()
    monkeypatch.setattr(implementation, "path", str(known_file.parent))
    assert len(known_failures(implementation, None, updates=False).entries) == 2
    assert known_failures(implementation, "none", updates=False).path is None
    monkeypatch.setattr(implementation, "path", "nowhere")
    later = known_failures(implementation, None, updates=False)
    assert (later.path, later.entries) == (Path("nowhere/known.toml"), ())


@pytest.mark.parametrize(("name", "said"), [("not-there.json", "No such file"), ("README.md", "no JSON")])
def test_a_case_that_cannot_be_read_is_refused(name: str, said: str) -> None:
    with pytest.raises(pytest.UsageError, match=f"--kv-replay: .*{name} cannot be read: .*{said}"):
        replayed_case(config(replay=str(ROOT / name)))


def test_cells_are_chosen_as_they_are_printed() -> None:
    chosen = chosen_cells(config(cell="mla-{eagle_own,mtp_own}-{dp,tp}-{other,same}, default-none-*"))
    assert len(chosen) == 8 + 4
    with pytest.raises(pytest.UsageError, match="--kv-cell: '{default,mla-' has a brace that is not closed"):
        chosen_cells(config(cell="{default,mla-"))


def test_the_options_of_the_documents_exist() -> None:
    options = (ROOT / "properties" / "options.py").read_text(encoding="utf-8")
    for name in ("README.md", "CONTRIBUTING.md"):
        for option in re.findall(r"--kv-[a-z-]+", (ROOT / name).read_text(encoding="utf-8")):
            assert f'"{option}"' in options
