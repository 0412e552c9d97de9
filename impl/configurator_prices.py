"""Row prices and the request cap in closed form, for `impl/configurator.py`.

Derived apart from `spec/cell.py`, `spec/draft.py` and `spec/budget.py`: a dtype is one integer ratio of bytes per
element, scales included, and layers are counted, never visited. Everything here relies on a valid scenario.
"""

from bisect import bisect_left

from spec.dtypes import COMPUTE_DTYPE_BACKENDS, RAW_LATENT_BACKENDS
from spec.model import (
    DFLASH_FAMILY,
    FULL,
    MTP,
    SWA,
    AttentionShape,
    Draft,
    Heads,
    Index,
    Latent,
    MemoryFigures,
    Scenario,
)

HEADS_BYTES_PER_ELEMENT = {
    "bf16": (2, 1),
    "fp16": (2, 1),
    "fp32": (4, 1),
    "fp8_e4m3": (1, 1),
    "fp8_e5m2": (1, 1),
    "mxfp8": (33, 32),
    "fp4_mx_block16": (9, 16),
    "nvfp4": (9, 16),
}
"""Bytes of one stored K or V element, scales included, as (numerator, denominator); the denominator is the scale
block, 1 where there are no scales: mxfp8 stores 32 + 1 bytes for 32 elements, fp4 8 + 1 bytes for 16."""

LATENT_BYTES_PER_ELEMENT = {**HEADS_BYTES_PER_ELEMENT, "mxfp8": (1, 1)}
"""The same for a dense latent row: mxfp8 stores no scales there."""

FULL_ROW_ALGORITHMS = frozenset(DFLASH_FAMILY)
"""Drafts whose SWA layers hold a row per full row all the same."""


def ceil_to(tokens: int, page_size: int) -> int:
    """The smallest multiple of `page_size` not below `tokens`."""
    return -(-tokens // page_size) * page_size


def count_kinds(shape: AttentionShape) -> tuple[int, int]:
    """(full layers, SWA layers) of a model; linear layers hold no rows and are the rest."""
    layers = shape.layers
    full_layers = layers.count(FULL)
    return full_layers, (0 if full_layers == len(layers) else layers.count(SWA))


def kinds_by_stage(shape: AttentionShape, pp_size: int) -> tuple[tuple[int, int, int], ...]:
    """(full layers, SWA layers, layers that own an index) of each pipeline stage; of stages as even as can be, the
    last ones take the remainder, a layer each."""
    layers = shape.layers
    owners = sorted(shape.index.layers) if shape.index is not None else []
    even, remainder = divmod(len(layers), pp_size)
    stages, first = [], 0
    for stage in range(pp_size):
        end = first + even + (stage >= pp_size - remainder)
        held = layers[first:end]
        stages.append((held.count(FULL), held.count(SWA), bisect_left(owners, end) - bisect_left(owners, first)))
        first = end
    return tuple(stages)


def target_dtype(scenario: Scenario) -> str:
    """The target's storage dtype; `auto` is what its checkpoint asks for, else its compute dtype."""
    asked = scenario.kv_cache_dtype
    return asked if asked != "auto" else scenario.target.kv_checkpoint_dtype or scenario.target.model_dtype


def draft_storage(scenario: Scenario, draft: Draft) -> tuple[str, str, str]:
    """(storage dtype as priced before the draft's weights are read, the one after, the backend that will run).

    A DFLASH-family draft on a backend that needs K and Q alike stores its compute dtype whatever was asked."""
    shape = draft.shape
    backend = draft.attention_backend or scenario.attention_backend
    if backend in COMPUTE_DTYPE_BACKENDS and scenario.speculative_algorithm in DFLASH_FAMILY:
        return shape.model_dtype, shape.model_dtype, backend
    asked = draft.kv_cache_dtype or scenario.kv_cache_dtype
    if asked != "auto":
        return asked, asked, backend
    return shape.model_dtype, shape.kv_checkpoint_dtype or shape.model_dtype, backend


def row_bytes(geometry: Heads | Latent | None, is_sparse: bool, ranks: int, dtype: str, backend: str) -> int:
    """One row of one layer on one of `ranks` ranks, index row aside, in bytes: heads on this rank x elements x bytes
    per element; a latent row is the same on every rank; 0 without a geometry."""
    if geometry is None:
        return 0
    if isinstance(geometry, Heads):
        numerator, denominator = HEADS_BYTES_PER_ELEMENT[dtype]
        heads = geometry.num_kv_heads // ranks or 1
        return heads * (geometry.head_dim + geometry.v_head_dim) * numerator // denominator
    if is_sparse and dtype == "fp8_e4m3" and backend not in RAW_LATENT_BACKENDS:
        return geometry.kv_lora_rank * 33 // 32 + geometry.qk_rope_head_dim * 2
    numerator, denominator = LATENT_BYTES_PER_ELEMENT[dtype]
    return (geometry.kv_lora_rank + geometry.qk_rope_head_dim) * numerator // denominator


def workspace_bytes(geometry: Heads | Latent | None, ranks: int) -> int:
    """One row of the fp8 workspace of an nvfp4 pool of heads, K and V: a byte an element, once a pool."""
    if not isinstance(geometry, Heads):
        return 0
    return (geometry.num_kv_heads // ranks or 1) * (geometry.head_dim + geometry.v_head_dim)


def index_bytes(shape: AttentionShape, index: Index) -> int:
    """One row of the index of one layer that owns one, in bytes: beside latents fp8 with a 4-byte scale per 128
    elements, beside heads one head of the compute dtype (K, and V if stored)."""
    if isinstance(shape.full, Latent):
        return index.head_dim * 33 // 32
    return index.head_dim * HEADS_BYTES_PER_ELEMENT[shape.model_dtype][0] * (2 if index.stores_values else 1)


def dflash_draft_cell_size_per_token(
    scenario: Scenario, draft: Draft, ranks: int, follows_swa: bool
) -> tuple[int, int]:
    """(bytes per full row, bytes per SWA row) of a draft of resolved geometry, DFLASH or any other, on one rank:
    full layers x full row + SWA layers x SWA row + index layers x index row + pools x workspace, all times
    `attn_dcp_size`; `follows_swa` says that its SWA layers go with the SWA rows."""
    shape = draft.shape
    dtype, _, backend = draft_storage(scenario, draft)
    full_layers, swa_layers = count_kinds(shape)
    index = shape.index
    full = swa = 0
    if full_layers:
        full = full_layers * row_bytes(shape.full, index is not None, ranks, dtype, backend)
    if swa_layers:
        swa = swa_layers * row_bytes(shape.swa, False, ranks, dtype, backend)
    if index is not None:
        full += len(index.layers) * index_bytes(shape, index)
    if dtype == "nvfp4":
        pools = full_layers + swa_layers if scenario.speculative_algorithm == MTP else 1 if full or swa else 0
        full += pools * workspace_bytes(shape.full if full_layers else shape.swa, ranks)
    dcp = scenario.deployment.attn_dcp_size
    return (dcp * full, dcp * swa) if follows_swa else (dcp * (full + swa), 0)


def stage_budgets(scenario: Scenario) -> tuple[int, ...]:
    """Available bytes of each pipeline stage: as given, or, for a fraction p / q of memory figures,
    `free_after - ceil(free_before * (q - p) / q)` of the smallest readings of all ranks."""
    budget = scenario.budget
    if not isinstance(budget, MemoryFigures):
        return budget
    whole = budget.mem_fraction_static.denominator
    kept_out = whole - budget.mem_fraction_static.numerator
    before, after = min(map(min, budget.free_before_load)), min(map(min, budget.free_after_all_weights))
    return (after + -before * kept_out // whole,) * scenario.deployment.pp_size


def compute_swa_request_cap(scenario: Scenario, requests: int) -> int:
    """SWA rows that `requests` running requests can ever need, and the prefill chunks in flight (decode role: the
    extra slots instead), in whole pages."""
    window, page_size = scenario.target.sliding_window_size or 0, scenario.page_size
    overlap = not scenario.disable_overlap_schedule
    speculates = scenario.speculative_algorithm is not None and not scenario.is_draft_worker
    draft = scenario.draft if speculates else None
    draft_tokens, ahead = 1, page_size
    if draft is not None:
        draft_tokens = draft.num_draft_tokens
        ahead = tokens_allocated_ahead(draft.num_steps, draft.topk, draft_tokens, page_size, overlap)
    per_request = window + max(1, scenario.swa_eviction_interval) * draft_tokens + page_size + ahead
    if scenario.is_decode_role:
        return ceil_to(per_request * requests + (window + page_size) * scenario.decode_extra_slots, page_size)
    chunks = (2 if overlap else 1) * (scenario.chunked_prefill_size or 0)
    return ceil_to(per_request * requests + chunks, page_size) + page_size


def tokens_allocated_ahead(num_steps: int, topk: int, draft_tokens: int, page_size: int, overlap: bool) -> int:
    """Tokens a speculating request holds ahead in decode: what one step may write, twice under overlap. On pages, the
    branches of a tree (topk > 1) hold pages of their own, and without overlap every length is in whole pages."""
    if page_size == 1 or (overlap and topk == 1):
        step = max(num_steps * topk, draft_tokens)
    elif overlap:
        step = max(ceil_to(num_steps + page_size - 1, page_size) * topk, draft_tokens)
    else:
        branch_tokens = num_steps if topk == 1 else num_steps + page_size
        step = max(ceil_to(branch_tokens, page_size) * topk, ceil_to(draft_tokens, page_size))
    return 2 * step if overlap else step
