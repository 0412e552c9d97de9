"""Which layers, how many KV heads and which pools live on one rank.

Upstream: `configs/model_config.py: get_num_kv_heads`, `distributed/utils.py: get_pp_indices`,
`model_executor/pool_configurator.py: create_memory_pool_configurator`.
"""

from spec.model import FULL, SWA, AttentionShape, Deployment, Latent, Scenario

DEFAULT_POOL = "default"
"""MHA/GQA, every KV layer at full length."""
MLA_POOL = "mla"
"""MLA latents, every KV layer at full length."""
HYBRID_POOL = "hybrid"
"""Full layers and SWA layers, the SWA pool a fixed ratio of the full pool."""
ALL_WINDOW_POOL = "allswa"
"""Only SWA layers: one pool, no ratio."""
CAPPED_POOL = "capped"
"""Full layers and SWA layers, the SWA pool fixed by the most requests that can run."""
POOL_KINDS = (DEFAULT_POOL, MLA_POOL, HYBRID_POOL, ALL_WINDOW_POOL, CAPPED_POOL)
WINDOW_POOLS = (HYBRID_POOL, ALL_WINDOW_POOL, CAPPED_POOL)
FOLLOWING_POOLS = (HYBRID_POOL, CAPPED_POOL)
"""Full rows and SWA rows: a draft layer may follow either."""


def attn_tp_size(deployment: Deployment) -> int:
    """Ranks of one attention replica: DP attention divides the tensor-parallel ranks."""
    return deployment.tp_size // deployment.attn_dp_size


def target_head_ranks(deployment: Deployment) -> int:
    """Ranks the target's KV heads are split over: DCP ranks split tokens, not heads."""
    return attn_tp_size(deployment) // deployment.attn_dcp_size


def draft_head_ranks(deployment: Deployment) -> int:
    """Ranks the draft's KV heads are split over: the draft is not sharded by DCP."""
    return attn_tp_size(deployment)


def heads_per_rank(num_kv_heads: int, ranks: int) -> int:
    """KV heads one rank holds: an even share, or one head replicated when ranks outnumber heads."""
    return max(1, num_kv_heads // ranks)


def first_layer_of_stage(num_layers: int, pp_size: int, stage: int) -> int:
    """Where a pipeline stage begins. Stages are as even as can be; the last `remainder` stages have one more."""
    even_layers = num_layers // pp_size
    remainder = num_layers % pp_size
    return stage * even_layers + max(0, stage - (pp_size - remainder))


def layers_of_stage(num_layers: int, pp_size: int, stage: int) -> range:
    """The positions of the layers one pipeline stage holds."""
    first = first_layer_of_stage(num_layers, pp_size, stage)
    return range(first, first_layer_of_stage(num_layers, pp_size, stage + 1))


def draft_lives_on(deployment: Deployment, stage: int) -> bool:
    """The draft lives on the last stage, or on every stage."""
    return deployment.draft_on_every_stage or stage == deployment.pp_size - 1


def is_latent(shape: AttentionShape) -> bool:
    """Whether the model stores MLA latents instead of K and V heads."""
    return isinstance(shape.full, Latent)


def sizes_by_requests(scenario: Scenario) -> bool:
    """Whether the SWA pool can be sized from the most requests: their number is given, no radix cache keeps finished
    ones, and a prefill writes at most a chunk (the decode role prefills nothing)."""
    chunked = scenario.chunked_prefill_size is not None and scenario.chunked_prefill_size > 0
    return (
        scenario.user_max_running_requests is not None
        and scenario.disable_radix_cache
        and (chunked or scenario.is_decode_role)
    )


def pool_kind(scenario: Scenario) -> str:
    """Which of the five sums prices this scenario. It is the model's, not the stage's."""
    shape = scenario.target
    if is_latent(shape):
        return MLA_POOL
    if SWA not in shape.layers or not scenario.window_pools:
        return DEFAULT_POOL
    if FULL not in shape.layers:
        return ALL_WINDOW_POOL
    if sizes_by_requests(scenario):
        return CAPPED_POOL
    return HYBRID_POOL
