"""What a capacity diff says: on a terminal, in Markdown, in JSON."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from properties.asked import RELEASES, ROOT, Call, Identity, Said, said_json
from properties.case_files import SCHEMA, as_json
from properties.diff_rules import Ruling
from properties.findings import markdown_table
from properties.moves import Move, Term, kind_text, tokens_of
from properties.pairs import gib
from properties.show import table
from spec.model import PoolSizes, Scenario

ROWS_SHOWN = 12
"""Rows of a table on a terminal, the worst first; Markdown and JSON have all."""
CELL_ROWS_SHOWN = 300
"""Rows of a table in Markdown: fewer than there are cells."""

Table = Callable[[Sequence[str], Sequence[Sequence[str]]], str]


@dataclass(frozen=True)
class Diff:
    """Two implementations over the same scenarios. `drawn` says which; `real` and `generated` are how many were
    compared; `unsupported` why others were not; `cells` in how many cells, of how many that were asked. `functions`: by
    pool and draft, the function of the head that made the difference in the worst move there, and what it returned in
    the base."""

    base: Identity
    head: Identity
    drawn: str
    real: int
    generated: int
    unsupported: Counter[str]
    moves: tuple[Move, ...]
    cells: tuple[int, int] = (0, 0)
    functions: dict[str, tuple[Call, str]] = field(default_factory=dict)

    @property
    def compared(self) -> int:
        """Scenarios that both answered."""
        return self.real + self.generated

    @property
    def worst_first(self) -> list[Move]:
        """Every move, real deployments first."""
        return self.of_real(True) + self.of_real(False)

    @property
    def function(self) -> tuple[Call, str] | None:
        """That of the worst move."""
        return next((self.functions.get(draft_of(move.cell)) for move in self.worst_first), None)

    def of_real(self, is_real: bool) -> list[Move]:
        """The moves of real deployments, or of generated scenarios, the worst first."""
        found = [move for move in self.moves if bool(move.question.name) == is_real]
        return sorted(found, key=badness)


def badness(move: Move) -> tuple[bool, bool, Fraction]:
    """What comes first: newly over budget, the most oversold first, then what raises, then the most tokens lost."""
    return not move.newly_over, not move.newly_raised, -move.change if move.newly_over else move.change


def percent(share: Fraction) -> str:
    """A share of tokens with a sign and two decimals, `0` for none."""
    if not share:
        return "0"
    hundredths = round(abs(share) * 10000)
    return f"{'-' if share < 0 else '+'}{hundredths // 100:,}.{hundredths % 100:02} %"


def said_text(said: Said) -> str:
    """Tokens sold, or why none are."""
    return f"{said.max_total_num_tokens:,}" if isinstance(said, PoolSizes) else kind_text(said)


def term_text(term: Term) -> str:
    """A term that moved; a price is in bytes."""
    where = "" if term.stage is None else f" (stage {term.stage})"
    unit = " B" if term.name.endswith(" row") else ""
    return f"{term.name} {term.base} -> {term.head}{unit}{where}"


def terms_text(move: Move) -> str:
    """Every term that moved, on the first stage where it did."""
    return "; ".join(map(term_text, move.first_terms.values()))


def real_rows(moves: Iterable[Move]) -> list[list[str]]:
    """A row a real deployment: tokens before and after, by how much, whether they fit, and why."""
    return [
        [
            move.question.name,
            said_text(move.base),
            said_text(move.head),
            percent(move.change),
            gib(move.base_over),
            gib(move.head_over),
            terms_text(move),
        ]
        for move in moves
    ]


REAL_HEADER = ("real deployment, 80 GiB for KV", "base", "head", "change", "base over", "head over", "terms that moved")
CELL_HEADER = (
    "cells of",
    "moved",
    "worst",
    "best",
    "newly over",
    "newly refused",
    "no longer over",
    "terms that moved",
    "in the worst",
)


def cell_row(name: str, moves: Sequence[Move]) -> list[str]:
    """What moved in some cells; the moves are sorted, the worst first."""
    terms = Counter(name for move in moves for name in move.first_terms)
    return [
        name,
        f"{len(moves):,}",
        percent(min(move.change for move in moves)),
        percent(max(move.change for move in moves)),
        f"{sum(move.newly_over for move in moves):,}",
        f"{sum(move.newly_refused or move.newly_raised for move in moves):,}",
        f"{sum(move.mended for move in moves):,}",
        ", ".join(f"{term} ({count:,})" for term, count in terms.most_common()),
        terms_text(moves[0]),
    ]


def grouped(moves: Iterable[Move], key: Callable[[str], str]) -> dict[str, list[Move]]:
    """The moves of the cells that share a key, the most tokens lost first."""
    groups: dict[str, list[Move]] = {}
    for move in moves:
        groups.setdefault(key(move.cell), []).append(move)
    return groups


def draft_of(cell: str) -> str:
    """Pool and draft of a cell, whatever the ranks and the dtype."""
    return "-".join(cell.split("-")[:2])


def header_lines(diff: Diff) -> list[str]:
    """Who, over what, and how much moved."""
    lines = [
        f"capacity of {diff.head} (head) beside {diff.base} (base)",
        f"{len(diff.moves):,} of {diff.compared:,} scenarios moved: {len(diff.of_real(True)):,} of {diff.real:,} real "
        f"deployments, {len(diff.of_real(False)):,} of {diff.generated:,} generated ({diff.drawn}), "
        f"in {diff.cells[0]} of {diff.cells[1]} cells",
    ]
    return lines + [f"not compared, {count:,}: {reason}" for reason, count in diff.unsupported.most_common()]


def function_text(change: tuple[Call, str] | None) -> str:
    """The function that changed, "" where the calls do not say."""
    if change is None:
        return ""
    call, was = change
    return f"{call.name} ({shown_path(call.file)}:{call.line}): {was} -> {call.value}"


def function_line(diff: Diff) -> list[str]:
    """The function behind the worst move."""
    text = function_text(diff.function)
    return [f"differs first in {text}"] if text else []


def shown_path(file: str) -> str:
    """A file below this repository by its path there, one of a release from `sglang/` on, another as it is."""
    path = Path(file)
    if path.is_relative_to(RELEASES):
        return str(Path(*path.relative_to(RELEASES).parts[1:]))
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else file


def some_of(rows: list[list[str]], shown: int) -> tuple[list[list[str]], list[str]]:
    """The first rows, and a line that counts the others."""
    left = len(rows) - shown
    return rows[:shown], [f"and {left:,} more"] if left > 0 else []


def tables(diff: Diff, draw: Table, key: Callable[[str], str], shown: tuple[int, int]) -> list[str]:
    """Real deployments, then generated scenarios by cell; so many rows of each."""
    parts = []
    real, more = some_of(real_rows(diff.of_real(True)), shown[0])
    if real:
        parts.append("\n".join([draw(REAL_HEADER, real), *more]))
    groups = grouped(diff.of_real(False), key)
    rows = [cell_row(name, moves) for name, moves in groups.items()]
    cells, more = some_of(rows, shown[1])
    if cells:
        parts.append("\n".join([draw(CELL_HEADER, cells), *more]))
    return parts


def ruling_lines(diff: Diff, ruled: Ruling) -> list[str]:
    """What is acknowledged, and, last, whether the diff is red: the reason is the first word."""
    lines = []
    for entry, count in ruled.acknowledged:
        link = f" ({entry.link})" if entry.link else ""
        what = f"acknowledged, {count:,} moves" if count else "acknowledges nothing here"
        lines.append(f"{what}: {entry.reason}{link}, {entry.date.isoformat()}")
    if ruled.failures:
        counts = ", ".join(f"{why} in {count:,}" for why, count in ruled.counts.items())
        lines.append(f"MOVED {counts} of {diff.compared:,} scenarios")
    else:
        lines.append(f"OK {len(diff.moves):,} of {diff.compared:,} scenarios moved")
    return lines


def terminal_text(diff: Diff, ruled: Ruling) -> str:
    """One screen."""
    parts = ["\n".join(header_lines(diff)), *tables(diff, table, draft_of, (ROWS_SHOWN, ROWS_SHOWN))]
    return "\n\n".join([*parts, "\n".join([*function_line(diff), *ruling_lines(diff, ruled)])])


def markdown_text(diff: Diff, ruled: Ruling) -> str:
    """The same, every row."""
    title, *lines = header_lines(diff)
    rows = (CELL_ROWS_SHOWN, CELL_ROWS_SHOWN)
    parts = [f"## {title[0].upper()}{title[1:]}", *lines, *tables(diff, markdown_table, str, rows)]
    return "\n\n".join([*parts, *function_line(diff), *ruling_lines(diff, ruled)]) + "\n"


def move_json(move: Move, why: str | None) -> dict[str, Any]:
    """One move."""
    return {
        "name": move.question.name or None,
        "cell": move.cell,
        "base": said_json(move.base),
        "head": said_json(move.head),
        "base_tokens": tokens_of(move.base),
        "head_tokens": tokens_of(move.head),
        "change": str(move.change),
        "base_over_bytes": move.base_over,
        "head_over_bytes": move.head_over,
        "terms": [
            {"name": term.name, "base": term.base, "head": term.head, "stage": term.stage} for term in move.terms
        ],
        "fails": why,
        "scenario": as_json(Scenario, move.question.scenario, full=False),
    }


def document(diff: Diff, ruled: Ruling) -> dict[str, Any]:
    """What `diff.json` says."""
    reasons = {id(move): why for why, move in ruled.failures}
    call = diff.function[0] if diff.function else None
    return {
        "schema": SCHEMA,
        "base": {"name": diff.base.name, "version": diff.base.version},
        "head": {"name": diff.head.name, "version": diff.head.version},
        "scenarios": {"real": diff.real, "generated": diff.generated, "drawn": diff.drawn},
        "cells": {"compared": diff.cells[0], "asked": diff.cells[1]},
        "unsupported": dict(diff.unsupported.most_common()),
        "function": call and {"name": call.name, "file": shown_path(call.file), "line": call.line},
        "fails": ruled.counts,
        "moves": [move_json(move, reasons.get(id(move))) for move in diff.moves],
    }
