"""What `make model` prints: every protocol explored, every guard shown to be needed, every fault told."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from time import process_time

from spec.laws.startup import START_UP_LAWS
from spec.startup.protocols import HISTORICAL, PRESENT, Protocol
from spec.startup.story import story
from spec.startup.verdicts import Summary, guards_needed, judged

LAW_IDS = tuple(law.id for law in START_UP_LAWS)
COLUMNS = ("protocol", "worlds", "states", "unmerged", "transitions", "CPU s", *LAW_IDS)


def timed(protocol: Protocol, most_ranks: int) -> tuple[Summary, int]:
    """A protocol in its small worlds, and the milliseconds a core took for it."""
    started = process_time()
    found = judged(protocol, most_ranks)
    return found, int(1000 * (process_time() - started))


def row(cells: Iterable[str]) -> str:
    """One line of the table: a name, figures to the right, verdicts to the left."""
    name, worlds, states, all_states, transitions, seconds, *verdicts = cells
    figures = f"{name:<38} {worlds:>6} {states:>9} {all_states:>11} {transitions:>11} {seconds:>8}"
    return (figures + "".join(f"  {verdict:<6}" for verdict in verdicts)).rstrip()


def summary_row(found: Summary, milliseconds: int) -> str:
    """One protocol's line."""
    counts = [f"{count:,}" for count in (found.worlds, found.states, found.all_states, found.transitions)]
    seconds = f"{milliseconds // 1000}.{milliseconds % 1000 // 100}"
    return row([found.protocol.name, *counts, seconds, *map(found.verdict, LAW_IDS)])


def told_law(found: Summary) -> str:
    """The law whose story is told: the bytes where they are broken, else the ends, else the first that is."""
    return next(law_id for law_id in ("S5", "S7", *LAW_IDS) if law_id in found.violations)


def guards_broken(protocols: Iterable[Protocol]) -> dict[str, list[str]]:
    """What breaks without each guard, protocol by protocol: "S2 in 3" is a law and the steps to it, "" is nothing."""
    found: dict[str, list[str]] = {}
    for protocol in protocols:
        for guard, broken in guards_needed(protocol).items():
            words = "" if broken is None else f"{broken[1].law.id} in {len(broken[1].trace)}"
            found.setdefault(guard, []).append(words)
    return found


def guard_lines(broken: dict[str, list[str]]) -> Iterator[str]:
    """One line a guard."""
    for guard, words in broken.items():
        spared = f", NOTHING in {words.count('')}" if "" in words else ""
        yield f"  {guard:<44} {', '.join(sorted(set(filter(None, words))))}{spared}"


def one_a_kind(protocols: Iterable[Protocol]) -> list[Protocol]:
    """The first protocol of each algorithm: without their phases the others are the same."""
    kinds: dict[str | None, Protocol] = {}
    for protocol in protocols:
        kinds.setdefault(protocol.algorithm, protocol)
    return list(kinds.values())


def main(most_ranks: int = 4) -> int:
    """Explore, judge, tell. 1 where a present protocol breaks a law, a historical one breaks none, or a guard can be
    taken away unnoticed; else 0."""
    print(f"start-up: every order, 1 to {most_ranks} ranks, optional steps taken or not; alike ranks merged")
    print(row(COLUMNS))
    explored = []
    with ProcessPoolExecutor() as workers:
        for found, milliseconds in workers.map(partial(timed, most_ranks=most_ranks), (*PRESENT, *HISTORICAL)):
            explored.append(found)
            print(summary_row(found, milliseconds), flush=True)
    broken = guards_broken(one_a_kind(PRESENT))
    print("\nwithout a guard, in every kind of draft, a law breaks after so many steps:")
    print("\n".join(guard_lines(broken)) + "\n")
    for found in explored:
        if found.violations:
            print(story(*found.violations[told_law(found)]) + "\n")
    return verdict(explored, [words for kinds in broken.values() for words in kinds])


def verdict(explored: list[Summary], guards: list[str]) -> int:
    """The last line, and the exit code."""
    unexpected = [found.protocol.name for found in explored if not found.is_as_expected]
    print(
        f"{len(PRESENT)} present protocols, {len(HISTORICAL)} historical: {sum(found.states for found in explored):,} "
        f"states, {sum(found.transitions for found in explored):,} transitions; "
        f"{len(guards) - guards.count('')} of {len(guards)} guards are needed; "
        + (f"NOT AS EXPECTED: {', '.join(unexpected)}" if unexpected else "every protocol as expected")
    )
    return 1 if unexpected or "" in guards else 0
