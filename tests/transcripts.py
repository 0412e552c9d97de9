"""What a run of the gate looks like, recorded: `python -m tests.transcripts` writes the files again, to be read before
they are committed.

Seconds, folders and the number of tests that are not asked for are left out, so that two runs give the same text.
"""

import re
import sys
import tempfile
from dataclasses import replace
from datetime import date
from pathlib import Path

from impl import load
from properties.cell_names import BY_NAME, cells_of
from properties.corpus import corpus_of
from properties.judge import verdict
from properties.known import Fault, Known, KnownFailures
from properties.known_update import file_text
from spec.laws import BY_ID
from spec.laws.base import Broken
from tests.test_gate import ROOT, gate_again, judging

FOLDER = ROOT / "tests" / "data" / "transcripts"
TERM = "allocated bytes"
DRAFTED, PLAIN = "hybrid-dflash_own-tp-same", "default-none-tp-same"


def fault(name: str, law: str, cell: str) -> tuple[str, ...]:
    """The options that judge a known-bad implementation by one law in one cell."""
    return ("--kv-law", law, "--kv-cell", cell, "--kv-impl", f"impl.faults:{name}")


RUNS = {
    "success": ("--kv-law", "B1,B2,D3,D4,C1,Q1", "--kv-cell", "*-dflash_own-tp-same"),
    "fault-no-draft-on-hybrid": fault("NoDraftOnHybrid", "B1", DRAFTED),
    "fault-layer-ratio": fault("LayerRatioForEveryDraft", "B1", "default-dflash_own-tp-same"),
    "fault-ratio-on-all-window": fault("RatioOnAllWindow", "W1", "allswa-none-tp-same"),
    "fault-one-token-too-many": fault("OneTokenTooMany", "B4", PLAIN),
    "fault-heads-not-replicated": fault("HeadsNotReplicated", "R1", PLAIN),
    "known-failure-fixed": ("--kv-law", "B1", "--kv-cell", PLAIN, *judging("Sound"), "--kv-known", "KNOWN"),
    "known-failure-expired": (
        "--kv-law",
        "B1",
        "--kv-cell",
        PLAIN,
        *judging("OnePageTooMany"),
        "--kv-known",
        "EXPIRED",
    ),
    "known-entry-stale": ("--kv-law", "B1", "--kv-cell", PLAIN, *judging("Sound"), "--kv-known", "STALE"),
    "unknown-configurator": ("--kv-law", "B1", "--kv-cell", PLAIN, *judging("HasGrown")),
    "sglang-missing": ("--kv-impl", "sglang"),
}
"""Options of each run; KNOWN, EXPIRED and STALE are files of known failures, written for it."""


def known_file(path: Path, pattern: str, until: date | None) -> None:
    """One failure of `OnePageTooMany`, its cells as written."""
    cell = PLAIN
    implementation = load(judging("OnePageTooMany")[1])
    for scenario in corpus_of(BY_NAME[cell], 6, 0):
        if isinstance(verdict(BY_ID["B1"], implementation, scenario)[0], Broken):
            break
    entry = Known("one-page", "B1", TERM, (cell,), cells_of((cell,)), cell, scenario)
    told = Fault("a page too many is sold", "https://example.org/1", date(2026, 1, 2), until)
    known = KnownFailures(
        path, "", (("one-page", told),), frozenset({"one-page"}), (replace(entry, patterns=(pattern,)),)
    )
    path.write_text(file_text(known), encoding="utf-8")


def scrubbed(text: str, folder: Path) -> str:
    """The text without what differs from run to run."""
    text = text.replace(str(folder), "DIR").replace(str(ROOT), "ROOT")
    text = re.sub(r"\d+ deselected", "# deselected", text)
    text = re.sub(r"\d+\.\d+ ?s\b( \(\d:\d\d:\d\d\))?", "# s", text)
    return re.sub(r"^( *\d+ %) +# s +", r"\1  # s  ", text, flags=re.M)


def transcript(name: str, folder: Path) -> str:
    """The command, what it prints, and its exit code."""
    files = {name: str(folder / f"{name.lower()}.toml") for name in ("KNOWN", "EXPIRED", "STALE")}
    known_file(Path(files["KNOWN"]), PLAIN, None)
    known_file(Path(files["EXPIRED"]), PLAIN, date(2026, 2, 3))
    known_file(Path(files["STALE"]), "mla-no_such_draft-tp-same", None)
    options = [files.get(option, option) for option in RUNS[name]]
    done = gate_again(*options, "-p", "no:xdist")
    command = f"$ pytest properties --kv-profile dev {' '.join(options)}"
    return scrubbed(f"{command}\n{done.text.rstrip()}\n$ echo $?\n{done.code}\n", folder)


def main(names: list[str]) -> None:
    """Writes those that are named, or all."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or RUNS:
        with tempfile.TemporaryDirectory() as folder:
            (FOLDER / f"{name}.txt").write_text(transcript(name, Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
