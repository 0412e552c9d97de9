"""Combinations that mean nothing, or that no pool stores: layers and geometries, the index, ranks, scale blocks, window
pools, drafts, budgets. Each fault first makes the scenario sound in what it does not break.
"""

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from properties.cells import DRAFTS, Cell
from properties.invalid_values import (
    ALL,
    DRAFTED,
    LATENT,
    MIXED,
    NO_FLAGS,
    NO_TUPLES,
    UNUSUAL,
    WINDOWED,
    WITH_FULL,
    Break,
    Fault,
    below,
    cells,
    one_of,
    with_field,
)
from spec.layers import ALL_WINDOW_POOL, DEFAULT_POOL, MLA_POOL, WINDOW_POOLS, attn_tp_size, target_head_ranks
from spec.model import FULL, LINEAR, SWA, AttentionShape, Heads, Index, Latent, MemoryFigures, Scenario

DEFAULT = cells(DEFAULT_POOL)
ALL_WINDOW = cells(ALL_WINDOW_POOL)
DRAFTED_LATENT = cells(MLA_POOL, drafts=tuple(DRAFTS))
DRAFTED_WINDOWED = cells(*WINDOW_POOLS, drafts=tuple(DRAFTS))
FOLLOWING = cells(DEFAULT_POOL, MLA_POOL, drafts=("eagle", "mtp", "standalone"))
NOT_FOLLOWING = cells(DEFAULT_POOL, MLA_POOL, drafts=("dflash", "dspark"))

MORE = st.integers(1, 3)
NO_KINDS = one_of(("", "mamba", "FULL", None, 1, [FULL], (FULL,), UNUSUAL))
NO_RATIOS = st.one_of(
    one_of((0, -1, 2, 0.8, math.nan, math.inf, True, None, "0.8", Decimal("0.8"), [1], UNUSUAL)),
    st.fractions(max_value=0),
    st.fractions(min_value=1).map(lambda ratio: ratio + Fraction(1, 1000)),
)
NO_STATIC_FRACTIONS = NO_RATIOS | one_of((1, Fraction(1)))
NO_BUDGETS = one_of((None, 0, 2**30, True, 2.0**30, math.nan, "1", (), [2**30], {}, UNUSUAL))
NO_BYTES = one_of((None, True, 2.0**30, math.inf, math.nan, "1", (2**30,), [], UNUSUAL))
NO_STAGES = one_of(NO_TUPLES)
NO_STAGE = one_of((None, 0, 2**30, "1", b"1", [2**30], {2**30: 1}, UNUSUAL))
NO_READING = below(0).map(lambda reading: (2**30, reading))
SCALED_DTYPES = st.sampled_from(("mxfp8", "fp4_mx_block16", "nvfp4"))
FP4 = st.sampled_from(("fp4_mx_block16", "nvfp4"))
NOT_FLASHINFER = st.sampled_from(("fa3", "fa4", "triton", "trtllm"))


def on_target(scenario: Scenario, **changes: Any) -> Scenario:
    """The scenario with fields of its target replaced."""
    return replace(scenario, target=replace(scenario.target, **changes))


def heads_of(scenario: Scenario) -> Heads:
    """The heads of the target, those of its SWA layers where it has no others."""
    geometry = scenario.target.full or scenario.target.swa
    assert isinstance(geometry, Heads)
    return geometry


def first_full(scenario: Scenario) -> int:
    """The position of the first full layer."""
    return scenario.target.layers.index(FULL)


def indexed(scenario: Scenario, head_dim: Any, *positions: Any, **changes: Any) -> Scenario:
    """The scenario with such an index."""
    return on_target(scenario, index=Index(head_dim, positions), **changes)


def plain(scenario: Scenario, head_dim: int, v_head_dim: int, dtype: str, **changes: Any) -> Scenario:
    """The scenario with full layers only, of such dims, stored in `dtype`."""
    heads = replace(heads_of(scenario), head_dim=head_dim, v_head_dim=v_head_dim)
    shape = AttentionShape((FULL,) * len(scenario.target.layers), heads, **changes)
    return replace(scenario, target=shape, kv_cache_dtype=dtype, attention_backend="flashinfer")


def windows(scenario: Scenario, head_dim: int, v_head_dim: int, dtype: str) -> Scenario:
    """The scenario with all its heads of such dims, stored in `dtype`."""
    heads = replace(heads_of(scenario), head_dim=head_dim, v_head_dim=v_head_dim)
    wide = on_target(scenario, full=scenario.target.full and heads, swa=heads)
    return replace(wide, kv_cache_dtype=dtype, attention_backend="flashinfer")


def latent(scenario: Scenario, rank: int, rope: int, dtype: str, *, is_sparse: bool) -> Scenario:
    """The scenario with such a latent, stored in `dtype`."""
    index = Index(128, (first_full(scenario),)) if is_sparse else None
    return replace(on_target(scenario, full=Latent(rank, rope), index=index), kv_cache_dtype=dtype)


def ranked(scenario: Scenario, **ranks: Any) -> Scenario:
    """The scenario on other ranks."""
    return replace(scenario, deployment=replace(scenario.deployment, **ranks))


def doubled(scenario: Scenario) -> Scenario:
    """The scenario on twice the tensor-parallel ranks."""
    return ranked(scenario, tp_size=2 * scenario.deployment.tp_size)


def odd_heads(kind: str) -> Break:
    """Two ranks or more, and a head more than ranks."""

    def breaks(draw: DrawFn, scenario: Scenario) -> Scenario:
        more = doubled(scenario)
        heads = replace(heads_of(scenario), num_kv_heads=target_head_ranks(more.deployment) + 1)
        return on_target(more, **{kind: heads})

    return breaks


def drafted(
    scenario: Scenario, full: Any, swa: Any = None, layers: tuple[str, ...] = (FULL,), **draft: Any
) -> Scenario:
    """The scenario with such a draft, on a backend that overrides no dtype. Dims make heads, one a rank."""
    assert scenario.draft is not None
    ranks = attn_tp_size(scenario.deployment)
    full, swa = (Heads(ranks, *dims) if isinstance(dims, tuple) else dims for dims in (full, swa))
    shape = AttentionShape(layers, full, swa, kv_checkpoint_dtype=draft.pop("kv_checkpoint_dtype", None))
    return replace(scenario, draft=replace(scenario.draft, shape=shape, attention_backend="flashinfer", **draft))


def odd_draft_heads(draw: DrawFn, scenario: Scenario) -> Scenario:
    """Two ranks or more, and a draft with a head more than ranks; the target's latents have none to split."""
    more = doubled(scenario)
    return drafted(more, Heads(attn_tp_size(more.deployment) + 1, 64, 64))


def one_layer_more(path: str) -> Break:
    """A layer of a kind that does not exist."""

    def breaks(draw: DrawFn, scenario: Scenario) -> Scenario:
        shape = scenario.target if scenario.draft is None or path == "target.layers" else scenario.draft.shape
        return with_field(scenario, path, (*shape.layers, draw(NO_KINDS)))

    return breaks


def figures(scenario: Scenario, name: str, value: object) -> Scenario:
    """The scenario with memory figures that are sound but for one field."""
    sound = ((2**30,),) * scenario.deployment.pp_size
    return replace(scenario, budget=with_field(MemoryFigures(sound, sound, Fraction(9, 10)), name, value))


def last_stage(scenario: Scenario, name: str, value: object) -> Scenario:
    """The scenario with memory figures that are sound but for what the last stage holds."""
    return figures(scenario, name, (*((2**30,),) * (scenario.deployment.pp_size - 1), value))


def nonsense(name: str, field: str, where: tuple[Cell, ...], breaks: Break) -> Fault:
    """What means nothing."""
    return Fault(name, "invalid_input", field, where, breaks)


def unsupported(name: str, field: str, where: tuple[Cell, ...], breaks: Break) -> Fault:
    """What no pool stores."""
    return Fault(name, "unsupported", field, where, breaks)


LAYERS = (
    nonsense("no layers", "target.layers", ALL, lambda draw, s: on_target(s, layers=(), index=None)),
    nonsense(
        "only linear layers",
        "target.layers",
        ALL,
        lambda draw, s: on_target(s, layers=(LINEAR,) * len(s.target.layers), index=None),
    ),
    nonsense("a layer of no kind", "target.layers", ALL, one_layer_more("target.layers")),
    nonsense("a draft layer of no kind", "draft.layers", DRAFTED, one_layer_more("draft.shape.layers")),
    nonsense("full layers, no geometry", "target.full", WITH_FULL, lambda draw, s: on_target(s, full=None)),
    nonsense("SWA layers, no geometry", "target.swa", WINDOWED, lambda draw, s: on_target(s, swa=None)),
    nonsense("draft layers, no geometry", "draft.full", DRAFTED, lambda draw, s: drafted(s, None)),
    unsupported(
        "window layers at full length beside other heads",
        "window_pools",
        MIXED,
        lambda draw, s: replace(on_target(s, full=Heads(8, 64, 64), swa=Heads(8, 128, 64)), window_pools=False),
    ),
    unsupported("latent window layers", "target.layers", ALL, lambda draw, s: on_target(s, swa=Latent(128, 0))),
    unsupported(
        "window layers beside latents",
        "target.layers",
        LATENT,
        lambda draw, s: on_target(s, layers=(*s.target.layers, SWA), swa=Heads(1, 64, 64)),
    ),
)
INDEXES = (
    nonsense("an index of no width", "target.index.head_dim", ALL, lambda draw, s: indexed(s, draw(below(1)))),
    unsupported(
        "index blocks that do not divide",
        "target.index.head_dim",
        LATENT,
        lambda draw, s: indexed(s, 128 * draw(MORE) - 1, first_full(s)),
    ),
    nonsense(
        "index values that are no switch",
        "target.index.stores_values",
        ALL,
        lambda draw, s: with_field(indexed(s, 128), "target.index.stores_values", draw(one_of(NO_FLAGS))),
    ),
    nonsense(
        "index positions that are no tuple",
        "target.index.layers",
        ALL,
        lambda draw, s: with_field(indexed(s, 128), "target.index.layers", draw(one_of(NO_TUPLES))),
    ),
    nonsense("an index nowhere", "target.index.layers", ALL, lambda draw, s: indexed(s, 128, draw(below(0)))),
    nonsense(
        "an index past the last layer",
        "target.index.layers",
        ALL,
        lambda draw, s: indexed(s, 128, len(s.target.layers) - 1 + draw(MORE)),
    ),
    nonsense(
        "an index on a linear layer",
        "target.index.layers",
        LATENT,
        lambda draw, s: indexed(s, 128, 0, layers=(LINEAR, *s.target.layers)),
    ),
    nonsense(
        "an index twice on a layer",
        "target.index.layers",
        WITH_FULL,
        lambda draw, s: indexed(s, 128, first_full(s), first_full(s)),
    ),
    unsupported("an index beside windows", "target.index", MIXED, lambda draw, s: indexed(s, 128, first_full(s))),
    nonsense(
        "a draft index past the last layer",
        "draft.index.layers",
        DRAFTED,
        lambda draw, s: with_field(drafted(s, (64, 64)), "draft.shape.index", Index(128, (draw(MORE),))),
    ),
)
RANKS = (
    nonsense(
        "replicas that do not factor",
        "deployment.tp_size",
        ALL,
        lambda draw, s: ranked(s, attn_dp_size=s.deployment.tp_size + draw(MORE)),
    ),
    nonsense(
        "DCP ranks that do not factor",
        "attn_tp_size",
        ALL,
        lambda draw, s: ranked(s, attn_dcp_size=attn_tp_size(s.deployment) + draw(MORE)),
    ),
    nonsense(
        "more stages than layers",
        "deployment.pp_size",
        ALL,
        lambda draw, s: ranked(s, pp_size=len(s.target.layers) + draw(MORE)),
    ),
    unsupported(
        "window pools under DCP",
        "deployment.attn_dcp_size",
        WINDOWED,
        lambda draw, s: ranked(doubled(s), attn_dcp_size=2),
    ),
    nonsense("heads that do not divide", "target.full.num_kv_heads", MIXED, odd_heads("full")),
    nonsense("SWA heads that do not divide", "target.swa.num_kv_heads", ALL_WINDOW, odd_heads("swa")),
    nonsense("draft heads that do not divide", "draft.full.num_kv_heads", DRAFTED_LATENT, odd_draft_heads),
)
BLOCKS = (
    unsupported("mxfp8 beside broken K", "target.full.head_dim", DEFAULT, lambda draw, s: plain(s, 48, 64, "mxfp8")),
    unsupported("mxfp8 beside broken V", "target.full.v_head_dim", DEFAULT, lambda draw, s: plain(s, 64, 48, "mxfp8")),
    unsupported("mxfp8 in the window", "target.swa.head_dim", ALL_WINDOW, lambda draw, s: windows(s, 48, 64, "mxfp8")),
    unsupported(
        "fp4 beside a narrower V", "target.full.v_head_dim", DEFAULT, lambda draw, s: plain(s, 64, 32, draw(FP4))
    ),
    unsupported("fp4 beside broken K", "target.full.head_dim", DEFAULT, lambda draw, s: plain(s, 24, 24, draw(FP4))),
    unsupported(
        "scales beside an index",
        "target.full kv_cache_dtype",
        DEFAULT,
        lambda draw, s: plain(s, 64, 64, draw(SCALED_DTYPES), index=Index(64, (0,))),
    ),
    unsupported(
        "nvfp4 on another backend",
        "target.full attention_backend",
        DEFAULT,
        lambda draw, s: replace(plain(s, 64, 64, "nvfp4"), attention_backend=draw(NOT_FLASHINFER)),
    ),
    unsupported(
        "scales beside sparse latents",
        "target kv_cache_dtype",
        LATENT,
        lambda draw, s: latent(s, 128, 64, draw(SCALED_DTYPES), is_sparse=True),
    ),
    unsupported(
        "sparse latents of broken blocks",
        "target.full.kv_lora_rank",
        LATENT,
        lambda draw, s: latent(s, 129, 64, "fp8_e4m3", is_sparse=True),
    ),
    unsupported(
        "fp4 latents of broken blocks",
        "target.full.kv_lora_rank",
        LATENT,
        lambda draw, s: latent(s, 129, 64, draw(FP4), is_sparse=False),
    ),
    unsupported(
        "a draft of broken blocks",
        "draft.full.head_dim",
        DRAFTED,
        lambda draw, s: drafted(s, (48, 64), kv_cache_dtype="mxfp8"),
    ),
    unsupported(
        "a draft of broken blocks once it is loaded",
        "draft.full.head_dim",
        DRAFTED,
        lambda draw, s: drafted(s, (48, 64), kv_cache_dtype="auto", kv_checkpoint_dtype="mxfp8"),
    ),
)
POOLS = (
    nonsense(
        "no ratio",
        "swa_full_tokens_ratio",
        ALL,
        lambda draw, s: with_field(s, "swa_full_tokens_ratio", draw(NO_RATIOS)),
    ),
    unsupported("fp4 beside window pools", "kv_cache_dtype", WINDOWED, lambda draw, s: windows(s, 64, 64, draw(FP4))),
    unsupported(
        "an fp4 draft beside window pools",
        "draft.kv_cache_dtype",
        DRAFTED_WINDOWED,
        lambda draw, s: drafted(s, (64, 64), kv_cache_dtype=draw(FP4)),
    ),
    nonsense("an algorithm without a draft", "draft", DRAFTED, lambda draw, s: replace(s, draft=None)),
    unsupported(
        "draft windows without rows to follow",
        "draft.shape.layers",
        FOLLOWING,
        lambda draw, s: drafted(s, None, (64, 64), layers=(SWA,)),
    ),
    unsupported(
        "draft windows of other heads in one pool",
        "draft.shape.layers",
        NOT_FOLLOWING,
        lambda draw, s: drafted(s, (64, 64), (128, 128), layers=(FULL, SWA)),
    ),
)
BUDGETS = (
    nonsense("a budget that is no tuple", "budget", ALL, lambda draw, s: with_field(s, "budget", draw(NO_BUDGETS))),
    nonsense(
        "bytes of too many stages", "budget", ALL, lambda draw, s: replace(s, budget=(1,) * (s.deployment.pp_size + 1))
    ),
    nonsense(
        "bytes that are no integer",
        "budget",
        ALL,
        lambda draw, s: with_field(s, "budget", (*(1,) * (s.deployment.pp_size - 1), draw(NO_BYTES))),
    ),
    nonsense(
        "no static fraction",
        "mem_fraction_static",
        ALL,
        lambda draw, s: figures(s, "mem_fraction_static", draw(NO_STATIC_FRACTIONS)),
    ),
)
MEMORY = tuple(
    nonsense(f"{name} {fault}", name, ALL, breaks)
    for name in ("free_before_load", "free_after_all_weights")
    for fault, breaks in (
        ("is no tuple", lambda draw, s, name=name: figures(s, name, draw(NO_STAGES))),
        ("has too many stages", lambda draw, s, name=name: figures(s, name, ((1,),) * (s.deployment.pp_size + 1))),
        ("has a stage that is no tuple", lambda draw, s, name=name: last_stage(s, name, draw(NO_STAGE))),
        ("has a stage without readings", lambda draw, s, name=name: last_stage(s, name, ())),
        ("has a reading that is none", lambda draw, s, name=name: last_stage(s, name, draw(NO_READING))),
    )
)

COMBINATIONS = (*LAYERS, *INDEXES, *RANKS, *BLOCKS, *POOLS, *BUDGETS, *MEMORY)
"""Every fault that takes more than one field."""
