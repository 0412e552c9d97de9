"""`pytest properties` with known failures, with report files, and on one case. A process each."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from properties.case_files import SCHEMA, read_case
from properties.cells import CELLS
from spec.laws import LAWS
from spec.model import PoolSizes
from tests.test_gate import BROKEN, GREEN, NOTHING_JUDGED, ROOT, WORKERS, WRONG_USE, Run, gate_again, judging, row

CELL = ("--kv-cell", "{default,mla}-none-tp-same")
LAWS_ASKED = ("--kv-law", "B1,B4")
WRONG = (*CELL, *LAWS_ASKED, *judging("OnePageTooMany"))


@pytest.fixture(scope="module")
def known_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an update with workers writes, from nothing."""
    path = tmp_path_factory.mktemp("known") / "1.toml"
    run = gate_again(*WRONG, "--kv-known", str(path), "--kv-known-update", *WORKERS)
    assert run.code == BROKEN and len(run.blocks) == 2
    assert f"known failures: {path} written, 2 entries: 2 new, 0 gone" in run.text
    return path


def test_after_an_update_a_run_is_green(known_file: Path) -> None:
    run = gate_again(*WRONG, "--kv-known", str(known_file), *WORKERS)
    assert run.code == GREEN and not run.blocks
    assert f"kv: known failures {known_file}, 2 entries" in run.text
    assert run.table[0].startswith("B1 fits the budget known in 1 ")
    assert "known unexplained, 2 of 2 verdicts of B1: to be explained" in run.text.splitlines()
    assert "2 passed" in run.text and "2 known" in run.text


def test_workers_do_not_change_the_file(known_file: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.toml"
    gate_again(*WRONG, "--kv-known", str(alone), "--kv-known-update")
    assert alone.read_text(encoding="utf-8") == known_file.read_text(encoding="utf-8")


def test_a_fixed_fault_is_broken_until_it_is_removed(known_file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "1.toml"
    copy.write_bytes(known_file.read_bytes())
    options = (*CELL, *LAWS_ASKED, *judging("Sound"), "--kv-known", str(copy))
    run = gate_again(*options, "--kv-known-update", *WORKERS)
    assert run.code == BROKEN
    assert "FIXED B1 in default-none-tp-same: allocated bytes of unexplained" in run.text
    assert f"remove it from {copy}, as --kv-known-update does" in run.text
    assert "written, 0 entries: 0 new, 2 gone" in run.text
    assert gate_again(*options).code == GREEN


def test_an_implementation_names_its_file(known_file: Path, tmp_path: Path) -> None:
    options = (*CELL, *LAWS_ASKED, *judging("NamesItsKnownFailures"), "--kv-impl-path", str(tmp_path))
    assert gate_again(*options).code == BROKEN
    (tmp_path / "known.toml").write_bytes(known_file.read_bytes())
    assert gate_again(*options).code == GREEN
    assert gate_again(*options, "--kv-known", "none").code == BROKEN


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--kv-known", "not-there.toml"), "--kv-known: not-there.toml cannot be read"),
        (("--kv-known", "pyproject.toml"), "--kv-known: pyproject.toml: nobody reads 'build-system'"),
        (("--kv-known-update",), "--kv-known-update: --kv-known names no file"),
        (("--kv-known-update", "--kv-known", "none"), "--kv-known-update: --kv-known names no file"),
        (("--kv-known-update", "--kv-known", "README.md/1.toml"), "--kv-known-update: cannot write into 'README.md'"),
        (("--kv-report", "README.md"), "--kv-report: cannot write into 'README.md'"),
        (("--kv-report", "README.md/report"), "--kv-report: cannot write into 'README.md/report'"),
        (("--kv-replay", "not-there.json"), "--kv-replay: not-there.json cannot be read"),
        (("--kv-replay", "README.md"), "--kv-replay: README.md cannot be read: no JSON"),
        (("--kv-cell", "{default,mla-*"), "--kv-cell: '{default,mla-*' has a brace that is not closed"),
    ],
)
def test_a_file_that_cannot_be_used_is_wrong_use(options: tuple[str, ...], said: str) -> None:
    run = gate_again(*options)
    assert run.code == WRONG_USE and said in run.text and "Traceback" not in run.text


@pytest.fixture(scope="module")
def reported(known_file: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    """A run with a known failure on one pool kind and a new one on the other."""
    folder, only_mla = tmp_path_factory.mktemp("report"), known_file.parent / "mla.toml"
    head, default, mla = re.split(r"(?=\[\[known\]\])", known_file.read_text(encoding="utf-8"))
    assert "default-none" in default
    only_mla.write_text(head + mla, encoding="utf-8")
    return gate_again(*WRONG, "--kv-known", str(only_mla), "--kv-report", str(folder), *WORKERS), folder


def test_a_report_says_who_and_what(reported: tuple[Run, Path]) -> None:
    run, folder = reported
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert run.code == BROKEN and f"report: {folder}" in run.text
    assert report["schema"] == SCHEMA and (report["profile"], report["seed"]) == ("dev", 0)
    assert report["impl"] == {"name": "one-page-too-many", "version": "0", "path": None}
    assert [law["id"] for law in report["laws"]] == [law.id for law in LAWS]
    verdicts = {law["id"]: law["verdict"] for law in report["laws"]}
    assert (verdicts["B1"], verdicts["B4"], verdicts["Q1"]) == ("broken", "holds", "not asked")
    assert [(one["law"], one["cell"], one["verdict"], one["terms"]) for one in report["verdicts"]] == [
        ("B1", "default-none-tp-same", "broken", ["allocated bytes"]),
        ("B4", "default-none-tp-same", "holds", []),
        ("B1", "mla-none-tp-same", "known", ["allocated bytes"]),
        ("B4", "mla-none-tp-same", "holds", []),
    ]
    (known,) = report["known"]
    assert (known["fault"], known["met"], known["not_met"]) == ("unexplained", ["mla-none-tp-same"], [])
    assert str(report["figures"]["cells"]) == run.figures[2]


def test_a_finding_has_its_figures_and_its_case(reported: tuple[Run, Path]) -> None:
    _, folder = reported
    findings = json.loads((folder / "report.json").read_text(encoding="utf-8"))["findings"]
    assert [(one["cell"], one["verdict"], one["fault"]) for one in findings] == [
        ("default-none-tp-same", "broken", None),
        ("mla-none-tp-same", "known", "unexplained"),
    ]
    for one in findings:
        place = (one["pool"], one["draft"], one["geometry"], one["deployment"], one["draft_dtype"])
        assert place in {(cell.pool, cell.draft, cell.geometry, cell.deployment, cell.draft_dtype) for cell in CELLS}
        assert one["tokens"] > one["spec_tokens"] and one["allocated_bytes"] > one["available_bytes"]
        case = read_case(folder / one["case"])
        assert case.law == "B1" and isinstance(case.answer, PoolSizes)
        assert case.answer.max_total_num_tokens == one["tokens"]


def test_a_block_names_the_file_of_its_case(reported: tuple[Run, Path]) -> None:
    run, folder = reported
    (block,) = run.blocks
    path = Path(row(block, "case file"))
    assert path.parent == folder / "cases" and path.is_file()


def test_junit_names_law_and_verdict(reported: tuple[Run, Path]) -> None:
    _, folder = reported
    tests = ElementTree.parse(folder / "junit.xml").getroot().findall(".//testcase")
    said = {}
    for test in tests:
        properties = {one.get("name"): one.get("value") for one in test.findall("properties/property")}
        said[properties["law"], properties["cell"]] = (properties["verdict"], len(test.findall("failure")))
    assert said["B1", "default-none-tp-same"] == ("broken", 1)
    assert said["B1", "mla-none-tp-same"] == ("known", 0) and len(said) == 4


def test_a_reported_case_is_replayed(reported: tuple[Run, Path]) -> None:
    """By the command it names, on the faulty implementation and on the spec."""
    _, folder = reported
    path = next((folder / "cases").glob("B1-default-*.json"))
    document = json.loads(path.read_text(encoding="utf-8"))
    program, properties, *options = document["replay"].split()
    assert (program, properties, options[-2:]) == ("pytest", "properties", ["--kv-replay", str(path)])
    wrong = gate_again(*options)
    assert wrong.code == BROKEN and "OVER by" in wrong.text and "B1 BROKEN" in wrong.text
    assert "in the file" not in wrong.text
    right = gate_again("--kv-impl", "spec", "--kv-replay", str(path), *WORKERS)
    assert right.code == GREEN and "B1 holds" in right.text and "in the file" in right.text
    assert " left" in right.text and "allocated by its own pools" in right.text


def test_a_report_needs_junit_for_itself(tmp_path: Path) -> None:
    run = gate_again(*CELL, "--kv-report", str(tmp_path), "--junit-xml", str(tmp_path / "mine.xml"))
    assert run.code == WRONG_USE and "--kv-report writes junit.xml, but --junit-xml=" in run.text


def test_an_empty_selection_is_no_replay_and_no_report(tmp_path: Path) -> None:
    run = gate_again("--kv-law", "W1", "--kv-cell", "default-*", "--kv-report", str(tmp_path))
    assert run.code == NOTHING_JUDGED and not (tmp_path / "report.json").exists()


def test_the_options_of_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    text = gate_again("--help").text
    for option in set(re.findall(r"--kv-[a-z-]+", readme)):
        assert option in text
