"""What a start-up starts from, and the bytes its steps move: weights, pools, request tables, what is free.

Sizes come from `spec/pools.py`, bytes of pools from `spec/accounting.py`; nothing is priced here a second time. One
pipeline stage, whose tensor-parallel ranks hold equal shares of the weights.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from spec.accounting import Buffer, stage_buffers
from spec.dtypes import draft_backend
from spec.model import (
    FROZEN_KV_MTP,
    MTP,
    Draft,
    MemoryFigures,
    PoolSizes,
    Refused,
    Scenario,
    active_draft,
    refuse,
)
from spec.pools import size_pools
from spec.startup.protocols import DRAFT, TARGET, Protocol
from spec.validity import check_deployment, check_flag, check_int, check_record, check_scenario, check_tuple

REQUEST_ENTRY_BYTES = 4
"""A request table holds one int32 for each token of each request (upstream: `memory_pool.py: ReqToTokenPool`)."""
EXTRA_CONTEXT_TOKENS = 4
"""Tokens a row of it holds beyond the context, beside the draft tokens (upstream:
`kv_cache_configurator.py: get_req_to_token_extra_context_len`)."""


@dataclass(frozen=True)
class Rank:
    """One rank's device.

    free_before_load: free bytes before any weight. reserved_bytes: what this rank alone keeps free for later, for
    example the one that encodes images; it is taken off this rank's reading.
    """

    free_before_load: int
    reserved_bytes: int = 0


@dataclass(frozen=True)
class World:
    """One start-up: a protocol, what is served, on which devices.

    scenario: the models and the deployment, of one stage; its budget is not looked at, it is measured.
    target_weight_bytes, draft_weight_bytes: on every rank; the draft's one number a runner.
    loader_bytes: what loading leaves resident until it is released; 0: nothing, and nothing is released.
    captures: whether graphs are captured, which takes graph_bytes.
    """

    protocol: Protocol
    scenario: Scenario
    ranks: tuple[Rank, ...]
    mem_fraction_static: Fraction
    target_weight_bytes: int
    draft_weight_bytes: tuple[int, ...] = ()
    loader_bytes: int = 0
    captures: bool = False
    graph_bytes: int = 0


def draft_layers(world: World) -> int:
    """Layers of the active draft, 0 without one."""
    draft = active_draft(world.scenario)
    return 0 if draft is None else len(draft.shape.layers)


def draft_owners(world: World) -> tuple[str, ...]:
    """The draft runners: one for each layer of a multi-layer EAGLE draft, else one for all of it."""
    if world.scenario.speculative_algorithm == MTP:
        return tuple(f"{DRAFT} {runner}" for runner in range(draft_layers(world)))
    return (DRAFT,) if draft_layers(world) else ()


def owners(world: World) -> tuple[str, ...]:
    """Everyone who has weights, a pool and a backend."""
    return (TARGET, *draft_owners(world))


def check_ranks(ranks: tuple[Rank, ...]) -> None:
    """At least one rank, each with memory."""
    check_tuple("ranks", ranks)
    if not ranks:
        raise refuse("invalid_input", "ranks", ranks, "give at least one rank")
    for rank in ranks:
        check_record("ranks", rank, Rank)
        check_int("ranks.free_before_load", rank.free_before_load, 1)
        check_int("ranks.reserved_bytes", rank.reserved_bytes, 0)


def check_served(world: World) -> None:
    """The scenario is valid, of one stage, and runs the protocol's algorithm."""
    check_record("protocol", world.protocol, Protocol)
    check_record("scenario", world.scenario, Scenario)
    check_deployment(world.scenario.deployment)
    if world.scenario.deployment.pp_size != 1:
        raise refuse("unsupported", "deployment.pp_size", world.scenario.deployment.pp_size, "start-up has one stage")
    free_now = tuple(rank.free_before_load for rank in world.ranks)
    check_scenario(replace(world.scenario, budget=figures(world, free_now)))
    if world.scenario.speculative_algorithm != world.protocol.algorithm:
        raise refuse(
            "invalid_input",
            "scenario.speculative_algorithm",
            world.scenario.speculative_algorithm,
            f"the protocol is for {world.protocol.algorithm}",
        )


def check_world(world: World) -> None:
    """Everything a step relies on. Raises `Refused`; returns nothing when the world is valid."""
    check_ranks(world.ranks)
    check_served(world)
    for name in ("target_weight_bytes", "loader_bytes", "graph_bytes"):
        check_int(name, getattr(world, name), 0)
    check_flag("captures", world.captures)
    check_tuple("draft_weight_bytes", world.draft_weight_bytes)
    for weights in world.draft_weight_bytes:
        check_int("draft_weight_bytes", weights, 0)
    if len(world.draft_weight_bytes) != len(draft_owners(world)):
        raise refuse("invalid_input", "draft_weight_bytes", world.draft_weight_bytes, "give one number a draft runner")


def weight_bytes(world: World, owner: str) -> int:
    """The weights of one owner on any rank."""
    held = (world.target_weight_bytes, *world.draft_weight_bytes)
    return held[owners(world).index(owner)]


def all_weight_bytes(world: World) -> int:
    """The weights of everyone on any rank."""
    return world.target_weight_bytes + sum(world.draft_weight_bytes)


def static_share(world: World, rank: int) -> Fraction:
    """The part of a rank's memory, free before loading, that weights and pools may fill."""
    return world.ranks[rank].free_before_load * world.mem_fraction_static


def figures(world: World, readings: tuple[int, ...]) -> MemoryFigures:
    """The memory figures of some readings, in bytes."""
    before = tuple(rank.free_before_load for rank in world.ranks)
    return MemoryFigures((before,), (readings,), world.mem_fraction_static)


def reading(world: World, rank: int, free_bytes: int) -> int:
    """What a rank reports as free: less its own reserve, unless that is taken off after the minimum."""
    reserve = 0 if world.protocol.reserves_after_minimum else world.ranks[rank].reserved_bytes
    return max(0, free_bytes - reserve)


def sizing_scenario(world: World, rank: int, readings: tuple[int, ...]) -> Scenario:
    """The question a rank puts to the budget, given what the ranks have read."""
    protocol = world.protocol
    if protocol.reserves_after_minimum:
        readings = (max(0, min(readings) - world.ranks[rank].reserved_bytes),)
    if protocol.flat_reserve_bytes is not None:
        readings = tuple(max(0, free_bytes - protocol.flat_reserve_bytes) for free_bytes in readings)
        return replace(world.scenario, speculative_algorithm=None, budget=figures(world, readings))
    return replace(world.scenario, budget=figures(world, readings))


def resolved_sizes(scenario: Scenario) -> PoolSizes:
    """The budget's answer. Raises its refusal."""
    sizes = size_pools(scenario)
    if not isinstance(sizes, PoolSizes):
        raise Refused(sizes)
    return sizes


def runner_draft(world: World, draft: Draft, owner: str) -> Draft:
    """The draft one runner holds: all of it, or the one layer of a multi-layer EAGLE runner."""
    if owner == DRAFT:
        return draft
    position = draft_owners(world).index(owner)
    shape, index = draft.shape, draft.shape.index
    if index is not None:
        index = replace(index, layers=(0,)) if position in index.layers else None
    return replace(draft, shape=replace(shape, layers=(shape.layers[position],), index=index))


def buffers(world: World, owner: str, sizes: PoolSizes) -> Iterator[Buffer]:
    """The buffers of one owner's pool for the target's sizes."""
    scenario, draft = world.scenario, active_draft(world.scenario)
    if owner != TARGET and draft is not None:
        scenario = replace(scenario, draft=runner_draft(world, draft, owner))
    for buffer in stage_buffers(scenario, sizes, 0):
        if buffer.owner == (TARGET if owner == TARGET else DRAFT):
            yield buffer


def own_scenario(world: World, owner: str, rank: int, free_bytes: int) -> Scenario:
    """The question of a worker that nobody has told its sizes: what this rank has free right now, all for itself."""
    scenario, draft = world.scenario, active_draft(world.scenario)
    budget = MemoryFigures(((world.ranks[rank].free_before_load,),), ((free_bytes,),), world.mem_fraction_static)
    if owner == TARGET or draft is None:
        return replace(scenario, budget=budget)
    return replace(
        scenario,
        target=runner_draft(world, draft, owner).shape,
        kv_cache_dtype=draft.kv_cache_dtype or scenario.kv_cache_dtype,
        attention_backend=draft_backend(scenario, draft),
        draft=None,
        speculative_algorithm=None,
        budget=budget,
    )


def own_buffers(scenario: Scenario, sizes: PoolSizes) -> tuple[Buffer, ...]:
    """The buffers of a worker that sized itself: in its own question it is the target."""
    return tuple(buffer for buffer in stage_buffers(scenario, sizes, 0) if buffer.owner == TARGET)


def reads_pools(world: World, owner: str) -> tuple[str, ...]:
    """Whose pools the backend of an owner reads: its own; a frozen-KV MTP draft reads the target's too."""
    if owner != TARGET and world.scenario.speculative_algorithm == FROZEN_KV_MTP:
        return (owner, TARGET)
    return (owner,)


def request_table_bytes(scenario: Scenario, sizes: PoolSizes) -> int:
    """The table from request to rows, which the target allocates beside its pool: a row for each running request and
    a spare one."""
    draft = active_draft(scenario)
    draft_tokens = 0 if draft is None else draft.num_draft_tokens
    row_tokens = scenario.context_len + EXTRA_CONTEXT_TOKENS + draft_tokens
    return (sizes.max_running_requests + 1) * row_tokens * REQUEST_ENTRY_BYTES
