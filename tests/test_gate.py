"""What `pytest properties` says and how it exits: green, broken, wrong use, nothing to judge. A process each."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

import spec.model
from impl import load
from properties.cell_names import cells_text
from properties.cells import CELLS
from properties.corpus import PROFILES, corpus_of
from properties.judge import verdict
from spec.laws import BY_ID
from spec.laws.base import Broken
from spec.layers import POOL_KINDS
from spec.model import Scenario

ROOT = Path(__file__).parents[1]
GREEN, BROKEN, SUITE_FAILED, WRONG_USE, NOTHING_JUDGED = 0, 1, 3, 4, 5
"""Exit codes, which are pytest's."""

WORKERS = ("-n", "2", "--dist", "loadgroup")
ONE_CELL = ("--kv-cell", "default-none-tp-same")
FEW_LAWS = ("--kv-law", "B1,B4")
FIGURES = re.compile(r"^([\d,]+) judgements on ([\d,]+) distinct scenarios in (\d+) of (\d+) cells, in [\d.]+ s$", re.M)
HEADER = re.compile(
    r"^kv: implementation (\S+) (\S+) \((\S+)\), profile (\S+) \((\d+) draws a cell\), seed (\d+)$", re.M
)


@dataclass(frozen=True)
class Run:
    """How a run ended, and all it printed."""

    code: int
    text: str

    @property
    def blocks(self) -> list[str]:
        """The blocks of what is broken."""
        return [part.strip() for part in self.text.split("\n\n") if part.strip().startswith("BROKEN ")]

    @property
    def figures(self) -> tuple[str, ...]:
        """Judgements, scenarios, cells and all cells: the last line but the time."""
        (found,) = FIGURES.findall(self.text)
        return tuple(found)

    @property
    def table(self) -> list[str]:
        """The rows of the table, spacing aside."""
        return [
            " ".join(line.split()) for line in self.text.splitlines() if re.match(r"[A-Z]\d+ .* (n/a|/ [\d,]+)$", line)
        ]


def gate_again(*options: str) -> Run:
    """`pytest properties` with a glance's draws, unless the options say otherwise."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = (sys.executable, "-m", "pytest", "properties", "-p", "no:cacheprovider", "--color=no")
    profile = () if "--kv-profile" in options else ("--kv-profile", "dev")
    done = subprocess.run(
        (*command, *profile, *options), cwd=ROOT, env=clean, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return Run(done.returncode, done.stdout)


gate = cache(gate_again)
"""The same, run once for the same options."""


def judging(name: str) -> tuple[str, str]:
    """The option that judges an implementation of `tests/wrong_implementations.py`."""
    return "--kv-impl", f"tests.wrong_implementations:{name}"


def row(block: str, name: str) -> str:
    """The text of one row of a block."""
    (found,) = re.findall(rf"^  {name} +(.*)$", block, re.M)
    return str(found)


@pytest.mark.parametrize("implementation", ["configurator", "spec"])
def test_a_sound_implementation_is_green(implementation: str) -> None:
    run = gate(*ONE_CELL, *FEW_LAWS, "--kv-impl", implementation)
    assert run.code == GREEN and not run.blocks
    judged, scenarios, cells, all_cells = run.figures
    assert int(judged) > int(scenarios) > 0
    assert (int(cells), int(all_cells)) == (1, len(CELLS))
    assert [line.split()[0] for line in run.table] == ["B1", "B4"]


def test_the_spec_is_no_yardstick_of_itself() -> None:
    judged_laws = [line.split()[0] for line in gate(*ONE_CELL, "--kv-impl", "spec").table]
    assert "Q1" not in judged_laws and "B1" in judged_laws
    assert "Q1" in [line.split()[0] for line in gate(*ONE_CELL).table]


def test_the_header_names_who_and_how_much() -> None:
    configurator, draws = load("configurator"), str(PROFILES["dev"].draws_per_cell)
    expected = ("configurator", configurator.version, type(configurator).__module__, "dev", draws, "0")
    assert HEADER.findall(gate(*ONE_CELL, *FEW_LAWS, "--kv-impl", "configurator").text) == [expected]


@pytest.mark.parametrize(
    ("option", "value", "choices"),
    [
        ("--kv-impl", "nobody", "spec, configurator"),
        ("--kv-impl", "no.such.module:Name", "No module named 'no'"),
        ("--kv-impl", "tests.wrong_implementations:Nobody", "has no attribute 'Nobody'"),
        ("--kv-impl", "tests.wrong_implementations:CannotBeBuilt", "RuntimeError: no engine here"),
        ("--kv-law", "B1,Z9", "B1, B2"),
        ("--kv-cell", "default-nothing-*", "POOL-DRAFT[_same|_own]-DEPLOYMENT-same|other"),
        ("--kv-profile", "thorough", "gate, nightly, dev"),
        ("--hypothesis-seed", "soon", "whole number"),
    ],
)
def test_an_unknown_name_is_wrong_use(option: str, value: str, choices: str) -> None:
    run = gate(f"{option}={value}")
    assert run.code == WRONG_USE
    assert option in run.text and repr(value.split(",")[-1]) in run.text and choices in run.text


@pytest.mark.parametrize("workers", [(), WORKERS])
@pytest.mark.parametrize(
    "selection",
    [
        ("--kv-law", "W1", "--kv-cell", "default-*"),
        ("--kv-law", "Q1", "--kv-impl", "spec"),
        ("--kv-law", ""),
    ],
)
def test_a_selection_that_leaves_nothing_is_not_green(selection: tuple[str, ...], workers: tuple[str, ...]) -> None:
    run = gate(*selection, *workers)
    assert run.code == NOTHING_JUDGED and "nothing to judge" in run.text


def test_a_broad_fault_gives_one_block_a_pool_kind() -> None:
    """No draft priced anywhere: broken in every cell with a draft, told once for each pool kind."""
    run = gate("--kv-cell", "*-dflash_own-tp-*", "--kv-law", "B1", *judging("DropsTheDraftTerm"))
    assert run.code == BROKEN
    assert [block.splitlines()[0] for block in run.blocks] == [
        f"BROKEN B1 on {pool} in 2 cells: allocated bytes" for pool in sorted(POOL_KINDS)
    ]
    assert all(row(block, "cells").endswith("-dflash_own-tp-{other,same}") for block in run.blocks)


def test_one_block_a_fault_lists_its_cells() -> None:
    run = gate("--kv-cell", "default-none-*", *FEW_LAWS, *judging("OnePageTooMany"))
    cells = sorted(str(cell) for cell in CELLS if str(cell).startswith("default-none-"))
    assert run.code == BROKEN
    (block,) = run.blocks
    assert block.startswith(f"BROKEN B1 on default in {len(cells)} cells: allocated bytes\n{BY_ID['B1'].sentence}\n")
    assert row(block, "cells") == cells_text(cells) == "default-none-{dcp,dp,pp,tp}-same"
    assert "BROKEN in 4" in run.table[0] and "BROKEN" not in run.table[1]


@pytest.mark.parametrize(
    ("name", "got"),
    [
        ("DividesByZero", "ZeroDivisionError: cell size is 0"),
        ("ReturnsATuple", "(4096, 4096)"),
        ("RefusesInItsOwnWords", "Refusal(kind='out_of_memory'"),
        ("SellsFloats", "PoolSizes(max_total_num_tokens="),
        ("SupportsRaises", "KeyError: 'attention_backend'"),
        ("ExitsThePythonProcess", "SystemExit: 3"),
    ],
)
def test_anything_but_a_listed_answer_is_broken(name: str, got: str) -> None:
    run = gate(*ONE_CELL, *FEW_LAWS, *judging(name))
    assert run.code == BROKEN
    assert [block.splitlines()[0] for block in run.blocks] == [
        f"BROKEN {law} on default in 1 cell: unlisted answer" for law in ("B1", "B4")
    ]
    for block in run.blocks:
        assert row(block, "got").startswith(got) and row(block, "answer").startswith(got)
    assert "Traceback" not in run.text


def test_a_traceback_is_shown_where_it_is_asked_for() -> None:
    run = gate(*ONE_CELL, "--kv-law", "B1", *judging("DividesByZero"), "--tb=short")
    assert run.code == BROKEN and "Traceback (most recent call last):" in run.text
    assert "wrong_implementations.py" in run.text


def test_an_unlisted_answer_to_a_changed_scenario_names_it() -> None:
    cell = ("--kv-cell", "default-eagle_own-tp-same", "--kv-law", "D1")
    (block,) = gate(*cell, *judging("TripsOverNoDraftLayers")).blocks
    got, _, changed = row(block, "got").removesuffix(")").partition(" (asked about ")
    assert got == "IndexError: tuple index out of range"
    smallest, asked = evaluated(row(block, "to paste")), evaluated(changed)
    assert smallest.draft is not None and smallest.draft.shape.layers
    assert asked.draft is not None and not asked.draft.shape.layers and asked.target == smallest.target


def test_an_implementation_that_changes_its_mind_is_broken() -> None:
    run = gate("--kv-cell", "*-none-tp-same", "--kv-law", "B1,Q1", *judging("ChangesItsMind"))
    assert run.code == BROKEN and run.blocks
    assert "Traceback" not in run.text


@pytest.mark.parametrize("workers", [(), WORKERS])
def test_a_failure_of_the_suite_is_not_the_engines(workers: tuple[str, ...]) -> None:
    run = gate(*ONE_CELL, *FEW_LAWS, *judging("TripsTheSuite"), *workers)
    assert run.code == SUITE_FAILED and not run.blocks
    said = r"the suite itself failed on B[14] in default-none-tp-same: LookupError: nobody wrote this down "
    assert re.search(said, run.text) and "report it to kv-budget-spec, not to the engine" in run.text


@pytest.mark.parametrize("workers", [(), WORKERS])
def test_judging_nothing_is_broken(workers: tuple[str, ...]) -> None:
    run = gate(*ONE_CELL, *FEW_LAWS, *judging("SupportsNothing"), *workers)
    assert run.code == BROKEN
    assert [block.splitlines()[0] for block in run.blocks] == [
        f"BROKEN {law} on default in 1 cell: nothing judged" for law in ("B1", "B4")
    ]
    assert "not supported by the implementation" in run.blocks[0]
    assert re.search(r"^not supported, [\d,]+ judgements: no GPU here$", run.text, re.M)


def test_what_is_supported_is_still_judged() -> None:
    run = gate("--kv-cell", "*-none-tp-same", "--kv-law", "B4", *judging("SupportsNoCappedPool"))
    assert run.code == BROKEN
    assert [block.splitlines()[0] for block in run.blocks] == ["BROKEN B4 on capped in 1 cell: nothing judged"]
    assert "capped pools are not written yet" in run.text


def evaluated(text: str) -> Scenario:
    """A printed scenario, pasted where the names of `spec.model` and Fraction are known."""
    names = {**vars(spec.model), "Fraction": Fraction}
    exec(f"pasted = {text}", names)
    scenario = names["pasted"]
    assert isinstance(scenario, Scenario)
    return scenario


@pytest.mark.parametrize("cell", ["default-none-tp-same", "hybrid-eagle_own-tp-other", "capped-dflash_same-pp-same"])
def test_a_printed_scenario_breaks_the_law_when_pasted(cell: str) -> None:
    (block,) = gate("--kv-law", "B1", "--kv-cell", cell, *judging("OnePageTooMany")).blocks
    implementation = load(judging("OnePageTooMany")[1])
    outcome, _ = verdict(BY_ID["B1"], implementation, evaluated(row(block, "to paste")))
    assert isinstance(outcome, Broken) and outcome.term == row(block, "term off")
    outcome, _ = verdict(BY_ID["B1"], load("spec"), evaluated(row(block, "to paste")))
    assert not isinstance(outcome, Broken)


def test_a_printed_command_finds_the_same_again() -> None:
    (block,) = gate("--kv-cell", "mla-none-*", "--kv-law", "B1", *judging("OnePageTooMany")).blocks
    program, properties, *options = row(block, "replay").split()
    assert (program, properties) == ("pytest", "properties")
    (again,) = gate(*options).blocks
    for name in ("term off", "expected", "got", "smallest case", "to paste", "replay"):
        assert row(again, name) == row(block, name)


@pytest.mark.parametrize(("name", "code"), [("Sound", GREEN), ("OnePageTooMany", BROKEN)])
def test_workers_change_no_figure(name: str, code: int) -> None:
    options = ("--kv-cell", "default-none-*", "--kv-law", "B*", *judging(name))
    alone, shared = gate(*options), gate(*options, *WORKERS)
    assert alone.code == shared.code == code
    assert (alone.figures, alone.table) == (shared.figures, shared.table)
    heads = [[block.splitlines()[0] for block in run.blocks] for run in (alone, shared)]
    assert heads[0] == heads[1]
    assert HEADER.findall(alone.text) == HEADER.findall(shared.text)


def test_the_gate_repeats_itself() -> None:
    first, second = (gate_again(*ONE_CELL, "--kv-profile", "gate") for _ in range(2))
    assert first.code == second.code == GREEN
    assert (first.figures, first.table) == (second.figures, second.table)


def test_a_printed_seed_repeats_a_nightly_run() -> None:
    nightly = (
        "--kv-profile",
        "nightly",
        "--kv-cell",
        "hybrid-eagle_own-tp-same",
        "--kv-law",
        "B1,B2,Q1",
        *judging("Sound"),
    )
    first, other = gate_again(*nightly), gate_again(*nightly)
    ((*_, seed),), ((*_, other_seed),) = HEADER.findall(first.text), HEADER.findall(other.text)
    assert seed != other_seed
    again = gate_again(*nightly, f"--hypothesis-seed={seed}")
    assert (again.code, again.figures, again.table) == (first.code, first.figures, first.table)
    assert HEADER.findall(again.text) == HEADER.findall(first.text)


def test_another_seed_draws_other_scenarios() -> None:
    cell = CELLS[0]
    assert corpus_of(cell, 20, run_seed=1) == corpus_of(cell, 20, run_seed=1)
    assert corpus_of(cell, 20, run_seed=1) != corpus_of(cell, 20, run_seed=2)


def test_workers_are_not_needed() -> None:
    options = (*ONE_CELL, *FEW_LAWS, *judging("Sound"))
    run = gate(*options, "-p", "no:xdist")
    assert run.code == GREEN and run.figures == gate(*options).figures
