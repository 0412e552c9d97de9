"""What a draft adds to the price: its rows, its own geometry, and the layer ratio when that cannot be resolved.

Upstream: `mem_cache/draft_kv_budget.py`, `speculative/dflash_utils.py: dflash_draft_cell_size_per_token`,
`scale_kv_cell_size_per_token_for_dflash`. The spec prices every algorithm alike, from the draft's own geometry; a
release that prices EAGLE by the layer ratio is judged, not copied.
"""

from dataclasses import dataclass

from spec.cell import (
    index_row_bytes,
    layer_row_bytes,
    stage_positions,
    target_full_row_bytes,
    workspace_row_bytes,
)
from spec.dtypes import draft_backend, draft_kv_dtype, target_kv_dtype
from spec.layers import (
    ALL_WINDOW_POOL,
    FOLLOWING_POOLS,
    WINDOW_POOLS,
    draft_head_ranks,
    draft_lives_on,
    pool_kind,
    target_head_ranks,
)
from spec.model import (
    DFLASH_FAMILY,
    FROZEN_KV_MTP,
    FULL,
    LINEAR,
    MTP,
    SWA,
    AttentionShape,
    Draft,
    Scenario,
    active_draft,
)
from spec.units import ceil_div


@dataclass(frozen=True)
class DraftPrice:
    """Bytes a draft adds on one rank of the stage that holds it.

    full: D, for each full row of the target (all-window: each SWA row). swa: its part of S, for each SWA row.
    """

    full: int
    swa: int


NO_DRAFT = DraftPrice(full=0, swa=0)
"""No bytes where nothing is paid for."""


def follows_swa_rows(scenario: Scenario, draft: Draft, kind: str) -> bool:
    """Whether a draft layer holds one row per SWA row instead of one per full row: SWA layers of an EAGLE, MTP or
    STANDALONE draft beside a window target do, unless they are banded at full capacity. A windowed DFLASH-family
    draft still holds a row per target token. All-window targets have SWA rows only, so there the question is void."""
    return (
        kind == SWA
        and pool_kind(scenario) in FOLLOWING_POOLS
        and scenario.speculative_algorithm not in DFLASH_FAMILY
        and not draft.swa_at_full_rows
    )


def draft_layer_bytes(scenario: Scenario, draft: Draft, position: int) -> int:
    """One row of one draft layer on this rank, its index row included, priced before its weights are loaded."""
    shape = draft.shape
    row_bytes = layer_row_bytes(
        shape,
        shape.layers[position],
        draft_head_ranks(scenario.deployment),
        draft_kv_dtype(scenario, draft),
        draft_backend(scenario, draft),
    )
    if shape.index is not None and position in shape.index.layers:
        row_bytes += index_row_bytes(shape, shape.index)
    return row_bytes


def draft_workspace_bytes(scenario: Scenario, draft: Draft) -> int:
    """One row of the nvfp4 workspaces of all draft pools: one pool for the whole draft, or one per MTP runner."""
    held = [kind for kind in draft.shape.layers if kind != LINEAR]
    pools = len(held) if scenario.speculative_algorithm == MTP else min(1, len(held))
    geometry = draft.shape.full if FULL in held else draft.shape.swa
    return pools * workspace_row_bytes(geometry, draft_head_ranks(scenario.deployment), draft_kv_dtype(scenario, draft))


def exact_draft_price(scenario: Scenario, draft: Draft) -> DraftPrice:
    """The sum over the draft's own layers. The draft is not sharded by DCP: each target row on a rank costs
    `attn_dcp_size` draft rows there. No layers cost nothing."""
    full, swa = draft_workspace_bytes(scenario, draft), 0
    for position, kind in enumerate(draft.shape.layers):
        if follows_swa_rows(scenario, draft, kind):
            swa += draft_layer_bytes(scenario, draft, position)
        else:
            full += draft_layer_bytes(scenario, draft, position)
    dcp = scenario.deployment.attn_dcp_size
    return DraftPrice(full=dcp * full, swa=dcp * swa)


def layer_ratio_bytes(full_row_bytes: int, kv_layers: int, draft_layers: int) -> int:
    """What `draft_layers` layers add if each costs what an average target layer costs, rounded up:
    `ceil(F * (L + draft_layers) / L) - F`."""
    return ceil_div(full_row_bytes * (kv_layers + draft_layers), kv_layers) - full_row_bytes


def kv_positions(shape: AttentionShape, positions: range) -> list[int]:
    """Those of `positions` that hold KV rows at all."""
    return [position for position in positions if shape.layers[position] != LINEAR]


def layer_ratio_price(scenario: Scenario, draft: Draft, stage: int) -> DraftPrice:
    """The fallback for a default or MLA target: the ratio of layers on this stage; a stage that holds the draft but
    no KV layer of the target uses the whole model's average. Every draft layer counts: which of them are linear is
    part of the geometry that could not be resolved."""
    shape = scenario.target
    positions = stage_positions(scenario, stage)
    if not kv_positions(shape, positions):
        positions = range(len(shape.layers))
    draft_layers = scenario.deployment.attn_dcp_size * len(draft.shape.layers)
    full_row_bytes = target_full_row_bytes(scenario, positions)
    return DraftPrice(layer_ratio_bytes(full_row_bytes, len(kv_positions(shape, positions)), draft_layers), 0)


def target_layer_price(scenario: Scenario, draft: Draft) -> DraftPrice:
    """The fallback beside window pools: every draft layer priced as one full layer of the target (all-window: one
    SWA layer), a row for each row."""
    kind = SWA if pool_kind(scenario) == ALL_WINDOW_POOL else FULL
    row_bytes = layer_row_bytes(
        scenario.target,
        kind,
        target_head_ranks(scenario.deployment),
        target_kv_dtype(scenario),
        scenario.attention_backend,
    )
    return DraftPrice(len(draft.shape.layers) * row_bytes, 0)


def draft_price(scenario: Scenario, stage: int) -> DraftPrice:
    """What the active draft adds on one rank of `stage`: nothing where it does not live, nothing when it writes no
    rows (frozen-KV MTP), else its exact price, or the fallback when its geometry is not resolved."""
    draft = active_draft(scenario)
    if draft is None or not draft_lives_on(scenario.deployment, stage):
        return NO_DRAFT
    if scenario.speculative_algorithm == FROZEN_KV_MTP:
        return NO_DRAFT
    if draft.geometry_resolved:
        return exact_draft_price(scenario, draft)
    if pool_kind(scenario) in WINDOW_POOLS:
        return target_layer_price(scenario, draft)
    return layer_ratio_price(scenario, draft, stage)
