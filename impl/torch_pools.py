"""Tokens to tensors: every pool of a scenario as the buffers a serving engine would create, on any device.

The third derivation, beside `spec/pools.py` (bytes to tokens) and `spec/accounting.py` (tokens to bytes): nothing here
multiplies a price. A pool class says which buffers a layer stores, of which shape and dtype; torch says what they
weigh. On `meta` an 80 GiB pool takes no memory, on `cpu` and `cuda` it is really there (contents undefined).

`PoolClass.name` is SGLang's (`mem_cache/memory_pool.py`). Its wrappers `SWAKVPool`, `HybridLinearKVPool` and
`MiniMaxSparseKVPool` own no memory: their parts are pools of their own here, called "full", "swa" and "index". fp8 and
fp4 rows have their element dtype where SGLang keeps them as uint8 of the same width; rows that are grouped by page
there (index rows, mxfp8 scales on pages of 128) stay single rows here.

A scenario that `spec.validity.check_scenario` refuses has no pools: it is not looked at again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from spec.dtypes import RAW_LATENT_BACKENDS, draft_backend, draft_kv_dtype, target_kv_dtype
from spec.layers import (
    WINDOW_POOLS,
    draft_head_ranks,
    draft_lives_on,
    heads_per_rank,
    layers_of_stage,
    pool_kind,
    target_head_ranks,
)
from spec.model import (
    DFLASH_FAMILY,
    FROZEN_KV_MTP,
    FULL,
    MTP,
    SWA,
    AttentionShape,
    Draft,
    Heads,
    Index,
    Latent,
    PoolSizes,
    Scenario,
    active_draft,
)

ELEMENT_DTYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
    "mxfp8": torch.float8_e4m3fn,
    "fp4_mx_block16": torch.float4_e2m1fn_x2,
    "nvfp4": torch.float4_e2m1fn_x2,
}
"""KV dtype -> dtype of the data buffers. An item of `float4_e2m1fn_x2` is a byte and holds two elements."""

FROZEN_KV_DUMMY_TOKENS = 64
"""Tokens a frozen-KV MTP worker asks of its dummy pool (upstream: `speculative/frozen_kv_mtp_worker_v2.py`)."""


@dataclass(frozen=True)
class Buffer:
    """One buffer before it is allocated: its name upstream, the shape of one row, the dtype of an item."""

    name: str
    row_shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class PoolClass:
    """A pool class of SGLang's: the buffers each layer has of its own, and those that all its layers share."""

    name: str
    layer_buffers: tuple[Buffer, ...]
    shared_buffers: tuple[Buffer, ...] = ()


def plain_heads(heads: int, head_dim: int, v_head_dim: int, dtype: torch.dtype) -> PoolClass:
    """MHA/GQA: K and V of every head of this rank."""
    keys, values = Buffer("k_buffer", (heads, head_dim), dtype), Buffer("v_buffer", (heads, v_head_dim), dtype)
    return PoolClass("MHATokenToKVPool", (keys, values))


def mxfp8_heads(heads: int, head_dim: int, v_head_dim: int) -> PoolClass:
    """fp8 rows, and an e8m0 scale for each 32 elements of a head."""
    scales = (
        Buffer("k_scale_buffer", (heads, head_dim // 32), torch.float8_e8m0fnu),
        Buffer("v_scale_buffer", (heads, v_head_dim // 32), torch.float8_e8m0fnu),
    )
    rows = plain_heads(heads, head_dim, v_head_dim, torch.float8_e4m3fn).layer_buffers
    return PoolClass("MHATokenToKVPoolMXFP8", rows + scales)


def fp4_rows(heads: int, head_dim: int, scale_shape: tuple[int, ...]) -> tuple[Buffer, ...]:
    """K and V of one width, two elements an item, and their scale bytes."""
    return (
        Buffer("k_buffer", (heads, head_dim // 2), torch.float4_e2m1fn_x2),
        Buffer("v_buffer", (heads, head_dim // 2), torch.float4_e2m1fn_x2),
        Buffer("k_scale_buffer", scale_shape, torch.uint8),
        Buffer("v_scale_buffer", scale_shape, torch.uint8),
    )


def fp4_mx_block16_heads(heads: int, head_dim: int) -> PoolClass:
    """fp4 rows, and a scale byte for each 16 elements, counted over all heads of a row."""
    return PoolClass("MHATokenToKVPoolFP4", fp4_rows(heads, head_dim, (heads * head_dim // 16,)))


def nvfp4_heads(heads: int, head_dim: int) -> PoolClass:
    """fp4 rows with linear scales per head, and the fp8 workspace they are dequantized into for flashinfer prefill.
    Upstream an `MHATokenToKVPool` whose buffers `NVFP4KVCacheMethod.create_buffers` makes."""
    workspace = (
        Buffer("dq_k_buffer", (heads, head_dim), torch.float8_e4m3fn),
        Buffer("dq_v_buffer", (heads, head_dim), torch.float8_e4m3fn),
    )
    return PoolClass("NVFP4KVCacheMethod", fp4_rows(heads, head_dim, (heads, head_dim // 16)), workspace)


def plain_latents(latent_dim: int, dtype: torch.dtype) -> PoolClass:
    """MLA: one latent a row, as wide as rank and rope part together. mxfp8 has no scales here."""
    return PoolClass("MLATokenToKVPool", (Buffer("kv_buffer", (1, latent_dim), dtype),))


def fp4_latents(latent_dim: int) -> PoolClass:
    """MLA in either fp4 format: two elements an item, and a scale byte for each 16 elements."""
    rows = Buffer("kv_buffer", (1, latent_dim // 2), torch.float4_e2m1fn_x2)
    return PoolClass("MLATokenToKVPoolFP4", (rows, Buffer("kv_scale_buffer", (latent_dim // 16,), torch.uint8)))


def scaled_sparse_latents(kv_lora_rank: int, qk_rope_head_dim: int) -> PoolClass:
    """Sparse MLA in scaled fp8, kept as bytes: an fp8 latent, an fp32 scale for each 128 of it, a bf16 rope part."""
    scales_bytes = kv_lora_rank // 128 * torch.float32.itemsize
    row_bytes = kv_lora_rank + scales_bytes + qk_rope_head_dim * torch.bfloat16.itemsize
    return PoolClass("DSATokenToKVPool", (Buffer("kv_buffer", (1, row_bytes), torch.uint8),))


def sparse_latent_index(index_head_dim: int) -> PoolClass:
    """The index beside sparse latents, kept as bytes: fp8 keys, an fp32 scale for each 128 of them."""
    row_bytes = index_head_dim + index_head_dim // 128 * torch.float32.itemsize
    return PoolClass("IndexKeyCache", (Buffer("index_k_with_scale_buffer", (1, row_bytes), torch.uint8),))


def keys_only(head_dim: int, dtype: torch.dtype) -> PoolClass:
    """The index beside sparse heads (MiniMax) that reads no values: one head of K."""
    return PoolClass("MHATokenToKOnlyPool", (Buffer("k_buffer", (1, head_dim), dtype),))


def heads_pool(geometry: Heads, ranks: int, dtype: str) -> PoolClass:
    """The pool class of K and V heads in a KV dtype, on one of `ranks` ranks."""
    heads = heads_per_rank(geometry.num_kv_heads, ranks)
    if dtype == "nvfp4":
        return nvfp4_heads(heads, geometry.head_dim)
    if dtype == "fp4_mx_block16":
        return fp4_mx_block16_heads(heads, geometry.head_dim)
    if dtype == "mxfp8":
        return mxfp8_heads(heads, geometry.head_dim, geometry.v_head_dim)
    return plain_heads(heads, geometry.head_dim, geometry.v_head_dim, ELEMENT_DTYPES[dtype])


def latent_pool(geometry: Latent, dtype: str, backend: str, *, is_sparse: bool) -> PoolClass:
    """The pool class of latents in a KV dtype; every rank keeps them whole. Sparse rows of another dtype than
    fp8_e4m3, or for a backend that reads raw latents, are those of dense MLA."""
    if is_sparse and dtype == "fp8_e4m3" and backend not in RAW_LATENT_BACKENDS:
        return scaled_sparse_latents(geometry.kv_lora_rank, geometry.qk_rope_head_dim)
    latent_dim = geometry.kv_lora_rank + geometry.qk_rope_head_dim
    if ELEMENT_DTYPES[dtype] == torch.float4_e2m1fn_x2:
        return fp4_latents(latent_dim)
    return plain_latents(latent_dim, ELEMENT_DTYPES[dtype])


def index_pool(shape: AttentionShape, index: Index) -> PoolClass:
    """The pool class of the indexer's rows, whatever the KV dtype."""
    if isinstance(shape.full, Latent):
        return sparse_latent_index(index.head_dim)
    dtype = ELEMENT_DTYPES[shape.model_dtype]
    if index.stores_values:
        return plain_heads(1, index.head_dim, index.head_dim, dtype)
    return keys_only(index.head_dim, dtype)


@dataclass(frozen=True)
class Pool:
    """One allocated pool of one rank. `rows` are those of each buffer, spare rows included; `tensors` are the layers'
    buffers and the shared ones, `buffers` the same by their names upstream."""

    owner: str
    name: str
    pool_class: PoolClass
    rows: int
    buffers: dict[str, tuple[Tensor, ...]]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All of them."""
        return tuple(tensor for tensors in self.buffers.values() for tensor in tensors)


@dataclass(frozen=True)
class Worker:
    """What the pools of a target and of a draft worker differ in, on one rank. Rows include the spare ones;
    `has_swa_pool`: SWA layers have a pool of their own, beside the one of the full layers."""

    owner: str
    shape: AttentionShape
    dtype: str
    backend: str
    head_ranks: int
    has_swa_pool: bool
    full_rows: int
    swa_rows: int
    index_rows: int


def allocate(worker: Worker, name: str, pool_class: PoolClass, layers: int, rows: int, device: torch.device) -> Pool:
    """A pool of `layers` layers with `rows` rows in every buffer."""
    buffers = {
        buffer.name: tuple(
            torch.empty((rows, *buffer.row_shape), dtype=buffer.dtype, device=device) for _ in range(layers)
        )
        for buffer in pool_class.layer_buffers
    }
    for buffer in pool_class.shared_buffers:
        buffers[buffer.name] = (torch.empty((rows, *buffer.row_shape), dtype=buffer.dtype, device=device),)
    return Pool(worker.owner, name, pool_class, rows, buffers)


def worker_pools(worker: Worker, positions: range, device: torch.device, prefix: str = "") -> Iterator[Pool]:
    """The pools of the layers at `positions`: full and SWA layers apart or together, then the index. A pool without
    layers is not built."""
    shape = worker.shape
    kinds = [shape.layers[position] for position in positions]
    full_layers, swa_layers = kinds.count(FULL), kinds.count(SWA)
    parts = [("full", shape.full, full_layers, worker.full_rows), ("swa", shape.swa, swa_layers, worker.swa_rows)]
    if not worker.has_swa_pool:
        parts = [("full", shape.full if full_layers else shape.swa, full_layers + swa_layers, worker.full_rows)]
    for name, geometry, layers, rows in parts:
        if layers == 0 or geometry is None:
            continue
        if isinstance(geometry, Heads):
            pool_class = heads_pool(geometry, worker.head_ranks, worker.dtype)
        else:
            pool_class = latent_pool(geometry, worker.dtype, worker.backend, is_sparse=shape.index is not None)
        yield allocate(worker, prefix + name, pool_class, layers, rows, device)
    if shape.index is not None:
        owners = sum(position in positions for position in shape.index.layers)
        if owners:
            yield allocate(worker, prefix + "index", index_pool(shape, shape.index), owners, worker.index_rows, device)


def target_worker(scenario: Scenario, sizes: PoolSizes) -> Worker:
    """The target's rows per rank and a page; DCP ranks share out the rows of K, V and latents, and each keeps all rows
    of the index."""
    deployment, page_size = scenario.deployment, scenario.page_size
    return Worker(
        owner="target",
        shape=scenario.target,
        dtype=target_kv_dtype(scenario),
        backend=scenario.attention_backend,
        head_ranks=target_head_ranks(deployment),
        has_swa_pool=scenario.window_pools,
        full_rows=sizes.full_max_total_num_tokens + page_size,
        swa_rows=sizes.swa_max_total_num_tokens + page_size,
        index_rows=(sizes.full_max_total_num_tokens + page_size) * deployment.attn_dcp_size,
    )


def draft_rows(scenario: Scenario, draft: Draft, sizes: PoolSizes) -> tuple[int, int]:
    """Rows of the draft's full layers and of its SWA layers. It keeps the rows of all DCP ranks. Only SWA layers that
    index the target's SWA pool have its rows: not those of the DFLASH family, nor those banded at full capacity. A
    frozen-KV draft has the dummy pool."""
    page_size, dcp = scenario.page_size, scenario.deployment.attn_dcp_size
    if scenario.speculative_algorithm == FROZEN_KV_MTP:
        return FROZEN_KV_DUMMY_TOKENS + page_size, FROZEN_KV_DUMMY_TOKENS + page_size
    full_rows = (sizes.max_total_num_tokens + page_size) * dcp
    if draft.swa_at_full_rows or scenario.speculative_algorithm in DFLASH_FAMILY:
        return full_rows, full_rows
    return full_rows, (sizes.swa_max_total_num_tokens + page_size) * dcp


def draft_worker(scenario: Scenario, draft: Draft, sizes: PoolSizes) -> Worker:
    """The draft, in the dtype it has once its weights are loaded, its heads split over all attention ranks."""
    full_rows, swa_rows = draft_rows(scenario, draft, sizes)
    return Worker(
        owner="draft",
        shape=draft.shape,
        dtype=draft_kv_dtype(scenario, draft, model_is_loaded=True),
        backend=draft_backend(scenario, draft),
        head_ranks=draft_head_ranks(scenario.deployment),
        has_swa_pool=pool_kind(scenario) in WINDOW_POOLS,
        full_rows=full_rows,
        swa_rows=swa_rows,
        index_rows=full_rows,
    )


def build_pools(
    scenario: Scenario, sizes: PoolSizes, stage: int, device: str | torch.device = "meta"
) -> tuple[Pool, ...]:
    """Every pool one rank of `stage` allocates for `sizes` (rows per rank; zero rows leave the spare ones). The target
    first; then, where the draft lives, one set of pools for all of it, or one for each MTP runner."""
    device = torch.device(device)
    held = layers_of_stage(len(scenario.target.layers), scenario.deployment.pp_size, stage)
    pools = list(worker_pools(target_worker(scenario, sizes), held, device))
    draft = active_draft(scenario)
    if draft is None or not draft_lives_on(scenario.deployment, stage):
        return tuple(pools)
    worker, depth = draft_worker(scenario, draft, sizes), len(draft.shape.layers)
    if scenario.speculative_algorithm == MTP:
        for runner in range(depth):
            pools += worker_pools(worker, range(runner, runner + 1), device, prefix=f"runner {runner} ")
    else:
        pools += worker_pools(worker, range(depth), device)
    return tuple(pools)


def storage_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of the memory behind some tensors, each storage once, however many views share it.

    A storage is told by the address of torch's own record of it: its data pointer is 0 on `meta` and in every empty
    storage. The storages are kept until all are counted, so that no address is used twice.
    """
    storages = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        storages[storage._cdata] = storage
    return sum(storage.nbytes() for storage in storages.values())


def pool_bytes(pools: Iterable[Pool]) -> dict[str, int]:
    """Bytes of each pool, under its owner and name ("target full", "draft runner 0 full"), spare rows included."""
    return {f"{pool.owner} {pool.name}": storage_bytes(pool.tensors) for pool in pools}


def allocated_bytes(scenario: Scenario, sizes: PoolSizes, device: str | torch.device = "meta") -> tuple[int, ...]:
    """Bytes one rank of each pipeline stage really allocates, spare rows included. The ranks of a stage are alike."""
    return tuple(
        storage_bytes(tensor for pool in build_pools(scenario, sizes, stage, device) for tensor in pool.tensors)
        for stage in range(scenario.deployment.pp_size)
    )
