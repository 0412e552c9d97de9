"""What each protocol can do in its small worlds, what it breaks, and which guard keeps which law."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from spec.laws.startup import START_UP_LAWS
from spec.startup.explorer import Exploration, Violation, explore
from spec.startup.protocols import Protocol, mutants
from spec.startup.system import System
from spec.startup.world import World
from spec.startup.worlds import RANKS, capped_world, small_world, small_worlds


@dataclass
class Summary:
    """Explorations of one protocol added up. violations: of each broken law the one with the shortest trace, and where
    it was found."""

    protocol: Protocol
    worlds: int = 0
    states: int = 0
    all_states: int = 0
    transitions: int = 0
    judged: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    violations: dict[str, tuple[System, Violation]] = field(default_factory=dict)

    def add(self, found: Exploration) -> None:
        """One exploration more."""
        self.worlds += 1
        self.states += found.states
        self.all_states += found.all_states
        self.transitions += found.transitions
        self.judged += found.judged
        self.ends += found.ends
        for law_id, violation in found.violations.items():
            shortest = self.violations.get(law_id)
            if shortest is None or len(violation.trace) < len(shortest[1].trace):
                self.violations[law_id] = (found.system, violation)

    def verdict(self, law_id: str) -> str:
        """A law's verdict in a word: it holds, it is broken, or nothing it speaks of was met."""
        if law_id in self.violations:
            return "BROKEN"
        return "holds" if self.judged[law_id] else "n/a"

    @property
    def is_as_expected(self) -> bool:
        """A present protocol breaks nothing, a historical one something."""
        return bool(self.violations) == bool(self.protocol.historical)


def summary(protocol: Protocol, worlds: Iterable[World]) -> Summary:
    """Every order a protocol leaves open in some worlds, judged by every law."""
    found = Summary(protocol)
    for world in worlds:
        found.add(explore(System(world), START_UP_LAWS))
    return found


def judged(protocol: Protocol, most_ranks: int = 4) -> Summary:
    """A protocol in all its small worlds."""
    return summary(protocol, small_worlds(protocol, most_ranks=most_ranks))


def broken_by(mutant: Protocol) -> tuple[System, Violation] | None:
    """The first law that breaks where a guard is gone, None where none does: first on one rank with memory to spare,
    then on one with little to allocate, then on two ranks."""
    worlds = [small_world(mutant, RANKS[0]), capped_world(mutant, RANKS[0])]
    worlds += [small_world(mutant, ranks) for ranks in RANKS if len(ranks) == 2]
    for world in worlds:
        system = System(world)
        found = explore(system, START_UP_LAWS, until_broken=True)
        if found.violations:
            return system, next(iter(found.violations.values()))
    return None


def guards_needed(protocol: Protocol) -> dict[str, tuple[System, Violation] | None]:
    """What breaks without each guard of a protocol. A guard of steps it does not have is left out."""
    bare = System(small_world(replace(protocol, phases=()), RANKS[0]))
    needed = {}
    for guard, mutant in mutants(protocol).items():
        system = System(small_world(mutant, RANKS[0]))
        if mutant.repeats or system.waits != bare.waits:
            needed[guard] = broken_by(mutant)
    return needed
