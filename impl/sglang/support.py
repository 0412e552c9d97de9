"""What a release cannot be asked on a CPU, or does not have, and why. Every reason is written once, here."""

from impl.sglang.releases import Release
from spec.budget import least_reading
from spec.layers import attn_tp_size, heads_per_rank, target_head_ranks
from spec.model import (
    DFLASH_FAMILY,
    EAGLE,
    LINEAR,
    MTP,
    STANDALONE,
    SWA,
    Heads,
    Latent,
    MemoryFigures,
    Scenario,
    active_draft,
)

DRAFT_WORKER = "a draft worker takes the target's sizes and makes none of its own"
WHOLE_READINGS = "a release computes readings in float GiB: where the exact bytes are a whole number it may lose one"
NO_DCP = "this release does not size for decode context parallelism on CUDA"
NO_HEADS_UNDER_DCP = "this release does not keep every KV head of a DCP group on each rank: the spec's rows differ"
NO_INDEX_UNDER_DCP = (
    "this release does not keep the index of this model whole on every DCP rank: the spec's rows differ"
)
SCALED_TILELANG = "this release scales the sparse rows of tilelang, in price and pool alike: the spec's are raw"
NO_ALGORITHM = "this release does not know the algorithm"
NO_DTYPE = "this release does not know the KV dtype"
NO_DRAFT_DTYPE = "this release has no --speculative-draft-kv-cache-dtype"
DRAFT_DTYPE_CHOICES = "--speculative-draft-kv-cache-dtype takes auto, bf16, fp8_e4m3 and fp8_e5m2 only"
NO_SPARSE_HEADS = "this release has no MiniMax sparse pool"
SPARSE_HEADS_DIMS = "a MiniMax sparse pool has one width for K and V"
SPARSE_HEADS_LINEAR = "no MiniMax sparse model has linear layers"
CHECKPOINT_DTYPE = "a checkpoint asks a release for an fp8_e4m3 KV cache or for none"
DRAFT_STAGE_LAST = "this release hosts the draft on the last pipeline stage"
DRAFT_STAGE_EVERY = "this release hosts the draft on every pipeline stage"
LATENT_FAMILY_DRAFT = "a DFLASH-family draft is priced by head fields, which the spec's latent does not carry"
TWO_GEOMETRY_DRAFT = "a DFLASH-family draft has one row geometry: its pool knows no window layers"
NO_BANDED_DRAFT = "this release knows no draft whose window layers sit at full capacity"
BANDED_DRAFT = "only the runners of multi-layer EAGLE can sit at full capacity with window layers"
LINEAR_DRAFT = "a STANDALONE draft with recurrent layers has one KV layer in this release, whatever its config says"


DRAFT_DTYPES = ("auto", "bf16", "fp8_e4m3", "fp8_e5m2")
"""What an operator can choose for the draft alone (`arg_groups/fields/spec.py`, before `server_args.py`); the server's
KV dtype it takes over whatever it is."""


def unsupported(scenario: Scenario, release: Release) -> str | None:
    """The first reason that holds, None where the release can be asked."""
    return (
        unsupported_deployment(scenario, release)
        or unsupported_target(scenario, release)
        or unsupported_draft(scenario, release)
    )


def unsupported_deployment(scenario: Scenario, release: Release) -> str | None:
    """Ranks a release does not size for."""
    deployment = scenario.deployment
    if scenario.is_draft_worker:
        return DRAFT_WORKER
    figures = scenario.budget
    if isinstance(figures, MemoryFigures):
        kept_out = least_reading(figures.free_before_load) * (1 - figures.mem_fraction_static)
        if kept_out.denominator == 1:
            return WHOLE_READINGS
    if deployment.attn_dcp_size > 1 and not release.has_dcp_sizing:
        return NO_DCP
    if active_draft(scenario) is not None and deployment.pp_size > 1:
        if release.draft_on_last_stage_only and deployment.draft_on_every_stage:
            return DRAFT_STAGE_LAST
        if not release.draft_on_last_stage_only and not deployment.draft_on_every_stage:
            return DRAFT_STAGE_EVERY
    return None


def unsupported_target(scenario: Scenario, release: Release) -> str | None:
    """Targets a release has no pool for."""
    shape = scenario.target
    if scenario.kv_cache_dtype not in release.dtypes:
        return NO_DTYPE
    if shape.kv_checkpoint_dtype not in (None, "fp8_e4m3"):
        return CHECKPOINT_DTYPE
    if splits_heads_under_dcp(scenario) and not release.heads_under_dcp:
        return NO_HEADS_UNDER_DCP
    if shape.index is not None and scenario.attention_backend == "tilelang" and release.scales_tilelang:
        return SCALED_TILELANG
    under_dcp = shape.index is not None and scenario.deployment.attn_dcp_size > 1
    if under_dcp and (isinstance(shape.full, Heads) or not release.index_under_dcp):
        return NO_INDEX_UNDER_DCP
    if shape.index is not None and isinstance(shape.full, Heads):
        if not release.has_minimax_sparse:
            return NO_SPARSE_HEADS
        if shape.full.head_dim != shape.full.v_head_dim:
            return SPARSE_HEADS_DIMS
        if LINEAR in shape.layers:
            return SPARSE_HEADS_LINEAR
    return None


def splits_heads_under_dcp(scenario: Scenario) -> bool:
    """Whether the target's heads on a rank depend on DCP."""
    heads = scenario.target.full or scenario.target.swa
    if not isinstance(heads, Heads):
        return False
    group, ranks = target_head_ranks(scenario.deployment), attn_tp_size(scenario.deployment)
    return heads_per_rank(heads.num_kv_heads, group) != heads_per_rank(heads.num_kv_heads, ranks)


def unsupported_draft(scenario: Scenario, release: Release) -> str | None:
    """Drafts a release does not know."""
    if scenario.speculative_algorithm is not None and scenario.speculative_algorithm not in release.algorithms:
        return NO_ALGORITHM
    draft = active_draft(scenario)
    if draft is None:
        return None
    if draft.kv_cache_dtype is not None:
        if draft.kv_cache_dtype != scenario.kv_cache_dtype and not release.draft_dtype_flag:
            return NO_DRAFT_DTYPE
        if draft.kv_cache_dtype not in (*DRAFT_DTYPES, scenario.kv_cache_dtype):
            return DRAFT_DTYPE_CHOICES
    if draft.shape.kv_checkpoint_dtype not in (None, "fp8_e4m3"):
        return CHECKPOINT_DTYPE
    if draft.swa_at_full_rows and SWA in draft.shape.layers:
        if scenario.speculative_algorithm in (EAGLE, STANDALONE):
            return BANDED_DRAFT
        if scenario.speculative_algorithm == MTP and not release.has_banded_drafts:
            return NO_BANDED_DRAFT
    if scenario.speculative_algorithm == STANDALONE and LINEAR in draft.shape.layers:
        return LINEAR_DRAFT
    if scenario.speculative_algorithm in DFLASH_FAMILY:
        if isinstance(draft.shape.full, Latent) and release.draft_resolver is not None:
            return LATENT_FAMILY_DRAFT
        if SWA in draft.shape.layers and draft.shape.full not in (None, draft.shape.swa):
            return TWO_GEOMETRY_DRAFT
    return None
