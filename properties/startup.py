"""The start-up laws over one protocol: on the spec's transition system, and on an implementation's start-up."""

from collections import Counter
from dataclasses import dataclass, field

from impl import Implementation, StartUp
from spec.laws.base import NOT_JUDGED, Broken, Verdict
from spec.laws.startup import START_UP_BY_ID, START_UP_LAWS
from spec.startup.explorer import StartUpLaw, Trace, finished, ways_through
from spec.startup.protocols import HISTORICAL, PRESENT, Protocol
from spec.startup.story import broken_text, story
from spec.startup.system import State, System
from spec.startup.verdicts import judged
from spec.startup.world import World
from spec.startup.worlds import RANKS, small_world

MOST_RANKS = 2
"""Ranks of the worlds explored here; `make model` explores up to four."""


@dataclass
class Findings:
    """Verdicts of every law: how many, and the text of the first that is broken."""

    judged: Counter[str] = field(default_factory=Counter)
    broken: dict[str, str] = field(default_factory=dict)

    def note(self, law: StartUpLaw, verdict: Verdict, trace: Trace) -> None:
        """Count a verdict; keep the first violation of each law with the way to it."""
        if verdict is NOT_JUDGED:
            return
        self.judged[law.id] += 1
        if isinstance(verdict, Broken) and law.id not in self.broken:
            steps = "\n".join(f"  rank {rank}  {step}" for rank, step in trace)
            self.broken[law.id] = f"{steps}\n  {broken_text(law.id, verdict)}"


def claimed(law: StartUpLaw) -> list[Protocol]:
    """The protocols that a law must hold on: the present ones it claims; S6 speaks of a historical one, too."""
    historical = [protocol for protocol in HISTORICAL if law.id == "S6"]
    return [protocol for protocol in (*PRESENT, *historical) if protocol.algorithm in law.algorithms]


def spec_findings(protocol: Protocol) -> Findings:
    """The spec's transition system, every order in every small world."""
    found = judged(protocol, MOST_RANKS)
    broken = {law_id: story(system, violation) for law_id, (system, violation) in found.violations.items()}
    return Findings(found.judged, broken)


def worlds_to_run(protocol: Protocol) -> list[World]:
    """One rank, and two with different memory, every optional step taken."""
    return [small_world(protocol, ranks) for ranks in (RANKS[0], RANKS[2])]


def offers_start_up(implementation: Implementation) -> bool:
    """Whether an implementation has a start-up that can be judged."""
    return hasattr(implementation, "start_up")


def implementation_findings(protocol: Protocol, implementation: Implementation) -> Findings:
    """The implementation's start-up, driven to its end along ways that pass every state of the protocol."""
    findings = Findings()
    for world in worlds_to_run(protocol):
        system = System(world)
        ends: list[State] = []
        for way in (finished(system, way) for way in ways_through(system)):
            ends.append(walked(system, implementation.start_up(world), way, findings))
            for law in START_UP_LAWS:
                if law.of_end is not None:
                    findings.note(law, law.of_end(system, ends[0], ends[-1]), way)
    return findings


def walked(system: System, start_up: StartUp, way: Trace, findings: Findings) -> State:
    """One way walked, every state of it judged; where it ended. A step that is refused breaks every law: what the
    protocol allows cannot be judged."""
    for number, (rank, step) in enumerate(way):
        here = way[: number + 1]
        refusal = start_up.ask(rank, step)
        state = start_up.state()
        for law in START_UP_LAWS:
            if refusal is not None:
                findings.note(law, Broken(str(step), "taken", f"refused: {refusal}"), here)
            elif law.of_rank is not None:
                findings.note(law, law.of_rank(system, rank, state[rank]), here)
        note_again(system, start_up, rank, findings, here)
    return start_up.state()


def note_again(system: System, start_up: StartUp, rank: int, findings: Findings, here: Trace) -> None:
    """S3: the steps a rank has taken, asked for again, change nothing."""
    before = start_up.state()
    for step in system.steps:
        if system.is_done(before[rank], step):
            start_up.ask(rank, step)
    if start_up.state() != before:
        again = Broken("asking again", "nothing changes", "a step that was done took effect again")
        findings.note(START_UP_BY_ID["S3"], again, here)
