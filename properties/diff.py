"""How many tokens a change costs or wins: the same scenarios through two implementations.

    python -m properties diff --base sglang@0.5.17 --head sglang@0.5.18
    python -m properties diff --head configurator --save FILE    # answers to be compared with later: --base FILE

Each of the two is `configurator`, `spec`, `batched`, a fault such as `NoDraftOnHybrid`, `module:object`, that in a
folder (`module:object@FOLDER`), `sglang@FOLDER`, `sglang@VERSION` or a file of saved answers, and runs in a process of
its own. Exit code 0: nothing moved that `--fail` names; 1: something did; 4: wrong use; 5: nothing was compared.
"""

import argparse
import json
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest
from tqdm import tqdm

from properties.asked import Asked, Call, NotSupported, Process, Question, Said, Saved, Source, saved_text, source_of
from properties.cell_names import WrongPattern, cells_of, patterns_in
from properties.cells import CELLS, Cell, cell_of
from properties.corpus import PROFILES, drawn_scenarios, runs_on
from properties.diff_rules import FAILS, LOSS, Acknowledged, read_acknowledged, ruling, share
from properties.diff_text import Diff, document, draft_of, grouped, markdown_text, terminal_text
from properties.known import WrongKnownFile
from properties.moves import Move, differ, first_change, move_of
from properties.observed import Prices
from properties.options import must_be_writable
from properties.pairs import BUDGET_BYTES, DEPLOYMENTS, pair_scenarios
from properties.verbs import Parser
from spec import catalog
from spec.model import PoolSizes, Scenario
from spec.pools import size_pools

PAGE_SIZE = 64
"""Of a real deployment, as of the catalog's pairs."""
Found = TypeVar("Found")
Pair = tuple[Found, Found]
"""Of base and head."""
SEED = 0
"""Of what is drawn: both sides, today and tomorrow, get the same scenarios."""


class Compared(NamedTuple):
    """What moved, every question that both answered, and why others were not asked."""

    moves: list[Move]
    questions: list[Question]
    unsupported: Counter[str]


def target_scenarios() -> Iterator[tuple[str, str, Scenario]]:
    """(target, deployment, scenario) of every priced model without a draft, where it splits and is sized."""
    for target in catalog.targets():
        for name, deployment in DEPLOYMENTS.items():
            scenario = Scenario(
                target.shape,
                (BUDGET_BYTES,),
                deployment=deployment,
                window_pools=target.window_pools,
                page_size=PAGE_SIZE,
            )
            if runs_on(deployment, scenario.target, None) and isinstance(size_pools(scenario), PoolSizes):
                yield target.name, name, scenario


def real_questions(cells: Sequence[Cell]) -> list[Question]:
    """Every pair, then every target, of the catalog, in the cells that are asked for."""
    real = [*pair_scenarios(), *target_scenarios()]
    return [
        Question(f"{name}, {deployment}", scenario) for name, deployment, scenario in real if cell_of(scenario) in cells
    ]


def drawn_questions(cells: Sequence[Cell], profile: str) -> list[Question]:
    """Those, then what is drawn for each cell."""
    draws = PROFILES[profile].draws_per_cell
    drawn = [scenario for cell in cells for scenario in dict.fromkeys(drawn_scenarios(cell, draws, SEED))]
    return [*real_questions(cells), *(Question("", scenario) for scenario in drawn)]


def questions_for(asked: Sequence[Asked], cells: Sequence[Cell], profile: str) -> tuple[list[Question], str]:
    """What both are asked, and how it was come by: what a file of saved answers holds, else the catalog and what is
    drawn."""
    saved = [one for one in asked if isinstance(one, Saved)]
    if not saved:
        return drawn_questions(cells, profile), f"profile {profile}, seed {SEED}"
    questions = [question for question in saved[0].rows if cell_of(question.scenario) in cells]
    return questions, f"those of {saved[0].path.name}"


def asked_of(sources: Sequence[Source | Path], stack: ExitStack) -> list[Asked]:
    """Everybody, started."""
    everybody: list[Asked] = [Saved(source) if isinstance(source, Path) else Process(source) for source in sources]
    for one in everybody:
        stack.callback(one.close)
    return everybody


def side_by_side(asked: Pair[Asked], ask: Callable[[Asked], Found]) -> Pair[Found]:
    """The same of both, at the same time. Where it is interrupted neither is waited for."""
    with ThreadPoolExecutor(2) as pool:
        try:
            base, head = pool.map(ask, asked)
        except BaseException:
            for one in asked:
                one.close()
            raise
    return base, head


def told(questions: Sequence[Question], asked: Asked, what: str) -> "tqdm[Question]":
    """Questions with a bar of progress, on a terminal."""
    return tqdm(questions, desc=str(asked.identity), unit=f" {what}", disable=None, leave=False)


def said_by(asked: Asked, questions: Sequence[Question]) -> list[Said]:
    """The answers of one of them."""
    return [asked.said(question) for question in told(questions, asked, "answers")]


def priced_by(asked: Asked, questions: Sequence[Question]) -> list[Prices]:
    """What one of them charges for a row."""
    return [asked.prices(question) for question in told(questions, asked, "prices")]


def moves_between(asked: Pair[Asked], said: Pair[Sequence[Said]], questions: Sequence[Question]) -> Compared:
    """What moved between the answers of base and head, what was compared, and why the rest was not."""
    found = Compared([], [], Counter())
    moved = []
    for question, before, after in zip(questions, *said, strict=True):
        if isinstance(before, NotSupported) or isinstance(after, NotSupported):
            who, reason = ("base", before) if isinstance(before, NotSupported) else ("head", after)
            found.unsupported[f"{who}: {getattr(reason, 'reason', '')}"] += 1
            continue
        found.questions.append(question)
        if differ(before, after):
            moved.append((question, before, after))
    wanted = [question for question, _, _ in moved]
    prices = side_by_side(asked, lambda one: priced_by(one, wanted))
    for (question, before, after), base, head in zip(moved, *prices, strict=True):
        found.moves.append(move_of(question, (before, base), (after, head)))
    return found


def cells_in(questions: Sequence[Question]) -> int:
    """In how many cells some questions are."""
    return len({cell_of(question.scenario) for question in questions})


def diff_of(asked: Pair[Asked], said: Pair[Sequence[Said]], questions: Sequence[Question], drawn: str) -> Diff:
    """Both over the same scenarios, and the functions behind what moved."""
    found = moves_between(asked, said, questions)
    real = sum(bool(question.name) for question in found.questions)
    base, head = asked
    diff = Diff(
        base.identity,
        head.identity,
        drawn,
        real,
        len(found.questions) - real,
        found.unsupported,
        tuple(found.moves),
        (cells_in(found.questions), cells_in(questions)),
    )
    return replace(diff, functions=changed_functions(asked, diff))


def changed_functions(asked: Pair[Asked], diff: Diff) -> dict[str, tuple[Call, str]]:
    """By pool and draft, the function that made the difference in the worst move, where the calls say so."""
    base, head = asked
    functions = {}
    for group, moves in grouped(diff.worst_first, draft_of).items():
        change = first_change(base.calls(moves[0].question), head.calls(moves[0].question))
        if change is not None:
            functions[group] = change
    return functions


def parser() -> Parser:
    """The options."""
    options = Parser(
        "python -m properties diff", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--base", metavar="WHO", help="what is there")
    options.add_argument("--head", metavar="WHO", required=True, help="what is to come")
    options.add_argument(
        "--save", metavar="FILE", type=Path, help="write the head's answers, with no --base to compare"
    )
    options.add_argument(
        "--fail",
        choices=FAILS,
        default=LOSS,
        help="; ".join(f"{name}: red where {what}" for name, what in FAILS.items()),
    )
    options.add_argument(
        "--tolerance", metavar="SHARE", default="0%", help="what may move in a scenario, such as 0.5%%"
    )
    options.add_argument(
        "--acknowledged", metavar="FILE", type=Path, help="losses that are accepted, with reason and date"
    )
    options.add_argument("--kv-profile", choices=PROFILES, default="gate", help="how much to draw (seed 0)")
    options.add_argument("--kv-cell", metavar="GLOBS", default="*", help="cells to compare")
    options.add_argument("--kv-report", metavar="DIR", type=Path, help="write diff.json and diff.md")
    return options


def chosen_cells(text: str) -> list[Cell]:
    """The cells of `--kv-cell`."""
    try:
        names = cells_of(patterns_in(text))
    except WrongPattern as error:
        raise pytest.UsageError(f"--kv-cell: {error}") from error
    return [cell for cell in CELLS if str(cell) in names]


def chosen_rules(given: argparse.Namespace) -> tuple[Fraction, tuple[Acknowledged, ...]]:
    """The tolerance, and the losses that are acknowledged."""
    try:
        tolerance = share(given.tolerance)
        return tolerance, read_acknowledged(given.acknowledged) if given.acknowledged else ()
    except ValueError as error:
        option = "--acknowledged" if isinstance(error, WrongKnownFile) else "--tolerance"
        raise pytest.UsageError(f"{option}: {error}") from error


def saved(given: argparse.Namespace) -> int:
    """Writes the answers of one implementation."""
    must_be_writable("--save", given.save.parent)
    with ExitStack() as stack:
        asked = asked_of([source_of(given.head)], stack)
        questions, drawn = questions_for(asked, chosen_cells(given.kv_cell), given.kv_profile)
        answers = list(zip(said_by(asked[0], questions), priced_by(asked[0], questions), strict=True))
        given.save.write_text(saved_text(asked[0], questions, answers), encoding="utf-8")
        print(f"{given.save}: {len(questions):,} answers of {asked[0].identity} ({drawn})")
    return int(pytest.ExitCode.OK if questions else pytest.ExitCode.NO_TESTS_COLLECTED)


def compared(given: argparse.Namespace) -> int:
    """Compares two, prints what moved, and writes it."""
    cells, (tolerance, acknowledged) = chosen_cells(given.kv_cell), chosen_rules(given)
    if given.kv_report is not None:
        must_be_writable("--kv-report", given.kv_report)
    with ExitStack() as stack:
        base, head = asked_of([source_of(given.base), source_of(given.head)], stack)
        questions, drawn = questions_for((base, head), cells, given.kv_profile)
        said = side_by_side((base, head), lambda one: said_by(one, questions))
        diff = diff_of((base, head), said, questions, drawn)
    ruled = ruling(diff.moves, given.fail, tolerance, acknowledged)
    print(terminal_text(diff, ruled))
    if given.kv_report is not None:
        text = json.dumps(document(diff, ruled), indent=1, ensure_ascii=False) + "\n"
        (given.kv_report / "diff.json").write_text(text, encoding="utf-8")
        (given.kv_report / "diff.md").write_text(markdown_text(diff, ruled), encoding="utf-8")
    if not diff.compared:
        return int(pytest.ExitCode.NO_TESTS_COLLECTED)
    return int(pytest.ExitCode.TESTS_FAILED if ruled.failures else pytest.ExitCode.OK)


def main(arguments: Sequence[str]) -> int:
    """The verb; returns the exit code."""
    given = parser().parse_args(arguments)
    try:
        if given.base is None and given.save is None:
            raise pytest.UsageError(
                "--base names nobody to compare with; --save FILE keeps the head's answers for later"
            )
        if given.base is not None and given.save is not None:
            raise pytest.UsageError("--save writes the answers of --head alone: leave --base out")
        return saved(given) if given.base is None else compared(given)
    except pytest.UsageError as error:
        print(f"python -m properties diff: error: {error}", file=sys.stderr)
        return int(pytest.ExitCode.USAGE_ERROR)
    except Exception:
        print(traceback.format_exc() + "This is a fault of the suite, not of what it compares.", file=sys.stderr)
        return int(pytest.ExitCode.INTERNAL_ERROR)
