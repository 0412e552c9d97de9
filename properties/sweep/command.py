"""Check every point of a bounded space.

    python -m properties sweep                                   # the default space, on all cores
    python -m properties sweep --space FILE --shard 3/8 --state FILE --summary FILE
    python -m properties sweep --merge FILE FILE ... --summary FILE
    python -m properties sweep --dask ADDRESS --shards 64

A run that was stopped goes on where its file of state is. Exit codes: 0 every law holds, 1 one is broken, 2 stopped,
4 a wrong option, space or file.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tqdm import tqdm

from impl import Implementation
from properties.case_files import scenario_text
from properties.counterexample import block_text, counterexample
from properties.judge import Finding
from properties.show import table
from properties.smallest import Shown
from properties.sweep import cluster, results
from properties.sweep.axes import WrongSpace, default_text
from properties.sweep.geometry import RIGHT_SIZING, entries, geometry_findings
from properties.sweep.laws import LAWS
from properties.sweep.machine import Machine, measured
from properties.sweep.points import Points
from properties.sweep.results import Result, WrongResult
from properties.sweep.run import AGREEMENT, SAMPLES, Sweep, cores, points_of, swept
from properties.sweep.swept import implementation_of
from properties.verbs import Parser
from spec.laws import BY_ID
from spec.laws.base import Answer

STATE_SECONDS = 2.0
"""How often the file of state is written, at most."""


def shard_of(text: str) -> tuple[int, int]:
    """`3/8` is the third of eight: (2, 8)."""
    found = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if found is None or int(found[1]) > int(found[2]):
        raise argparse.ArgumentTypeError(f"{text!r}: write 3/8 for the third of eight")
    return int(found[1]) - 1, int(found[2])


def positive(text: str) -> int:
    """A number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"{text!r}: give a number from 1")
    return int(text)


def parser() -> Parser:
    """The options."""
    found = Parser(
        prog="python -m properties sweep", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument(
        "--space", type=Path, metavar="FILE", help="axes in TOML; properties/sweep/default.toml has an example"
    )
    where = found.add_mutually_exclusive_group()
    where.add_argument("--shard", type=shard_of, default=(0, 1), metavar="I/N", help="every N-th block, from the I-th")
    where.add_argument("--dask", metavar="ADDRESS", help="sweep all shards on the cluster of this scheduler")
    where.add_argument("--merge", type=Path, nargs="+", metavar="FILE", help="merge summaries; nothing is swept")
    found.add_argument("--shards", type=positive, metavar="N", help="with --dask: how many shards")
    found.add_argument("--state", type=Path, metavar="FILE", help="go on from here, and keep it written")
    found.add_argument("--summary", type=Path, metavar="FILE", help="write what was found")
    return found


def bar(total: int, done: int = 0, what: str = "points") -> "tqdm[None]":
    """Progress with rate and time left; only where somebody looks."""
    return tqdm(total=total, initial=done, unit=" " + what, unit_scale=True, disable=None, leave=False)


def check_geometry(points: Points, shard: int = 0, shards: int = 1) -> list[Finding]:
    """The entries of the maps from geometry to bytes a row, or every `shards`-th of them."""
    geometries = [geometry for kind in points.space.kinds for geometry in entries(points.space, kind)]
    geometries = geometries[shard::shards]
    found = []
    with bar(len(geometries), what="geometries") as progress:
        for geometry in geometries:
            found += geometry_findings(geometry)
            progress.update()
    cells = sum(len(kind.cells.prices) for kind in points.kinds)
    combined = sum(kind.cells.geometries for kind in points.kinds)
    print(
        f"geometry: {len(geometries):,} entries of the maps to F, S and D priced, counted and judged; "
        f"{combined:,} geometries come down to {cells:,} cells, {combined / cells:.1f} times fewer"
    )
    return found


def sweep_shard(sweep: Sweep, chosen: tuple[int, int], state: Path | None) -> Result:
    """One shard with its progress, from its file of state and into it."""
    shard, shards = chosen
    before = read_state(state, sweep.points, f"{shard + 1}/{shards}") if state and state.exists() else None
    judged = sum(job.blocks for job in sweep.points.jobs(shard, shards)) * sweep.points.budgets
    with bar(judged, before.judged if before else 0) as progress:

        def told(result: Result) -> None:
            progress.update(result.judged - progress.n)
            if state and result.seconds - written[0] > STATE_SECONDS:
                written[0] = result.seconds
                results.write(state, results.document(result))

        written = [before.seconds if before else 0.0]
        result = swept(sweep, shard, shards, before=before, progress=told)
    if state:
        results.write(state, results.document(result))
    return result


def read_state(path: Path, points: Points, shard: str) -> Result:
    """Where a shard stands. Raises WrongResult for a file of another space or shard."""
    result = results.read(path)
    if (result.space, result.shards) != (points.space.digest, (shard,)):
        raise WrongResult(f"{path} is of shard {', '.join(result.shards)} of space {result.space}, not of {shard} here")
    return result


def sweep_cluster(points: Points, text: str, address: str, shards: int) -> Result:
    """Every shard on a cluster."""
    found = []
    with cluster.client_of(address) as client, bar(points.count) as progress:
        for result in cluster.swept_on(client, text, shards, SAMPLES):
            found.append(result)
            progress.update(result.judged)
    return results.merged(found)


def law_lines(result: Result) -> str:
    """A line a law: holds, or the first point that breaks it."""
    broken = result.broken or {}
    rows = [
        [law_id, BY_ID[law_id].name, f"broken, first at point {broken[law_id]:,}" if law_id in broken else "holds"]
        for law_id in (*LAWS, AGREEMENT)
    ]
    return table(["law", "", ""], rows)


def broken_points(sweep: Sweep, result: Result, command: str) -> list[tuple[Finding, Answer, str]]:
    """The first point of each broken law as the reporter takes it, and where it is."""
    return [
        (*sweep.finding(law_id, index), f"point {index:,} of {command}")
        for law_id, index in (result.broken or {}).items()
    ]


def broken_prices(findings: list[Finding]) -> list[tuple[Finding, Answer, str]]:
    """The first entry of the maps for each law of prices that is broken."""
    first: dict[str, Finding] = {}
    for finding in findings:
        first.setdefault(finding.law.id, finding)
    return [
        (finding, RIGHT_SIZING.size_pools(finding.scenario), "the maps from geometry to bytes a row")
        for finding in first.values()
    ]


def broken_text(finding: Finding, answer: Answer, where: str, implementation: Implementation) -> str:
    """The block of a broken law, by the one printer."""
    facts = counterexample(Shown(finding, answer), implementation)
    return f"{finding.law.id} {finding.law.name}\n{block_text(facts, [('found at', where)])}"


def report(result: Result, shown: list[tuple[Finding, Answer, str]], implementation: Implementation) -> None:
    """What holds, and what is broken."""
    print(law_lines(result))
    print(
        f"{result.judged:,} of {result.points:,} points judged by {len(LAWS)} laws in {result.seconds:,.1f} s, "
        f"{result.samples:,} of them by the spec, too"
    )
    for finding, answer, where in shown:
        print("\n" + broken_text(finding, answer, where, implementation))


def summary_of(result: Result, shown: list[tuple[Finding, Answer, str]], machine: Machine | None) -> dict[str, Any]:
    """What `--summary` writes, which `--merge` reads."""
    cases = {finding.law.id: scenario_text(finding.scenario) for finding, _, _ in shown}
    return results.document(result, cases=cases, machine=machine and asdict(machine))


def run(given: argparse.Namespace) -> int:
    """The whole verb. Raises WrongSpace, WrongResult, NoDask or OSError."""
    text = text_of(given.space) if given.space else default_text()
    points, machine, prices = points_of(text), None, []
    if given.merge:
        result = results.merged([results.read(path) for path in given.merge])
        if result.space != points.space.digest:
            raise WrongResult(f"the summaries are of space {result.space}, not of {points.space.digest}: give --space")
    else:
        prices = check_geometry(points, *given.shard)
        if given.dask:
            result = sweep_cluster(points, text, given.dask, given.shards)
        else:
            machine = measured(points, cores())
            result = sweep_shard(Sweep(points), given.shard, given.state)
    command = "python -m properties sweep" + (f" --space {given.space}" if given.space else "")
    sweep = Sweep(points)
    shown = broken_prices(prices) + broken_points(sweep, result, command)
    report(result, shown, implementation_of(sweep.formulas))
    if machine:
        print("\n".join(machine.text(result.judged / result.seconds)))
    if given.summary:
        results.write(given.summary, summary_of(result, shown, machine))
    return int(pytest.ExitCode.TESTS_FAILED if shown else pytest.ExitCode.OK)


def text_of(path: Path) -> str:
    """The text of a space. Raises WrongSpace, or OSError."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise WrongSpace(f"{path}: {error}") from error


def main(arguments: Sequence[str]) -> int:
    """Runs the verb; what is wrong with an option, a space or a file ends it with exit code 4."""
    options = parser()
    given = options.parse_args(arguments)
    if bool(given.dask) != bool(given.shards):
        options.error("--dask and --shards go together")
    try:
        return run(given)
    except (WrongSpace, WrongResult, cluster.NoDask, OSError) as error:
        print(f"python -m properties sweep: error: {error}", file=sys.stderr)
        return int(pytest.ExitCode.USAGE_ERROR)
    except KeyboardInterrupt:
        print("stopped" + (f"; the same command goes on from {given.state}" if given.state else ""), file=sys.stderr)
        return int(pytest.ExitCode.INTERRUPTED)
