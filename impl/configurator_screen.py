"""A fast screen of validity for `impl/configurator.py`, and the check of bytes that come from outside a scenario.

The screen never lets through what `spec/validity.py` refuses. It may turn away a valid scenario (unusual types, a
geometry no layer uses); the caller then asks `check_scenario`, which names the fault or finds none.
"""

from fractions import Fraction

from impl.configurator_prices import HEADS_BYTES_PER_ELEMENT, count_kinds, draft_storage, target_dtype
from spec.dtypes import ATTENTION_BACKENDS, KV_CACHE_DTYPES, MODEL_DTYPES, STORAGE_BITS
from spec.model import (
    ALGORITHMS,
    DFLASH_FAMILY,
    FROZEN_KV_MTP,
    FULL,
    LINEAR,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Index,
    Latent,
    MemoryFigures,
    Scenario,
    refuse,
)

BACKENDS = frozenset(ATTENTION_BACKENDS)
SERVER_DTYPES = frozenset(KV_CACHE_DTYPES)
CHECKPOINT_DTYPES = frozenset((None, *STORAGE_BITS))
COMPUTE_DTYPES = frozenset(MODEL_DTYPES)
DRAFT_ALGORITHMS = frozenset(ALGORITHMS)
NEVER_FOLLOWS_SWA = frozenset((*DFLASH_FAMILY, FROZEN_KV_MTP))
"""Drafts whose SWA layers, if any, need no SWA rows to follow."""
FP4_BLOCK = 16
"""The scale block by which fp4 is told from the other formats."""


def screened_kinds(scenario: Scenario) -> tuple[int, int] | None:
    """(full layers, SWA layers) of the target of a scenario that is certainly valid, None where anything looks off."""
    try:
        deployment, target = scenario.deployment, scenario.target
        tp, dp = deployment.tp_size, deployment.attn_dp_size
        dcp, pp = deployment.attn_dcp_size, deployment.pp_size
        if not (type(tp) is type(dp) is type(dcp) is type(pp) is int and tp > 0 and dp > 0 and dcp > 0 and pp > 0):
            return None
        if tp % dp or tp // dp % dcp or not requests_are_sound(scenario) or not switches_are_sound(scenario):
            return None
        kinds = sound_kinds(target, tp // dp // dcp)
        dtype, backend, ratio = target_dtype(scenario), scenario.attention_backend, scenario.swa_full_tokens_ratio
        if (
            kinds is None
            or pp > len(target.layers)
            or scenario.kv_cache_dtype not in SERVER_DTYPES
            or backend not in BACKENDS
            or not fits_blocks(target, dtype, backend)
            or type(ratio) is not Fraction
            or not 0 < ratio.numerator <= ratio.denominator
        ):
            return None
        full_layers, swa_layers = kinds
        has_window_pools = False
        if swa_layers:
            has_window_pools = scenario.window_pools
            window = target.sliding_window_size
            if has_window_pools:
                if type(window) is not int or window < 1 or dcp > 1 or HEADS_BYTES_PER_ELEMENT[dtype][1] == FP4_BLOCK:
                    return None
            elif full_layers and target.full != target.swa:
                return None
        elif not full_layers:
            return None
        algorithm = scenario.speculative_algorithm
        if algorithm is not None and (
            algorithm not in DRAFT_ALGORITHMS
            or not (scenario.is_draft_worker or draft_is_sound(scenario, scenario.draft, tp // dp, has_window_pools))
        ):
            return None
        return kinds if budget_is_sound(scenario.budget, pp) else None
    except (TypeError, AttributeError, ValueError):  # no such field, no hash, no equality, no order
        return None


def switches_are_sound(scenario: Scenario) -> bool:
    """Switches are on or off, and the ranks come in the record made for them."""
    deployment = scenario.deployment
    return (
        type(deployment) is Deployment
        and type(deployment.draft_on_every_stage)
        is type(scenario.is_draft_worker)
        is type(scenario.window_pools)
        is type(scenario.disable_radix_cache)
        is type(scenario.disable_overlap_schedule)
        is type(scenario.is_decode_role)
        is bool
    )


def requests_are_sound(scenario: Scenario) -> bool:
    """Pages, context, slots and intervals are integers in range; caps and the chunk are integers or none."""
    page_size, context_len = scenario.page_size, scenario.context_len
    slots, interval = scenario.decode_extra_slots, scenario.swa_eviction_interval
    cap, requests, chunk = scenario.max_total_tokens, scenario.user_max_running_requests, scenario.chunked_prefill_size
    return (
        type(page_size) is type(context_len) is type(slots) is type(interval) is int
        and page_size > 0
        and context_len > 0
        and slots >= 0
        and interval >= 0
        and (cap is None or (type(cap) is int and cap > 0))
        and (requests is None or (type(requests) is int and requests > 0))
        and (chunk is None or type(chunk) is int)
    )


def sound_kinds(shape: AttentionShape, ranks: int) -> tuple[int, int] | None:
    """(full layers, SWA layers) of a shape whose layers, geometries, index and dtypes are sound, else None."""
    layers, full, swa, index = shape.layers, shape.full, shape.swa, shape.index
    kinds = full_layers, swa_layers = count_kinds(shape)
    others = len(layers) - full_layers - swa_layers
    if (
        type(shape) is not AttentionShape
        or type(layers) is not tuple
        or (others and layers.count(LINEAR) != others)
        or shape.model_dtype not in COMPUTE_DTYPES
        or shape.kv_checkpoint_dtype not in CHECKPOINT_DTYPES
        or (swa_layers if swa is None else not heads_are_sound(swa, ranks))
    ):
        return None
    if full is None:
        return None if full_layers or index is not None else kinds
    if type(full) is Latent:
        rank, rope = full.kv_lora_rank, full.qk_rope_head_dim
        if not (type(rank) is type(rope) is int) or rank < 1 or rope < 0 or swa_layers:
            return None
    elif not heads_are_sound(full, ranks):
        return None
    if index is not None and (swa_layers or not index_is_sound(shape, full_layers)):
        return None
    return kinds


def heads_are_sound(geometry: object, ranks: int) -> bool:
    """Heads with positive integers, whose number and `ranks` divide one the other."""
    if type(geometry) is not Heads:
        return False
    heads, head_dim, v_head_dim = geometry.num_kv_heads, geometry.head_dim, geometry.v_head_dim
    return (
        type(heads) is type(head_dim) is type(v_head_dim) is int
        and heads > 0
        and head_dim > 0
        and v_head_dim > 0
        and (heads % ranks == 0 or ranks % heads == 0)
    )


def index_is_sound(shape: AttentionShape, full_layers: int) -> bool:
    """An index of positive width (whole blocks of 128 beside latents) on distinct full layers."""
    index = shape.index
    if type(index) is not Index or type(index.stores_values) is not bool:
        return False
    positions, width = index.layers, index.head_dim
    if type(positions) is not tuple or type(width) is not int or width < 1:
        return False
    if type(shape.full) is Latent and width % 128:
        return False
    if not positions:
        return True
    ordered = sorted(positions)
    return (
        set(map(type, ordered)) == {int}
        and len(set(ordered)) == len(ordered)
        and ordered[0] >= 0
        and ordered[-1] < len(shape.layers)
        and (full_layers == len(shape.layers) or [shape.layers[p] for p in ordered].count(FULL) == len(ordered))
    )


def fits_blocks(shape: AttentionShape, dtype: str, backend: str) -> bool:
    """The storage dtype's scale blocks divide every geometry of the model, and a pool class stores the pair (a sparse
    latent of broken blocks is turned away whatever the dtype)."""
    block = HEADS_BYTES_PER_ELEMENT[dtype][1]
    full, swa = shape.full, shape.swa
    if shape.index is not None and (block != 1 or (type(full) is Latent and full.kv_lora_rank % 128)):
        return False
    if type(full) is Latent:
        return block != FP4_BLOCK or (full.kv_lora_rank + full.qk_rope_head_dim) % FP4_BLOCK == 0
    if block == 1:
        return True
    for heads in (full, swa):
        if type(heads) is Heads:
            if heads.head_dim % block or heads.v_head_dim % block:
                return False
            if block == FP4_BLOCK and heads.head_dim != heads.v_head_dim:
                return False
    return dtype != "nvfp4" or backend == "flashinfer"


def draft_is_sound(scenario: Scenario, draft: Draft | None, ranks: int, has_window_pools: bool) -> bool:
    """The draft in use has a sound shape, sound numbers, storage for its rows, and rows to follow."""
    if type(draft) is not Draft or not (type(draft.swa_at_full_rows) is type(draft.geometry_resolved) is bool):
        return False
    shape, asked, backend = draft.shape, draft.kv_cache_dtype, draft.attention_backend
    num_steps, topk, num_draft_tokens = draft.num_steps, draft.topk, draft.num_draft_tokens
    kinds = sound_kinds(shape, ranks)
    if (
        kinds is None
        or not (type(num_steps) is type(topk) is type(num_draft_tokens) is int)
        or not (num_steps > 0 and topk > 0 and num_draft_tokens > 0)
        or not (asked is None or asked in SERVER_DTYPES)
        or not (backend is None or backend in BACKENDS)
    ):
        return False
    priced, stored, backend = draft_storage(scenario, draft)
    if not fits_blocks(shape, priced, backend) or (stored != priced and not fits_blocks(shape, stored, backend)):
        return False
    if has_window_pools:
        return HEADS_BYTES_PER_ELEMENT[priced][1] != FP4_BLOCK and HEADS_BYTES_PER_ELEMENT[stored][1] != FP4_BLOCK
    if not kinds[1]:
        return True
    one_geometry = shape.full is None or shape.full == shape.swa
    return one_geometry and scenario.speculative_algorithm in NEVER_FOLLOWS_SWA


def budget_is_sound(budget: tuple[int, ...] | MemoryFigures, stages: int) -> bool:
    """One integer per stage, or memory figures: a fraction between 0 and 1, and readings for every stage."""
    if type(budget) is tuple:
        if len(budget) != stages:
            return False
        for stage_bytes in budget:  # noqa: SIM110
            if type(stage_bytes) is not int:
                return False
        return True
    if type(budget) is not MemoryFigures:
        return False
    fraction = budget.mem_fraction_static
    if type(fraction) is not Fraction or not 0 < fraction.numerator < fraction.denominator:
        return False
    for figures in (budget.free_before_load, budget.free_after_all_weights):
        if type(figures) is not tuple or len(figures) != stages:
            return False
        for readings in figures:
            if type(readings) is not tuple or set(map(type, readings)) != {int} or min(readings) < 0:
                return False
    return True


def check_available_bytes(available_bytes: tuple[int, ...], stages: int) -> None:
    """Raises `Refused` unless it is a tuple of one positive integer per stage: `invalid_input`, `no_memory_left`."""
    if not isinstance(available_bytes, tuple) or len(available_bytes) != stages:
        raise refuse(
            "invalid_input", "budget", available_bytes, "give a tuple of bytes, one number a stage", needed=stages
        )
    for available in available_bytes:
        if type(available) is not int:
            raise refuse("invalid_input", "budget", available, "bytes are integers")
    advice = "raise mem_fraction_static or free memory before the weights are loaded"
    for stage, available in enumerate(available_bytes):  # pragma: no branch (only asked where some stage is short)
        if available <= 0:
            field = f"available_bytes[{stage}]"
            raise refuse("no_memory_left", field, available, advice, needed=1, available=available)
