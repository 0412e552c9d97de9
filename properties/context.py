"""One run: who is judged, which verdicts are asked of it, how much is drawn, what was found."""

import shlex
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from impl import Exemption, Implementation
from properties.any_number import ANY_SCENARIOS, SHARE, is_asked
from properties.case_files import scenario_text
from properties.cells import CELLS, Cell
from properties.corpus import (
    LAST_ROUND,
    MORE_ROUNDS,
    PROFILES,
    drawn_scenarios,
    supported_corpus,
    supported_round,
)
from properties.judge import Finding, Tally, Unsupported, judge_cell, verdict
from properties.known import KnownFailures
from properties.summary import Fixed, Found, Result, Summary
from spec.laws import LAWS
from spec.laws.base import Broken, Law
from spec.model import Scenario


def exemptions_of(implementation: Implementation) -> tuple[Exemption, ...]:
    """The verdicts that nobody asks of an implementation."""
    exemptions: tuple[Exemption, ...] = getattr(implementation, "exemptions", tuple)()
    return exemptions


def exemption_of(exemptions: tuple[Exemption, ...], law: Law, cell: str) -> Exemption | None:
    """The first exemption that covers a verdict."""
    return next((entry for entry in exemptions if entry.covers(law.id, cell)), None)


def can_be_asked(implementation: Implementation, law: Law) -> bool:
    """Whether an implementation has what a law asks for: the spec is no yardstick of itself."""
    if implementation.name == "spec" and not law.judges_reference:
        return False
    return not law.needs or hasattr(implementation, law.needs)


def judged_cells(implementation: Implementation, law: Law) -> list[str]:
    """The cells in which a law is judged when everything is."""
    if not can_be_asked(implementation, law):
        return []
    exemptions = exemptions_of(implementation)
    names = [str(cell) for cell in CELLS if law.claims(str(cell))]
    return [name for name in names if exemption_of(exemptions, law, name) is None]


@dataclass
class Context:
    """One run. `laws` and `cells` are those of `--kv-law` and `--kv-cell`; `given_path` is `--kv-impl-path`; `report`
    the folder of `--kv-report`; `updates` whether the file of known failures is written again."""

    implementation: Implementation
    implementation_name: str
    given_path: str | None
    profile_name: str
    seed: int
    laws: tuple[Law, ...]
    cells: tuple[Cell, ...]
    known: KnownFailures
    report: Path | None
    updates: bool
    summary: Summary = field(default_factory=Summary)
    started: float = field(default_factory=time.monotonic)
    tests: int = 0
    finished: int = 0
    _corpus: tuple[Cell, tuple[Scenario, ...]] | None = None
    _rounds: tuple[Cell | None, dict[int, list[Scenario]]] = field(default_factory=lambda: (None, {}))

    @cached_property
    def exemptions(self) -> tuple[Exemption, ...]:
        """The verdicts this run leaves out."""
        return exemptions_of(self.implementation)

    @property
    def draws_per_cell(self) -> int:
        """Scenarios drawn for each cell."""
        return PROFILES[self.profile_name].draws_per_cell

    def corpus(self, cell: Cell) -> tuple[Scenario, ...]:
        """The cell's corpus; tests run cell by cell, so the last one is all that is kept."""
        if self._corpus is None or self._corpus[0] != cell:
            corpus = supported_corpus(cell, self.draws_per_cell, self.seed, self.supports)
            self._corpus = (cell, corpus)
        return self._corpus[1]

    def asked_of(self, law: Law, cell: Cell) -> tuple[Scenario, ...]:
        """What a law is asked in a cell: the corpus, and for laws that hold an answer against the spec's some scenarios
        of any numbers, unless the implementation leaves them out."""
        if not is_asked(law.id, self.implementation):
            return self.corpus(cell)
        draws = -(-self.draws_per_cell // SHARE)
        return tuple(dict.fromkeys((*self.corpus(cell), *drawn_scenarios(cell, draws, self.seed, ANY_SCENARIOS))))

    def round(self, cell: Cell, again: int) -> list[Scenario]:
        """What is drawn beyond the cell's corpus, kept for the next law."""
        if self._rounds[0] != cell:
            self._rounds = (cell, {})
        rounds = self._rounds[1]
        if again not in rounds:
            drawn = supported_round(cell, self.draws_per_cell, self.seed, self.supports, again)
            rounds[again] = [scenario for scenario in drawn if scenario not in self.corpus(cell)]
        return rounds[again]

    def supports(self, scenario: Scenario) -> bool:
        """Whether the implementation says that it can judge a scenario. What it raises instead is a law's finding."""
        try:
            return self.implementation.supports(scenario) is None
        except Exception:
            return True

    def asked_cells(self, law: Law) -> list[Cell]:
        """The cells in which this run asks for a law, exempt ones too."""
        if law not in self.laws or not can_be_asked(self.implementation, law):
            return []
        return [cell for cell in self.cells if law.claims(str(cell))]

    def chosen_cells(self, law: Law) -> list[Cell]:
        """The cells in which this run judges a law."""
        return [cell for cell in self.asked_cells(law) if exemption_of(self.exemptions, law, str(cell)) is None]

    def exempt(self) -> list[tuple[Law, Cell, Exemption]]:
        """The verdicts that this run asks for and leaves out."""
        asked = [(law, cell) for law in LAWS for cell in self.asked_cells(law)]
        found = [(law, cell, exemption_of(self.exemptions, law, str(cell))) for law, cell in asked]
        return [(law, cell, exemption) for law, cell, exemption in found if exemption is not None]

    def stale_exemptions(self) -> list[str]:
        """The exemptions that leave out no verdict at all, of those that any run asks for."""
        return [
            f"the exemption of {entry.laws} in {entry.cells} leaves nothing out: {entry.reason}"
            for entry in self.exemptions
            if not any(law.claims(cell) and entry.covers(law.id, cell) for law in LAWS for cell in map(str, CELLS))
        ]

    def exempt_lines(self) -> list[str]:
        """How many verdicts the run leaves out, and why."""
        counts: Counter[str] = Counter()
        laws: dict[str, dict[str, None]] = {}
        for law, _, exemption in self.exempt():
            counts[exemption.reason] += 1
            laws.setdefault(exemption.reason, {})[law.id] = None
        return [
            f"exempt, {count:,} {'verdict' if count == 1 else 'verdicts'} of {', '.join(laws[reason])}: {reason}"
            for reason, count in counts.items()
        ]

    def judge(self, law: Law, cell: Cell) -> Result:
        """The law's result in one cell: its pinned cases first, then the corpus."""
        pinned, fixed = self.judge_pinned(law, cell)
        tally, drawn = judge_cell(law, cell, self.implementation, self.asked_of(law, cell))
        if not (tally.judged or drawn) and 0 < tally.unsupported.total() < tally.scenarios:
            tally, drawn = self.judge_more(law, cell, tally)
        findings: dict[str, Finding] = {}
        for finding in (*pinned, *drawn):
            findings.setdefault(finding.broken.term, finding)
        return Result(
            law=law.id,
            cell=str(cell),
            scenarios=tally.scenarios,
            judged=tally.judged,
            refused=tally.refused,
            unsupported=dict(tally.unsupported),
            found=tuple(self.found(finding) for finding in findings.values()),
            fixed=tuple(fixed),
            nothing="" if tally.judged or findings else nothing_judged_text(law, cell, tally),
        )

    def judge_more(self, law: Law, cell: Cell, tally: Tally) -> tuple[Tally, tuple[Finding, ...]]:
        """Goes on, where the implementation supports too little of a cell, until the law has judged something."""
        drawn: tuple[Finding, ...] = ()
        for again in range(MORE_ROUNDS + 1, LAST_ROUND + 1):
            if tally.judged or drawn:
                break
            counts, drawn = judge_cell(law, cell, self.implementation, self.round(cell, again))
            tally = tally + counts
        return tally, drawn

    def judge_pinned(self, law: Law, cell: Cell) -> tuple[list[Finding], list[Fixed]]:
        """What the known failures with a case in this cell still show, and the entries that do not fail as they say."""
        findings, fixed = [], []
        for entry in self.known.pinned(law.id, str(cell)):
            try:
                outcome, _ = verdict(law, self.implementation, entry.scenario)
                said = f"is off in {outcome.term}" if isinstance(outcome, Broken) else outcome.value
            except Unsupported as reason:
                outcome, said = None, f"cannot be judged: {reason}"
            if isinstance(outcome, Broken):
                findings.append(Finding(law, cell, entry.scenario, outcome))
            if not isinstance(outcome, Broken) or outcome.term != entry.term:
                fixed.append(Fixed(self.known.entries.index(entry), entry.fault, entry.term, said))
        return findings, fixed

    def found(self, finding: Finding) -> Found:
        """What a test reports of a finding, and the known fault that explains it."""
        broken = finding.broken
        known = self.known.expecting(finding.law.id, str(finding.cell), broken.term)
        return Found(
            term=broken.term,
            expected=plain(broken.expected),
            got=plain(broken.got),
            where=broken.where,
            case=scenario_text(finding.scenario),
            fault=known.fault if known is not None else "",
        )

    def command(self, *options: str) -> str:
        """A command that judges the same implementation."""
        where = ("--kv-impl-path", self.given_path) if self.given_path is not None else ()
        return shlex.join(("pytest", "properties", "--kv-impl", self.implementation_name, *where, *options))

    def again(self, law_id: str, cell: str) -> str:
        """The command that finds a finding again."""
        selection = ("--kv-profile", self.profile_name, "--kv-law", law_id, "--kv-cell", cell)
        return self.command(*selection, f"--hypothesis-seed={self.seed}")

    def header(self) -> list[str]:
        """Who is judged, from where, by how much; what is expected to fail."""
        path = getattr(self.implementation, "path", None)
        where = type(self.implementation).__module__ + (f", {path}" if path else "")
        lines = [
            f"kv: implementation {self.implementation.name} {self.implementation.version} "
            f"({where}), profile {self.profile_name} ({self.draws_per_cell} draws a cell), seed {self.seed}"
        ]
        if self.known.path is not None:
            lines.append(f"kv: known failures {self.known.path}, {len(self.known.entries)} entries")
        return lines

    def identity(self) -> dict[str, str | None]:
        """Who is judged, for files."""
        path = getattr(self.implementation, "path", None)
        return {
            "name": self.implementation.name,
            "version": self.implementation.version,
            "path": None if path is None else str(path),
        }


def plain(value: object) -> int | str:
    """A figure as it can be sent and written: a whole number, or text."""
    return value if type(value) is int else str(value)


def nothing_judged_text(law: Law, cell: Cell, tally: Tally) -> str:
    """Why a law that claims a cell gave no verdict there, which is a fault of the run."""
    return (
        f"{law.id} claims {cell} and judged none of {tally.scenarios} scenarios: {tally.refused} refused, "
        f"{tally.unsupported.total()} not supported by the implementation"
        + ("; what it cannot be asked is left out with --kv-cell, or in its exemptions()" * bool(tally.unsupported))
    )
