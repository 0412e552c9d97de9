"""Bytes of one KV row in one layer, and bytes per token of a stage's pools.

A row is what one token costs in one layer on one rank. Its width is that of the *storage* dtype of the pool it lives
in, scales included, as the pool classes store them (upstream: `mem_cache/memory_pool.py`).
"""

from spec.dtypes import (
    FP4_BLOCK,
    MXFP8_BLOCK,
    RAW_LATENT_BACKENDS,
    SPARSE_BLOCK,
    SPARSE_SCALE_BYTES,
    STORAGE_BITS,
    target_kv_dtype,
)
from spec.layers import WINDOW_POOLS, heads_per_rank, layers_of_stage, pool_kind, target_head_ranks
from spec.model import FULL, LINEAR, SWA, AttentionShape, Heads, Index, Latent, Scenario


def plain_row_bytes(heads: int, head_dim: int, v_head_dim: int, element_bits: int) -> int:
    """One K row and one V row of every head, without scales."""
    return heads * (head_dim + v_head_dim) * element_bits // 8


def mxfp8_scale_bytes(heads: int, head_dim: int, v_head_dim: int) -> int:
    """One scale byte per 32 elements, within a head, K and V each by its own width."""
    return heads * (head_dim // MXFP8_BLOCK + v_head_dim // MXFP8_BLOCK)


def fp4_scale_bytes(heads: int, head_dim: int, v_head_dim: int) -> int:
    """One scale byte per 16 elements, for K and for V."""
    return heads * (head_dim // FP4_BLOCK + v_head_dim // FP4_BLOCK)


def heads_row_bytes(heads: int, head_dim: int, v_head_dim: int, dtype: str) -> int:
    """One row of an MHA/GQA layer with `heads` KV heads on this rank, scales included."""
    row_bytes = plain_row_bytes(heads, head_dim, v_head_dim, STORAGE_BITS[dtype])
    if dtype == "mxfp8":
        return row_bytes + mxfp8_scale_bytes(heads, head_dim, v_head_dim)
    if dtype in ("fp4_mx_block16", "nvfp4"):
        return row_bytes + fp4_scale_bytes(heads, head_dim, v_head_dim)
    return row_bytes


def latent_row_bytes(kv_lora_rank: int, qk_rope_head_dim: int, dtype: str) -> int:
    """One row of a dense MLA layer. mxfp8 stores no scales here; fp4 stores one per 16 elements."""
    elements = kv_lora_rank + qk_rope_head_dim
    row_bytes = elements * STORAGE_BITS[dtype] // 8
    if dtype in ("fp4_mx_block16", "nvfp4"):
        return row_bytes + elements // FP4_BLOCK
    return row_bytes


def scaled_sparse_row_bytes(kv_lora_rank: int, qk_rope_head_dim: int) -> int:
    """One row of a sparse MLA layer in fp8_e4m3: fp8 latent, an fp32 scale per 128 of it, the rope part in bf16.
    512 + 64 gives 656 (upstream: `DSATokenToKVPool`)."""
    return kv_lora_rank + kv_lora_rank // SPARSE_BLOCK * SPARSE_SCALE_BYTES + qk_rope_head_dim * 2


def sparse_row_bytes(kv_lora_rank: int, qk_rope_head_dim: int, dtype: str, backend: str) -> int:
    """One row of a sparse (DSA) MLA layer: only fp8_e4m3 carries scales, and not for backends that read raw rows."""
    if dtype == "fp8_e4m3" and backend not in RAW_LATENT_BACKENDS:
        return scaled_sparse_row_bytes(kv_lora_rank, qk_rope_head_dim)
    return latent_row_bytes(kv_lora_rank, qk_rope_head_dim, dtype)


def sparse_index_row_bytes(index_head_dim: int) -> int:
    """One row of a DSA indexer: fp8 values and an fp32 scale per 128 of them. 128 gives 132."""
    return index_head_dim + index_head_dim // SPARSE_BLOCK * SPARSE_SCALE_BYTES


def heads_index_row_bytes(index_head_dim: int, stores_values: bool, model_dtype: str) -> int:
    """One row of the index beside a GQA layer (MiniMax sparse): one head in the model dtype, K and maybe V."""
    buffers = 2 if stores_values else 1
    return buffers * index_head_dim * STORAGE_BITS[model_dtype] // 8


def index_row_bytes(shape: AttentionShape, index: Index) -> int:
    """One row of the indexer of a layer that owns one, whatever the KV dtype."""
    if isinstance(shape.full, Latent):
        return sparse_index_row_bytes(index.head_dim)
    return heads_index_row_bytes(index.head_dim, index.stores_values, shape.model_dtype)


def layer_row_bytes(shape: AttentionShape, kind: str, ranks: int, dtype: str, backend: str) -> int:
    """One row of one layer of `kind` on one of `ranks` ranks, its index row aside."""
    geometry = None if kind == LINEAR else shape.swa if kind == SWA else shape.full
    if geometry is None:
        return 0
    if isinstance(geometry, Heads):
        heads = heads_per_rank(geometry.num_kv_heads, ranks)
        return heads_row_bytes(heads, geometry.head_dim, geometry.v_head_dim, dtype)
    if shape.index is not None:
        return sparse_row_bytes(geometry.kv_lora_rank, geometry.qk_rope_head_dim, dtype, backend)
    return latent_row_bytes(geometry.kv_lora_rank, geometry.qk_rope_head_dim, dtype)


def pool_geometry(shape: AttentionShape) -> Heads | Latent | None:
    """The row geometry of the one pool that holds every layer at full length. A window model without window pools
    has one such pool, so its full and SWA layers must agree (`spec/validity.py` refuses the rest)."""
    return shape.full if FULL in shape.layers else shape.swa


def workspace_row_bytes(geometry: Heads | Latent | None, ranks: int, dtype: str) -> int:
    """nvfp4 on MHA/GQA keeps one fp8 row of K and of V *per pool* to dequantize into, shared by all its layers."""
    if dtype != "nvfp4" or not isinstance(geometry, Heads):
        return 0
    return heads_per_rank(geometry.num_kv_heads, ranks) * (geometry.head_dim + geometry.v_head_dim)


def target_layer_bytes(scenario: Scenario, position: int) -> int:
    """One row of one target layer on this rank. Latents and heads are split by DCP; the index row is replicated, so
    each row of it costs `attn_dcp_size` rows."""
    shape, deployment = scenario.target, scenario.deployment
    kind = shape.layers[position]
    row_bytes = layer_row_bytes(
        shape, kind, target_head_ranks(deployment), target_kv_dtype(scenario), scenario.attention_backend
    )
    if shape.index is not None and position in shape.index.layers:
        row_bytes += index_row_bytes(shape, shape.index) * deployment.attn_dcp_size
    return row_bytes


def target_pool_bytes(scenario: Scenario, kinds: tuple[str, ...], positions: range) -> int:
    """One row over all layers of `kinds` among `positions`: their sum, and the workspace once if there is any."""
    shape = scenario.target
    held = [position for position in positions if shape.layers[position] in kinds]
    ranks, dtype = target_head_ranks(scenario.deployment), target_kv_dtype(scenario)
    workspace = workspace_row_bytes(pool_geometry(shape), ranks, dtype) if held else 0
    return sum(target_layer_bytes(scenario, position) for position in held) + workspace


def stage_positions(scenario: Scenario, stage: int) -> range:
    """The target layers a stage holds."""
    return layers_of_stage(len(scenario.target.layers), scenario.deployment.pp_size, stage)


def target_full_row_bytes(scenario: Scenario, positions: range) -> int:
    """F: one full row over all full layers among `positions`. Without window pools SWA layers are stored full."""
    kinds = (FULL,) if pool_kind(scenario) in WINDOW_POOLS else (FULL, SWA)
    return target_pool_bytes(scenario, kinds, positions)


def target_swa_row_bytes(scenario: Scenario, positions: range) -> int:
    """The target's part of S: one SWA row over all SWA layers among `positions`, 0 without window pools."""
    kinds = (SWA,) if pool_kind(scenario) in WINDOW_POOLS else ()
    return target_pool_bytes(scenario, kinds, positions)
