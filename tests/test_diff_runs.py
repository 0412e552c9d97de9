"""`python -m properties diff` as it is run: processes, exit codes, and what it prints, beside what was recorded."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from properties.asked import Source, source_of
from properties.diff import main
from tests.test_gate import BROKEN, GREEN, NOTHING_JUDGED, ROOT, WRONG_USE

RECORDED = Path(__file__).parent / "data" / "diff"
INTERRUPTED, INTERNAL_ERROR = 2, 3
FEW = ("--kv-profile", "dev", "--kv-cell", "default-dflash_own-tp-*")
FIX = ("--base", "LayerRatioForEveryDraft", "--head", "configurator", *FEW)


def diff(*options: str) -> tuple[int, str]:
    """How it ends, and what it prints."""
    command = (sys.executable, "-m", "properties", "diff", *options)
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


ACKNOWLEDGED = """\
[[acknowledged]]
cells = ["default-dflash_own-*"]
loss = "100%"
reason = "a draft is priced by its own geometry"
date = 2026-11-30
"""

TRANSCRIPTS = {
    "a fix": (FIX, BROKEN),
    "a fix acknowledged": ((*FIX, "--acknowledged", "{acknowledged}"), GREEN),
    "a bug": (("--base", "configurator", "--head", "NoDraftOnHybrid", *FEW[:3], "hybrid-dflash_own-tp-*"), BROKEN),
    "a bug acknowledged": (
        ("--base", "configurator", "--head", "LayerRatioForEveryDraft", *FEW, "--acknowledged", "{acknowledged}"),
        BROKEN,
    ),
    "a refactoring": (("--base", "spec", "--head", "configurator", *FEW), GREEN),
}
"""Options and exit code of what is recorded."""


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_a_diff_prints_what_was_recorded(name: str, tmp_path: Path) -> None:
    """To record again: print the text into tests/data/diff."""
    (tmp_path / "acknowledged.toml").write_text(ACKNOWLEDGED)
    options, code = TRANSCRIPTS[name]
    found, text = diff(*(option.format(acknowledged=tmp_path / "acknowledged.toml") for option in options))
    recorded = RECORDED / f"{name.replace(' ', '_')}.txt"
    assert (found, without_lines(text)) == (code, without_lines(recorded.read_text(encoding="utf-8")))


def test_the_readme_shows_what_was_recorded() -> None:
    recorded = (RECORDED / "a_fix.txt").read_text(encoding="utf-8").splitlines()
    shown = [line[4:] for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line[:4] == "    "]
    first = shown.index(recorded[0])
    assert shown[first : first + 4] == [line for line in recorded if line][:4]


def without_lines(text: str) -> str:
    """The text without the numbers of lines of code, which move with every edit."""
    return re.sub(r"\.py:\d+", ".py:LINE", text)


def test_saved_answers_stand_for_the_one_who_gave_them(tmp_path: Path) -> None:
    saved, report = tmp_path / "saved.jsonl", tmp_path / "report"
    code, text = diff("--head", "LayerRatioForEveryDraft", "--save", str(saved), *FEW)
    assert code == GREEN and "answers of LayerRatioForEveryDraft" in text
    code, text = diff("--base", str(saved), "--head", "configurator", *FEW, "--kv-report", str(report))
    recorded = (RECORDED / "a_fix.txt").read_text(encoding="utf-8")
    assert code == BROKEN and "those of saved.jsonl" in text
    assert text.splitlines()[3:8] == recorded.splitlines()[3:8]
    assert {path.name for path in report.iterdir()} == {"diff.json", "diff.md"}
    code, text = diff("--base", str(saved), "--head", "spec", "--kv-cell", "mla-none-tp-same")
    assert code == NOTHING_JUDGED and text.endswith("OK 0 of 0 scenarios moved\n")


OUTSIDE = """\
from impl.optimized import Configurator


class Outside(Configurator):
    name = "outside"
"""


def test_an_implementation_is_imported_from_its_folder_or_not_at_all(tmp_path: Path) -> None:
    """One that Python finds elsewhere would be compared with itself."""
    (tmp_path / "engine_outside.py").write_text(OUTSIDE)
    (tmp_path / "empty").mkdir()
    inside = f"engine_outside:Outside@{tmp_path}"
    code, text = diff("--base", inside, "--head", inside, *FEW)
    assert code == GREEN and "capacity of outside 0.1 (head) beside outside 0.1 (base)" in text
    code, text = diff("--base", "spec", "--head", f"impl.optimized:Configurator@{tmp_path / 'empty'}", *FEW)
    assert code == WRONG_USE and "but comes from" in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--base", "nobody", "--head", "spec"), "'nobody' is none of spec, configurator"),
        (("--base", "spec@/", "--head", "spec"), "is part of this suite"),
        (("--base", "spec", "--head", "no.module:Name"), "No module named 'no'"),
        (("--base", "spec", "--head", "engine:Engine@nowhere"), "there is no folder 'nowhere'"),
        (("--base", "sglang@9.9.9", "--head", "spec"), "fetches it"),
        (("--base", "README.md", "--head", "spec"), "README.md is no file of saved answers"),
        (("--head", "spec"), "--base names nobody"),
        (("--base", "spec", "--head", "spec", "--save", "x"), "leave --base out"),
        (("--base", "spec", "--head", "spec", "--tolerance", "half"), "--tolerance: 'half' is no share"),
        (("--base", "spec", "--head", "spec", "--kv-cell", "no-*"), "--kv-cell: no cell matches 'no-*'"),
        (("--base", "spec", "--head", "spec", "--acknowledged", "nowhere.toml"), "--acknowledged: nowhere.toml"),
        (("--base", "spec", "--head", "spec", "--fail", "maybe"), "invalid choice: 'maybe'"),
    ],
)
def test_wrong_use_is_told_and_ends_with_4(
    options: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(options)
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == WRONG_USE and said in capsys.readouterr().err


def test_a_process_that_dies_is_a_fault_of_the_suite(tmp_path: Path) -> None:
    dies = OUTSIDE + "\n    def supports(self, scenario):\n        __import__('os')._exit(9)\n"
    (tmp_path / "engine_dies.py").write_text(dies)
    code, text = diff("--base", "spec", "--head", f"engine_dies:Outside@{tmp_path}", *FEW)
    assert code == INTERNAL_ERROR and "ended with exit code 9" in text


SLEEPS = """
    def supports(self, scenario):
        import pathlib, time
        pathlib.Path(__file__).with_suffix(".asked").touch()
        time.sleep(600)
"""


@pytest.mark.parametrize("interrupt", [os.killpg, os.kill], ids=["ctrl-C", "the program alone"])
def test_a_diff_that_is_interrupted_ends_with_2_and_leaves_nobody_behind(
    interrupt: Callable[[int, int], None], tmp_path: Path
) -> None:
    """While an answer takes its time."""
    (tmp_path / "engine_sleeps.py").write_text(OUTSIDE + SLEEPS)
    command = ("-m", "properties", "diff", "--base", "spec", "--head", f"engine_sleeps:Outside@{tmp_path}", *FEW)
    running = subprocess.Popen(
        (sys.executable, *command), cwd=ROOT, text=True, stderr=subprocess.PIPE, start_new_session=True
    )
    while not (tmp_path / "engine_sleeps.asked").exists():
        assert running.poll() is None
        time.sleep(0.05)
    interrupt(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert (running.returncode, errors) == (INTERRUPTED, "interrupted\n")
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)


def test_a_fault_and_a_folder_are_found_by_name(tmp_path: Path) -> None:
    assert source_of("NoDraftOnHybrid") == Source("impl.faults:NoDraftOnHybrid")
    assert source_of("tests.wrong_implementations:Sound") == Source("tests.wrong_implementations:Sound")
    assert source_of(f"sglang@{tmp_path}") == Source("sglang", str(tmp_path))
    assert source_of(f"sglang@{tmp_path}").command[2:] == ("properties.observed", "sglang", str(tmp_path))
