"""What the spec answers to each case of `data/cases.json`, in a table for each function that gives the answer.

Every answer is computed from the inputs of its case, so that a test can change an input and ask again.
"""

import math
from fractions import Fraction

from spec.budget import static_bytes
from spec.capped import capped_swa_rows
from spec.cell import heads_row_bytes, latent_row_bytes, plain_row_bytes, target_full_row_bytes
from spec.draft import draft_price
from spec.layers import CAPPED_POOL, DEFAULT_POOL, HYBRID_POOL, draft_head_ranks, heads_per_rank, pool_kind
from spec.model import (
    DFLASH,
    EAGLE,
    FULL,
    LINEAR,
    MTP,
    SWA,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Latent,
    MemoryFigures,
    Scenario,
)
from spec.pools import (
    RowBytes,
    admission_floor,
    bytes_per_token,
    rows_that_fit,
    running_requests,
    size_pools,
    size_pools_from_max_tokens,
    stage_row_bytes,
)
from spec.units import GiB, align_up
from tests.case_scenarios import (
    drafted,
    heads_of_bytes,
    layers_of_bytes,
    layers_of_heads,
    served,
    stored_bytes,
    stored_gib,
    token_bytes,
    tokens,
    windowed,
)


def dflash_of_own_heads(case, budget=GiB, page_size=1):
    """A DFLASH draft with its own number of KV heads."""
    dims = case.head_dim, case.v_head_dim
    target = layers_of_heads(case.target_layers, case.target_kv_heads, *dims, width=case.elem_bytes)
    draft = layers_of_heads(case.draft_layers, case.draft_kv_heads, *dims, width=case.elem_bytes)
    return drafted(target, draft, budget, page_size=page_size)


def deep_draft(case):
    """A draft of few layers that proposes several tokens: tokens are not layers."""
    target = layers_of_heads(case.target_layers, case.kv_heads, case.head_dim, width=case.elem_bytes)
    draft = layers_of_heads(case.draft_layers, case.kv_heads, case.head_dim, width=case.elem_bytes)
    steps = case.max_draft_len
    return drafted(target, Draft(draft, num_steps=steps, num_draft_tokens=steps + 1), algorithm=EAGLE)


def byte_shares(case):
    """One budget shared out by the prices of target and draft, each share rounded down."""
    target = layers_of_bytes(case.target_layers, case.per_layer_bytes)
    row = stage_row_bytes(drafted(target, layers_of_bytes(case.draft_layers, case.per_layer_bytes)), 0)
    total = bytes_per_token(DEFAULT_POOL, row, Fraction(1))
    return case.budget_bytes * row.full // total + case.budget_bytes * row.draft // total


def two_head_counts(case):
    """A window model at ratio 1: a token costs a row in every layer, by the heads of that layer."""
    full, swa = (Heads(heads, case.head_dim, case.head_dim) for heads in (case.full_kv_heads, case.swa_kv_heads))
    shape = windowed(case.full_layers, case.swa_layers, full, swa, width=case.elem_bytes)
    return served(shape, swa_full_tokens_ratio=Fraction(1))


def padded_heads(case):
    """Layers whose head is stored at the next multiple of what the device aligns to."""
    return layers_of_heads(case.layers, case.kv_heads, align_up(case.head_dim, case.align_to), width=case.elem_bytes)


BYTES_PER_TOKEN = {
    "sglang-34234-wide": lambda case: token_bytes(dflash_of_own_heads(case)),
    "sglang-34234-narrow": lambda case: token_bytes(dflash_of_own_heads(case)),
    "trtllm-15017": lambda case: token_bytes(deep_draft(case)),
    "trtllm-12188": byte_shares,
    "meshllm-1017": lambda case: token_bytes(two_head_counts(case)),
    "rbln-417": lambda case: token_bytes(served(padded_heads(case))),
    "vllmfit-2": lambda case: token_bytes(
        served(layers_of_heads(case.layers, case.kv_heads, case.hidden // case.attn_heads, width=case.elem_bytes))
    ),
}


def hybrid_with_draft(case):
    """A window model whose EAGLE draft holds a row for each full row."""
    heads = Heads(case.kv_heads, case.head_dim, case.head_dim)
    target = windowed(case.full_layers, case.swa_layers, heads, width=case.elem_bytes)
    draft = layers_of_heads(case.draft_full_layers, case.kv_heads, case.head_dim, width=case.elem_bytes)
    ratio = case.swa_ratio
    return drafted(target, draft, case.budget_bytes, EAGLE, swa_full_tokens_ratio=ratio, page_size=case.page_size)


def capped_with_draft(case):
    """A capped pool of `swa_cap_tokens` SWA rows: 253 requests of window 127 + 1 + page 64 + 2 ahead, two chunks of
    8192, and a page."""
    heads = heads_of_bytes(case.per_layer_bytes)
    scenario = drafted(
        windowed(case.full_layers, case.swa_layers, heads, window=127),
        layers_of_bytes(case.draft_full_layers, case.per_layer_bytes),
        case.budget_bytes,
        EAGLE,
        page_size=case.page_size,
        user_max_running_requests=253,
        disable_radix_cache=True,
        chunked_prefill_size=8192,
    )
    assert pool_kind(scenario) == CAPPED_POOL and capped_swa_rows(scenario) == case.swa_cap_tokens
    return scenario


def rings_at_full_rows(case):
    """Inkling's MTP depths, SWA geometry at full rows, in the bytes that the plain model fills with `full_tokens`."""
    full, swa = (Heads(n, case.head_dim, case.head_dim) for n in (case.full_heads_per_rank, case.swa_heads_per_rank))
    target = windowed(case.full_layers, case.swa_layers, full, swa)
    rings = AttentionShape((SWA,) * case.draft_depths, None, swa, sliding_window_size=128)
    draft = Draft(rings, num_steps=case.draft_depths, num_draft_tokens=case.draft_depths + 1, swa_at_full_rows=True)
    plain = served(target, kv_cache_dtype="mxfp8", swa_full_tokens_ratio=case.swa_ratio)
    budget = math.floor(case.full_tokens * token_bytes(plain))
    return drafted(target, draft, budget, MTP, kv_cache_dtype="mxfp8", swa_full_tokens_ratio=case.swa_ratio)


def split_heads(case):
    """A budget of so many blocks at the price of unsplit heads, on ranks that split them."""
    shape = layers_of_heads(1, case.tp, 128)
    budget = case.blocks_unsharded_price * case.block_tokens * token_bytes(served(shape))
    return served(shape, budget, deployment=Deployment(tp_size=case.tp), page_size=case.block_tokens)


def draft_on_the_last_stage(case):
    """Stages of layers of 1000 bytes; a linear layer costs nothing and fills the shorter one."""
    first, last = (cell // 1000 for cell in case.stage_cells)
    shape = AttentionShape((FULL,) * (first + last) + (LINEAR,) * (first - last), heads_of_bytes(1000))
    return Scenario(
        shape,
        tuple(case.budgets),
        draft=Draft(layers_of_bytes(case.draft_cell // 1000, 1000)),
        speculative_algorithm=DFLASH,
        deployment=Deployment(pp_size=2),
        page_size=case.page_size,
    )


def measured_with_all_weights(case):
    """Free memory read when the draft's weights are resident too; the reserve is a tenth of the card."""
    free_after = case.avail_after_target - case.draft_weights
    figures = MemoryFigures(((10 * case.reserve,),), ((free_after,),), Fraction(9, 10))
    target, draft = layers_of_bytes(32, case.target_cell // 32), layers_of_bytes(1, case.draft_cell)
    return Scenario(target, figures, draft=Draft(draft), speculative_algorithm=EAGLE)


def capped_window_model(case):
    """A user cap on a window model with memory for far more."""
    shape = windowed(case.full_layers, case.swa_layers, heads_of_bytes(case.per_layer), window=8)
    return served(shape, max_total_tokens=case.user_cap, swa_full_tokens_ratio=case.swa_ratio)


SIZE_POOLS = {
    "sglang-34234-tokens": lambda case: tokens(dflash_of_own_heads(case, case.budget_bytes, case.page_size)),
    "sglang-28219": lambda case: size_pools(hybrid_with_draft(case)).full_max_total_num_tokens,
    "sglang-29622-chunkcap": lambda case: size_pools(capped_with_draft(case)).full_max_total_num_tokens,
    "sglang-31588": lambda case: size_pools(rings_at_full_rows(case)).full_max_total_num_tokens,
    "sglang-23862": lambda case: tokens(measured_with_all_weights(case)),
    "sglang-22389": lambda case: size_pools(capped_window_model(case)).full_max_total_num_tokens,
    "bytedance-sglang-730": lambda case: tokens(draft_on_the_last_stage(case)),
    "transformers-48566": lambda case: tokens(split_heads(case)),
    "maru-34": lambda case: tokens(
        served(layers_of_heads(case.layers, case.kv_heads, case.head_dim, width=case.elem_bytes), case.pool_bytes)
    ),
    "trtllm-224": lambda case: tokens(
        served(layers_of_bytes(1, 4096), 4096 * case.tokens_logged, page_size=case.tokens_per_block)
    ),
    "trtllm-5933": lambda case: tokens(
        served(layers_of_bytes(1, case.bytes_per_token), min(case.memory_before_clamp, case.max_gpu_total_bytes))
    ),
    "vllm-20048": lambda case: (
        tokens(served(padded_heads(case), case.budget_bytes, page_size=case.block)) // case.block
    ),
}


def sizes_of_a_window_model(case):
    """A hybrid pool of so many full rows, for requests as long as the pool."""
    shape = windowed(1, 1, heads_of_bytes(4))
    scenario = served(
        shape, page_size=case.page_size, swa_full_tokens_ratio=case.swa_ratio, context_len=2 * case.full_tokens
    )
    return size_pools_from_max_tokens(scenario, case.full_tokens)


def sizes_of_a_short_cache(case):
    """A cache of fewer tokens than the longest request."""
    return size_pools_from_max_tokens(served(layers_of_bytes(1, 4), context_len=case.max_model_len), case.cache_tokens)


SIZES_FROM_TOKENS = {
    "sglang-22384": lambda case: (
        size_pools_from_max_tokens(
            served(layers_of_bytes(1, 4), page_size=case.page_size), case.max_total_tokens
        ).max_total_num_tokens
    ),
    "sglang-24523": lambda case: sizes_of_a_window_model(case).max_req_len + 1,
    "vllm-2163": lambda case: sizes_of_a_short_cache(case).max_req_len >= case.max_model_len - 1,
}


def latents(case):
    """MLA layers."""
    return AttentionShape((FULL,) * case.layers, Latent(case.kv_lora_rank, case.rope_dim))


def some_linear_layers(case):
    """Layers of which only some hold KV rows."""
    linear = max(0, case.layers - case.attn_layers)
    return AttentionShape(
        (FULL,) * case.attn_layers + (LINEAR,) * linear, Heads(case.kv_heads, case.head_dim, case.head_dim)
    )


def heads_of(case):
    """Layers of heads."""
    return layers_of_heads(case.layers, case.kv_heads, case.head_dim, width=case.elem_bytes)


def window_layers(case, swa_layers):
    """Full and window layers with the same heads."""
    heads = Heads(case.kv_heads, case.head_dim, case.head_dim)
    return windowed(case.full_layers, swa_layers, heads, width=case.elem_bytes)


SOLD_BYTES = {
    "unsloth-4757-qwen3": lambda case: stored_gib(heads_of(case), case.ctx),
    "unsloth-4757-mla": lambda case: stored_gib(latents(case), case.ctx),
    "unsloth-4757-mla-k2": lambda case: stored_gib(latents(case), case.ctx),
    "unsloth-4757-hybrid": lambda case: stored_gib(some_linear_layers(case), case.ctx),
    "unsloth-4757-swa": lambda case: stored_gib(
        window_layers(case, case.swa_layers), case.ctx, min(case.window, case.ctx)
    ),
    "ods-3324": lambda case: stored_gib(heads_of(case), case.ctx),
    "hfmem-60": lambda case: stored_bytes(window_layers(case, case.layers - case.full_layers), 1, 1),
    "hfmem-70": lambda case: stored_gib(
        windowed(case.full_layers, case.swa_layers, heads_of_bytes(case.per_layer)),
        case.seq_len * case.batch,
        window_pools=False,
    ),
    "ttxla-5802": lambda case: stored_gib(
        layers_of_heads(case.tensors // 2, case.heads_total, case.head_dim, width=case.device_bytes),
        case.blocks * case.block,
        deployment=Deployment(tp_size=case.shard),
    ),
}


def page_with_scales(case, head_dim):
    """K and V of one page: a byte an element, and the scale of a token and head as so many more elements."""
    width = head_dim + case.scale_bytes
    return case.block * plain_row_bytes(case.heads, width, width, 8)


def undercount_of_draft(case):
    """How many times the draft costs with DP attention what it costs without."""
    draft = layers_of_heads(1, case.draft_kv_heads, 128)
    prices = [
        draft_price(drafted(layers_of_heads(1, 16, 128), draft, deployment=deployment), 0).full
        for deployment in (Deployment(case.tp_size, case.attn_dp_size), Deployment(case.tp_size))
    ]
    return prices[0] // prices[1]


def first_stage_alone(case):
    """Tokens of a stage that pays for its own layers only."""
    scenario = served(
        layers_of_heads(case.layers_stage0 + case.layers_stage1, case.kv_heads, case.head_dim, width=case.elem_bytes)
    )
    own = target_full_row_bytes(scenario, range(case.layers_stage0))
    return rows_that_fit(math.floor(case.avail_stage0_gib * GiB), own, case.block)


def window_paid_once(case):
    """Fixed SWA rows first, then full rows: one sequence longer than its window."""
    row = stage_row_bytes(served(windowed(case.full_layers, case.swa_layers, heads_of_bytes(case.per_layer))), 0)
    rest = case.budget_bytes - case.window * row.swa
    return rows_that_fit(rest, bytes_per_token(CAPPED_POOL, row, Fraction(1)), 1)


def window_draft_at_a_ratio(case):
    """The bytes of `tokens_at_ratio1` target and draft rows, with the draft's rows a fraction of the target's."""
    available = case.tokens_at_ratio1 * (case.target_cell + case.draft_cell)
    row = RowBytes(full=case.target_cell, swa=case.draft_cell, draft=0)
    return rows_that_fit(available, bytes_per_token(HYBRID_POOL, row, case.draft_ratio), 1)


ANSWERS = {
    "pools.bytes_per_token": BYTES_PER_TOKEN,
    "pools.size_pools": SIZE_POOLS,
    "pools.size_pools_from_max_tokens": SIZES_FROM_TOKENS,
    "accounting.sold_bytes": SOLD_BYTES,
    "pools.rows_that_fit": {"sglang-40665": window_draft_at_a_ratio, "aiconfigurator-1201": window_paid_once},
    "pools.running_requests": {
        "sglang-30547": lambda case: running_requests(
            served(layers_of_bytes(1, 4), user_max_running_requests=case.flag), case.max_total
        )
    },
    "pools.admission_floor": {"vllm-55800": lambda case: admission_floor(case.window, case.block) // case.block},
    "layers.heads_per_rank": {
        "sglang-38811": lambda case: heads_per_rank(
            case.draft_kv_heads, draft_head_ranks(Deployment(case.tp_size, case.tp_size // case.attn_tp_size))
        ),
        "tenstorrent-vllm-50": lambda case: heads_per_rank(case.kv_heads, case.devices),
    },
    "draft.draft_price": {"sglang-38202": undercount_of_draft},
    "cell.target_full_row_bytes": {"vllm-34076": first_stage_alone},
    "cell.heads_row_bytes": {
        "kvcached-387": lambda case: heads_row_bytes(case.kv_heads, case.head_dim, case.head_dim, "fp8_e4m3")
    },
    "cell.latent_row_bytes": {
        "vllmascend-3438": lambda case: case.block * latent_row_bytes(case.latent, 0, "bf16"),
    },
    "cell.plain_row_bytes": {
        "vllm-40388": lambda case: page_with_scales(case, case.dim_global) % page_with_scales(case, case.dim_local)
    },
    "budget.static_bytes": {
        "sglang-6875": lambda case: Fraction(
            static_bytes(case.total * GiB, (case.left_before_draft - case.draft_weights) * GiB, case.fraction), GiB
        ),
        "sglang-34053": lambda case: Fraction(
            static_bytes((case.free_at_start + case.resident_weights) * GiB, case.free_at_start * GiB, case.fraction),
            GiB,
        ),
    },
}
"""Function of the spec -> case -> what it answers."""


def windowed_dflash_draft(case):
    """A default target with an all-window DFLASH draft, in the bytes of `tokens_at_ratio1` rows of both."""
    shape = AttentionShape((SWA,), None, heads_of_bytes(case.draft_cell), sliding_window_size=128)
    budget = case.tokens_at_ratio1 * (case.target_cell + case.draft_cell)
    return drafted(layers_of_bytes(1, case.target_cell), shape, budget)


DISPUTED = {
    "sglang-40665": lambda case: tokens(windowed_dflash_draft(case)),
    "vllm-2163": lambda case: sizes_of_a_short_cache(case).max_req_len,
}
"""Case -> what the spec answers to the deployment of the report, where it does not hold the right value right."""
