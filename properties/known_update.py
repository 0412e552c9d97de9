"""The file of known failures written again from a run (`--kv-known-update`).

An entry whose case is still broken stays as it is, word for word, and so does one that the run did not judge. One whose
case holds is pinned again to what is still off in its cells, or leaves. What no entry expects becomes an entry of the
fault `unexplained`.
"""

import json
import textwrap
from collections.abc import Callable
from dataclasses import replace
from datetime import date

from properties.case_files import scenario_text
from properties.cell_names import POSITION, cell_patterns
from properties.known import Fault, Known, KnownFailures
from properties.smallest import Shown, Term
from properties.summary import Result, Summary
from spec.laws import BY_ID

UNEXPLAINED = "unexplained"
"""The fault of new entries, until somebody says which it is."""
REASON = "to be explained"
COLUMNS = 118
HEAD = """\
# Failures that are expected, and why; properties/known.py says what each key means. Written by --kv-known-update, which
# keeps reasons and entries but no comments. To split an entry into two faults, narrow its cells and update again: what
# it leaves becomes an entry of its own.
"""

Pin = Callable[[Result, str], Shown]
"""The smallest case of a term that is off in a cell."""


def updated(
    known: KnownFailures, summary: Summary, smallest: dict[Term, Shown], pin: Pin, today: date
) -> KnownFailures:
    """What the file says after this run."""
    fixed = {fixed.entry for result in summary.results.values() for fixed in result.fixed}
    kept = tuple(entry for number, entry in enumerate(known.entries) if number not in fixed)
    pinned = [pinned_again(known.entries[number], kept, summary, pin) for number in sorted(fixed)]
    new = [
        new_entry(term, results, smallest[term]) for term, results in summary.unexpected().items() if term in smallest
    ]
    faults = dict(known.faults)
    if new:
        faults.setdefault(UNEXPLAINED, Fault(REASON, "", today))
    entries = (*kept, *(entry for entry in pinned if entry is not None), *new)
    used, shared = {entry.fault for entry in entries}, dict(known.faults).keys() - known.own
    listed = tuple((name, fault) for name, fault in faults.items() if name in used | shared)
    return in_order(replace(known, faults=listed, own=frozenset(dict(listed)) - shared, entries=entries))


def new_entry(term: Term, results: list[Result], case: Shown) -> Known:
    """An entry for what nobody expected."""
    law_id, _, off = term
    return entry_for(UNEXPLAINED, law_id, off, frozenset(result.cell for result in results), case)


def entry_for(fault: str, law_id: str, term: str, cells: frozenset[str], case: Shown) -> Known:
    """An entry with these cells, written as patterns."""
    finding = case.finding
    return Known(fault, law_id, term, cell_patterns(cells), cells, str(finding.cell), finding.scenario)


def pinned_again(entry: Known, kept: tuple[Known, ...], summary: Summary, pin: Pin) -> Known | None:
    """An entry whose case holds, with a case that does not, where its term is still off in a cell that no other entry
    explains; None where it is off nowhere."""
    explained = {cell for other in kept if (other.law, other.term) == (entry.law, entry.term) for cell in other.cells}
    results = [result for result in summary.in_order() if result.law == entry.law and result.cell in entry.cells]
    off = [result for result in results if entry.term in result.terms and result.cell not in explained]
    if not off:
        return None
    cells = entry.cells - {result.cell for result in results} | {result.cell for result in off}
    return entry_for(entry.fault, entry.law, entry.term, frozenset(cells), pin(off[0], entry.term))


def in_order(known: KnownFailures) -> KnownFailures:
    """Entries by fault, law, first cell and term."""
    faults, laws = [name for name, _ in known.faults], list(BY_ID)

    def key(entry: Known) -> tuple[int, int, int, str]:
        first = min(POSITION[cell] for cell in entry.cells)
        return faults.index(entry.fault), laws.index(entry.law), first, entry.term

    return replace(known, entries=tuple(sorted(known.entries, key=key)))


def quoted(text: str) -> str:
    """A TOML string."""
    return json.dumps(text, ensure_ascii=False)


def lines_of(text: str) -> str:
    """A long text in lines."""
    return "\n".join(textwrap.wrap(text, COLUMNS, break_long_words=False, break_on_hyphens=False))


def list_text(patterns: tuple[str, ...]) -> str:
    """A TOML list, one pattern a line where there are several."""
    if len(patterns) == 1:
        return f"[{quoted(patterns[0])}]"
    return "[\n" + "".join(f"    {quoted(pattern)},\n" for pattern in patterns) + "]"


def fault_text(name: str, fault: Fault) -> str:
    """One `[fault.ID]` table. Lines and spaces of a reason are read as one space."""
    long = len(fault.reason) > COLUMNS - len("reason = ''")
    reason = f'"""\n{lines_of(quoted(fault.reason)[1:-1])}"""' if long else quoted(fault.reason)
    link = f"link = {quoted(fault.link)}\n" if fault.link else ""
    until = f"until = {fault.until.isoformat()}\n" if fault.until else ""
    return f"[fault.{name}]\nreason = {reason}\n{link}date = {fault.date.isoformat()}\n{until}"


def entry_text(entry: Known) -> str:
    """One `[[known]]` table. No name in a scenario holds a space or a quote, so its JSON can be broken anywhere."""
    return (
        f"[[known]]\nfault = {quoted(entry.fault)}\nlaw = {quoted(entry.law)}\nterm = {quoted(entry.term)}\n"
        f"cells = {list_text(entry.patterns)}\ncase = '''\n{lines_of(scenario_text(entry.scenario))}'''\n"
    )


def file_text(known: KnownFailures) -> str:
    """The whole file."""
    shared = [f"faults = {quoted(known.shared)}\n"] if known.shared else []
    faults = [fault_text(name, fault) for name, fault in known.faults if name in known.own]
    return "\n".join([HEAD, *shared, *faults, *map(entry_text, known.entries)])


def write_again(known: KnownFailures, after: KnownFailures) -> str:
    """Write the file where it says something new; what was done, in a sentence."""
    assert after.path is not None
    before, now = set(known.entries), set(after.entries)
    if before == now:
        return f"{after.path} stays as it is, {len(now)} entries"
    after.path.write_text(file_text(after), encoding="utf-8")
    return f"{after.path} written, {len(now)} entries: {len(now - before)} new, {len(before - now)} gone"
