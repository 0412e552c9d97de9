"""Steps, states and refusals of the start-up, and the worlds it accepts."""

from dataclasses import replace
from fractions import Fraction

import pytest

from spec.accounting import stage_buffers
from spec.budget import static_bytes
from spec.model import (
    EAGLE,
    FROZEN_KV_MTP,
    FULL,
    MTP,
    AttentionShape,
    Deployment,
    Draft,
    Index,
    Latent,
    PoolSizes,
    Refusal,
    Refused,
    Scenario,
)
from spec.startup.explorer import finished, replayed
from spec.startup.protocols import ANY_ORDER, HISTORICAL, PRESENT, Before
from spec.startup.system import RankState, Step, System, free_bytes, resident
from spec.startup.world import World, buffers, draft_owners, owners, reads_pools, request_table_bytes
from spec.startup.worlds import ENCODING, ROOMY, SCARCE, capped_world, small_world
from spec.units import GiB

BY_ALGORITHM = {protocol.algorithm: protocol for protocol in PRESENT}


def after(system, *steps, rank=0):
    """The state after some steps of one rank."""
    return replayed(system, tuple((rank, Step(*step.split(" ", 1))) for step in steps))[-1]


def refused(system, state, step, rank=0):
    """The refusal of a step."""
    answer = system.ask(state, rank, Step(*step.split(" ", 1)))
    assert isinstance(answer, Refusal)
    return answer


def test_a_start_moves_these_bytes():
    """24 GiB, three quarters static: 6 + 1 GiB of weights leave 11 for 24 KiB a token, in pages of 16."""
    system = System(small_world(ANY_ORDER, (ROOMY,)))
    (state,) = replayed(system, finished(system, ()))[-1]
    assert state.measured == 17 * GiB
    assert state.sizes == PoolSizes(480592, 480592, 0, 4096, 4095)
    tokens = 11 * GiB // (24 * 1024) // 16 * 16
    assert tokens == 480592
    assert dict(resident(system.world, state)) == {
        "target weights": 6 * GiB,
        "draft weights": 1 * GiB,
        "target pool": (tokens + 16) * 16 * 1024,
        "request table": 4097 * (4096 + 4 + 1) * 4,
        "draft pool": (tokens + 16) * 8 * 1024,
        "graphs": GiB // 4,
    }
    assert free_bytes(system.world, 0, state) == 24 * GiB - sum(size for _, size in resident(system.world, state))
    assert [pool.allocator for pool in state.pools] == ["target", "target"]
    assert system.is_finished(state)


def test_a_step_that_is_done_changes_nothing():
    """Asked again, every step of a finished rank leaves the state as it is."""
    system = System(small_world(ANY_ORDER, (ROOMY, SCARCE)))
    end = replayed(system, finished(system, ()))[-1]
    for rank in (0, 1):
        for step in system.steps:
            assert system.ask(end, rank, step) == end


def test_a_step_out_of_order_is_refused_and_names_what_comes_first():
    """On its own rank, or on every rank."""
    system = System(small_world(ANY_ORDER, (ROOMY, SCARCE)))
    start = system.initial
    assert refused(system, start, "measure").needed == "load target"
    half = after(system, "load target", "load draft")
    answer = refused(system, half, "measure")
    assert (answer.kind, answer.field, answer.needed) == ("out_of_order", "measure", "release")
    measured = after(system, "load target", "load draft", "release", "measure")
    assert refused(system, measured, "size").advice == "first measure on every rank"
    assert refused(system, measured, "attach draft").needed == "allocate draft"


def test_a_step_that_does_not_fit_is_refused_with_its_bytes():
    """Weights of 6 GiB and half a GiB of loader memory on a rank of 5."""
    world = replace(small_world(ANY_ORDER, (ROOMY,)), ranks=(replace(ROOMY, free_before_load=5 * GiB),))
    answer = refused(System(world), System(world).initial, "load target")
    assert (answer.kind, answer.field) == ("out_of_memory", "load target")
    assert (answer.needed, answer.available) == (6 * GiB + GiB // 2, 5 * GiB)


def test_sizing_refuses_as_the_budget_does():
    """Half of 12 GiB is less than 7 GiB of weights."""
    world = small_world(ANY_ORDER, (replace(ROOMY, free_before_load=12 * GiB),), releases=False)
    system = System(replace(world, mem_fraction_static=Fraction(1, 2)))
    state = after(system, "load target", "load draft", "measure")
    assert refused(system, state, "size").kind == "no_memory_left"


def test_a_step_nobody_has_is_refused():
    """Of a worker that is not there, or a capture where none is wanted."""
    system = System(small_world(ANY_ORDER, (ROOMY,), captures=False))
    for step in ("load draft 7", "capture", "dance"):
        assert refused(system, system.initial, step).field == "step"


def test_the_smallest_reading_sizes_every_rank():
    """Less what a rank keeps for itself, taken off before the minimum."""
    for ranks, tokens in (((ROOMY, SCARCE), 415056), ((ROOMY, ENCODING), 393216)):
        system = System(small_world(ANY_ORDER, ranks))
        end = replayed(system, finished(system, ()))[-1]
        assert {state.sizes.max_total_num_tokens for state in end} == {tokens}


def test_a_worker_nobody_told_its_sizes_takes_what_it_finds():
    """The draft that allocates in its constructor fills the static share as if it were alone."""
    protocol = next(protocol for protocol in HISTORICAL if protocol.name == "draft pool in its constructor")
    system = System(small_world(protocol, (ROOMY,), releases=False))
    (state,) = after(system, "load draft", "allocate draft")
    (pool,) = state.pools
    assert pool.pool_bytes - pool.spare_bytes == (18 - 1) * GiB
    assert pool.allocator == "draft"
    assert refused(system, after(system, "load target", "load draft", "allocate draft", "measure"), "size")


def test_every_runner_of_a_multi_layer_draft_has_its_own_part():
    """Their buffers together are the draft's, the index of the one layer that owns it included."""
    shape = AttentionShape((FULL, FULL, FULL), Latent(512, 64), index=Index(128, (0, 2)))
    scenario = Scenario(shape, (0,), draft=Draft(shape), speculative_algorithm=MTP, page_size=64)
    world = World(BY_ALGORITHM[MTP], scenario, (ROOMY,), Fraction(1, 2), GiB, (1, 2, 3))
    System(world)
    sizes = PoolSizes(640, 640, 0, 1, 1)
    whole = [buffer for buffer in stage_buffers(scenario, sizes, 0) if buffer.owner == "draft"]
    parts = [list(buffers(world, owner, sizes)) for owner in draft_owners(world)]
    assert owners(world) == ("target", "draft 0", "draft 1", "draft 2")
    assert [len(part) for part in parts] == [3, 1, 3]
    assert sum(buffer.sold_bytes for part in parts for buffer in part) == sum(buffer.sold_bytes for buffer in whole)


def test_a_frozen_kv_draft_reads_the_targets_pool_beside_its_dummy():
    """Its own pool sells nothing."""
    world = small_world(BY_ALGORITHM[FROZEN_KV_MTP], (ROOMY,))
    assert reads_pools(world, "draft") == ("draft", "target")
    assert reads_pools(world, "target") == ("target",)
    assert reads_pools(small_world(BY_ALGORITHM[EAGLE], (ROOMY,)), "draft") == ("draft",)
    (state,) = replayed(System(world), finished(System(world), ()))[-1]
    assert state.pools[1].pool_bytes == state.pools[1].spare_bytes == (64 + 16) * 4096


def test_a_request_table_has_a_line_for_each_request():
    """10 requests and a spare one, 100 tokens of context, 4 and 3 draft tokens beyond."""
    draft = Draft(AttentionShape((FULL,), Latent(1, 1)), num_draft_tokens=3)
    scenario = Scenario(draft.shape, (0,), draft=draft, context_len=100)
    assert request_table_bytes(scenario, PoolSizes(0, 0, 0, 10, 0)) == 11 * 104 * 4
    assert (
        request_table_bytes(replace(scenario, speculative_algorithm=EAGLE), PoolSizes(0, 0, 0, 10, 0)) == 11 * 107 * 4
    )


def test_a_capped_world_allocates_a_page():
    """So that what is allocated twice fits."""
    world = capped_world(ANY_ORDER, (ROOMY,))
    (state,) = replayed(System(world), finished(System(world), ()))[-1]
    assert state.sizes.max_total_num_tokens == 16


def test_ranks_with_unequal_weights_and_memory_may_exceed_their_own_share():
    """Why the law speaks of equal weights: 100 and 110 bytes, weights of 0 and 10, half of it static."""
    sold = static_bytes(min(100, 110), min(100 - 0, 110 - 10), Fraction(1, 2))
    assert sold == 50
    assert 10 + sold > 110 * Fraction(1, 2)
    assert 110 - 10 - sold >= min(100, 110) * Fraction(1, 2)


GOOD = small_world(ANY_ORDER, (ROOMY,))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"ranks": ()}, "ranks"),
        ({"ranks": [ROOMY]}, "ranks"),
        ({"ranks": (24,)}, "ranks"),
        ({"ranks": (replace(ROOMY, free_before_load=0),)}, "ranks.free_before_load"),
        ({"ranks": (replace(ROOMY, reserved_bytes=-1),)}, "ranks.reserved_bytes"),
        ({"protocol": "EAGLE"}, "protocol"),
        ({"scenario": None}, "scenario"),
        ({"scenario": replace(GOOD.scenario, deployment=Deployment(pp_size=2))}, "deployment.pp_size"),
        ({"scenario": replace(GOOD.scenario, speculative_algorithm=None)}, "scenario.speculative_algorithm"),
        ({"scenario": replace(GOOD.scenario, page_size=0)}, "page_size"),
        ({"mem_fraction_static": Fraction(1)}, "mem_fraction_static"),
        ({"target_weight_bytes": -1}, "target_weight_bytes"),
        ({"loader_bytes": 0.5}, "loader_bytes"),
        ({"graph_bytes": None}, "graph_bytes"),
        ({"captures": 1}, "captures"),
        ({"draft_weight_bytes": (-1,)}, "draft_weight_bytes"),
        ({"draft_weight_bytes": [1]}, "draft_weight_bytes"),
        ({"draft_weight_bytes": (1, 1)}, "draft_weight_bytes"),
    ],
)
def test_a_world_that_means_nothing_is_refused_by_field(changes, field):
    """Nothing is guessed."""
    with pytest.raises(Refused) as raised:
        System(replace(GOOD, **changes))
    assert raised.value.refusal.field == field


def test_a_wait_and_a_step_read_as_text():
    """What patterns match, and what `make model` prints."""
    assert str(Step("load", "draft 1")) == "load draft 1"
    assert str(Step("measure")) == "measure"
    assert str(Before("measure", "size", every_rank=True)) == "measure on every rank, then size"
    assert RankState() == RankState((), False, None, None, (), (), False, False)
