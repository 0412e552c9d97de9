"""Start-ups with one fault each: what every start-up law must see in an implementation."""

from dataclasses import replace

from impl.reference import Reference
from impl.startup import StartUp
from impl.startup_workers import TokenAllocator
from spec.model import refuse
from spec.pools import size_pools
from spec.startup.system import Step


class Wrong(StartUp):
    """A start-up sized by the spec; `state` tells whatever `told` makes of the truth."""

    def __init__(self, world):
        super().__init__(world, size_pools)

    def told(self, rank, state):
        """What it says of one rank."""
        return state

    def state(self):
        """What it says of every rank."""
        return tuple(self.told(rank, state) for rank, state in enumerate(super().state()))


class ForgetsADraftRunner(Wrong):
    """S1: it measures before the draft is there, and loads it with the pools."""

    def told(self, rank, state):
        """The draft's weights come with its pool."""
        late = not any(pool.owner.startswith("draft") for pool in state.pools)
        return replace(state, weights=state.weights[:1] if late else state.weights)


class AttachesAtOnce(Wrong):
    """S2: backends are built with the weights."""

    def told(self, rank, state):
        """A backend for whoever has weights."""
        return replace(state, backends=state.weights)


class AllocatesAgain(Wrong):
    """S3: asked for the target's pool again, it builds it again."""

    def ask(self, rank, step):
        """Forget the pool that is there."""
        if step == Step("allocate", "target"):
            worker = self.schedulers[rank].tp_worker
            if worker.runners[0].pools is not None:
                worker.memory_pool_config = replace(worker.memory_pool_config, max_req_len=1)
        return super().ask(rank, step)


class AllocatesApart(Wrong):
    """S4: the draft has an allocator of its own."""

    def ask(self, rank, step):
        """Put another allocator into the draft's worker."""
        refusal = super().ask(rank, step)
        draft_worker = self.schedulers[rank].draft_worker
        if draft_worker is not None and draft_worker.token_to_kv_pool_allocator is not None:
            draft_worker.token_to_kv_pool_allocator = TokenAllocator("draft")
        return refusal


class ReadsTooSoon(Wrong):
    """S5: it takes the draft's weights for free, as if they were still to come."""

    def ask(self, rank, step):
        """A reading of before the draft."""
        refusal = super().ask(rank, step)
        scheduler = self.schedulers[rank]
        if step.verb == "measure" and refusal is None:
            scheduler.readings[rank] = scheduler.ledger.capacity_bytes - scheduler.world.target_weight_bytes
        return refusal


class LosesItsReserve(Wrong):
    """S6: a reading that misses a byte."""

    def ask(self, rank, step):
        """A byte less than there is."""
        refusal = super().ask(rank, step)
        if step.verb == "measure" and refusal is None:
            self.schedulers[rank].readings[rank] -= 1
        return refusal


class Disagrees(Wrong):
    """S7: the second rank sells a page more."""

    def told(self, rank, state):
        """Other sizes than those of the first rank."""
        if state.sizes is None or rank == 0:
            return state
        return replace(state, sizes=replace(state.sizes, max_total_num_tokens=state.sizes.max_total_num_tokens - 16))


class Refuses(Wrong):
    """Every law: it refuses to load."""

    def ask(self, rank, step):
        """No."""
        return refuse("unsupported", "step", str(step)).refusal


class SilentStart(Reference):
    """An implementation without a start-up."""

    start_up = property()


def implementation(start_up):
    """The spec with another start-up."""
    return type(start_up.__name__, (Reference,), {"start_up": lambda self, world: start_up(world)})


Disagreeing = implementation(Disagrees)
"""For `--kv-impl tests.wrong_startups:Disagreeing`."""
