"""How soon each law finds each fault of `impl/faults/`, and on how small a scenario.

    python -m tests.kill_matrix            every law, seeds 0 to 19 of the gate profile; writes tests/kill_matrix.md
    python -m tests.kill_matrix --check    seed 0, the laws each fault names, and whether the file is out of date

Prints a line a fault and seed, and ends with exit code 1 where a fault survives, or law Q1 alone sees it, or its
counterexample is large.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from impl.faults import FAULTS
from impl.faults.base import Fault
from properties.cells import CELLS, Cell
from properties.corpus import PROFILES, corpus_of
from properties.judge import Finding, verdict
from properties.show import paste_able
from properties.shrinking import smallest
from spec.laws import BY_ID, LAWS
from spec.laws.base import Broken, Law
from spec.model import LAYER_KINDS, MemoryFigures, Scenario, active_draft
from tests.kill_report import FILE, Hunt, Shrunk, out_of_date, report, survivors, too_large

SEEDS = tuple(range(20))
DRAWS = PROFILES["gate"].draws_per_cell
GIVE_UP = 1000
"""Scenarios after which a law that a fault does not name is no longer asked."""


@dataclass(frozen=True)
class Task:
    """What a process is asked at once: a seed, faults by their position, and the laws to hunt each of them by."""

    seed: int
    asked: tuple[tuple[int, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Done:
    """What came of one fault at one seed."""

    fault: int
    hunts: tuple[Hunt, ...]
    shrunk: Shrunk | None


@lru_cache(maxsize=len(CELLS))
def corpus(cell: Cell, seed: int) -> tuple[Scenario, ...]:
    """The corpus of a cell, drawn once for all faults."""
    return corpus_of(cell, DRAWS, seed)


def claimed_cells(fault: type[Fault], law: Law) -> list[Cell]:
    """The cells a law claims of those a fault names with it, else of those it acts in, in the order of the gate."""
    globs = fault.caught_by.get(law.id, fault.cells).split()
    return [cell for cell in CELLS if law.claims(str(cell)) and any(fnmatchcase(str(cell), glob) for glob in globs)]


def hunted(fault: type[Fault], law: Law, seed: int) -> tuple[Hunt, Finding | None]:
    """One law over the corpora of the cells it shares with the fault, until it breaks; drawing is not timed. A law the
    fault does not name is given up after a while."""
    implementation, scenarios, seconds = fault(), 0, 0.0
    for cell in claimed_cells(fault, law):
        drawn = corpus(cell, seed)
        began = time.perf_counter()
        for scenario in drawn:
            scenarios += 1
            broken, _ = verdict(law, implementation, scenario)
            if isinstance(broken, Broken):
                seconds += time.perf_counter() - began
                return Hunt(fault.__name__, law.id, seed, scenarios, seconds, True), Finding(
                    law, cell, scenario, broken
                )
        seconds += time.perf_counter() - began
        if scenarios >= GIVE_UP and law.id not in fault.caught_by:
            break
    return Hunt(fault.__name__, law.id, seed, scenarios, seconds, False), None


def measured(finding: Finding, fault: type[Fault], seed: int) -> Shrunk:
    """The finding, shrunk, and its size."""
    scenario = smallest(finding, fault(), DRAWS, seed).scenario
    draft, budget = active_draft(scenario), scenario.budget
    shapes = [scenario.target] + ([draft.shape] if draft else [])
    readings = budget.free_before_load if isinstance(budget, MemoryFigures) else (budget,)
    return Shrunk(
        fault.__name__,
        finding.law.id,
        seed,
        max(shape.layers.count(kind) for shape in shapes for kind in LAYER_KINDS),
        scenario.page_size,
        max(map(max, readings)),
        paste_able(scenario),
    )


def done(number: int, law_ids: tuple[str, ...], seed: int) -> Done:
    """Hunts one fault at one seed, and shrinks what the first law it names finds."""
    fault = FAULTS[number]
    hunts, shrunk = [], None
    for law_id in law_ids:
        if claimed_cells(fault, BY_ID[law_id]):
            hunt, finding = hunted(fault, BY_ID[law_id], seed)
            hunts.append(hunt)
            if finding is not None and law_id == next(iter(fault.caught_by)):
                shrunk = measured(finding, fault, seed)
    found = sum(hunt.found for hunt in hunts)
    print(f"seed {seed:>2}  {fault.__name__}: {found} of {len(hunts)} laws", flush=True)
    return Done(number, tuple(hunts), shrunk)


def all_done(task: Task) -> list[Done]:
    """The faults of a task, one after another."""
    return [done(number, law_ids, task.seed) for number, law_ids in task.asked]


def laws_that_found(results: Sequence[Done]) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Each fault, by the laws that found it or that it names."""
    asked = []
    for result in sorted(results, key=lambda result: result.fault):
        found = {hunt.law for hunt in result.hunts if hunt.found} | FAULTS[result.fault].caught_by.keys()
        asked.append((result.fault, tuple(law.id for law in LAWS if law.id in found)))
    return tuple(asked)


def measure(seeds: Sequence[int], law_ids: Sequence[tuple[str, ...]]) -> list[Done]:
    """Hunts by the given laws of each fault at the first seed, and at the others by those that found something."""
    asked, cores = tuple(enumerate(law_ids)), os.cpu_count() or 1
    with ProcessPoolExecutor(cores) as pool:
        first = [Task(seeds[0], asked[core::cores]) for core in range(cores)]
        results = [result for found in pool.map(all_done, first) for result in found]
        again = [Task(seed, laws_that_found(results)) for seed in seeds[1:]]
        return results + [result for found in pool.map(all_done, again) for result in found]


def main() -> int:
    """Measures, says what is wrong, and writes the file unless it is only checked."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill_matrix")
    parser.add_argument("--check", action="store_true", help="seed 0 and the laws each fault names; writes nothing")
    check = parser.parse_args().check
    seeds, began = SEEDS[:1] if check else SEEDS, time.monotonic()
    every_law = tuple(law.id for law in LAWS)
    results = measure(seeds, [tuple(fault.caught_by) if check else every_law for fault in FAULTS])
    results.sort(key=lambda result: result.fault)
    hunts = [hunt for result in results for hunt in result.hunts]
    shrunk = [result.shrunk for result in results if result.shrunk is not None]
    wrong = [*survivors(hunts, seeds), *too_large(shrunk)]
    if check:
        wrong += out_of_date(FILE.read_text(encoding="utf-8"))
    else:
        FILE.write_text(report(hunts, shrunk, seeds, GIVE_UP), encoding="utf-8")
    found = f"{len(FAULTS)} faults, all found by every law they name at seed 0"
    print("\n".join(wrong) or f"{found}, in {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
