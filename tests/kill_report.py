"""What `tests/kill_matrix.py` measured, as `tests/kill_matrix.md`, and what is wrong with it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from impl.faults import FAULTS
from impl.faults.base import Fault
from spec.laws import LAWS

FILE = Path(__file__).with_name("kill_matrix.md")

MOST_LAYERS = 2
MOST_BYTES = 10 * 1024
"""What a counterexample may have: layers of one kind, and bytes on a stage. Its pages are of one token."""

PAGES_ARE_THE_POINT = (
    "CapNotAligned",
    "CapRoundedUp",
    "PageRoundedUp",
    "SwaRowsOfACapNotAligned",
    "WindowPoolBelowTheFloor",
)
LAYERS_ARE_THE_POINT = (
    "FloatTruncation",  # a ratio of layers whose float is short
    "LeastBytesLargestCell",  # a stage of one layer, and one of two
    "WindowLayersOneTooFar",  # an SWA layer where the next stage begins
)
BYTES_ARE_THE_POINT = (
    "AdviceTheWrongWay",  # readings of whole GiB
    "FloatTruncation",  # a byte a token, which shows after as many tokens as one has bytes
)
"""Faults whose counterexamples may be larger."""


@dataclass(frozen=True)
class Hunt:
    """One fault hunted by one law at one seed: scenarios and seconds until it was found, or all there were."""

    fault: str
    law: str
    seed: int
    scenarios: int
    seconds: float
    found: bool


@dataclass(frozen=True)
class Shrunk:
    """The counterexample one law ends in at one seed: most layers of one kind, page size, most bytes on a stage, the
    scenario as a call to paste."""

    fault: str
    law: str
    seed: int
    layers: int
    page_size: int
    stage_bytes: int
    text: str


def row(cells: Iterable[object]) -> str:
    """One row of a markdown table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A markdown table."""
    return "\n".join([row(header), row("---" for _ in header), *map(row, rows)])


def first_finds(hunts: Sequence[Hunt], fault: type[Fault]) -> list[Hunt]:
    """At each seed the hunt that found the fault on the fewest scenarios; law Q1 does not count."""
    found = [hunt for hunt in hunts if hunt.fault == fault.__name__ and hunt.found and hunt.law != "Q1"]
    seeds = sorted({hunt.seed for hunt in found})
    return [min((hunt for hunt in found if hunt.seed == seed), key=lambda hunt: hunt.scenarios) for seed in seeds]


def survivors(hunts: Sequence[Hunt], seeds: Sequence[int]) -> Iterator[str]:
    """Faults that some seed does not see without law Q1, and laws that do not see what they must at the first seed."""
    for fault in FAULTS:
        missed = set(seeds) - {hunt.seed for hunt in first_finds(hunts, fault)}
        if missed:
            yield f"{fault.__name__} survives at seed {', '.join(map(str, sorted(missed)))}"
        for hunt in hunts:
            is_named = hunt.fault == fault.__name__ and hunt.law in fault.caught_by and hunt.seed == seeds[0]
            if is_named and not hunt.found:
                yield f"{fault.__name__} is not seen by {hunt.law} on {hunt.scenarios} scenarios"


def too_large(shrunk: Iterable[Shrunk]) -> Iterator[str]:
    """Counterexamples that are not small, though size is not their point."""
    for case in shrunk:
        if case.layers > MOST_LAYERS and case.fault not in LAYERS_ARE_THE_POINT:
            yield f"{case.fault} has {case.layers} layers of a kind at seed {case.seed}: {case.text}"
        if case.page_size > 1 and case.fault not in PAGES_ARE_THE_POINT:
            yield f"{case.fault} has pages of {case.page_size} at seed {case.seed}: {case.text}"
        if case.stage_bytes >= MOST_BYTES and case.fault not in BYTES_ARE_THE_POINT:
            yield f"{case.fault} has {case.stage_bytes} bytes at seed {case.seed}: {case.text}"


def head_of(fault: type[Fault]) -> list[str]:
    """How the row of a fault begins: its name, and the laws that must see it."""
    return [fault.__name__, " ".join(fault.caught_by)]


def speed_row(hunts: Sequence[Hunt], fault: type[Fault]) -> list[object]:
    """Scenarios and milliseconds until the first law finds the fault, median and worst of the seeds."""
    finds = first_finds(hunts, fault)
    scenarios, seconds = [hunt.scenarios for hunt in finds], [1000 * hunt.seconds for hunt in finds]
    figures = [round(median(scenarios)), max(scenarios), f"{median(seconds):.1f}", f"{max(seconds):.1f}"]
    return [*head_of(fault), len(finds), *figures]


def law_cell(hunts: Sequence[Hunt], fault: type[Fault], law_id: str) -> str:
    """The median of scenarios until one law finds one fault, and at how many seeds where not at all."""
    asked = [hunt for hunt in hunts if hunt.fault == fault.__name__ and hunt.law == law_id]
    found = [hunt.scenarios for hunt in asked if hunt.found]
    if not asked:
        return ""
    if not found:
        return "-"
    text = str(round(median(found))) + (f" ({len(found)})" if len(found) < len(asked) else "")
    return f"**{text}**" if law_id in fault.caught_by else text


def size_row(shrunk: Sequence[Shrunk], fault: type[Fault]) -> list[object]:
    """The largest counterexample in each measure, and the one of the first seed."""
    cases = [case for case in shrunk if case.fault == fault.__name__]
    largest = [
        max(case.layers for case in cases),
        max(case.page_size for case in cases),
        max(case.stage_bytes for case in cases),
    ]
    return [fault.__name__, cases[0].law, *largest, f"`{cases[0].text}`"]


TEXT = """\
# Kill matrix

Written by `make faults`: {faults} known-bad implementations of `impl/faults/`, hunted by every law in the gate profile
at seeds 0 to {last}. Scenarios are those of the cells a fault acts in (of a law it names, the cells named with it), in
the order of the gate, until one breaks the law; milliseconds are those of judging them, on a busy machine.

## How soon a fault is found

By the first law to find it, law Q1 aside: at how many seeds, scenarios, milliseconds.

{speed}

## Every fault against every law

The median of scenarios until it is found, in brackets at how many of the seeds where not at all. Bold: the law must see
it. `-`: not found at seed 0, where other laws are given up after {give_up} scenarios; other seeds were not asked.
Empty: the law claims none of its cells.

{laws}

## Counterexamples

Of the first law named, shrunk: the most layers of one kind, page size and bytes on a stage of all seeds, and the
scenario of seed 0.

{sizes}
"""


def report(hunts: Sequence[Hunt], shrunk: Sequence[Shrunk], seeds: Sequence[int], give_up: int) -> str:
    """The text of `tests/kill_matrix.md`."""
    laws = [law.id for law in LAWS]
    return TEXT.format(
        faults=len(FAULTS),
        last=seeds[-1],
        give_up=give_up,
        speed=table(
            ("fault", "must be seen by", "seeds", "scenarios", "worst", "ms", "worst"),
            (speed_row(hunts, fault) for fault in FAULTS),
        ),
        laws=table(
            ("fault", *laws),
            ([fault.__name__, *(law_cell(hunts, fault, law_id) for law_id in laws)] for fault in FAULTS),
        ),
        sizes=table(
            ("fault", "law", "layers", "page", "bytes", "scenario"), (size_row(shrunk, fault) for fault in FAULTS)
        ),
    )


def out_of_date(text: str) -> Iterator[str]:
    """Rows of the file that do not begin as the faults and the laws they name say."""
    missing = [fault.__name__ for fault in FAULTS if f"\n{row(head_of(fault))[:-1]}" not in text]
    if missing:
        yield f"{FILE.name} lacks, or names other laws for, {', '.join(missing)}: run make faults"
    if f"{len(FAULTS)} known-bad" not in text:
        yield f"{FILE.name} is of another number of faults: run make faults"
