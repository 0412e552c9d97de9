"""The transition system: what a rank has done, which steps it may take, and what each does to it.

A step that is done and asked for again changes nothing. A step whose guards are not met, or whose bytes are not there,
is refused and changes nothing either. So a state is all there is to know, and every order can be tried.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from spec.model import PoolSizes, Refusal, Refused, refuse
from spec.startup.protocols import TARGET
from spec.startup.world import (
    World,
    buffers,
    check_world,
    own_buffers,
    own_scenario,
    owners,
    reading,
    request_table_bytes,
    resolved_sizes,
    sizing_scenario,
    weight_bytes,
)


@dataclass(frozen=True)
class PoolHeld:
    """One owner's pool on one rank, all its buffers together.

    sizes: those it was built for. allocator: whose allocator hands out its rows. pool_bytes: spare rows included, which
    take spare_bytes of it. table_bytes: the request table beside it.
    """

    owner: str
    sizes: PoolSizes
    allocator: str
    pool_bytes: int
    spare_bytes: int
    table_bytes: int = 0


@dataclass(frozen=True)
class RankState:
    """What one rank has done. Owners are listed in the order of `owners`, whoever came first.

    weights, backends: whose are there. temporaries: the loader still holds memory. measured: the free bytes it read,
    None before. sizes: the target's resolved sizes, None before. pools: those allocated.
    """

    weights: tuple[str, ...] = ()
    temporaries: bool = False
    measured: int | None = None
    sizes: PoolSizes | None = None
    pools: tuple[PoolHeld, ...] = ()
    backends: tuple[str, ...] = ()
    captured: bool = False
    reported: bool = False


State = tuple[RankState, ...]
"""One `RankState` a rank."""


def pool_owners(state: RankState) -> tuple[str, ...]:
    """Whose pools are there."""
    return tuple(pool.owner for pool in state.pools)


def resident(world: World, state: RankState) -> tuple[tuple[str, int], ...]:
    """Every holding of a rank by name, in bytes."""
    held = [(f"{owner} weights", weight_bytes(world, owner)) for owner in state.weights]
    if state.temporaries:
        held.append(("loader temporaries", world.loader_bytes))
    for pool in state.pools:
        held.append((f"{pool.owner} pool", pool.pool_bytes))
        held += [("request table", pool.table_bytes)] if pool.table_bytes else []
    if state.captured:
        held.append(("graphs", world.graph_bytes))
    return tuple(held)


def free_bytes(world: World, rank: int, state: RankState) -> int:
    """What is left of the memory that was free before loading."""
    return world.ranks[rank].free_before_load - sum(held for _, held in resident(world, state))


def readings_of(state: State) -> tuple[int, ...]:
    """What the ranks have read, those that have."""
    return tuple(held.measured for held in state if held.measured is not None)


@dataclass(frozen=True)
class Turn:
    """One rank about to take a step for an owner ("" where the step has none). readings: what the ranks have read."""

    world: World
    rank: int
    state: RankState
    owner: str
    readings: tuple[int, ...]

    @property
    def free(self) -> int:
        """What this rank would read now."""
        return free_bytes(self.world, self.rank, self.state)

    def with_owner(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The names and this turn's owner, in the order of `owners`."""
        return tuple(sorted((*names, self.owner), key=owners(self.world).index))


def load(turn: Turn) -> RankState:
    """The owner's weights become resident, and what their loader needs."""
    return replace(turn.state, weights=turn.with_owner(turn.state.weights), temporaries=turn.world.loader_bytes > 0)


def release(turn: Turn) -> RankState:
    """What the loader needed is given back."""
    return replace(turn.state, temporaries=False)


def measure(turn: Turn) -> RankState:
    """The rank reads its free memory."""
    return replace(turn.state, measured=reading(turn.world, turn.rank, turn.free))


def size(turn: Turn) -> RankState:
    """The readings become the target's sizes; where no rank has read anything, this one reads now. Raises the budget's
    refusal."""
    readings = turn.readings or (reading(turn.world, turn.rank, turn.free),)
    return replace(turn.state, sizes=resolved_sizes(sizing_scenario(turn.world, turn.rank, readings)))


def sized_pool(turn: Turn, sizes: PoolSizes) -> PoolHeld:
    """The owner's pool for the target's sizes: the target's with the request table; a draft's is handed the target's
    table and allocator where there are any."""
    held = tuple(buffers(turn.world, turn.owner, sizes))
    return PoolHeld(
        owner=turn.owner,
        sizes=sizes,
        allocator=TARGET if TARGET in pool_owners(turn.state) else turn.owner,
        pool_bytes=sum(buffer.sold_bytes + buffer.spare_bytes for buffer in held),
        spare_bytes=sum(buffer.spare_bytes for buffer in held),
        table_bytes=request_table_bytes(turn.world.scenario, sizes) if turn.owner == TARGET else 0,
    )


def own_pool(turn: Turn) -> PoolHeld:
    """The pool of a worker that nobody has told its sizes: as many rows as it finds room for, now and alone."""
    scenario = own_scenario(turn.world, turn.owner, turn.rank, turn.free)
    sizes = resolved_sizes(scenario)
    held = own_buffers(scenario, sizes)
    return PoolHeld(
        owner=turn.owner,
        sizes=sizes,
        allocator=turn.owner,
        pool_bytes=sum(buffer.sold_bytes + buffer.spare_bytes for buffer in held),
        spare_bytes=sum(buffer.spare_bytes for buffer in held),
        table_bytes=request_table_bytes(scenario, sizes),
    )


def allocate(turn: Turn) -> RankState:
    """The owner's pool is allocated. Raises the budget's refusal where it has to find its own sizes."""
    sizes = turn.state.sizes
    pool = own_pool(turn) if sizes is None else sized_pool(turn, sizes)
    order = owners(turn.world)
    pools = sorted((*turn.state.pools, pool), key=lambda held: order.index(held.owner))
    return replace(turn.state, pools=tuple(pools))


def attach(turn: Turn) -> RankState:
    """The owner's attention backend is built on the pools it reads."""
    return replace(turn.state, backends=turn.with_owner(turn.state.backends))


def capture(turn: Turn) -> RankState:
    """Graphs are recorded."""
    return replace(turn.state, captured=True)


def report(turn: Turn) -> RankState:
    """The rank says what it serves: tokens, running requests, request length."""
    return replace(turn.state, reported=True)


@dataclass(frozen=True)
class Action:
    """A verb: whether every owner has a step of its own, whether it looks at what other ranks have read, when a step is
    done, and what it does."""

    verb: str
    is_owned: bool
    reads_ranks: bool
    is_done: Callable[[RankState, str], bool]
    effect: Callable[[Turn], RankState]


ACTIONS = (
    Action("load", True, False, lambda state, owner: owner in state.weights, load),
    Action("release", False, False, lambda state, owner: not state.temporaries, release),
    Action("measure", False, False, lambda state, owner: state.measured is not None, measure),
    Action("size", False, True, lambda state, owner: state.sizes is not None, size),
    Action("allocate", True, False, lambda state, owner: owner in pool_owners(state), allocate),
    Action("attach", True, False, lambda state, owner: owner in state.backends, attach),
    Action("capture", False, False, lambda state, owner: state.captured, capture),
    Action("report", False, False, lambda state, owner: state.reported, report),
)
"""Every step is one of these; its guards are the protocol's."""
BY_VERB = {action.verb: action for action in ACTIONS}


@dataclass(frozen=True)
class Step:
    """A verb, and whose turn it is where every owner has one. `str` of it is what patterns match."""

    verb: str
    owner: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.owner}".strip()


@dataclass(frozen=True)
class Wait:
    """A step another one waits for, on its own rank or on every rank."""

    step: Step
    every_rank: bool


def check_step(steps: tuple[Step, ...], step: Step) -> None:
    """Refuse a step that a world does not have."""
    if step not in steps:
        raise refuse("invalid_input", "step", str(step), f"one of {', '.join(map(str, steps))}")


def steps_of(world: World) -> tuple[Step, ...]:
    """The steps of one rank, in the order of `ACTIONS`. Graphs are captured only where the world says so."""
    steps: list[Step] = []
    for action in ACTIONS:
        if action.verb != "capture" or world.captures:
            steps += [Step(action.verb, owner) for owner in (owners(world) if action.is_owned else ("",))]
    return tuple(steps)


def waits_of(world: World, step: Step) -> tuple[Wait, ...]:
    """What a step waits for by the protocol's guards and phases."""
    waits = []
    for before in (*world.protocol.guards, *world.protocol.phases):
        if fnmatchcase(str(step), before.later):
            earlier = before.earlier.format(owner=step.owner)
            waits += [Wait(found, before.every_rank) for found in steps_of(world) if fnmatchcase(str(found), earlier)]
    return tuple(waits)


class System:
    """The transition system of one world: its steps, its first state, and what asking for a step does."""

    def __init__(self, world: World) -> None:
        """Raises `Refused` for a world that means nothing."""
        check_world(world)
        self.world = world
        self.steps = steps_of(world)
        self.waits = {step: waits_of(world, step) for step in self.steps}
        self.initial: State = (RankState(),) * len(world.ranks)

    def is_done(self, state: RankState, step: Step) -> bool:
        """Whether a rank has taken the step."""
        return BY_VERB[step.verb].is_done(state, step.owner)

    def is_finished(self, state: RankState) -> bool:
        """Whether a rank has taken every step."""
        return all(self.is_done(state, step) for step in self.steps)

    def looks_around(self, step: Step) -> bool:
        """Whether a step looks at other ranks: at what they have read, or because a wait concerns them."""
        return BY_VERB[step.verb].reads_ranks or any(wait.every_rank for wait in self.waits[step])

    def missing(self, state: State, rank: int, step: Step) -> Wait | None:
        """The first wait of a step that is not met."""
        for wait in self.waits[step]:
            ranks = state if wait.every_rank else (state[rank],)
            if not all(self.is_done(held, wait.step) for held in ranks):
                return wait
        return None

    def after(self, state: State, rank: int, step: Step) -> RankState:
        """The rank after its step. Raises `Refused`: no such step, out of order, no memory, or as the budget does."""
        check_step(self.steps, step)
        own = state[rank]
        if self.is_done(own, step) and step.verb not in self.world.protocol.repeats:
            return own
        wait = self.missing(state, rank, step)
        if wait is not None:
            where = " on every rank" if wait.every_rank else ""
            raise refuse("out_of_order", str(step), own, f"first {wait.step}{where}", needed=str(wait.step))
        after = BY_VERB[step.verb].effect(Turn(self.world, rank, own, step.owner, readings_of(state)))
        free = free_bytes(self.world, rank, own)
        left = free_bytes(self.world, rank, after)
        if left < 0:
            raise refuse("out_of_memory", str(step), free - left, needed=free - left, available=free)
        return after

    def ask(self, state: State, rank: int, step: Step) -> State | Refusal:
        """The state after a rank was asked for a step, or why it was not taken; then the state stays as it is."""
        try:
            after = self.after(state, rank, step)
        except Refused as refused:
            return refused.refusal
        return (*state[:rank], after, *state[rank + 1 :])
