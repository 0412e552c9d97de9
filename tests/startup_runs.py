"""Start-ups over tensors for the tests, and what must be true of their ledgers at any time."""

from dataclasses import replace

from impl.startup import StartUp
from impl.torch_pools import storage_bytes
from spec.model import Refusal
from spec.pools import size_pools
from spec.startup.protocols import PRESENT
from spec.startup.system import resident
from spec.startup.worlds import small_world

BARE = [replace(protocol, phases=()) for protocol in PRESENT if protocol.name != "three-phase"]
"""A protocol of each kind of draft without phases: every order the guards allow, which is what the tensors obey."""


def bare_world(protocol, ranks, **switches):
    """A small world of a protocol without phases."""
    return small_world(replace(protocol, phases=()), ranks, **switches)


def start_up(world, device="meta"):
    """A start-up sized by the spec."""
    return StartUp(world, size_pools, device)


def tensors_of(scheduler):
    """Every tensor a rank holds."""
    yield from (tensor for tensor in (scheduler.temporaries, scheduler.graphs) if tensor is not None)
    for worker, runner in scheduler.runners():
        yield from (tensor for tensor in (runner.weights,) if tensor is not None)
        yield from (tensor for pool in runner.pools or () for tensor in pool.tensors)
        if worker is scheduler.tp_worker and worker.req_to_token_pool is not None:
            yield worker.req_to_token_pool


def assert_ledgers_are_right(world, run):
    """What a ledger has given out is what is there, tensor by tensor, and what the spec says is resident."""
    for scheduler, state in zip(run.schedulers, run.state(), strict=True):
        ledger = scheduler.ledger
        assert ledger.held_bytes == dict(resident(world, state))
        assert sum(ledger.held_bytes.values()) == storage_bytes(tensors_of(scheduler))
        assert 0 <= ledger.free_bytes == ledger.capacity_bytes - sum(ledger.held_bytes.values())


def assert_refused_alike(expected, refusal):
    """By kind and step; out of order, by what has to come first; a lack of memory may be one tensor's."""
    assert isinstance(refusal, Refusal)
    assert (refusal.kind, refusal.field) == (expected.kind, expected.field)
    if expected.kind != "out_of_memory":
        assert refusal.needed == expected.needed
