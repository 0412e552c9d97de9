"""A trace as a story: each step of each rank, the bytes it moved, the bytes left, and where which law broke."""

import math
from collections.abc import Iterator

from spec.laws.base import Broken
from spec.laws.startup import START_UP_LAWS
from spec.startup.explorer import Trace, Violation, replayed
from spec.startup.system import RankState, State, Step, System, free_bytes
from spec.startup.world import static_share
from spec.units import GiB


def gib_text(count: int) -> str:
    """Bytes as `1.50 GiB`, to the nearest hundredth."""
    hundredths = (100 * count + GiB // 2) // GiB
    return f"{hundredths // 100}.{hundredths % 100:02d} GiB"


def told(system: System, before: RankState, after: RankState, step: Step) -> str:
    """What a step found out, where it moves no bytes."""
    if step.verb == "measure":
        return f"reads {gib_text(after.measured or 0)}"
    if step.verb == "size" and after.sizes is not None:
        return f"{after.sizes.max_total_num_tokens:,} tokens for {after.sizes.max_running_requests:,} requests"
    if step.verb == "report" and after.sizes is not None:
        return f"requests of up to {after.sizes.max_req_len:,} tokens"
    return ""


def broken_at(system: System, state: State, known: set[str]) -> Iterator[tuple[str, Broken]]:
    """The laws of a rank that a state breaks and none before it did."""
    for law in START_UP_LAWS:
        for rank, held in enumerate(state):
            verdict = law.of_rank(system, rank, held) if law.of_rank is not None else None
            if isinstance(verdict, Broken) and law.id not in known:
                known.add(law.id)
                yield law.id, verdict


def broken_text(law_id: str, broken: Broken) -> str:
    """`S5 broken: resident bytes: expected at most 10, got 12 (2 too many)`."""
    where = f" ({broken.where})" if broken.where else ""
    return (
        f"{law_id} broken: {broken.term}: expected {value_text(broken.expected)}, got {value_text(broken.got)}{where}"
    )


def value_text(value: object) -> str:
    """A number with separators, anything else as it is."""
    return f"{value:,}" if type(value) is int else str(value)


def steps_told(system: System, trace: Trace) -> Iterator[str]:
    """One line a step: who did what, the change of what is free, what is free then; and a line where a law broke."""
    states = replayed(system, trace)
    known: set[str] = set()
    for number, (rank, step) in enumerate(trace):
        before, after = states[number], states[number + 1]
        free = free_bytes(system.world, rank, after[rank])
        change = free - free_bytes(system.world, rank, before[rank])
        moved = f"{change:+,}" if change else ""
        note = told(system, before[rank], after[rank], step)
        yield f"  rank {rank}  {step!s:<18} {moved:>16}  {free:>16,} free  {note}".rstrip()
        yield from (f"          {broken_text(*found)}" for found in broken_at(system, after, known))


def ends_differ(law_id: str, violation: Violation) -> Iterator[str]:
    """The line for a law of ends, which no single rank breaks."""
    if violation.law.of_end is not None:
        yield f"          {broken_text(law_id, violation.broken)}"


def story(system: System, violation: Violation) -> str:
    """A shortest way to a violation, told."""
    world = system.world
    memory = [gib_text(rank.free_before_load) for rank in world.ranks]
    static = gib_text(math.floor(static_share(world, 0)))
    ranks = f"1 rank of {memory[0]}" if len(memory) == 1 else f"{len(memory)} ranks of {' and '.join(memory)}"
    lines = [
        f"{world.protocol.name}: {world.protocol.historical or 'breaks a law'}",
        f"  {len(violation.trace)} steps to {violation.law.id}, {ranks}, {static} static"
        + (" on the first" if len(memory) > 1 else ""),
        *steps_told(system, violation.trace),
        *ends_differ(violation.law.id, violation),
    ]
    return "\n".join(lines)
