"""Every release of SGLang judged side by side, two processes at a time, and what is wrong written down. Fails where a
release is not as its file of known failures says.

    python -m properties.matrix RELEASES OUT [--reuse]

RELEASES holds one folder a release, in which sglang/ is; OUT takes a folder a release: its report, what it does with
the witness of each fault and with each pair of the catalog, and what the processes printed.
"""

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from impl.sglang.releases import RELEASES
from properties.findings import ReleaseRun, document
from properties.pairs import PairFigures
from properties.summary import BROKEN
from properties.witnesses import FAULTS, WitnessFigures, faults

FINDINGS = FAULTS.parent / "FINDINGS.md"
"""The document."""
PROCESSES = 2
"""At a time: each imports a release, which takes 1.4 GB."""
REPORT, MEASURED = "report.json", "measured.json"
LOG_LINES = 20
"""Lines shown of a process that failed."""


@dataclass(frozen=True)
class Job:
    """One process: what it is told as, its command, the file it leaves, the exit codes that are none of a failure."""

    title: str
    command: tuple[str, ...]
    result: Path
    codes: tuple[int, ...]
    prints_result: bool = False


def jobs_of(release: str, folder: Path, out: Path) -> list[Job]:
    """The laws, beside what is known of the release, then witnesses and pairs. A law that breaks beside what is known
    goes into the document, too, so exit code 1 is none of a failure."""
    chosen = ("--kv-impl", "sglang", "--kv-impl-path", str(folder))
    laws = (sys.executable, "-m", "pytest", "properties", "-p", "no:xdist", "-p", "no:cacheprovider", "--color=no")
    return [
        Job(
            f"{release} laws",
            (*laws, *chosen, "--kv-report", str(out / release)),
            out / release / REPORT,
            codes=(0, 1),
        ),
        Job(
            f"{release} witnesses and pairs",
            (sys.executable, "-m", "properties.measure", *chosen),
            out / release / MEASURED,
            codes=(0,),
            prints_result=True,
        ),
    ]


def run_job(job: Job) -> str:
    """Runs one process; "", or why it failed."""
    log = job.result.with_suffix(".log")
    job.result.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with log.open("w", encoding="utf-8") as messages:
        kept = subprocess.PIPE if job.prints_result else messages
        done = subprocess.run(job.command, stdout=kept, stderr=messages, text=True)
    failed = done.returncode not in job.codes
    if job.prints_result and not failed:
        job.result.write_text(done.stdout, encoding="utf-8")
    print(f"{job.title}: {time.monotonic() - started:.0f} s, exit code {done.returncode}", flush=True)
    if not failed:
        return ""
    last = log.read_text(encoding="utf-8").splitlines()[-LOG_LINES:]
    return "\n".join([f"{job.title} failed with exit code {done.returncode} ({log}):", *last])


def run_of(release: str, out: Path) -> ReleaseRun:
    """What the processes left of one release."""
    report, measured = (json.loads((out / release / name).read_text(encoding="utf-8")) for name in (REPORT, MEASURED))
    return ReleaseRun(
        release,
        report,
        tuple(WitnessFigures(**figures) for figures in measured["witnesses"]),
        tuple(PairFigures(**figures) for figures in measured["pairs"]),
    )


def is_as_known(report: dict[str, Any]) -> bool:
    """Whether a run broke no law beside the known failures, and found each of these where it is."""
    broken = any(row["verdict"] == BROKEN for row in report["verdicts"])
    return not broken and all(row["fixed"] is None for row in report["known"])


def main(releases: Path, out: Path, *, reuse: bool) -> int:
    """Runs what is to be run and writes the document. Exit code 1 where a process failed, or a release is not as known;
    the document is written in the second case, too."""
    jobs = [job for release in RELEASES for job in jobs_of(release, releases / release, out)]
    wanted = [job for job in jobs if not (reuse and job.result.exists())]
    print(f"{len(wanted)} processes, {PROCESSES} at a time", flush=True)
    with ThreadPoolExecutor(PROCESSES) as pool:
        failures = [failure for failure in pool.map(run_job, wanted) if failure]
    if failures:
        print("\n".join(failures), file=sys.stderr)
        return 1
    runs = [run_of(release, out) for release in RELEASES]
    FINDINGS.write_text(document(runs, faults()), encoding="utf-8")
    print(f"{FINDINGS} written")
    others = [run.release for run in runs if not is_as_known(run.report)]
    for release in others:
        print(f"{release} is not as its known failures say: {out / release / REPORT}", file=sys.stderr)
    return 1 if others else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", type=Path, metavar="RELEASES")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--reuse", action="store_true", help="keep the results that are there")
    given = parser.parse_args()
    raise SystemExit(main(given.releases, given.out, reuse=given.reuse))
