"""`explain law B1`: a law with its reason, the bugs it stops, and the smallest case in which each shows."""

import json
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import Any

from spec.explain.law_notes import WHY
from spec.laws import BY_ID
from spec.laws.base import Law
from spec.laws.startup import START_UP_BY_ID
from spec.model import refuse
from spec.startup.explorer import StartUpLaw
from spec.startup.protocols import HISTORICAL
from spec.startup.story import story
from spec.startup.verdicts import judged

GALLERY = Path(__file__).with_name("gallery.json")
"""What each law finds in the fault gallery (`impl/faults/`). Written by `python -m tests.gallery`."""

SHOWN = 3
"""Counterexamples that are shown; the other bugs are named."""
COLUMNS = 40
"""Characters of the longest bar."""
WIDTH = 116
"""Characters of a line."""


def gallery(law_id: str) -> list[dict[str, Any]]:
    """The faults a law must see, smallest counterexample first."""
    entries: list[dict[str, Any]] = json.loads(GALLERY.read_text(encoding="utf-8"))
    return [entry for entry in entries if entry["law"] == law_id]


def paragraph(text: str, indent: str = "  ") -> list[str]:
    """A text in lines."""
    return wrap(" ".join(text.split()), WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def bars(counts: list[int]) -> Iterator[str]:
    """Bytes of one rank: available, as the spec sells, as the fault sells."""
    longest = max([*counts, 1])
    for name, count in zip(("available", "right", "with the bug"), counts, strict=bool(counts)):
        drawn = "#" * (count * COLUMNS // longest)
        yield f"    {name:<12} {count:>15,} bytes  {drawn}".rstrip()


def counterexample(entry: dict[str, Any]) -> Iterator[str]:
    """One fault, its numbers, its bars and the scenario to paste."""
    yield f"  {entry['fault']}"
    yield from paragraph(f"{entry['what']} {entry['story']}", "    ")
    where = f" ({entry['where']})" if entry["where"] else ""
    yield from paragraph(f"{entry['broken']}{where}", "    ")
    yield from bars(entry["bytes"])
    yield from paragraph(entry["scenario"], "    ")
    yield from paragraph(f"right: {entry['right']}", "    ")
    yield from paragraph(f"with the bug: {entry['wrong']}", "    ")
    yield ""


def heading(law: Law | StartUpLaw) -> list[str]:
    """Id, name, sentence, reason."""
    return [f"{law.id} {law.name}", *paragraph(law.sentence), "", "Why", *paragraph(WHY[law.id]), ""]


def judged_by(predicate: object, where: str) -> Iterator[str]:
    """The predicate, and what it says of itself."""
    module, name = getattr(predicate, "__module__", ""), getattr(predicate, "__name__", "")
    yield f"How it is judged: {module}.{name}, in {where}"
    yield from paragraph(getattr(predicate, "__doc__", None) or "")
    yield ""


def cell_law(law: Law) -> Iterator[str]:
    """A law of sizes."""
    entries = gallery(law.id)
    yield from heading(law)
    yield from judged_by(law.predicate, f"cells {' '.join(law.cells)}")
    if not entries:
        yield "No bug of the gallery has to be seen by this law; tests/kill_matrix.md says which it sees all the same."
        return
    yield f"Bugs it must stop: {len(entries)}; the smallest cases in which they show"
    shown = [entry for entry in entries[:SHOWN] if "scenario" in entry]
    for entry in shown:
        yield from counterexample(entry)
    for entry in entries[len(shown) :]:
        yield from paragraph(f"{entry['fault']}: {entry['what']}")
    yield ""
    yield f"To see it break: pytest properties --kv-impl impl.faults:{entries[0]['fault']} --kv-law {law.id}"


def start_up_law(law: StartUpLaw) -> Iterator[str]:
    """A law of the start-up: the historical protocols that break it, each with its shortest trace."""
    yield from heading(law)
    yield from judged_by(law.of_rank or law.of_end, "every state")
    broken = [found for protocol in HISTORICAL if (found := judged(protocol, 2).violations.get(law.id))]
    if not broken:
        yield "No protocol that was in use breaks it; `make model` shows which guard keeps it."
    for system, violation in broken:
        yield story(system, violation)
        yield ""


def told(law_id: str) -> str:
    """Everything about a law. Refuses an unknown id."""
    if law_id in BY_ID:
        lines = cell_law(BY_ID[law_id])
    elif law_id in START_UP_BY_ID:
        lines = start_up_law(START_UP_BY_ID[law_id])
    else:
        known = " ".join([*BY_ID, *START_UP_BY_ID])
        raise refuse("invalid_input", "law", law_id, f"laws are {known}")
    return "\n".join(lines).rstrip()
