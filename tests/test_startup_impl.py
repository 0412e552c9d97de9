"""The start-up over tensors: the same states and refusals as the spec's in every order, and ledgers that add up."""

from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from impl import load
from impl.ledger import Ledger, OutOfMemory
from impl.startup import StartUp
from impl.startup_workers import AttentionBackend, DraftWorker, TpModelWorker
from impl.torch_pools import build_pools
from spec.catalog import pairs
from spec.model import ALGORITHMS, FROZEN_KV_MTP, FULL, MTP, AttentionShape, Heads, PoolSizes, Refusal, Refused
from spec.pools import size_pools
from spec.startup.explorer import finished, replayed, ways_through
from spec.startup.protocols import ANY_ORDER, HISTORICAL
from spec.startup.system import Step, System
from spec.startup.world import Rank
from spec.startup.worlds import ENCODING, RANKS, ROOMY, SCARCE, small_world
from spec.units import GiB
from tests.startup_exposure import PAIRS, world_of
from tests.startup_runs import (
    BARE,
    assert_ledgers_are_right,
    assert_refused_alike,
    bare_world,
    start_up,
)

KINDS = {protocol.algorithm: protocol for protocol in BARE}


@pytest.mark.parametrize("protocol", BARE, ids=[protocol.name for protocol in BARE])
@pytest.mark.parametrize("ranks", [RANKS[0], RANKS[2]], ids=["one rank", "two ranks"])
def test_every_state_is_reached_and_every_refusal_is_the_specs(protocol, ranks):
    """In every state the guards allow, each step the spec refuses is refused alike and changes nothing; each it takes
    is taken, to the same state."""
    world = small_world(protocol, ranks)
    system, asked = System(world), set()
    for way in ways_through(system):
        run = start_up(world)
        for state, (rank, step) in zip(replayed(system, way), way, strict=False):
            assert run.state() == state
            if state not in asked:
                asked.add(state)
                refusals = refusals_alike(system, run, state)
                assert run.state() == state
                assert refusals < len(ranks) * len(system.steps)
            assert run.ask(rank, step) is None
        assert run.state() == replayed(system, way)[-1]
        assert_ledgers_are_right(world, run)


def refusals_alike(system, run, state):
    """How many steps are refused in a state, by both alike; those that are done change nothing."""
    refusals = 0
    for rank in range(len(state)):
        for step in system.steps:
            expected = system.ask(state, rank, step)
            if isinstance(expected, Refusal):
                refusals += 1
                assert_refused_alike(expected, run.ask(rank, step))
            elif expected == state:
                assert run.ask(rank, step) is None
    return refusals


@pytest.mark.parametrize("algorithm", [None, *ALGORITHMS])
def test_a_whole_start_ends_as_the_spec_says(algorithm):
    """Load all, allocate all, attach all, on three ranks; the same sizes on each."""
    world = small_world(KINDS[algorithm], (ROOMY, SCARCE, ENCODING))
    run = start_up(world)
    info = run.run()
    system = System(world)
    assert run.state() == replayed(system, finished(system, ()))[-1]
    assert len(set(info)) == 1
    assert info[0].max_req_len == 4095
    assert_ledgers_are_right(world, run)


def test_a_start_without_graphs_and_temporaries_is_whole_too():
    """Nothing is captured, nothing collected."""
    run = start_up(bare_world(ANY_ORDER, (ROOMY,), captures=False, releases=False))
    run.run()
    (state,) = run.state()
    assert state.reported
    assert not state.captured
    assert set(run.schedulers[0].ledger.held_bytes) == {
        "target weights",
        "draft weights",
        "target pool",
        "request table",
        "draft pool",
    }


def test_asking_for_the_target_pool_again_changes_nothing():
    """`init_target_memory_pool` measures, sizes and allocates once; `init_memory_pools` adds the draft's, once."""
    run = start_up(bare_world(ANY_ORDER, (ROOMY,)))
    (scheduler,) = run.schedulers
    for owner in ("target", "draft"):
        scheduler.load_model(owner)
    scheduler.collect()
    scheduler.init_target_memory_pool()
    once = run.state()
    scheduler.init_target_memory_pool()
    assert run.state() == once
    assert [pool.owner for pool in once[0].pools] == ["target"]
    scheduler.init_memory_pools()
    twice = run.state()
    scheduler.init_memory_pools()
    assert run.state() == twice
    scheduler.init_all_attention_backends()
    backends = [runner.attn_backend for _, runner in scheduler.runners()]
    scheduler.init_all_attention_backends()
    assert all(runner.attn_backend is kept for (_, runner), kept in zip(scheduler.runners(), backends, strict=True))
    assert scheduler.draft_worker.token_to_kv_pool_allocator is scheduler.tp_worker.token_to_kv_pool_allocator
    assert scheduler.draft_worker.req_to_token_pool is scheduler.tp_worker.req_to_token_pool


class Fuse:
    """Lets so many charges through, then raises like a full device, once."""

    def __init__(self, monkeypatch, charges):
        self.left = charges
        self.taken = 0
        self.take = Ledger.take
        monkeypatch.setattr(Ledger, "take", lambda ledger, name, size: self.charge(ledger, name, size))

    def charge(self, ledger, name, size):
        """One charge."""
        self.taken += 1
        self.left -= 1
        if self.left == -1:
            raise OutOfMemory(name, size, 0)
        self.take(ledger, name, size)


@pytest.mark.parametrize("algorithm", [None, *ALGORITHMS])
def test_running_out_at_any_allocation_leaves_nothing_behind(algorithm, monkeypatch):
    """Each tensor of a start in turn does not fit: the state is the one before the step, the ledger agrees with the
    tensors, and asked again the start goes on to the same end."""
    world = bare_world(KINDS[algorithm], (ROOMY,))
    system = System(world)
    way = finished(system, ())
    states = replayed(system, way)
    counting = Fuse(monkeypatch, 10**6)
    start_up(world).run()
    assert counting.taken > len(way) // 2
    for charges in range(counting.taken):
        Fuse(monkeypatch, charges)
        run, failed = start_up(world), 0
        for (rank, step), state in zip(way, states, strict=False):
            refusal = run.ask(rank, step)
            if refusal is not None:
                failed += 1
                assert (refusal.kind, refusal.field) == ("out_of_memory", str(step))
                assert run.state() == state
                assert_ledgers_are_right(world, run)
                assert run.ask(rank, step) is None
        assert failed == 1
        assert run.state() == states[-1]
        assert_ledgers_are_right(world, run)


SMALL_LAYER = Heads(1, 8, 8)
SMALL = AttentionShape((FULL, FULL), SMALL_LAYER)


@pytest.mark.parametrize("algorithm", [None, *ALGORITHMS])
def test_a_small_start_really_allocates(algorithm):
    """On `cpu`, on a rank of 64 KiB."""
    world = bare_world(KINDS[algorithm], (ROOMY,))
    draft = world.scenario.draft and replace(world.scenario.draft, shape=SMALL)
    scenario = replace(
        world.scenario, target=SMALL, draft=draft, context_len=16, user_max_running_requests=8, page_size=4
    )
    world = replace(
        world,
        scenario=scenario,
        ranks=(Rank(64 * 1024),),
        target_weight_bytes=1000,
        draft_weight_bytes=(500,) * len(world.draft_weight_bytes),
        loader_bytes=100,
        graph_bytes=200,
    )
    on_cpu, on_meta = start_up(world, "cpu"), start_up(world)
    assert on_cpu.run() == on_meta.run()
    assert on_cpu.state() == on_meta.state()
    assert_ledgers_are_right(world, on_cpu)
    assert {
        tensor.device.type for _, runner in on_cpu.schedulers[0].runners() for tensor in runner.pools[0].tensors
    } == {"cpu"}


def test_real_pairs_start_at_their_real_sizes():
    """On `meta`, tp 8 on 141 GiB: the bytes of every pool are the accounting's."""
    started = 0
    for pair in PAIRS:
        world = world_of(pair, ANY_ORDER, 141, Fraction("0.9"), 8)
        run = start_up(world)
        run.run()
        system = System(world)
        assert run.state() == replayed(system, finished(system, ()))[-1], pair.target.name
        started += 1
    assert started == len(PAIRS) < len(list(pairs()))


def test_a_historical_protocol_has_no_start_up():
    """There is one order here."""
    with pytest.raises(Refused) as raised:
        start_up(small_world(HISTORICAL[0], (ROOMY,)))
    assert raised.value.refusal.field == "protocol"


def test_a_step_nobody_has_is_refused():
    """As the spec refuses it."""
    run = start_up(bare_world(ANY_ORDER, (ROOMY,), captures=False))
    for step in (Step("capture"), Step("load", "draft 7"), Step("dance")):
        assert run.ask(0, step).field == "step"


def test_the_registered_implementations_offer_a_start_up():
    """Sized by themselves."""
    for name in ("spec", "configurator"):
        run = load(name).start_up(bare_world(ANY_ORDER, (ROOMY,)))
        assert isinstance(run, StartUp)
        assert run.run() == (PoolSizes(480592, 480592, 0, 4096, 4095),)


def test_a_backend_attaches_only_to_a_pool_that_is_what_it_says():
    """Not on another device, not with other rows."""
    world = bare_world(ANY_ORDER, (ROOMY,))
    (pool, _) = build_pools(world.scenario, PoolSizes(32, 32, 0, 1, 1), 0)
    AttentionBackend("target", torch.device("meta"), [pool])
    for device, wrong in (("cpu", pool), ("meta", replace(pool, rows=pool.rows + 1))):
        with pytest.raises(Refused) as raised:
            AttentionBackend("target", torch.device(device), [wrong])
        assert raised.value.refusal.field == "attach target"


def test_workers_refuse_what_they_were_not_handed():
    """A worker without sizes allocates nothing; a frozen-KV backend waits for the target's pool as well as its own."""
    run = start_up(bare_world(KINDS[FROZEN_KV_MTP], (ROOMY,)))
    scheduler = run.schedulers[0]
    with pytest.raises(Refused) as raised:
        scheduler.tp_worker.alloc_memory_pool()
    assert raised.value.refusal.needed == "size"
    sizes = PoolSizes(32, 32, 0, 1, 1)
    scheduler.draft_worker.alloc_memory_pool(sizes, torch.empty(0), None)
    with pytest.raises(Refused) as raised:
        scheduler.draft_worker.init_attention_backends(scheduler.tp_worker)
    assert raised.value.refusal.needed == "allocate target"
    assert scheduler.draft_worker.token_to_kv_pool_allocator.owner == "draft"


def test_each_kind_of_draft_has_a_worker_of_its_own():
    """One class each; only the multi-layer one has several runners."""
    classes = set()
    for algorithm in ALGORITHMS:
        worker = start_up(bare_world(KINDS[algorithm], (ROOMY,))).schedulers[0].draft_worker
        assert isinstance(worker, DraftWorker)
        classes.add(type(worker))
        assert len(worker.runners) == (2 if algorithm == MTP else 1)
    assert len(classes) == len(ALGORITHMS)
    assert type(start_up(bare_world(KINDS[None], (ROOMY,))).schedulers[0].tp_worker) is TpModelWorker


def test_a_ledger_counts_what_is_made_and_nothing_that_does_not_fit():
    """Charged before it is made; given back whole where anything is raised."""
    ledger = Ledger(torch.device("meta"), 100)
    with ledger.charging("first"):
        torch.empty((5, 4), dtype=torch.int16, device="meta").view(20)
        torch.empty(10, dtype=torch.uint8, device="meta")
    assert (ledger.held_bytes, ledger.free_bytes) == ({"first": 50}, 50)
    with pytest.raises(OutOfMemory) as raised, ledger.charging("second"):
        torch.empty(30, dtype=torch.uint8, device="meta")
        torch.empty(21, dtype=torch.uint8, device="meta")
    assert (raised.value.needed, raised.value.available) == (21, 20)
    assert str(raised.value) == "out of memory: second needs 21 bytes, 20 are free"
    assert (ledger.held_bytes, ledger.free_bytes) == ({"first": 50}, 50)
    ledger.give_back("first")
    assert ledger.free_bytes == 100
    torch.empty(200, dtype=torch.uint8, device="meta")
    assert ledger.free_bytes == 100


def test_sizes_are_those_of_the_implementation_that_starts():
    """Whatever it answers; its refusal ends the start."""
    world = bare_world(ANY_ORDER, (replace(ROOMY, free_before_load=12 * GiB),))
    world = replace(world, mem_fraction_static=Fraction(1, 2))
    with pytest.raises(Refused) as raised:
        StartUp(world, size_pools).run()
    assert raised.value.refusal.kind == "no_memory_left"
    (info,) = StartUp(world, lambda scenario: PoolSizes(16, 16, 0, 1, 15)).run()
    assert info == PoolSizes(16, 16, 0, 1, 15)
