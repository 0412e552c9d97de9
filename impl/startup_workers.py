"""The workers of a start-up: what runs a model on one rank, and how each kind of draft differs from that.

Names are SGLang's (`managers/tp_worker.py`, `speculative/`).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from impl.ledger import Ledger, OutOfMemory
from impl.torch_pools import Pool, draft_worker, storage_bytes, target_worker, worker_pools
from spec.model import (
    DFLASH,
    DSPARK,
    EAGLE,
    FROZEN_KV_MTP,
    MTP,
    STANDALONE,
    Draft,
    PoolSizes,
    Refused,
    Scenario,
    refuse,
)
from spec.startup.protocols import DRAFT, TARGET

NO_ROWS = PoolSizes(0, 0, 0, 0, 0)
"""Sizes of which a pool keeps only the spare rows."""
EXTRA_CONTEXT_LEN = 4
"""Tokens a request may run over its context (upstream: `get_req_to_token_extra_context_len`)."""
META = torch.device("meta")


def too_early(step: str, first: str, where: str = "") -> Refused:
    """The refusal of a call that came before what it needs."""
    return refuse("out_of_order", step, None, f"first {first}{where}", needed=first)


class TokenAllocator:
    """Hands out the rows of the target's pool; drafts write theirs under the same numbers."""

    def __init__(self, owner: str) -> None:
        self.owner = owner


class AttentionBackend:
    """Reads pools: only such as are on its device and have the rows they say they have. Refuses others."""

    def __init__(self, owner: str, device: torch.device, pools: Sequence[Pool]) -> None:
        for pool in pools:
            for tensor in pool.tensors:
                if tensor.device.type != device.type or tensor.shape[0] != pool.rows:
                    expected = f"{pool.owner} {pool.name} should have {pool.rows} rows on {device.type}"
                    raise refuse("invalid_input", f"attach {owner}", tuple(tensor.shape), expected)
        self.pools = tuple(pools)


class ModelRunner:
    """One model, or one layer of a multi-layer draft, on one rank: its weights, its pool, its backend."""

    def __init__(self, owner: str, weight_bytes: int, positions: range, ledger: Ledger) -> None:
        self.owner = owner
        self.weight_bytes = weight_bytes
        self.positions = positions
        """The layers it holds."""
        self.ledger = ledger
        self.weights: Tensor | None = None
        self.memory_pool_config: PoolSizes | None = None
        self.pools: tuple[Pool, ...] | None = None
        self.spare_bytes = 0
        self.attn_backend: AttentionBackend | None = None

    def load_model(self) -> None:
        """The weights become resident."""
        with self.ledger.charging(f"{self.owner} weights"):
            self.weights = torch.empty(self.weight_bytes, dtype=torch.uint8, device=self.ledger.device)

    @property
    def pool_bytes(self) -> int:
        """Bytes of its pools' tensors."""
        return storage_bytes(tensor for pool in self.pools or () for tensor in pool.tensors)


class TpModelWorker:
    """Runs the target. Its pools are those of its own sizes; a draft's are those of the sizes it is handed."""

    def __init__(self, scenario: Scenario, runners: Sequence[ModelRunner], ledger: Ledger) -> None:
        self.scenario = scenario
        self.runners = tuple(runners)
        self.ledger = ledger
        self.memory_pool_config: PoolSizes | None = None
        self.req_to_token_pool: Tensor | None = None
        self.token_to_kv_pool_allocator: TokenAllocator | None = None

    def build_pools(self, runner: ModelRunner, sizes: PoolSizes, device: torch.device) -> tuple[Pool, ...]:
        """The pools of one runner."""
        return tuple(worker_pools(target_worker(self.scenario, sizes), runner.positions, device))

    def alloc_memory_pool(
        self,
        memory_pool_config: PoolSizes | None = None,
        req_to_token_pool: Tensor | None = None,
        token_to_kv_pool_allocator: TokenAllocator | None = None,
    ) -> None:
        """The pools of every runner, built for the handed sizes beside the handed request table and allocator; without
        them for its own sizes, with a table and an allocator of its own. Those that exist are kept."""
        for runner in self.runners:
            self.alloc_runner(runner, memory_pool_config, req_to_token_pool, token_to_kv_pool_allocator)

    def alloc_runner(
        self,
        runner: ModelRunner,
        memory_pool_config: PoolSizes | None = None,
        req_to_token_pool: Tensor | None = None,
        token_to_kv_pool_allocator: TokenAllocator | None = None,
    ) -> None:
        """The same for one runner. What does not fit leaves nothing behind."""
        if runner.pools is not None:
            return
        sizes = memory_pool_config or self.memory_pool_config
        if sizes is None:
            raise too_early(f"allocate {runner.owner}", "size")
        with self.ledger.charging(f"{runner.owner} pool"):
            pools = self.build_pools(runner, sizes, self.ledger.device)
        try:
            table = self.new_request_table(sizes) if req_to_token_pool is None else req_to_token_pool
        except OutOfMemory:
            self.ledger.give_back(f"{runner.owner} pool")
            raise
        on_meta = self.build_pools(runner, NO_ROWS, META)
        runner.spare_bytes = storage_bytes(tensor for pool in on_meta for tensor in pool.tensors)
        runner.pools, runner.memory_pool_config = pools, sizes
        self.req_to_token_pool = table
        self.token_to_kv_pool_allocator = token_to_kv_pool_allocator or TokenAllocator(runner.owner)

    def new_request_table(self, sizes: PoolSizes) -> Tensor:
        """From request to rows: a line for each running request and one for padding, an int32 for each token."""
        draft = self.scenario.draft if self.scenario.speculative_algorithm is not None else None
        tokens = self.scenario.context_len + EXTRA_CONTEXT_LEN + (draft.num_draft_tokens if draft is not None else 0)
        with self.ledger.charging("request table"):
            return torch.empty((sizes.max_running_requests + 1, tokens), dtype=torch.int32, device=self.ledger.device)

    def reads(self, runner: ModelRunner, target: "TpModelWorker") -> tuple[ModelRunner, ...]:
        """The runners whose pools the backend of one runner reads."""
        return (runner,)

    def init_attention_backends(self, target: "TpModelWorker") -> None:
        """The backend of every runner; those that exist are kept."""
        for runner in self.runners:
            self.init_runner_backend(runner, target)

    def init_runner_backend(self, runner: ModelRunner, target: "TpModelWorker") -> None:
        """The same for one runner."""
        if runner.attn_backend is not None:
            return
        pools: list[Pool] = []
        for read in self.reads(runner, target):
            if read.pools is None:
                raise too_early(f"attach {runner.owner}", f"allocate {read.owner}")
            pools += read.pools
        runner.attn_backend = AttentionBackend(runner.owner, self.ledger.device, pools)


class DraftWorker(TpModelWorker):
    """Runs a draft on one runner that holds all its layers."""

    @staticmethod
    def runner_positions(draft: Draft) -> dict[str, range]:
        """The layers of each runner, by its owner's name."""
        return {DRAFT: range(len(draft.shape.layers))}

    def build_pools(self, runner: ModelRunner, sizes: PoolSizes, device: torch.device) -> tuple[Pool, ...]:
        """The pools of one runner, with as many rows as the draft holds for the target's sizes."""
        draft = self.scenario.draft
        assert draft is not None
        return tuple(worker_pools(draft_worker(self.scenario, draft, sizes), runner.positions, device))


class EAGLEWorker(DraftWorker):
    """EAGLE, and MTP without a draft path."""


class StandaloneWorker(DraftWorker):
    """A small model of its own."""


class DFlashWorker(DraftWorker):
    """Block diffusion."""


class DSparkWorker(DraftWorker):
    """The DFLASH family's staged draft."""


class MultiLayerEagleWorker(DraftWorker):
    """One runner a layer, each with a pool of its own."""

    @staticmethod
    def runner_positions(draft: Draft) -> dict[str, range]:
        """One layer each."""
        return {f"{DRAFT} {layer}": range(layer, layer + 1) for layer in range(len(draft.shape.layers))}


class FrozenKVMTPWorker(DraftWorker):
    """Reads the target's rows beside a dummy pool of its own."""

    def reads(self, runner: ModelRunner, target: TpModelWorker) -> tuple[ModelRunner, ...]:
        """Its own pool, then the target's."""
        return (runner, *target.runners)


DRAFT_WORKERS: dict[str, type[DraftWorker]] = {
    EAGLE: EAGLEWorker,
    MTP: MultiLayerEagleWorker,
    STANDALONE: StandaloneWorker,
    DFLASH: DFlashWorker,
    DSPARK: DSparkWorker,
    FROZEN_KV_MTP: FrozenKVMTPWorker,
}
"""The class of each algorithm's worker."""


def target_runner(scenario: Scenario, weight_bytes: int, ledger: Ledger) -> ModelRunner:
    """The runner of the target, which holds all its layers."""
    return ModelRunner(TARGET, weight_bytes, range(len(scenario.target.layers)), ledger)
