"""A start-up over real tensors: a scheduler a rank, its target and draft workers, and the ledger of its device.

Names are SGLang's (`managers/scheduler.py`). Weights, pools, request tables and graphs are torch tensors on `meta`
(real sizes) or `cpu` (small ones). Every method may be called at any time: what is done is not done again, what cannot
be done yet is refused, and neither that nor a lack of memory leaves anything behind.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from impl.ledger import Ledger, OutOfMemory
from impl.startup_workers import DRAFT_WORKERS, ModelRunner, TpModelWorker, target_runner, too_early
from spec.model import MemoryFigures, PoolSizes, Refusal, Refused, Scenario, active_draft, refuse
from spec.startup.protocols import TARGET
from spec.startup.system import PoolHeld, RankState, State, Step, check_step, steps_of
from spec.startup.world import World, check_world

SizePools = Callable[[Scenario], PoolSizes | Refusal]


class Scheduler:
    """One rank. `readings` is what all ranks have read, each in its place: the collective of `measure`."""

    def __init__(
        self, world: World, rank: int, readings: list[int | None], size_pools: SizePools, device: torch.device
    ) -> None:
        scenario, draft = world.scenario, active_draft(world.scenario)
        self.world = world
        self.rank = rank
        self.readings = readings
        self.size_pools = size_pools
        self.ledger = Ledger(device, world.ranks[rank].free_before_load)
        self.temporaries: Tensor | None = None
        self.graphs: Tensor | None = None
        self.worker_info: PoolSizes | None = None
        runner = target_runner(scenario, world.target_weight_bytes, self.ledger)
        self.tp_worker = TpModelWorker(scenario, (runner,), self.ledger)
        self.draft_worker: TpModelWorker | None = None
        if draft is not None and scenario.speculative_algorithm is not None:
            worker_class = DRAFT_WORKERS[scenario.speculative_algorithm]
            layers = worker_class.runner_positions(draft)
            runners = [
                ModelRunner(owner, weight_bytes, positions, self.ledger)
                for (owner, positions), weight_bytes in zip(layers.items(), world.draft_weight_bytes, strict=True)
            ]
            self.draft_worker = worker_class(scenario, runners, self.ledger)

    def runners(self) -> Iterator[tuple[TpModelWorker, ModelRunner]]:
        """Every runner with its worker, the target's first."""
        for worker in (self.tp_worker, self.draft_worker):
            if worker is not None:
                yield from ((worker, runner) for runner in worker.runners)

    def found(self, owner: str) -> tuple[TpModelWorker, ModelRunner]:
        """The runner of an owner, and its worker."""
        return next((worker, runner) for worker, runner in self.runners() if runner.owner == owner)

    def load_model(self, owner: str) -> None:
        """One runner's weights, and what the loader holds until it is collected. Both or neither."""
        _, runner = self.found(owner)
        if runner.weights is not None:
            return
        was_clean = self.temporaries is None
        if was_clean and self.world.loader_bytes:
            with self.ledger.charging("loader temporaries"):
                self.temporaries = torch.empty(self.world.loader_bytes, dtype=torch.uint8, device=self.ledger.device)
        try:
            runner.load_model()
        except OutOfMemory:
            if was_clean:
                self.collect()
            raise

    def collect(self) -> None:
        """What loaders still hold is gone."""
        self.temporaries = None
        self.ledger.give_back("loader temporaries")

    def profile_available_memory(self) -> None:
        """Read the free memory for all ranks to see. Refused before every weight is resident and the loader's memory is
        collected."""
        if self.readings[self.rank] is not None:
            return
        for _, runner in self.runners():
            if runner.weights is None:
                raise too_early("measure", f"load {runner.owner}")
        if self.temporaries is not None:
            raise too_early("measure", "release")
        reserved = self.world.ranks[self.rank].reserved_bytes
        self.readings[self.rank] = max(0, self.ledger.free_bytes - reserved)

    def resolve_memory_pool_config(self) -> None:
        """The target's sizes, from the readings of all ranks. Refused before each has read; and as the budget does."""
        if self.tp_worker.memory_pool_config is not None:
            return
        readings = [reading for reading in self.readings if reading is not None]
        if len(readings) < len(self.readings):
            raise too_early("size", "measure", " on every rank")
        before = tuple(rank.free_before_load for rank in self.world.ranks)
        figures = MemoryFigures((before,), (tuple(readings),), self.world.mem_fraction_static)
        sizes = self.size_pools(replace(self.world.scenario, budget=figures))
        if isinstance(sizes, Refusal):
            raise Refused(sizes)
        self.tp_worker.memory_pool_config = sizes

    def init_target_memory_pool(self) -> None:
        """Measure, size, and allocate the target's pools, if they are not there yet."""
        self.profile_available_memory()
        self.resolve_memory_pool_config()
        self.tp_worker.alloc_memory_pool()

    def alloc_runner(self, owner: str) -> None:
        """One runner's pools; a draft's are handed the target's sizes, request table and allocator."""
        worker, runner = self.found(owner)
        target = self.tp_worker
        if worker is target:
            target.alloc_runner(runner)
        elif runner.pools is None:
            if target.memory_pool_config is None:
                raise too_early(f"allocate {owner}", "size")
            if target.token_to_kv_pool_allocator is None:
                raise too_early(f"allocate {owner}", f"allocate {TARGET}")
            worker.alloc_runner(
                runner, target.memory_pool_config, target.req_to_token_pool, target.token_to_kv_pool_allocator
            )

    def init_memory_pools(self) -> None:
        """The target's pools, then every draft runner's."""
        self.init_target_memory_pool()
        for _, runner in self.runners():
            self.alloc_runner(runner.owner)

    def init_all_attention_backends(self) -> None:
        """A backend for each runner."""
        for worker in (self.tp_worker, self.draft_worker):
            if worker is not None:
                worker.init_attention_backends(self.tp_worker)

    def attach(self, owner: str) -> None:
        """One runner's backend."""
        worker, runner = self.found(owner)
        worker.init_runner_backend(runner, self.tp_worker)

    def init_all_cuda_graphs(self) -> None:
        """Record graphs. Refused before every backend is there."""
        if self.graphs is not None:
            return
        for _, runner in self.runners():
            if runner.attn_backend is None:
                raise too_early("capture", f"attach {runner.owner}")
        with self.ledger.charging("graphs"):
            self.graphs = torch.empty(self.world.graph_bytes, dtype=torch.uint8, device=self.ledger.device)

    def get_worker_info(self) -> PoolSizes:
        """Tokens, running requests and request length, of the pools that are there. Refused before they are."""
        for _, runner in self.runners():
            if runner.pools is None:
                raise too_early("report", f"allocate {runner.owner}")
        self.worker_info = self.tp_worker.memory_pool_config
        assert self.worker_info is not None
        return self.worker_info

    def state(self) -> RankState:
        """What this rank has done, read from its tensors and its workers."""
        runners = [runner for _, runner in self.runners()]
        return RankState(
            weights=tuple(runner.owner for runner in runners if runner.weights is not None),
            temporaries=self.temporaries is not None,
            measured=self.readings[self.rank],
            sizes=self.tp_worker.memory_pool_config,
            pools=tuple(pool_held(worker, runner) for worker, runner in self.runners() if runner.pools is not None),
            backends=tuple(runner.owner for runner in runners if runner.attn_backend is not None),
            captured=self.graphs is not None,
            reported=self.worker_info is not None,
        )


def pool_held(worker: TpModelWorker, runner: ModelRunner) -> PoolHeld:
    """A runner's pools as the spec speaks of them; the request table is the target's."""
    sizes, allocator = runner.memory_pool_config, worker.token_to_kv_pool_allocator
    assert sizes is not None and allocator is not None
    table = worker.req_to_token_pool if runner.owner == TARGET else None
    return PoolHeld(
        owner=runner.owner,
        sizes=sizes,
        allocator=allocator.owner,
        pool_bytes=runner.pool_bytes,
        spare_bytes=runner.spare_bytes,
        table_bytes=0 if table is None else table.untyped_storage().nbytes(),
    )


class StartUp:
    """All ranks of a world, asked step by step, or run from beginning to end."""

    def __init__(self, world: World, size_pools: SizePools, device: str = "meta") -> None:
        """Raises `Refused` for a world that means nothing, and for a historical protocol: there is one order here."""
        check_world(world)
        if world.protocol.historical:
            raise refuse("unsupported", "protocol", world.protocol.name, "present protocols only")
        self.steps = steps_of(world)
        readings: list[int | None] = [None] * len(world.ranks)
        on = torch.device(device)
        self.schedulers = [Scheduler(world, rank, readings, size_pools, on) for rank in range(len(world.ranks))]

    def ask(self, rank: int, step: Step) -> Refusal | None:
        """Ask one rank for one step; None when it is taken, or was before."""
        scheduler = self.schedulers[rank]
        calls: dict[str, Callable[[], object]] = {
            "load": lambda: scheduler.load_model(step.owner),
            "release": scheduler.collect,
            "measure": scheduler.profile_available_memory,
            "size": scheduler.resolve_memory_pool_config,
            "allocate": lambda: scheduler.alloc_runner(step.owner),
            "attach": lambda: scheduler.attach(step.owner),
            "capture": scheduler.init_all_cuda_graphs,
            "report": scheduler.get_worker_info,
        }
        try:
            check_step(self.steps, step)
            calls[step.verb]()
        except Refused as refused:
            return refused.refusal
        except OutOfMemory as full:
            return Refusal("out_of_memory", str(step), full.needed, full.needed, full.available, str(full))
        return None

    def state(self) -> State:
        """What every rank has done."""
        return tuple(scheduler.state() for scheduler in self.schedulers)

    def run(self) -> tuple[PoolSizes, ...]:
        """Load all, allocate all, attach all, capture, report, rank beside rank. Raises the first refusal."""
        for scheduler in self.schedulers:
            for _, runner in scheduler.runners():
                scheduler.load_model(runner.owner)
            scheduler.collect()
        for scheduler in self.schedulers:
            scheduler.profile_available_memory()
        for scheduler in self.schedulers:
            scheduler.init_memory_pools()
            scheduler.init_all_attention_backends()
        for scheduler in self.schedulers:
            if scheduler.world.captures:
                scheduler.init_all_cuda_graphs()
        return tuple(scheduler.get_worker_info() for scheduler in self.schedulers)
