"""Every order a protocol leaves open, breadth first: which states there are, what they break, the shortest way there.

Ranks whose devices are alike are symmetric: states that differ only in which of them did what are visited once, and
counted as the many they are. A rank's moves depend on nothing but its own state, except those that look at other ranks,
so each rank state is worked out, and judged, once.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import factorial

from spec.laws.base import NOT_JUDGED, Broken, Verdict
from spec.model import Refusal, Refused
from spec.startup.system import RankState, State, Step, System, readings_of


@dataclass(frozen=True)
class StartUpLaw:
    """One law of the start-up: a stable id, its name, the sentence, the algorithms whose protocols it claims, and a
    predicate.

    of_rank judges one rank's state; of_end one end, beside the first end that was found. A law has one of the two.
    """

    id: str
    name: str
    sentence: str
    algorithms: tuple[str | None, ...]
    of_rank: Callable[[System, int, RankState], Verdict] | None = None
    of_end: Callable[[System, State, State], Verdict] | None = None


Trace = tuple[tuple[int, Step], ...]
"""Which rank took which step, from the first state on."""


@dataclass(frozen=True)
class Violation:
    """A law that does not hold, why, and a shortest way there."""

    law: StartUpLaw
    broken: Broken
    trace: Trace


@dataclass
class Exploration:
    """What was found. states and transitions are merged ones; all_states counts what they stand for. judged: rank
    states, or ends, on which each law gave a verdict. ends: how often ranks ended finished, or with which refusals."""

    system: System
    states: int = 0
    all_states: int = 0
    transitions: int = 0
    judged: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    violations: dict[str, Violation] = field(default_factory=dict)


Numbers = tuple[int, ...]
"""A state as the numbers of its rank states."""


class Explorer:
    """One exploration: rank states are numbered as they are first seen, so that a state is a few small integers."""

    def __init__(self, system: System, laws: tuple[StartUpLaw, ...]) -> None:
        self.system = system
        self.laws = laws
        self.found = Exploration(system)
        ranks = system.world.ranks
        alike = ([place for place, other in enumerate(ranks) if other == rank] for rank in dict.fromkeys(ranks))
        self.groups = [places for places in alike if len(places) > 1]
        """Positions of ranks that are alike, where there are several."""
        self.first_alike = [ranks.index(rank) for rank in ranks]
        self.twins = {place for places in self.groups for place in places[1:]}
        """Positions with an alike rank before them."""
        self.numbers: dict[tuple[int, RankState], int] = {}
        self.rank_states: list[RankState] = []
        self.alone: list[list[tuple[Step, int]] | None] = []
        """Moves of each rank state that look at no other rank, once they are worked out."""
        self.around: list[list[Step]] = []
        """Its steps that do."""
        self.sized: dict[tuple[int, Step, tuple[int, ...]], int | None] = {}
        """Where such a step leads, by what the ranks have read, which is all it looks at once its waits are met."""
        self.came_from: dict[Numbers, tuple[Numbers, int, Step, int] | None] = {}
        """The state each was first reached from, by which rank's which step, and the rank state it led to."""
        self.first_end: State | None = None

    def number(self, position: int, state: RankState) -> int:
        """The number of a rank's state; alike ranks share it."""
        key = (self.first_alike[position], state)
        if key not in self.numbers:
            self.numbers[key] = len(self.rank_states)
            self.rank_states.append(state)
            self.alone.append(None)
            self.around.append([])
        return self.numbers[key]

    def merged(self, numbers: list[int]) -> Numbers:
        """The one state that stands for all in which alike ranks trade places."""
        for group in self.groups:
            alike = sorted(numbers[place] for place in group)
            for place, number in zip(group, alike, strict=True):
                numbers[place] = number
        return tuple(numbers)

    def stands_for(self, state: Numbers) -> int:
        """How many states it stands for: the ways to deal out what alike ranks have done among them."""
        ways = 1
        for group in self.groups:
            ways *= factorial(len(group))
            for count in Counter(state[place] for place in group).values():
                ways //= factorial(count)
        return ways

    def state_of(self, state: Numbers) -> State:
        """The rank states themselves."""
        return tuple(self.rank_states[number] for number in state)

    def work_out(self, position: int, number: int) -> None:
        """The moves of a rank state that is met for the first time."""
        system, own = self.system, self.rank_states[number]
        state = tuple(own if place == position else held for place, held in enumerate(system.initial))
        moves = []
        for step in system.steps:
            if system.is_done(own, step) and step.verb not in system.world.protocol.repeats:
                continue
            if system.looks_around(step):
                self.around[number].append(step)
            else:
                after = self.tried(state, position, step)
                if after not in (None, number):
                    moves.append((step, after))
        self.alone[number] = moves

    def tried(self, state: State, position: int, step: Step) -> int | None:
        """The rank state a step leads to, None where it is refused."""
        try:
            return self.number(position, self.system.after(state, position, step))
        except Refused:
            return None

    def looked_around(self, state: Numbers, position: int, step: Step) -> int | None:
        """The rank state a step leads to that looks at the other ranks, None where it is refused."""
        held = self.state_of(state)
        if self.system.missing(held, position, step) is not None:
            return None
        key = (state[position], step, readings_of(held))
        if key not in self.sized:
            self.sized[key] = self.tried(held, position, step)
        return self.sized[key]

    def moves(self, state: Numbers) -> Iterator[tuple[int, Step, int]]:
        """Position, step and next rank state of every move; of alike ranks in the same state one is enough."""
        for position, number in enumerate(state):
            if position in self.twins and (self.first_alike[position], number) in (
                (self.first_alike[place], state[place]) for place in range(position)
            ):
                continue
            for step, after in self.alone[number] or ():
                yield position, step, after
            for step in self.around[number]:
                reached = self.looked_around(state, position, step)
                if reached not in (None, number):
                    yield position, step, reached

    def judge_rank(self, position: int, number: int, state: Numbers) -> None:
        """Every law of a rank, on a rank state that is met for the first time."""
        for law in self.laws:
            if law.of_rank is not None:
                self.note(law, law.of_rank(self.system, position, self.rank_states[number]), state)

    def judge_end(self, state: Numbers) -> None:
        """Every law of ends, on a state without a move."""
        end = self.state_of(state)
        self.first_end = self.first_end or end
        self.found.ends["finished" if all(map(self.system.is_finished, end)) else self.refusals(end)] += 1
        for law in self.laws:
            if law.of_end is not None:
                self.note(law, law.of_end(self.system, self.first_end, end), state)

    def refusals(self, end: State) -> str:
        """What keeps an end from going on, apart from the order of steps."""
        kinds = set()
        for rank in range(len(end)):
            for step in self.system.steps:
                try:
                    self.system.after(end, rank, step)
                except Refused as refused:
                    kinds.add(refused.refusal.kind)
        return ", ".join(sorted(kinds - {"out_of_order"})) or "stuck"

    def note(self, law: StartUpLaw, verdict: Verdict, state: Numbers) -> None:
        """Count a verdict, and keep the first violation of each law."""
        if verdict is NOT_JUDGED:
            return
        self.found.judged[law.id] += 1
        if isinstance(verdict, Broken) and law.id not in self.found.violations:
            self.found.violations[law.id] = Violation(law, verdict, self.trace(state))

    def trace(self, state: Numbers) -> Trace:
        """A shortest way to a state, told of ranks that keep their places: where merged states trade alike ranks, the
        step goes to a rank that is in the state it was taken in."""
        taken: list[tuple[Numbers, int, Step, int]] = []
        here = self.came_from[state]
        while here is not None:
            taken.append(here)
            here = self.came_from[here[0]]
        now = list(taken[-1][0] if taken else state)
        trace = []
        for before, position, step, after in reversed(taken):
            alike = [place for place, first in enumerate(self.first_alike) if first == self.first_alike[position]]
            rank = next(place for place in alike if now[place] == before[position])
            now[rank] = after
            trace.append((rank, step))
        return tuple(trace)

    def ways(self) -> tuple[Trace, ...]:
        """Shortest ways that together pass through every state that was found."""
        passed = {here[0] for here in self.came_from.values() if here is not None}
        return tuple(self.trace(state) for state in self.came_from if state not in passed)

    def visit(self, state: Numbers) -> Iterator[Numbers]:
        """Work out and judge what is new in a state; every merged state a move leads to."""
        self.found.states += 1
        self.found.all_states += self.stands_for(state)
        for position, number in enumerate(state):
            if self.alone[number] is None:
                self.work_out(position, number)
                self.judge_rank(position, number, state)
        is_end = True
        for position, step, after in self.moves(state):
            is_end = False
            self.found.transitions += 1
            numbers = list(state)
            numbers[position] = after
            reached = self.merged(numbers)
            if reached not in self.came_from:
                self.came_from[reached] = (state, position, step, after)
                yield reached
        if is_end:
            self.judge_end(state)

    def explore(self, *, until_broken: bool) -> Exploration:
        """Breadth first from the first state, to the end or to the first violation."""
        start = self.merged([self.number(place, held) for place, held in enumerate(self.system.initial)])
        self.came_from[start] = None
        level = [start]
        while level:
            following: list[Numbers] = []
            for state in level:
                following += self.visit(state)
                if until_broken and self.found.violations:
                    return self.found
            level = following
        return self.found


def explore(system: System, laws: tuple[StartUpLaw, ...], *, until_broken: bool = False) -> Exploration:
    """Everything a protocol can do in a world, and what it breaks; until_broken: to the first violation only."""
    return Explorer(system, laws).explore(until_broken=until_broken)


def ways_through(system: System) -> tuple[Trace, ...]:
    """Shortest traces that together pass through every state; of alike ranks that trade places, one."""
    explorer = Explorer(system, ())
    explorer.explore(until_broken=False)
    return explorer.ways()


def finished(system: System, trace: Trace) -> Trace:
    """The trace and whatever comes next, always the first step that any rank may take, until none may."""
    now, taken = replayed(system, trace)[-1], list(trace)
    while (following := next(next_steps(system, now), None)) is not None:
        rank, step, after = following
        now = (*now[:rank], after, *now[rank + 1 :])
        taken.append((rank, step))
    return tuple(taken)


def next_steps(system: System, state: State) -> Iterator[tuple[int, Step, RankState]]:
    """The steps that change a state: rank, step, and the rank after it."""
    for rank, own in enumerate(state):
        for step in system.steps:
            after = system.ask(state, rank, step)
            if not isinstance(after, Refusal) and after[rank] != own:
                yield rank, step, after[rank]


def replayed(system: System, trace: Trace) -> tuple[State, ...]:
    """The states along a trace, the first one included. Raises `Refused` where a step is."""
    states = [system.initial]
    for rank, step in trace:
        now = states[-1]
        states.append((*now[:rank], system.after(now, rank, step), *now[rank + 1 :]))
    return tuple(states)
