"""What a run has judged, added up from the reports of its tests, wherever they ran."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from properties.cell_names import POSITION, cells_text
from properties.cells import CELLS
from properties.known import NOTHING_JUDGED, Known, KnownFailures
from properties.show import table
from spec.laws import LAWS
from spec.layers import POOL_KINDS

PROPERTY = "kv"
"""The name under which a test reports its result in `user_properties`, so that workers' figures add up."""

HOLDS, KNOWN, BROKEN, UNSUPPORTED = "holds", "known", "broken", "unsupported"
"""Verdicts of one law in one cell. The last two make a run red: what is not supported there takes an exemption."""


@dataclass(frozen=True)
class Found:
    """A term that is off in one cell: the first scenario that shows it, as a line of JSON. `fault` is the known fault
    that explains it, "" where none does."""

    term: str
    expected: int | str
    got: int | str
    where: str
    case: str
    fault: str


@dataclass(frozen=True)
class Fixed:
    """An entry of the known failures, by its place in the file, whose case is no longer broken in its term."""

    entry: int
    fault: str
    term: str
    said: str


@dataclass(frozen=True)
class Result:
    """What one test says: one law in one cell. `nothing` says why nothing was judged, "" where something was."""

    law: str
    cell: str
    scenarios: int
    judged: int
    refused: int
    unsupported: dict[str, int]
    found: tuple[Found, ...]
    fixed: tuple[Fixed, ...]
    nothing: str

    @property
    def pool(self) -> str:
        """The pool kind of the cell."""
        return self.cell.split("-")[0]

    @property
    def unexpected(self) -> list[str]:
        """The terms that are off and that no known fault explains."""
        return [found.term for found in self.found if not found.fault] + ([NOTHING_JUDGED] if self.nothing else [])

    @property
    def terms(self) -> list[str]:
        """Every term that is off."""
        return [found.term for found in self.found] + ([NOTHING_JUDGED] if self.nothing else [])

    @property
    def verdict(self) -> str:
        """Of the law in the cell. An entry of the known failures that no longer fails is broken too."""
        if self.nothing and sum(self.unsupported.values()) == self.scenarios:
            return UNSUPPORTED
        if self.unexpected or self.fixed:
            return BROKEN
        return KNOWN if self.found else HOLDS

    def as_property(self) -> dict[str, Any]:
        """Plain values, to be sent from a worker."""
        return asdict(self)


def result_of(plain: dict[str, Any]) -> Result:
    """The result that was sent."""
    found = tuple(Found(**one) for one in plain["found"])
    return Result(**{**plain, "found": found, "fixed": tuple(Fixed(**one) for one in plain["fixed"])})


@dataclass
class Summary:
    """Figures of one run. Every counter is keyed by (law id, pool kind)."""

    results: dict[tuple[str, str], Result] = field(default_factory=dict)
    """By law id and cell."""
    judged: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    broken: Counter[tuple[str, str]] = field(default_factory=Counter)
    known: Counter[tuple[str, str]] = field(default_factory=Counter)
    unsupported: Counter[str] = field(default_factory=Counter)
    """Judgements left out, by the implementation's reason."""
    scenarios: dict[str, int] = field(default_factory=dict)

    def add(self, result: Result) -> None:
        """One test's result."""
        key = (result.law, result.pool)
        self.results[result.law, result.cell] = result
        self.judged[key] += result.judged
        self.refused[key] += result.refused
        self.broken[key] += result.verdict in (BROKEN, UNSUPPORTED)
        self.known[key] += result.verdict == KNOWN
        self.scenarios[result.cell] = max(result.scenarios, self.scenarios.get(result.cell, 0))
        self.unsupported.update(result.unsupported)

    def in_order(self) -> list[Result]:
        """The results, cell by cell, whichever worker was first."""
        laws = [law.id for law in LAWS]
        return sorted(self.results.values(), key=lambda result: (POSITION[result.cell], laws.index(result.law)))

    def unexpected(self) -> dict[tuple[str, str, str], list[Result]]:
        """The results that are off in each (law, pool kind, term) which no known fault explains."""
        faults: dict[tuple[str, str, str], list[Result]] = {}
        for result in self.in_order():
            for term in result.unexpected:
                faults.setdefault((result.law, result.pool, term), []).append(result)
        return dict(sorted(faults.items()))

    def met(self, entry: Known) -> tuple[list[str], list[str]]:
        """The cells of a known failure that this run judged: where it was met, and where it was not."""
        judged = [
            self.results[entry.law, cell]
            for cell in POSITION
            if cell in entry.cells and (entry.law, cell) in self.results
        ]
        met = [result.cell for result in judged if entry.term in result.terms]
        return met, [result.cell for result in judged if result.cell not in met]

    def cell_text(self, law_id: str, pool: str) -> str:
        """One field of the table: judgements and refusals, and in how many cells the law is broken."""
        key = (law_id, pool)
        if key not in self.judged:
            return "n/a"
        broken = f"BROKEN in {self.broken[key]} " if self.broken[key] else ""
        known = f"known in {self.known[key]} " if self.known[key] else ""
        return f"{broken}{known}{self.judged[key]:,} / {self.refused[key]:,}"

    def law_table(self) -> str:
        """Law by pool kind: judgements / refusals, and how many cells are broken."""
        header = ["law (judged / refused)", *POOL_KINDS]
        rows = [
            [f"{law.id} {law.name}", *(self.cell_text(law.id, pool) for pool in POOL_KINDS)]
            for law in LAWS
            if any((law.id, pool) in self.judged for pool in POOL_KINDS)
        ]
        return table(header, rows)

    def unsupported_lines(self) -> list[str]:
        """What the implementation does not support, the most frequent reason first."""
        return [f"not supported, {count:,} judgements: {reason}" for reason, count in self.unsupported.most_common()]

    def known_lines(self, known: KnownFailures) -> list[str]:
        """What each known fault breaks in this run, and where it was expected and not met."""
        lines = []
        for name, fault in known.faults:
            entries = [entry for entry in known.entries if entry.fault == name]
            met = {(entry.law, cell) for entry in entries for cell in self.met(entry)[0]}
            missed = {(entry.law, cell) for entry in entries for cell in self.met(entry)[1]} - met
            if not met | missed:
                continue
            laws = ", ".join(law.id for law in LAWS if any(law.id == law_id for law_id, _ in met | missed))
            count = len(met | missed)
            of = f"{len(met):,} of {count:,} {'verdict' if count == 1 else 'verdicts'} of {laws}"
            lines.append(f"known {name}, {of}: {fault.reason}{f' ({fault.link})' if fault.link else ''}")
            for law in LAWS:
                cells = [cell for law_id, cell in missed if law_id == law.id]
                if cells:
                    lines.append(f"  not met here: {law.id} in {cells_text(cells)}")
        return lines

    def figures(self) -> str:
        """The line CI looks for."""
        return (
            f"{self.judged.total():,} judgements on {sum(self.scenarios.values()):,} distinct scenarios in "
            f"{len(self.scenarios)} of {len(CELLS)} cells"
        )
