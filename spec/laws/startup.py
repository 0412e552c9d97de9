"""S: the start-up, over every state a protocol can reach.

The table is beside that of the budget's laws: these judge protocols, not answers.
"""

import math
from dataclasses import replace

from spec.laws.base import HOLDS, NOT_JUDGED, Broken, Verdict, first_difference
from spec.model import ALGORITHMS, FROZEN_KV_MTP, PoolSizes, Refusal
from spec.startup.explorer import StartUpLaw
from spec.startup.protocols import TARGET
from spec.startup.system import RankState, State, System, pool_owners, resident
from spec.startup.world import all_weight_bytes, owners, reads_pools, static_share, weight_bytes


def measured_after_every_weight(system: System, rank: int, state: RankState) -> Verdict:
    """A rank that has measured has every owner's weights."""
    if state.measured is None:
        return NOT_JUDGED
    absent = [owner for owner in owners(system.world) if owner not in state.weights]
    if not absent:
        return HOLDS
    to_come = sum(weight_bytes(system.world, owner) for owner in absent)
    return Broken("weights resident when measured", "all", f"not {', '.join(absent)}", f"{to_come:,} bytes to come")


def in_the_order_of_need(system: System, rank: int, state: RankState) -> Verdict:
    """Nothing is there before what it is made of."""
    everyone, pools = owners(system.world), pool_owners(state)
    if state.pools and state.sizes is None:
        return Broken("pool", "none before sizing", ", ".join(pools))
    for owner in state.backends:
        absent = [read for read in reads_pools(system.world, owner) if read not in pools]
        if absent:
            return Broken("backend", "none before its pool", f"{owner}, without the pool of {', '.join(absent)}")
    if state.captured and set(state.backends) != set(everyone):
        return Broken("graphs", "none before the backends", f"with {len(state.backends)} of {len(everyone)} backends")
    if state.reported and set(pools) != set(everyone):
        return Broken("worker info", "none before the pools", f"with {len(pools)} of {len(everyone)} pools")
    return HOLDS if state.pools or state.backends or state.captured or state.reported else NOT_JUDGED


def changed_again(system: System, rank: int, state: RankState) -> str:
    """A step that is done and would take effect again, "" where there is none. A refusal changes nothing."""
    others = system.initial
    for step in system.steps:
        if system.is_done(state, step):
            after = system.ask((*others[:rank], state, *others[rank + 1 :]), rank, step)
            if not isinstance(after, Refusal) and after[rank] != state:
                return str(step)
    return ""


def each_exactly_once(system: System, rank: int, state: RankState) -> Verdict:
    """No owner has two pools or two backends (a finished rank has one of each for everyone, or it would not be
    finished); a step that is done and asked for again leaves the rank as it is."""
    again = changed_again(system, rank, state)
    if again:
        return Broken("asking again", "nothing changes", f"{again} takes effect again")
    for name, held in (("pools", pool_owners(state)), ("backends", state.backends)):
        if len(set(held)) < len(held):
            return Broken(name, "one for each owner", ", ".join(held))
    return HOLDS


def sizes_off(expected: PoolSizes | None, got: PoolSizes | None, where: str) -> Broken | None:
    """The first size in which two ranks or orders differ; None where they agree."""
    if expected is None or got is None:
        wanted, found = ("none" if sizes is None else "resolved" for sizes in (expected, got))
        return None if wanted == found else Broken("sizes", wanted, found, where)
    difference = first_difference(expected, got)
    return None if difference is None else replace(difference, where=where)


def the_draft_gets_the_targets_sizes(system: System, rank: int, state: RankState) -> Verdict:
    """Every draft pool was built for the resolved sizes, its rows handed out by the target's allocator."""
    drafts = [pool for pool in state.pools if pool.owner != TARGET]
    for pool in drafts:
        off = sizes_off(state.sizes, pool.sizes, f"the pool of {pool.owner}")
        if off is not None:
            return off
        if pool.allocator != TARGET:
            return Broken(f"allocator of {pool.owner}", TARGET, pool.allocator)
    return HOLDS if drafts else NOT_JUDGED


def counted_bytes(system: System, state: RankState) -> int:
    """What the static share has to hold: all that is resident but spare rows, request tables and graphs, which are paid
    from the rest."""
    paid_apart = sum(pool.spare_bytes + pool.table_bytes for pool in state.pools)
    return sum(held for name, held in resident(system.world, state) if name != "graphs") - paid_apart


def within_the_static_share(system: System, rank: int, state: RankState) -> Verdict:
    """Judged from the first pool on: a rank whose weights alone are too much is refused by sizing.

    The ranks of a stage hold equal weights. Where neither their weights nor their memory are equal, a minimum of each
    reading keeps only the smallest non-static share free: of 100 and 110 bytes, half static, with weights of 0 and 10,
    50 are sold, and the second rank holds 60 of its 55.
    """
    if not state.pools:
        return NOT_JUDGED
    share, counted = static_share(system.world, rank), counted_bytes(system, state)
    if counted > share:
        allowed = math.floor(share)
        return Broken("resident bytes", f"at most {allowed:,}", counted, f"{counted - allowed:,} too many")
    return HOLDS


def unseen_bytes(system: System, rank: int, measured: int) -> int:
    """What a reading took for free though weights were still to come."""
    device = system.world.ranks[rank]
    return measured - (device.free_before_load - device.reserved_bytes - all_weight_bytes(system.world))


def exposed_by_the_drafts_weights(system: System, rank: int, state: RankState) -> Verdict:
    """Compares the reading of a sized rank with what was free after all weights."""
    if system.world.protocol.algorithm != FROZEN_KV_MTP or state.measured is None or state.sizes is None:
        return NOT_JUDGED
    draft_bytes = sum(system.world.draft_weight_bytes)
    expected = draft_bytes if system.world.protocol.historical else 0
    unseen = unseen_bytes(system, rank, state.measured)
    return HOLDS if unseen == expected else Broken("bytes the measurement missed", expected, unseen)


def every_order_ends_alike(system: System, first: State, end: State) -> Verdict:
    """Compares the sizes of every rank, and whether the start was finished, with those of the first end."""
    for rank, state in enumerate(end):
        off = sizes_off(end[0].sizes, state.sizes, f"rank {rank} beside rank 0")
        if off is not None:
            return off
    off = sizes_off(first[0].sizes, end[0].sizes, "another order of the same start")
    if off is not None:
        return off
    expected, got = ("finished" if all(map(system.is_finished, state)) else "not finished" for state in (first, end))
    return HOLDS if expected == got else Broken("end", expected, got, "another order of the same start")


ANY_ALGORITHM = (None, *ALGORITHMS)

START_UP_LAWS = (
    StartUpLaw(
        "S1",
        "measured after every weight",
        "Memory is measured after every weight that will be loaded is resident.",
        ANY_ALGORITHM,
        of_rank=measured_after_every_weight,
    ),
    StartUpLaw(
        "S2",
        "in the order of need",
        "No pool before sizing, no backend before its pool, no graph before the backends, no worker info before the "
        "pools.",
        ANY_ALGORITHM,
        of_rank=in_the_order_of_need,
    ),
    StartUpLaw(
        "S3",
        "each exactly once",
        "Each pool and each backend exactly once; asking again changes nothing.",
        ANY_ALGORITHM,
        of_rank=each_exactly_once,
    ),
    StartUpLaw(
        "S4",
        "the draft gets the target's sizes",
        "The draft gets the target's resolved sizes and shares its allocator.",
        ALGORITHMS,
        of_rank=the_draft_gets_the_targets_sizes,
    ),
    StartUpLaw(
        "S5",
        "within the static share",
        "Once there is a pool, resident bytes, spare rows, request tables and graphs aside, never exceed the static "
        "fraction of the memory that was free before loading.",
        ANY_ALGORITHM,
        of_rank=within_the_static_share,
    ),
    StartUpLaw(
        "S6",
        "exposed by the draft's weights",
        "The historical frozen-KV protocol (target pool before the draft loads) misses exactly the draft's weights "
        "when it measures; the present one misses nothing.",
        (FROZEN_KV_MTP,),
        of_rank=exposed_by_the_drafts_weights,
    ),
    StartUpLaw(
        "S7",
        "every order ends alike",
        "Every order the protocol allows ends in the same sizes, on every rank.",
        ANY_ALGORITHM,
        of_end=every_order_ends_alike,
    ),
)
"""In the order of the table in README.md."""

START_UP_BY_ID = {law.id: law for law in START_UP_LAWS}
