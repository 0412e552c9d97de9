"""Sizes to bytes: the pools a release really builds, by its own builders, with their tensors counted.

The builders (`KVCacheConfigurator._build_token_to_kv_pool`) run on records, once as the target worker and once as the
draft worker. Tensors are made on torch's `meta` device: of the real shape and dtype, without memory, so that a pool of
the full size is counted and nothing is extrapolated. `DEVICE` set to "cpu" builds the same pools in memory.
"""

from typing import Any

from impl import CannotJudge
from impl.sglang.drift import Record
from impl.sglang.records import Records, parallel_widths
from spec.layers import WINDOW_POOLS, draft_lives_on, is_latent, layers_of_stage, pool_kind
from spec.model import (
    DFLASH_FAMILY,
    FULL,
    LINEAR,
    MTP,
    SWA,
    AttentionShape,
    Draft,
    PoolSizes,
    Scenario,
    active_draft,
)

DEVICE = "meta"

NO_SCALES = Record("model", ("model",), layers=())
"""A loaded model, asked for the global scales of FP4 rows only: it has none."""

BUILDERS = (
    "_derive_pool_sizes",
    "_build_token_to_kv_pool",
    "_build_mtp_kv_shard_pool",
    "_build_dsa_kv_pool",
    "_build_mla_fp4_kv_pool",
    "_build_mla_kv_pool",
    "_build_hybrid_swa_kv_pool",
    "_build_minimax_sparse_kv_pool",
    "_build_hybrid_linear_kv_pool",
    "_build_mha_kv_pool",
    "_build_mha_quant_method",
    "_build_fp4_quant_method",
    "_resolve_kv_pool_class",
    "_page_major_enabled",
    "_hybrid_full_attention_pool_class",
    "_init_pools",
    "_validate_prefill_only_disable_kv_cache_pool_family",
    "calculate_mla_kv_cache_dim",
)
"""Methods of the release's own start-up class; those a release does not have are left out. Before 0.5.16 one method,
`_init_pools`, builds everything."""

NOT_ROWS = ("ptrs", "strides", "mapping", "stream", "event", "scales_gpu")
"""Parts of a pool that are addresses of its buffers or one scale a layer, not rows."""


SPARSE_PAGE_SIZE = 64
"""Tokens of a page that a release's sparse MLA pool accepts; argument checks set it. `memory_pool.py`."""


def is_sparse(shape: AttentionShape) -> bool:
    """Whether a model has sparse MLA rows."""
    return is_latent(shape) and shape.index is not None


def shapes_of(scenario: Scenario) -> list[AttentionShape]:
    """The geometry of the target, and of the draft in use."""
    draft = active_draft(scenario)
    return [scenario.target] if draft is None else [scenario.target, draft.shape]


def buffers(pool: Any, torch: Any, seen: set[int] | None = None) -> list[Any]:
    """Every tensor that holds rows, in a pool and in the pools it is made of."""
    seen = set() if seen is None else seen
    if id(pool) in seen:
        return []
    seen.add(id(pool))
    if isinstance(pool, torch.Tensor):
        return [pool]
    if isinstance(pool, (list, tuple)):
        parts = list(pool)
    elif isinstance(pool, dict):
        parts = list(pool.values())
    elif type(pool).__module__.startswith("sglang.") and hasattr(pool, "__dict__"):
        parts = [part for name, part in vars(pool).items() if not any(word in name for word in NOT_ROWS)]
    else:
        return []
    return [tensor for part in parts for tensor in buffers(part, torch, seen)]


def storage_bytes(tensors: list[Any]) -> int:
    """Bytes behind the tensors, each storage once however many views share it."""
    storages = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        storages[storage._cdata] = storage
    return sum(storage.nbytes() for storage in storages.values())


def no_warm_up(_: Any) -> None:
    """In place of a pool's copy kernel being tried out, which needs a GPU and makes no rows."""


class Pools:
    """The pools of one release."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.world = records.world
        for pool_class in vars(self.world.module("mem_cache.memory_pool")).values():
            if isinstance(pool_class, type) and "_init_kv_copy_and_warmup" in vars(pool_class):
                pool_class._init_kv_copy_and_warmup = no_warm_up  # type: ignore[attr-defined]
        self.draft_layers = Record("draft layer_info")
        self.draft_x = Record(
            "draft kv_cache_configurator",
            model_config=records.draft.model,
            server_args=records.args,
            layer_info=self.draft_layers,
            ps=records.parallel_state,
            spec_aux_config=records.aux,
            device=DEVICE,
            is_draft_worker=True,
            post_capture_kv_active=False,
            is_hybrid_swa_compress=True,
            token_to_kv_pool_allocator=None,
            mambaish_config=None,
            hybrid_gdn_config=None,
            hybrid_kda_config=None,
            model=NO_SCALES,
        )
        self.config = Record(
            "memory_pool_config",
            c4_max_total_num_tokens=0,
            c128_max_total_num_tokens=0,
            c4_state_pool_size=0,
            c128_state_pool_size=0,
            unified_memory_pool_bytes=None,
            unified_total_bytes=None,
        )
        self.requests = Record(
            "req_to_token_pool", mamba_pool=Record("mamba_pool"), req_to_token=Record("req_to_token", shape=(1, 1))
        )
        self.allocator = Record("token_to_kv_pool_allocator", ("logical_attn_allocator", "full_to_swa_index_mapping"))
        for x in (records.x, self.draft_x):
            x.update(kv_shard_rank=None, kv_shard_spec=None, kv_shard_group=None, draft_swa_full_capacity=False)
            world_methods = [name for name in BUILDERS if hasattr(self.world.start_up, name)]
            self.world.bind(x, self.world.start_up, *world_methods)

    def allocated_bytes(self, scenario: Scenario, sizes: PoolSizes) -> tuple[int, ...]:
        """Bytes of all pools on one rank of each stage, spare rows included. Raises `CannotJudge` where the release
        has no such pool on any machine: its sparse MLA pools have pages of 64."""
        if scenario.page_size != SPARSE_PAGE_SIZE and any(is_sparse(shape) for shape in shapes_of(scenario)):
            raise CannotJudge(f"a sparse MLA pool has pages of {SPARSE_PAGE_SIZE} tokens in every release")
        self.records.set(scenario)
        leaves = self.records.leaves(scenario)
        return tuple(self._stage_bytes(scenario, sizes, stage, leaves) for stage in range(scenario.deployment.pp_size))

    def _stage_bytes(self, scenario: Scenario, sizes: PoolSizes, stage: int, leaves: dict[str, Any]) -> int:
        """The target's pools, and the draft's where it lives."""
        self.world.enter(leaves, parallel_widths(scenario, stage))
        self.records.stage(scenario, stage)
        x = self.records.x
        x.update(device=DEVICE, model=NO_SCALES, hybrid_gdn_config=None, hybrid_kda_config=None)
        x.update(loc_space_scale=1, pool_page_size=scenario.page_size)
        held = layers_of_stage(len(scenario.target.layers), scenario.deployment.pp_size, stage)
        tensors = []
        if any(scenario.target.layers[position] != LINEAR for position in held):
            tensors = self._built(x, scenario.target, sizes)
        draft = active_draft(scenario)
        if draft is not None and draft_lives_on(scenario.deployment, stage):
            for positions in self._runners(scenario, draft):
                tensors += self._draft_runner(scenario, draft, sizes, positions)
        return storage_bytes(tensors)

    def _runners(self, scenario: Scenario, draft: Draft) -> list[range]:
        """Draft layers by runner: one each for multi-layer EAGLE, else all of them in one."""
        depth = len(draft.shape.layers)
        if scenario.speculative_algorithm == MTP:
            return [range(layer, layer + 1) for layer in range(depth)]
        return [range(depth)] if depth else []

    def _built(self, x: Record, shape: AttentionShape, sizes: PoolSizes) -> list[Any]:
        """The tensors of the pool a worker builds for sizes."""
        self.config.update(
            max_total_num_tokens=sizes.max_total_num_tokens,
            full_max_total_num_tokens=sizes.full_max_total_num_tokens,
            swa_max_total_num_tokens=sizes.swa_max_total_num_tokens,
            max_running_requests=sizes.max_running_requests,
        )
        if not self.world.release.takes_configurator:
            return buffers(self._built_by_runner(x), self.world.torch)
        pool = x._build_token_to_kv_pool(
            sizes=x._derive_pool_sizes(config=self.config),
            is_dsa_model=is_sparse(shape),
            is_dsv4_model=False,
            req_to_token_pool=self.requests,
        )
        return buffers(pool, self.world.torch)

    def _built_by_runner(self, x: Record) -> Any:
        """The pool that `_init_pools` leaves on a runner. It is handed an allocator, so that it makes none; what it
        asserts of that allocator afterwards is not met, and does not matter."""
        x.update(
            max_total_num_tokens=self.config.max_total_num_tokens,
            max_running_requests=self.config.max_running_requests,
            full_max_total_num_tokens=self.config.full_max_total_num_tokens,
            swa_max_total_num_tokens=self.config.swa_max_total_num_tokens,
            req_to_token_pool=self.requests if x.is_draft_worker else None,
            token_to_kv_pool_allocator=self.allocator,
            enable_hisparse=False,
        )
        if x.mambaish_config is not None:
            raise CannotJudge("this release makes recurrent states and rows in one method, which needs a whole model")
        x.__dict__.pop("token_to_kv_pool", None)
        try:
            x._init_pools()
        except AssertionError:
            if "token_to_kv_pool" not in x.__dict__:
                raise
        return x.__dict__["token_to_kv_pool"]

    def _draft_runner(self, scenario: Scenario, draft: Draft, sizes: PoolSizes, positions: range) -> list[Any]:
        """One draft runner: its own geometry, dtype and layers, heads split over all attention ranks, the target's
        sizes. Only EAGLE, MTP and STANDALONE drafts beside a window target have window pools: the model classes of
        the DFLASH family are not on the release's list of window models (`model_config.py: is_hybrid_swa_model`)."""
        records, shape, x = self.records, draft.shape, self.draft_x
        name, dtype = records.kv_dtype(scenario, shape, draft, loaded=True)
        windows = (
            pool_kind(scenario) in WINDOW_POOLS
            and scenario.speculative_algorithm not in DFLASH_FAMILY
            and any(shape.layers[position] == SWA for position in positions)
        )
        dcp = scenario.deployment.attn_dcp_size
        scale = dcp if self.world.release.has_dcp_sizing else 1
        records.draft.set(shape, window_pools=windows, banded=False, context_len=scenario.context_len, readable=True)
        full = [position for position in positions if shape.layers[position] == FULL]
        swa = [position for position in positions if shape.layers[position] == SWA]
        x.update(
            kv_cache_dtype=dtype,
            kv_cache_dtype_str=name,
            model_dtype=records.draft.dtypes[shape.model_dtype],
            dtype=records.draft.dtypes[shape.model_dtype],
            page_size=scenario.page_size,
            sliding_window_size=shape.sliding_window_size,
            spec_algorithm=records.x.spec_algorithm,
            is_hybrid_swa=windows,
            use_mla_backend=is_latent(shape),
            loc_space_scale=scale,
            pool_page_size=scenario.page_size * scale,
            draft_swa_full_capacity=draft.swa_at_full_rows and bool(swa),
            is_hybrid_swa_mtp_draft=False,
            is_inkling_mtp_draft=False,
            draft_model_idx=None,
            attn_dp_size=scenario.deployment.attn_dp_size,
            pp_size=scenario.deployment.pp_size,
        )
        self.draft_layers.update(
            start_layer=positions.start,
            end_layer=positions.stop,
            num_effective_layers=len(positions),
            full_attention_layer_ids=full,
            swa_attention_layer_ids=swa,
            is_hybrid_swa_mtp_draft=False,
        )
        if not self.world.release.takes_configurator:
            x.update(start_layer=positions.start, end_layer=positions.stop, num_effective_layers=len(positions))
        records.draft.model.update(full_attention_layer_ids=full, swa_attention_layer_ids=swa)
        return self._built(x, shape, sizes)
