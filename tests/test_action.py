"""What CI does with a checkout: the steps of `action.yml`, run on a scratch repository with a good and a bad change."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from properties.step_summary import MOST_BYTES, annotations, main, page
from tests.scratch_repository import BROKEN as BAD
from tests.scratch_repository import ENGINE, FILE, IMPL, REFACTORED, RETURN, git, made
from tests.test_gate import BROKEN, GREEN, ROOT

ACTION = (ROOT / "action.yml").read_text(encoding="utf-8")
JUDGE = (ROOT / ".ci" / "judge").read_text(encoding="utf-8")
CELLS = "--kv-profile dev --kv-cell hybrid-dflash_own-tp-same"


def judge(workspace: Path, base: str, **more: str) -> tuple[int, str]:
    """The step of `action.yml` on a checkout that is a whole workspace."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GITHUB_", "KV_"))}
    given = {
        "KV_CHECKOUT": str(workspace),
        "KV_FOLDER": "python",
        "KV_IMPL": IMPL,
        "KV_BASE": base,
        "KV_REPORT": str(workspace.parent / "report"),
        "KV_PYTHON": sys.executable,
        "KV_GATE": f"{CELLS} --kv-law B1,B4",
        "KV_DIFF": CELLS,
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(workspace),
        "GITHUB_STEP_SUMMARY": str(workspace.parent / "step.md"),
    }
    done = subprocess.run(
        str(ROOT / ".ci" / "judge"),
        env=clean | given | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def test_a_bad_change_is_red_at_the_function_that_changed(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    code, text = judge(workspace, made(workspace, BAD))
    assert code == BROKEN
    line = BAD.splitlines().index("    def draft_cell_size_per_token(self, stage):") + 1
    assert f"differs first in Hybrid.draft_cell_size_per_token ({workspace / FILE}:{line})" in text
    told = re.findall(r"^::error (.*?)::", text, re.M)
    assert [one for one in told if one.startswith("title=capacity")] == [f"title=capacity,file={FILE},line={line}"]
    assert len([one for one in told if one.startswith("title=B1 ")]) == 1
    summary = (tmp_path / "step.md").read_text(encoding="utf-8")
    assert summary == (tmp_path / "report" / "summary.md").read_text(encoding="utf-8")
    assert "| B1 fits the budget | hybrid |" in summary and "MOVED newly over budget in" in summary
    assert git(workspace, "worktree", "list").count("\n") == 0


def test_a_loss_is_red_until_the_checkout_acknowledges_it(tmp_path: Path) -> None:
    """Draft rows are paid for twice."""
    workspace = tmp_path / "workspace"
    base = made(workspace, ENGINE.replace(RETURN, "        return 2 * full, swa\n"))
    (workspace / "losses.toml").write_text(
        '[[acknowledged]]\ncells = ["hybrid-*"]\nloss = "100%"\nreason = "twice"\ndate = 2026-11-30\n'
    )
    code, text = judge(workspace, base, KV_ACKNOWLEDGED="losses.toml")
    assert code == GREEN and re.search(r"^acknowledged, \d+ moves: twice, 2026-11-30$", text, re.M)


def test_a_refactoring_is_green_and_moves_nothing(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    code, text = judge(workspace, made(workspace, REFACTORED))
    assert code == GREEN and ENGINE != REFACTORED
    assert re.search(r"^OK 0 of \d+ scenarios moved$", text, re.M) and "::error" not in text
    assert re.search(r"^0 of \d+ scenarios moved: ", (tmp_path / "step.md").read_text(encoding="utf-8"), re.M)


def test_the_action_sets_every_variable_of_its_step() -> None:
    step = set(re.findall(r"^ +(KV_\w+): ", ACTION, re.M))
    assert step == set(re.findall(r"KV_\w+", JUDGE)) and "/.ci/judge" in ACTION
    inputs = set(re.findall(r"^  ([\w-]+):$", ACTION.partition("runs:")[0], re.M))
    assert inputs == set(re.findall(r"inputs\.([\w-]+)", ACTION))


# The page and the annotations.


def finding(law: str, cell: str, **more: Any) -> dict[str, Any]:
    """A row of `report.json`."""
    row = {"law": law, "cell": cell, "pool": cell.split("-")[0], "term": "allocated bytes", "verdict": "broken"}
    return {**row, "tokens": 1234, "spec_tokens": 1000, **more}


def report(*findings: dict[str, Any]) -> dict[str, Any]:
    """A `report.json`."""
    return {
        "impl": {"name": "engine", "version": "1"},
        "figures": {"judgements": 12345},
        "findings": list(findings),
        "verdicts": [{"verdict": "holds"}, *({"verdict": row["verdict"]} for row in findings)],
        "known": [{"fault": "eagle", "law": "B1", "term": "cell", "fixed": "holds"}],
    }


WHERE = {"counterexample": {"where": f"{Path(FILE).name}:12 Hybrid"}}
TWO = report(
    finding("B1", "hybrid-none-tp-same", **WHERE),
    finding("B1", "hybrid-none-dp-same", **WHERE),
    finding("B1", "mla-none-tp-same"),
    finding("B4", "mla-none-tp-same"),
    finding("B2", "mla-none-tp-same", verdict="known"),
)


def test_a_law_is_annotated_once_at_the_line_that_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, ENGINE + "\n")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    first, second = annotations(TWO, None, tmp_path / "python")
    assert first.startswith(f"::error title=B1 fits the budget,file={FILE},line=12::allocated bytes is off in hybrid")
    assert second.startswith("::error title=B4 whole pages::") and "\n" not in first
    red = {"fails": {"loss": 2}, "function": None, "scenarios": {"real": 1, "generated": 4}}
    assert annotations(None, red, tmp_path) == ["::error title=capacity::loss in 2 of 5 scenarios"]
    assert annotations(report(), red | {"fails": {}}, tmp_path) == []


def test_the_page_tells_each_term_once_and_what_is_fixed() -> None:
    text = page(TWO, "## Capacity\n")
    assert "12,345 judgements. Verdicts: 1 hold, 4 broken, 1 known failures, 0 exempt." in text
    assert "| B1 fits the budget | hybrid | allocated bytes | hybrid-none-{dp,tp}-same | 1,234 | 1,000 |" in text
    assert "- eagle is fixed: B1, cell" in text and text.endswith("\n\n## Capacity\n")
    assert page(None, None).endswith("The laws left no report: the log says why.\n")


def test_a_page_too_long_for_github_is_cut_and_says_so() -> None:
    text = page(TWO, "| a row |\n" * 200_000)
    assert len(text.encode()) < 2**20 and MOST_BYTES < 2**20
    assert re.search(r"\n\nand [\d,]+ more lines, which are in the report\.\n$", text)


def test_reports_that_cannot_be_read_are_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "report.json").write_text("{", encoding="utf-8")
    for folder, said in ((tmp_path, "report.json cannot be read"), (tmp_path / "nowhere", "is no folder of reports")):
        with pytest.raises(SystemExit) as ended:
            main([str(folder), "--head", str(tmp_path)])
        assert ended.value.code == pytest.ExitCode.USAGE_ERROR and said in capsys.readouterr().err


def test_a_run_without_reports_is_summarized_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--head", str(tmp_path)]) == GREEN
    assert "left no report" in (tmp_path / "summary.md").read_text(encoding="utf-8")
    (tmp_path / "report.json").write_text(json.dumps(report()), encoding="utf-8")
    assert main([str(tmp_path), "--head", str(tmp_path)]) == GREEN
    assert "engine 1" in (tmp_path / "summary.md").read_text(encoding="utf-8") and not capsys.readouterr().out
