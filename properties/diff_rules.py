"""Which moves make a diff red: `--fail`, `--tolerance`, and the losses that somebody has acknowledged.

    [[acknowledged]]
    cells = ["default-dflash_own-*"]
    loss = "12%"                        # the most that a scenario there may lose; "100%": it may refuse to start
    reason = "the draft's own geometry is priced"
    link = "https://..."                # optional
    date = 2026-11-30

A fix often sells fewer tokens: a loss is acknowledged, and still printed. What is newly or further over budget, or
newly raises what is no refusal, cannot be.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from pathlib import Path

from properties.cell_names import WrongPattern, cells_of
from properties.known import WrongKnownFile, taken, toml
from properties.moves import Move

LOSS, ANY, NEVER = "loss", "any", "never"
FAILS = {
    LOSS: "tokens are lost, or no longer sold at all, beyond the tolerance",
    ANY: "anything moves beyond the tolerance",
    NEVER: "nobody looks: the diff is for reading",
}
"""What each `--fail` makes red; loss and any also what is newly or further over budget, or newly raises."""

OVER, FURTHER, RAISED = "newly over budget", "further over budget", "newly raised"
REFUSED, LOST, MOVED = "newly refused", "loss", "moved"
"""Why a move fails, the worst first."""
PERCENT = re.compile(r"\d+(\.\d+)?%")


@dataclass(frozen=True)
class Acknowledged:
    """A loss that somebody has seen and accepted, in some cells, up to a share of the tokens."""

    cells: frozenset[str]
    loss: Fraction
    reason: str
    link: str
    date: date

    def covers(self, move: Move) -> bool:
        """Whether a loss is one of these."""
        return move.cell in self.cells and -move.change <= self.loss


def share(text: str) -> Fraction:
    """`0.5%` as a fraction. Raises ValueError."""
    if not PERCENT.fullmatch(text):
        raise ValueError(f"{text!r} is no share such as 0.5%")
    return Fraction(text[:-1]) / 100


def read_acknowledged(path: Path) -> tuple[Acknowledged, ...]:
    """The entries of a file. Raises WrongKnownFile for what cannot be read."""
    data = toml(path)
    entries = data.pop("acknowledged", [])
    if data or not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise WrongKnownFile(f"{path}: tables [[acknowledged]] alone expected, {', '.join(data) or entries!r} given")
    kinds = {"cells": list, "loss": str, "reason": str, "link": str, "date": date}
    found = []
    for number, entry in enumerate(entries, 1):
        where = f"{path}: acknowledged {number}"
        given = taken(entry, where, kinds, optional=("link",))
        try:
            cells, loss = cells_of(given["cells"]), share(given["loss"])
        except (WrongPattern, TypeError, ValueError) as error:
            raise WrongKnownFile(f"{where}: {error}") from error
        found.append(Acknowledged(cells, loss, given["reason"], given.get("link", ""), given["date"]))
    return tuple(found)


def why_it_fails(move: Move, fail: str, tolerance: Fraction) -> str | None:
    """The worst reason for which a move makes the diff red, acknowledgements aside; None where it does not."""
    if fail == NEVER:
        return None
    if move.newly_over:
        return OVER
    if move.further_over:
        return FURTHER
    if move.newly_raised:
        return RAISED
    if move.newly_refused:
        return REFUSED
    if -move.change > tolerance:
        return LOST
    is_small = move.change != 0 and abs(move.change) <= tolerance
    return MOVED if fail == ANY and not is_small else None


@dataclass(frozen=True)
class Ruling:
    """What is red, by reason, and how often each acknowledgement covered a move."""

    failures: tuple[tuple[str, Move], ...]
    acknowledged: tuple[tuple[Acknowledged, int], ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many moves fail for each reason, the worst reason first."""
        found = Counter(why for why, _ in self.failures)
        return {why: found[why] for why in (OVER, FURTHER, RAISED, REFUSED, LOST, MOVED) if found[why]}


def ruling(moves: Iterable[Move], fail: str, tolerance: Fraction, acknowledged: Sequence[Acknowledged] = ()) -> Ruling:
    """Rules on every move; the first entry that covers a loss takes it."""
    failures: list[tuple[str, Move]] = []
    used = Counter[int]()
    for move in moves:
        why = why_it_fails(move, fail, tolerance)
        if why is None:
            continue
        covering = None
        if why not in (OVER, FURTHER, RAISED):
            covering = next((number for number, entry in enumerate(acknowledged) if entry.covers(move)), None)
        if covering is None:
            failures.append((why, move))
        else:
            used[covering] += 1
    return Ruling(tuple(failures), tuple((entry, used[number]) for number, entry in enumerate(acknowledged)))
