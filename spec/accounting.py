"""Tokens to bytes really allocated: every buffer of every pool, layer by layer, rank by rank, draft included.

Derived independently of `cell.py`, `draft.py` and `pools.py`: it lists buffers and counts bits, and asks those files
for nothing, so that one slip cannot cancel itself. The spare rows of each buffer (one page; `P * attn_dcp_size` for
buffers that every DCP rank keeps whole) are counted on their own: no release prices them, the memory outside the
static fraction covers them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from spec.dtypes import RAW_LATENT_BACKENDS, STORAGE_BITS, draft_backend, draft_kv_dtype, target_kv_dtype
from spec.model import (
    DFLASH_FAMILY,
    FROZEN_KV_MTP,
    LINEAR,
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

FROZEN_KV_ROWS = 64
"""Rows of the dummy pool of a frozen-KV MTP draft, beside its page (not priced)."""


@dataclass(frozen=True)
class Row:
    """What one buffer stores for one token: so many elements of so many bits."""

    name: str
    elements: int
    element_bits: int


@dataclass(frozen=True)
class Buffer:
    """One allocated buffer on one rank. `rows` are sold, `spare_rows` are not; `layer` is None where all layers of a
    pool share the buffer."""

    stage: int
    owner: str
    pool: str
    layer: int | None
    row: Row
    rows: int
    spare_rows: int

    @property
    def sold_bytes(self) -> int:
        """Bytes of the rows that are sold."""
        return self.rows * self.row.elements * self.row.element_bits // 8

    @property
    def spare_bytes(self) -> int:
        """Bytes of the rows that are not."""
        return self.spare_rows * self.row.elements * self.row.element_bits // 8


def heads_rows(heads: int, head_dim: int, v_head_dim: int, dtype: str) -> list[Row]:
    """K and V of one layer, and their scales: mxfp8 one per 32 elements, fp4 one per 16, a byte each."""
    bits = STORAGE_BITS[dtype]
    rows = [Row("k", heads * head_dim, bits), Row("v", heads * v_head_dim, bits)]
    block = {"mxfp8": 32, "fp4_mx_block16": 16, "nvfp4": 16}.get(dtype)
    if block is not None:
        rows += [Row("k_scale", heads * (head_dim // block), 8), Row("v_scale", heads * (v_head_dim // block), 8)]
    return rows


def latent_rows(geometry: Latent, dtype: str, *, is_sparse: bool, backend: str) -> list[Row]:
    """The latent of one layer. Sparse fp8_e4m3 keeps the rope part in bf16 and an fp32 scale per 128 latent elements,
    unless the backend reads raw latents; fp4 keeps a scale byte per 16 elements."""
    rank, rope = geometry.kv_lora_rank, geometry.qk_rope_head_dim
    if is_sparse and dtype == "fp8_e4m3" and backend not in RAW_LATENT_BACKENDS:
        return [Row("latent", rank, 8), Row("latent_scale", rank // 128, 32), Row("rope", rope, 16)]
    rows = [Row("latent", rank + rope, STORAGE_BITS[dtype])]
    if STORAGE_BITS[dtype] == 4:
        rows.append(Row("latent_scale", (rank + rope) // 16, 8))
    return rows


def index_rows(shape: AttentionShape, index: Index) -> list[Row]:
    """The index of one layer that owns one: fp8 with fp32 scales beside latents, plain K (and V) beside heads."""
    if isinstance(shape.full, Latent):
        return [Row("index_k", index.head_dim, 8), Row("index_scale", index.head_dim // 128, 32)]
    bits = STORAGE_BITS[shape.model_dtype]
    names = ("index_k", "index_v") if index.stores_values else ("index_k",)
    return [Row(name, index.head_dim, bits) for name in names]


def layer_rows(shape: AttentionShape, kind: str, ranks: int, dtype: str, backend: str) -> list[Row]:
    """The K/V or latent buffers of one layer on one of `ranks` ranks; a head that cannot be split is whole."""
    geometry = None if kind == LINEAR else shape.swa if kind == SWA else shape.full
    if isinstance(geometry, Heads):
        heads = -(-geometry.num_kv_heads // ranks)
        return heads_rows(heads, geometry.head_dim, geometry.v_head_dim, dtype)
    if isinstance(geometry, Latent):
        return latent_rows(geometry, dtype, is_sparse=shape.index is not None, backend=backend)
    return []


def layer_rows_with_index(shape: AttentionShape, layer: int, ranks: int, dtype: str, backend: str) -> list[Row]:
    """Every buffer of one draft layer, the index it may own included."""
    rows = layer_rows(shape, shape.layers[layer], ranks, dtype, backend)
    if shape.index is not None and layer in shape.index.layers:
        rows = rows + index_rows(shape, shape.index)
    return rows


def workspace_rows(shape: AttentionShape, kinds: tuple[str, ...], ranks: int, dtype: str) -> list[Row]:
    """nvfp4 beside heads dequantizes into one fp8 K and one fp8 V buffer that all layers of a pool share."""
    geometry = next((shape.swa if kind == SWA else shape.full for kind in kinds if kind != LINEAR), None)
    if dtype != "nvfp4" or not isinstance(geometry, Heads):
        return []
    heads = -(-geometry.num_kv_heads // ranks)
    return [Row("workspace_k", heads * geometry.head_dim, 8), Row("workspace_v", heads * geometry.v_head_dim, 8)]


def layers_by_stage(layers: int, stages: int) -> list[range]:
    """The layers of each pipeline stage: an even share, and one more for the last `layers % stages` stages."""
    counts = [layers // stages + (stage >= stages - layers % stages) for stage in range(stages)]
    return [range(sum(counts[:stage]), sum(counts[: stage + 1])) for stage in range(stages)]


def target_buffers(scenario: Scenario, sizes: PoolSizes, stage: int) -> Iterator[Buffer]:
    """Every buffer of the target on one rank of `stage`. An index is not split by DCP: it holds every rank's rows."""
    shape, page_size, deployment = scenario.target, scenario.page_size, scenario.deployment
    ranks = deployment.tp_size // deployment.attn_dp_size // deployment.attn_dcp_size
    dtype, dcp = target_kv_dtype(scenario), deployment.attn_dcp_size
    held = layers_by_stage(len(shape.layers), deployment.pp_size)[stage]
    for layer in held:
        kind = shape.layers[layer]
        in_window_pool = kind == SWA and scenario.window_pools
        rows = sizes.swa_max_total_num_tokens if in_window_pool else sizes.full_max_total_num_tokens
        pool = "swa" if in_window_pool else "full"
        for row in layer_rows(shape, kind, ranks, dtype, scenario.attention_backend):
            yield Buffer(stage, "target", pool, layer, row, rows, page_size)
        if shape.index is not None and layer in shape.index.layers:
            for row in index_rows(shape, shape.index):
                yield Buffer(stage, "target", "index", layer, row, rows * dcp, page_size * dcp)
    for row in workspace_rows(shape, tuple(shape.layers[layer] for layer in held), ranks, dtype):
        yield Buffer(stage, "target", "full", None, row, sizes.full_max_total_num_tokens, page_size)


def draft_layer_rows(scenario: Scenario, draft: Draft, sizes: PoolSizes, kind: str) -> int:
    """Rows one draft layer holds, before DCP: the tokens that are sold, except the SWA layers of an EAGLE, MTP or
    STANDALONE draft that share the target's SWA pool indices (all-window: the same number)."""
    shares_swa_indices = scenario.speculative_algorithm not in DFLASH_FAMILY and not draft.swa_at_full_rows
    if kind == SWA and shares_swa_indices:
        return sizes.swa_max_total_num_tokens
    return sizes.max_total_num_tokens


def draft_buffers(scenario: Scenario, draft: Draft, sizes: PoolSizes, stage: int) -> Iterator[Buffer]:
    """Every buffer of the draft on one rank of `stage`, in the dtype it has once its weights are loaded. The draft
    is not sharded by DCP: it holds every rank's rows."""
    shape, deployment = draft.shape, scenario.deployment
    ranks, dcp = deployment.tp_size // deployment.attn_dp_size, deployment.attn_dcp_size
    dtype = draft_kv_dtype(scenario, draft, model_is_loaded=True)
    backend = draft_backend(scenario, draft)
    spare_rows = scenario.page_size * dcp
    for layer, kind in enumerate(shape.layers):
        rows = draft_layer_rows(scenario, draft, sizes, kind) * dcp
        for row in layer_rows_with_index(shape, layer, ranks, dtype, backend):
            yield Buffer(stage, "draft", kind, layer, row, rows, spare_rows)
    runners = [(kind,) for kind in shape.layers] if scenario.speculative_algorithm == MTP else [shape.layers]
    for kinds in runners:
        for row in workspace_rows(shape, kinds, ranks, dtype):
            yield Buffer(stage, "draft", "full", None, row, sizes.max_total_num_tokens * dcp, spare_rows)


def frozen_kv_buffers(scenario: Scenario, draft: Draft, stage: int) -> Iterator[Buffer]:
    """The dummy pool of a frozen-KV MTP draft: nothing sold, 64 rows and a page kept."""
    shape, spare_rows = draft.shape, FROZEN_KV_ROWS + scenario.page_size
    ranks = scenario.deployment.tp_size // scenario.deployment.attn_dp_size
    dtype, backend = draft_kv_dtype(scenario, draft, model_is_loaded=True), draft_backend(scenario, draft)
    for layer, kind in enumerate(shape.layers):
        for row in layer_rows_with_index(shape, layer, ranks, dtype, backend):
            yield Buffer(stage, "draft", kind, layer, row, 0, spare_rows)
    for row in workspace_rows(shape, shape.layers, ranks, dtype):
        yield Buffer(stage, "draft", "full", None, row, 0, spare_rows)


def stage_buffers(scenario: Scenario, sizes: PoolSizes, stage: int) -> Iterator[Buffer]:
    """Every buffer one rank of `stage` allocates for `sizes`."""
    yield from target_buffers(scenario, sizes, stage)
    draft = active_draft(scenario)
    last_stage = scenario.deployment.pp_size - 1
    if draft is None or not (scenario.deployment.draft_on_every_stage or stage == last_stage):
        return
    if scenario.speculative_algorithm == FROZEN_KV_MTP:
        yield from frozen_kv_buffers(scenario, draft, stage)
    else:
        yield from draft_buffers(scenario, draft, sizes, stage)


def sold_bytes(scenario: Scenario, sizes: PoolSizes, stage: int) -> int:
    """Bytes of the rows sold on one rank of `stage`, all pools, draft included, spare rows aside."""
    return sum(buffer.sold_bytes for buffer in stage_buffers(scenario, sizes, stage))


def spare_bytes(scenario: Scenario, sizes: PoolSizes, stage: int) -> int:
    """Bytes of the spare rows on one rank of `stage`."""
    return sum(buffer.spare_bytes for buffer in stage_buffers(scenario, sizes, stage))
