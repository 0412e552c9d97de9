"""The recorded runs are what a run says today. Where one has changed on purpose: `python -m tests.transcripts`."""

from pathlib import Path

import pytest

from tests.transcripts import FOLDER, RUNS, transcript

SCREEN_LINES = 40
"""What a reader sees at once."""


@pytest.mark.parametrize("name", RUNS)
def test_a_run_says_what_is_recorded(name: str, tmp_path: Path) -> None:
    assert transcript(name, tmp_path) == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def test_every_recorded_run_is_compared() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(RUNS)


def test_a_success_fits_a_screen() -> None:
    assert len((FOLDER / "success.txt").read_text(encoding="utf-8").splitlines()) <= SCREEN_LINES


@pytest.mark.parametrize("name", RUNS)
def test_nothing_is_said_by_colour_and_no_traceback_is_shown(name: str) -> None:
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert "\x1b" not in text and "Traceback" not in text
