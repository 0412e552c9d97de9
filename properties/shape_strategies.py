"""Geometries and ranks: KV heads that split or replicate, dims in whole blocks of the formats at play, layers in every
order, drafts of every kind."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from properties.cells import DRAFTS, Cell
from properties.dtype_choices import DtypeChoice, element_block, needs_equal_dims
from spec.layers import (
    ALL_WINDOW_POOL,
    MLA_POOL,
    WINDOW_POOLS,
    attn_tp_size,
    target_head_ranks,
)
from spec.model import (
    DFLASH_FAMILY,
    FULL,
    LINEAR,
    SWA,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Index,
    Latent,
)

BOOLEANS = st.booleans()
RARELY = st.sampled_from((False,) * 5 + (True,))
HEAD_DIMS = st.sampled_from((1, 2, 3, 4, 5, 8, 16, 24, 64, 80, 96, 128, 192, 256))
BLOCKS = st.sampled_from((1, 2, 3, 4, 6))
LAYER_COUNTS = st.sampled_from((1, 1, 2, 3, 4))
LAYERS_A_STAGE = st.sampled_from((1, 1, 2))
LINEAR_COUNTS = st.sampled_from((0, 0, 0, 1, 2))
ARRANGEMENTS = st.sampled_from(("in turn", "full first", "window first"))
TENSOR_RANKS = st.sampled_from((1, 2, 4, 8, 3, 6))
SMALL_RANKS = st.sampled_from((1, 2, 4))
PARALLEL_RANKS = st.sampled_from((2, 4, 3))
STAGES = st.sampled_from((2, 3, 4))
WINDOWS = st.sampled_from((1, 2, 5, 8, 16, 127, 128, 512, 1024))
DRAFT_DEPTHS = st.sampled_from((1, 2, 1, 3, 4, 0))
STEPS = st.integers(1, 5)
TOPKS = st.sampled_from((1, 1, 2, 4))
DRAFT_TOKENS = st.integers(1, 16)
ON_EVERY_STAGE = st.sampled_from((False, False, True))
SINGLE_OR_MIXED = st.sampled_from(((FULL, SWA), (SWA,)))


class AnyNumber:
    """Draws as Hypothesis does, but for some strategies others in their place (`any_number.py`); what only these
    scenarios have is drawn where it meets one."""

    def __init__(self, draw: DrawFn, in_place: Mapping[SearchStrategy[Any], SearchStrategy[Any]]) -> None:
        self.draw, self.in_place = draw, in_place

    def __call__(self, strategy: SearchStrategy[Any], label: object = None) -> Any:
        """A value of the strategy, or of the one in its place."""
        return self.draw(self.in_place.get(strategy, strategy))


@cache
def head_counts(*ranks: int) -> SearchStrategy[int]:
    """KV heads that split evenly over, or are replicated on, each of these numbers of ranks."""
    most = 4 * max(ranks)
    return st.sampled_from(
        [heads for heads in range(1, most + 1) if all(heads % r == 0 or r % heads == 0 for r in ranks)]
    )


def draw_deployment(draw: DrawFn, cell: Cell) -> Deployment:
    """Ranks of the cell's category, and where the draft lives."""
    on_every_stage = draw(ON_EVERY_STAGE) if cell.deployment == "pp" else False
    if cell.deployment == "tp":
        return Deployment(tp_size=draw(TENSOR_RANKS))
    if cell.deployment == "dp":
        replicas = draw(PARALLEL_RANKS)
        return Deployment(tp_size=replicas * draw(SMALL_RANKS), attn_dp_size=replicas)
    if cell.deployment == "dcp":
        token_ranks = draw(PARALLEL_RANKS)
        replicas = draw(SMALL_RANKS)
        tp_size = token_ranks * draw(SMALL_RANKS) * replicas
        return Deployment(tp_size=tp_size, attn_dp_size=replicas, attn_dcp_size=token_ranks)
    staged = Deployment(tp_size=draw(SMALL_RANKS), pp_size=draw(STAGES), draft_on_every_stage=on_every_stage)
    if not isinstance(draw, AnyNumber):
        return staged
    replicas, token_ranks = draw(SMALL_RANKS), 1 if cell.pool in WINDOW_POOLS else draw(SMALL_RANKS)
    tp_size = staged.tp_size * replicas * token_ranks
    return replace(staged, tp_size=tp_size, attn_dp_size=replicas, attn_dcp_size=token_ranks)


def draw_heads(draw: DrawFn, dtypes: tuple[str, ...], *ranks: int) -> Heads:
    """Heads that fit every one of `ranks`, dims that fit every one of `dtypes`."""
    block = element_block(dtypes)
    head_dim = draw(HEAD_DIMS) if block == 1 else block * draw(BLOCKS)
    v_head_dim = head_dim
    if not needs_equal_dims(dtypes) and draw(BOOLEANS):
        v_head_dim = draw(HEAD_DIMS) if block == 1 else block * draw(BLOCKS)
    return Heads(draw(head_counts(*ranks)), head_dim, v_head_dim)


def draw_latent(draw: DrawFn, dtypes: tuple[str, ...], *, is_sparse: bool) -> Latent:
    """A latent whose blocks are whole."""
    if is_sparse:
        return Latent(128 * draw(BLOCKS), 16 * draw(BLOCKS))
    block = element_block(dtypes)
    if block == 1:
        return Latent(draw(HEAD_DIMS), draw(HEAD_DIMS))
    return Latent(block * draw(BLOCKS), block * draw(BLOCKS))


def arrange(arrangement: str, full: int, swa: int, linear: int) -> tuple[str, ...]:
    """The order of so many layers of each kind."""
    first, second = [FULL] * full, [SWA] * swa
    if arrangement == "window first":
        first, second = second, first
    if arrangement == "in turn":
        shorter = min(full, swa)
        paired = [kind for _ in range(shorter) for kind in (SWA, FULL)]
        first, second = paired, [FULL] * (full - shorter) + [SWA] * (swa - shorter)
    return tuple(first + [LINEAR] * linear + second)


def draw_layers(draw: DrawFn, kinds: tuple[str, ...], stages: int, linear: int | None = None) -> tuple[str, ...]:
    """One to four layers of each of `kinds`, some linear ones (or so many), at least one a stage. Of two kinds, every
    other draw puts both on every stage: an engine may know no pipeline without."""
    if stages > 1 and {FULL, SWA} <= set(kinds) and draw(BOOLEANS):
        return (SWA, FULL) * (stages * draw(LAYERS_A_STAGE))
    full = draw(LAYER_COUNTS) if FULL in kinds else 0
    swa = draw(LAYER_COUNTS) if SWA in kinds else 0
    linear = draw(LINEAR_COUNTS) if linear is None else linear
    missing = max(0, stages - full - swa - linear)
    if FULL in kinds:
        full += missing
    else:
        swa += missing
    return arrange(draw(ARRANGEMENTS) if full and swa else "full first", full, swa, linear)


def draw_target(draw: DrawFn, cell: Cell, deployment: Deployment, choice: DtypeChoice) -> tuple[AttentionShape, bool]:
    """The target of a cell and whether it runs with window pools."""
    shape, window_pools = draw_target_shape(draw, cell, deployment, choice)
    return replace(shape, model_dtype=choice.model_dtype, kv_checkpoint_dtype=choice.checkpoint), window_pools


def draw_target_shape(
    draw: DrawFn, cell: Cell, deployment: Deployment, choice: DtypeChoice
) -> tuple[AttentionShape, bool]:
    """Its geometry. Its heads also fit the draft's ranks: the draft of a `same` cell takes its geometry."""
    ranks = (target_head_ranks(deployment), attn_tp_size(deployment))
    dtypes = choice.all_dtypes
    if cell.pool == MLA_POOL:
        layers = draw_layers(draw, (FULL,), deployment.pp_size)
        latent = draw_latent(draw, dtypes, is_sparse=choice.is_sparse)
        index = draw_index(draw, layers, head_dim=128) if choice.is_sparse else None
        return AttentionShape(layers, latent, index=index), True
    full = draw_heads(draw, dtypes, *ranks)
    if cell.pool in WINDOW_POOLS:
        kinds = (SWA,) if cell.pool == ALL_WINDOW_POOL else (FULL, SWA)
        layers = draw_layers(draw, kinds, deployment.pp_size)
        swa = draw_heads(draw, dtypes, *ranks)
        window = draw(WINDOWS)
        has_full = None if cell.pool == ALL_WINDOW_POOL else full
        return AttentionShape(layers, has_full, swa, sliding_window_size=window), True
    if choice.is_sparse:
        layers = draw_layers(draw, (FULL,), deployment.pp_size, linear=0)
        index = replace(draw_index(draw, layers, head_dim=draw(HEAD_DIMS)), stores_values=draw(BOOLEANS))
        return AttentionShape(layers, replace(full, v_head_dim=full.head_dim), index=index), True
    if draw(RARELY):
        held: tuple[str, ...] = draw(SINGLE_OR_MIXED)
        layers = draw_layers(draw, held, deployment.pp_size)
        shape = AttentionShape(layers, full if FULL in held else None, full, sliding_window_size=16)
        return shape, False
    return AttentionShape(draw_layers(draw, (FULL,), deployment.pp_size), full), draw(BOOLEANS)


def draw_index(draw: DrawFn, layers: tuple[str, ...], head_dim: int) -> Index:
    """An index on every full layer, or on every other one."""
    full = [position for position, kind in enumerate(layers) if kind == FULL]
    return Index(head_dim, tuple(full if draw(BOOLEANS) else full[::2]))


def matching_shape(cell: Cell, target: AttentionShape, depth: int) -> AttentionShape:
    """The draft geometry of a `same` cell: layers shaped as the target's full layers (all-window: its SWA layers)."""
    if cell.pool == ALL_WINDOW_POOL:
        return AttentionShape((SWA,) * depth, None, target.swa)
    index = target.index and replace(target.index, layers=tuple(range(depth)))
    return AttentionShape((FULL,) * depth, target.full or target.swa, index=index)


def own_shape(
    draw: DrawFn, cell: Cell, target: AttentionShape, choice: DtypeChoice, ranks: int, depth: int
) -> AttentionShape:
    """The draft geometry of an `own` cell: never the target's."""
    dtypes = choice.draft_dtypes
    if draw(RARELY) and not (cell.pool == MLA_POOL and target.index is not None):
        latent = draw_latent(draw, dtypes, is_sparse=False)
        return AttentionShape((FULL,) * depth, differing_latent(latent, target))
    full = differing(draw_heads(draw, dtypes, ranks), target)
    beside_windows = cell.pool in WINDOW_POOLS
    if (beside_windows or DRAFTS[cell.draft] in DFLASH_FAMILY) and draw(BOOLEANS):
        swa = differing(draw_heads(draw, dtypes, ranks), target) if beside_windows else full
        full_layers = draw(st.integers(0, depth))
        layers = arrange(draw(ARRANGEMENTS), full_layers, depth - full_layers, 0)
        return AttentionShape(layers, full, swa, sliding_window_size=draw(WINDOWS))
    linear = draw(LINEAR_COUNTS) if cell.draft == "standalone" or isinstance(draw, AnyNumber) else 0
    return AttentionShape((FULL,) * depth + (LINEAR,) * linear, full)


def differing(heads: Heads, target: AttentionShape) -> Heads:
    """The geometry, its dims doubled until it is none of the target's."""
    while heads in (target.full, target.swa):
        heads = replace(heads, head_dim=heads.head_dim * 2, v_head_dim=heads.v_head_dim * 2)
    return heads


def differing_latent(latent: Latent, target: AttentionShape) -> Latent:
    """The latent, its rank doubled when it is the target's."""
    return replace(latent, kv_lora_rank=latent.kv_lora_rank * 2) if latent == target.full else latent


def draw_draft(draw: DrawFn, cell: Cell, target: AttentionShape, choice: DtypeChoice, ranks: int) -> Draft:
    """The draft of a cell."""
    depth = draw(DRAFT_DEPTHS)
    if cell.geometry == "same":
        shape = matching_shape(cell, target, depth)
    else:
        shape = own_shape(draw, cell, target, choice, ranks, depth)
    steps = depth if cell.draft == "mtp" and depth > 0 else draw(STEPS)
    return Draft(
        shape=replace(shape, model_dtype=choice.draft_model_dtype, kv_checkpoint_dtype=choice.draft_checkpoint),
        kv_cache_dtype=choice.draft_asked,
        attention_backend=choice.draft_backend,
        num_steps=steps,
        topk=draw(TOPKS),
        num_draft_tokens=draw(DRAFT_TOKENS),
        swa_at_full_rows=SWA in shape.layers and draw(BOOLEANS),
        geometry_resolved=not draw(RARELY),
    )
