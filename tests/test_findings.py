"""The document on released SGLang, from runs of sound and of wrong implementations in place of releases."""

import json
import re
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

import properties.matrix as matrix
from impl import load
from impl.sglang.releases import RELEASES
from properties.findings import (
    ReleaseRun,
    budget_table,
    document,
    fault_table,
    law_table,
    release_table,
    releases_text,
    unexplained_text,
    worst_pairs,
)
from properties.matrix import Job, jobs_of, main, run_job, run_of
from properties.pairs import BUDGET_BYTES, PairFigures
from properties.witnesses import faults, witness_figures
from spec.units import GiB
from tests.wrong_implementations import OnePageTooMany

ALL = faults()
EAGLE = next(fault for fault in ALL if fault.id == "eagle-as-target-layers")
CELL = "mla-eagle_own-tp-same"
ASKED = [f"0.5.{patch}" for patch in range(14, 20)]


def report(*verdicts: tuple[str, str, str]) -> dict[str, Any]:
    """A report of a few verdicts: law, cell, verdict."""
    rows = [{"law": law, "cell": cell, "verdict": verdict, "terms": ["cell"]} for law, cell, verdict in verdicts]
    figures = {"judgements": 1234, "scenarios": 56, "cells": 1, "seconds": 7.8}
    return {"profile": "gate", "seed": 0, "figures": figures, "verdicts": rows, "known": []}


def run(release: str, implementation: object, *verdicts: tuple[str, str, str]) -> ReleaseRun:
    """A release that does what an implementation does."""
    figures = tuple(witness_figures(implementation, fault) for fault in ALL)  # type: ignore[arg-type]
    return ReleaseRun(release, report(*verdicts), figures, (PAIR, SMALLER, WITHIN))


PAIR = PairFigures("a + b", "EAGLE", "tp1", CELL, 100, 200, BUDGET_BYTES + GiB)
SMALLER = replace(PAIR, deployment="tp8", built_bytes=BUDGET_BYTES + 1)
WITHIN = replace(PAIR, name="c + d", tokens=100, built_bytes=BUDGET_BYTES - 5)

WRONG = run(
    "0.5.14",
    OnePageTooMany(),
    ("B1", CELL, "known"),
    ("B4", CELL, "holds"),
    ("B1", "default-none-tp-same", "holds"),
    ("D5", CELL, "exempt"),
    ("W1", "allswa-none-tp-same", "broken"),
)
SOUND = run("0.5.15", load("spec"), ("B1", CELL, "holds"), ("D5", CELL, "broken"))
RUNS = [WRONG, SOUND]


@pytest.mark.parametrize(
    ("chosen", "text"),
    [
        (ASKED, "0.5.14 to 0.5.19"),
        (ASKED[:1], "0.5.14"),
        ([*ASKED[:2], *ASKED[3:]], "0.5.14 to 0.5.15, 0.5.17 to 0.5.19"),
        ([], "none"),
    ],
)
def test_releases_that_follow_one_another_are_one_range(chosen: list[str], text: str) -> None:
    assert releases_text(chosen, ASKED) == text


def test_a_release_is_told_with_its_figures() -> None:
    assert "| 0.5.14 | 1,234 | 56 | 2 | 2 | 1 |" in release_table(RUNS)


def test_a_fault_is_where_its_witness_breaks_the_law() -> None:
    assert f"| [{EAGLE.title}](#{EAGLE.id}) | x | . |" in fault_table(RUNS, ALL)
    assert WRONG.has(EAGLE) and not SOUND.has(EAGLE)


def test_cells_are_counted_by_law_and_draft() -> None:
    rows = law_table(RUNS).splitlines()
    assert "| B1 fits the budget, none | 0 / 1 | - |" in rows
    assert "| B1 fits the budget, EAGLE | 1 / 1 | 0 / 1 |" in rows
    assert not any(row.startswith("| B1 fits the budget, DFLASH") for row in rows)
    assert "| mla, EAGLE own | 1 / 1 | 0 / 1 |" in budget_table(RUNS).splitlines()


def test_the_worst_deployment_of_a_pair_counts() -> None:
    assert worst_pairs(RUNS, EAGLE) == [("0.5.14", PAIR)]


def test_what_no_fault_explains_is_listed() -> None:
    text = unexplained_text(RUNS, ALL)
    assert text.splitlines() == [
        "- 0.5.14, W1, cell, 1 cells: allswa-none-tp-same",
        f"- 0.5.15, D5, cell, 1 cells: {CELL}",
    ]
    assert unexplained_text([run("0.5.14", OnePageTooMany(), ("B1", CELL, "broken"))], ALL) == "None."


def test_the_document_tells_every_fault_with_its_numbers() -> None:
    text = document(RUNS, ALL)
    for fault in ALL:
        assert f"### {fault.title}" in text and fault.function in text and fault.reach in text
    start = text.index(f"### {EAGLE.title}")
    section = text[start : text.index("<a id", start)]
    for part in (
        "- Releases: 0.5.14.",
        "- Laws broken in its cells (other faults may add some): B1 (1).",
        "Smallest case, B1 in default-eagle_own-tp-same. The spec's answer: 2 tokens.",
        "| 0.5.14 | broken | allocated bytes: expected at most 24, got 36 (a rank of stage 0) | 3 tokens | - | 24 ",
        "| 0.5.15 | holds |  | 2 tokens | 24 | 24 | +0 |",
        "| a + b, EAGLE, tp1 | 0.5.14 | 200 | 100 | +1.00 GiB |",
    ):
        assert part in section, section
    assert document(RUNS, ALL) == text


# The processes.


def test_a_release_takes_two_processes(tmp_path: Path) -> None:
    laws, measure = jobs_of("0.5.17", tmp_path / "0.5.17", tmp_path / "out")
    assert "--kv-known" not in laws.command and laws.codes == (0, 1)
    assert measure.command[2] == "properties.measure" and measure.codes == (0,)
    for job in (laws, measure):
        assert f"--kv-impl sglang --kv-impl-path {tmp_path / '0.5.17'}" in " ".join(job.command)
        assert job.result.parent == tmp_path / "out" / "0.5.17"


def job(result: Path, program: str, **changes: Any) -> Job:
    """A process that runs a line of Python."""
    return Job("a job", (sys.executable, "-c", program), result, codes=(0,), **changes)


def test_what_a_process_prints_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = tmp_path / "deep" / "measured.json"
    assert run_job(job(result, "print('{}')", prints_result=True)) == ""
    assert result.read_text() == "{}\n"
    assert re.fullmatch(r"a job: \d+ s, exit code 0\n", capsys.readouterr().out)


def test_a_process_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    result = tmp_path / "measured.json"
    failure = run_job(job(result, "raise SystemExit('no such release')", prints_result=True))
    assert failure.startswith("a job failed with exit code 1") and failure.endswith("no such release")
    assert not result.exists()


def left_behind(folder: Path, **changes: Any) -> None:
    """What the processes of every release leave."""
    for release in RELEASES:
        (folder / release).mkdir(parents=True)
        (folder / release / "report.json").write_text(json.dumps(WRONG.report | changes))
        measured = {"witnesses": list(map(asdict, WRONG.witnesses)), "pairs": list(map(asdict, WRONG.pairs))}
        (folder / release / "measured.json").write_text(json.dumps(measured))


def test_results_that_are_there_are_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left_behind(tmp_path)
    monkeypatch.setattr(matrix, "FINDINGS", tmp_path / "FINDINGS.md")
    assert run_of("0.5.14", tmp_path) == WRONG
    main(tmp_path, tmp_path, reuse=True)
    assert (tmp_path / "FINDINGS.md").read_text().startswith("# Findings on released SGLang\n")


FIXED = {"fault": EAGLE.id, "fixed": "it holds"}


@pytest.mark.parametrize(
    ("changes", "code"),
    [({"verdicts": []}, 0), ({}, 1), ({"verdicts": [], "known": [FIXED]}, 1)],
    ids=["as known", "a new failure", "a failure that is fixed"],
)
def test_a_release_that_is_not_as_known_fails(
    changes: dict[str, Any],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """After the document is written."""
    left_behind(tmp_path, **changes)
    monkeypatch.setattr(matrix, "FINDINGS", tmp_path / "FINDINGS.md")
    assert main(tmp_path, tmp_path, reuse=True) == code
    assert (tmp_path / "FINDINGS.md").exists()
    assert capsys.readouterr().err.count("is not as its known failures say") == code * len(RELEASES)


def test_a_failure_leaves_the_document_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(matrix, "FINDINGS", tmp_path / "FINDINGS.md")
    monkeypatch.setattr(matrix, "jobs_of", lambda release, *_: [job(tmp_path / release / "x", "raise SystemExit(3)")])
    assert main(tmp_path, tmp_path, reuse=False) == 1
    assert not (tmp_path / "FINDINGS.md").exists()
    assert capsys.readouterr().err.count("failed with exit code 3") == len(RELEASES)
