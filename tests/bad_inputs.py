"""The mistakes an operator or an adapter can make, one a row: what is refused, as what, for which field and value."""

import math
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import NamedTuple

from properties.invalid_values import UNUSUAL, with_field
from spec.model import (
    DFLASH,
    EAGLE,
    FULL,
    LINEAR,
    SWA,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Index,
    Latent,
    MemoryFigures,
    Scenario,
)

HEADS = Heads(8, 64, 64)
EAGLE_DRAFT = Draft(AttentionShape((FULL,), HEADS))
DENSE = Scenario(AttentionShape((FULL,) * 4, HEADS), (2**30,), EAGLE_DRAFT, EAGLE)
MLA = with_field(DENSE, "target", AttentionShape((FULL,) * 4, Latent(512, 64)))
SPARSE = with_field(MLA, "target.index", Index(128, (0, 1, 2, 3)))
WINDOW = with_field(DENSE, "target", AttentionShape((SWA, FULL) * 2, HEADS, Heads(4, 64, 64), sliding_window_size=128))
ALL_WINDOW = with_field(DENSE, "target", AttentionShape((SWA,) * 4, None, HEADS, sliding_window_size=128))
MEASURED = with_field(DENSE, "budget", MemoryFigures(((2**33, 2**33),), ((2**32, 2**32),), Fraction("0.9")))
INDEXED = with_field(DENSE, "target.index", Index(64, (0,)))
SOUND = {
    "dense": DENSE,
    "indexed": INDEXED,
    "mla": MLA,
    "sparse": SPARSE,
    "window": WINDOW,
    "all_window": ALL_WINDOW,
    "measured": MEASURED,
}
"""Scenarios that start; every row breaks one of them."""


def stored(scenario: Scenario, dtype: str) -> Scenario:
    """The scenario in another KV dtype."""
    return with_field(scenario, "kv_cache_dtype", dtype)


def ranked(scenario: Scenario, tp: int, dp: int = 1, dcp: int = 1) -> Scenario:
    """The scenario on so many ranks."""
    return with_field(scenario, "deployment", Deployment(tp, dp, dcp))


WINDOW_DRAFT = Draft(AttentionShape((FULL, SWA), HEADS, HEADS, sliding_window_size=128))
WINDOW_DFLASH = with_field(with_field(DENSE, "draft", WINDOW_DRAFT), "speculative_algorithm", DFLASH)


def lookalike(record: object) -> SimpleNamespace:
    """Something with the same fields that is no record: it may change under the sum."""
    return SimpleNamespace(**vars(record))


class Bad(NamedTuple):
    """`sound` with `new` at `path` is refused as `kind`, for `field` and `value`."""

    sound: Scenario
    path: str
    new: object
    kind: str
    field: str
    value: object


def nonsense(sound: Scenario, path: str, *values: object, field: str = "") -> list[Bad]:
    """Each of these values at `path` is invalid input, named as it stands (`field`: under another name)."""
    return [Bad(sound, path, value, "invalid_input", field or path, value) for value in values]


def unsupported(sound: Scenario, path: str, *values: object, field: str = "") -> list[Bad]:
    """Each of these values at `path` means something that no pool stores."""
    return [Bad(sound, path, value, "unsupported", field or path, value) for value in values]


NUMBERS = (
    (DENSE, "deployment.tp_size", 1),
    (DENSE, "deployment.attn_dp_size", 1),
    (DENSE, "deployment.attn_dcp_size", 1),
    (DENSE, "deployment.pp_size", 1),
    (DENSE, "page_size", 1),
    (DENSE, "context_len", 1),
    (DENSE, "decode_extra_slots", 0),
    (DENSE, "swa_eviction_interval", 0),
    (DENSE, "target.full.num_kv_heads", 1),
    (DENSE, "target.full.head_dim", 1),
    (DENSE, "target.full.v_head_dim", 1),
    (MLA, "target.full.kv_lora_rank", 1),
    (MLA, "target.full.qk_rope_head_dim", 0),
    (SPARSE, "target.index.head_dim", 1),
    (WINDOW, "target.swa.num_kv_heads", 1),
    (WINDOW, "target.swa.head_dim", 1),
    (ALL_WINDOW, "target.swa.v_head_dim", 1),
    (ALL_WINDOW, "target.sliding_window_size", 1),
    (DENSE, "draft.num_steps", 1),
    (DENSE, "draft.topk", 1),
    (DENSE, "draft.num_draft_tokens", 1),
    (DENSE, "draft.shape.full.num_kv_heads", 1),
    (DENSE, "draft.shape.full.head_dim", 1),
    (DENSE, "draft.shape.full.v_head_dim", 1),
)
"""Heads, dims, ranks, pages, steps: the path of an integer and the least it may be."""

NO_INTEGERS = (-1, -(2**70), True, False, 1.0, 0.5, math.nan, math.inf, None, "1", [1], UNUSUAL)
"""What no number may be."""

FLAGS = (
    *("is_draft_worker", "window_pools", "disable_radix_cache", "disable_overlap_schedule", "is_decode_role"),
    *("deployment.draft_on_every_stage", "draft.swa_at_full_rows", "draft.geometry_resolved"),
)

BAD = [
    # A ratio outside (0, 1], or not finite, or no ratio; window pools or not.
    *nonsense(DENSE, "swa_full_tokens_ratio", 0, -1, 2, Fraction(0), Fraction(-1, 2), Fraction(1001, 1000)),
    *nonsense(WINDOW, "swa_full_tokens_ratio", 0.8, math.nan, math.inf, -math.inf, True, None, "0.8", Decimal("0.8")),
    # Ranks that do not factor, heads that do not divide, more stages than layers.
    Bad(ranked(DENSE, 4), "deployment.attn_dp_size", 3, "invalid_input", "deployment.tp_size", 4),
    Bad(ranked(DENSE, 8, dp=2), "deployment.attn_dcp_size", 3, "invalid_input", "attn_tp_size", 4),
    Bad(DENSE, "deployment.tp_size", 3, "invalid_input", "target.full.num_kv_heads", 8),
    *nonsense(ranked(DENSE, 4), "target.full.num_kv_heads", 3, 6),
    *nonsense(ranked(WINDOW, 4), "target.swa.num_kv_heads", 3, 6),
    *nonsense(ranked(MLA, 2), "draft.shape.full.num_kv_heads", 3, field="draft.full.num_kv_heads"),
    *nonsense(DENSE, "deployment.pp_size", 5, 2**70),
    # Layers: none, only linear ones, of unknown kinds, no tuple; a layer without geometry; a geometry that is none.
    *nonsense(DENSE, "target.layers", (), (LINEAR,), None, 4, "full", b"full", [FULL], {FULL}, UNUSUAL),
    *(
        Bad(DENSE, "target.layers", (FULL, kind), "invalid_input", "target.layers", kind)
        for kind in ("mamba", None, [])
    ),
    *nonsense(DENSE, "draft.shape.layers", None, 1, "", [FULL], field="draft.layers"),
    Bad(DENSE, "draft.shape.layers", (FULL, "conv"), "invalid_input", "draft.layers", "conv"),
    *nonsense(DENSE, "target.full", None, "heads", (8, 64, 64), {}, 8, UNUSUAL),
    *nonsense(ALL_WINDOW, "target.swa", None, "heads", (8, 64, 64), UNUSUAL),
    *nonsense(DENSE, "draft.shape.full", None, EAGLE_DRAFT, UNUSUAL, field="draft.full"),
    Bad(DENSE, "target.swa", Latent(512, 64), "unsupported", "target.layers", (FULL,) * 4),
    Bad(WINDOW, "target.full", Latent(512, 64), "unsupported", "target.layers", (SWA, FULL) * 2),
    *unsupported(WINDOW, "window_pools", False),
    # The index: on full layers only, once each, in whole blocks beside latents.
    *nonsense(SPARSE, "target.index", 128, (128, (0,)), {}, SPARSE, lookalike(Index(128, (0,))), UNUSUAL),
    *nonsense(SPARSE, "target.index.layers", None, 0, [0], {0}, range(4), b"0", (1, 1)),
    *(
        Bad(SPARSE, "target.index.layers", (0, position), "invalid_input", "target.index.layers", position)
        for position in (-1, 4, True, 1.0, None, UNUSUAL)
    ),
    *unsupported(SPARSE, "target.index.head_dim", 64, 127),
    *unsupported(WINDOW, "target.index", Index(128, (1,))),
    # Names: KV dtypes, model dtypes, backends, algorithms.
    *nonsense(DENSE, "kv_cache_dtype", "int4", "fp16", "fp32", "", "BF16", None, 16, ["bf16"], {}, UNUSUAL),
    *nonsense(DENSE, "target.model_dtype", "int4", "auto", "fp8_e4m3", "", None, 16, ["bf16"], UNUSUAL),
    *nonsense(DENSE, "target.kv_checkpoint_dtype", "int4", "auto", "", False, 16, ["bf16"], UNUSUAL),
    *nonsense(DENSE, "attention_backend", "cuda", "", None, 3, ["fa3"], UNUSUAL),
    *nonsense(DENSE, "speculative_algorithm", "NGRAM", "eagle", "", False, 1, ["EAGLE"], UNUSUAL),
    *nonsense(DENSE, "draft.kv_cache_dtype", "int4", "fp16", "", False, 16, ["bf16"], UNUSUAL),
    *nonsense(DENSE, "draft.attention_backend", "cuda", "", False, 3, ["fa3"], UNUSUAL),
    *nonsense(DENSE, "draft.shape.model_dtype", "int4", None, UNUSUAL, field="draft.model_dtype"),
    *nonsense(DENSE, "draft.shape.kv_checkpoint_dtype", "auto", UNUSUAL, field="draft.kv_checkpoint_dtype"),
    # Records, switches and the chunk.
    *nonsense(DENSE, "target", None, "Qwen3-8B", {}, EAGLE_DRAFT, lookalike(DENSE.target), UNUSUAL),
    *nonsense(DENSE, "deployment", None, 8, {"tp_size": 8}, lookalike(Deployment()), UNUSUAL),
    *nonsense(DENSE, "draft", None, "EAGLE", {}, EAGLE_DRAFT.shape, lookalike(EAGLE_DRAFT), UNUSUAL),
    *nonsense(DENSE, "draft.shape", None, 1, EAGLE_DRAFT, lookalike(EAGLE_DRAFT.shape), UNUSUAL),
    *(row for flag in FLAGS for row in nonsense(DENSE, flag, None, 0, 1, "false", "", [], UNUSUAL)),
    *nonsense(SPARSE, "target.index.stores_values", None, 1, UNUSUAL),
    *nonsense(DENSE, "chunked_prefill_size", True, 8192.0, "8192", [], UNUSUAL),
    # Block scales that do not divide.
    *unsupported(stored(DENSE, "mxfp8"), "target.full.head_dim", 48, 1),
    *unsupported(stored(DENSE, "mxfp8"), "target.full.v_head_dim", 48, 1),
    *unsupported(stored(ALL_WINDOW, "mxfp8"), "target.swa.v_head_dim", 48),
    *unsupported(stored(DENSE, "mxfp8"), "draft.shape.full.head_dim", 48, field="draft.full.head_dim"),
    *unsupported(stored(DENSE, "nvfp4"), "target.full.v_head_dim", 32),
    Bad(stored(DENSE, "nvfp4"), "target.full", Heads(8, 72, 72), "unsupported", "target.full.head_dim", 72),
    Bad(stored(DENSE, "fp4_mx_block16"), "target.full", Heads(8, 8, 8), "unsupported", "target.full.head_dim", 8),
    *unsupported(stored(MLA, "nvfp4"), "target.full.kv_lora_rank", 500),
    Bad(stored(MLA, "nvfp4"), "target.full.qk_rope_head_dim", 63, "unsupported", "target.full.kv_lora_rank", 512),
    *unsupported(stored(SPARSE, "fp8_e4m3"), "target.full.kv_lora_rank", 500),
    # Formats that no pool stores: scales beside an index, nvfp4 on other backends, FP4 beside window pools.
    *unsupported(INDEXED, "kv_cache_dtype", "mxfp8", "nvfp4", "fp4_mx_block16", field="target.full kv_cache_dtype"),
    *unsupported(SPARSE, "kv_cache_dtype", "mxfp8", "nvfp4", "fp4_mx_block16", field="target kv_cache_dtype"),
    *unsupported(stored(DENSE, "nvfp4"), "attention_backend", "fa3", field="target.full attention_backend"),
    *unsupported(WINDOW, "kv_cache_dtype", "nvfp4", "fp4_mx_block16"),
    *unsupported(ALL_WINDOW, "draft.kv_cache_dtype", "nvfp4", "fp4_mx_block16"),
    # Window models under DCP; draft windows without rows to follow, or of other heads in one pool.
    Bad(WINDOW, "deployment", Deployment(4, 1, 2), "unsupported", "deployment.attn_dcp_size", 2),
    Bad(DENSE, "draft", WINDOW_DRAFT, "unsupported", "draft.shape.layers", (FULL, SWA)),
    Bad(WINDOW_DFLASH, "draft.shape.swa", Heads(8, 32, 64), "unsupported", "draft.shape.layers", (FULL, SWA)),
    # Budgets and memory figures.
    *nonsense(DENSE, "budget", (), (1, 1), [2**30], 2**30, 2.0**30, None, "1", {}, math.nan, UNUSUAL),
    *(
        Bad(DENSE, "budget", (size,), "invalid_input", "budget", size)
        for size in (True, 1.0, math.nan, None, "1", (1,))
    ),
    *(
        row._replace(path="budget.mem_fraction_static")
        for row in nonsense(
            MEASURED, "mem_fraction_static", 0, 1, Fraction(0), Fraction(1), Fraction(-1, 2), 0.9, math.nan, None, "0.9"
        )
    ),
    *(
        row._replace(path=f"budget.{name}")
        for name in ("free_before_load", "free_after_all_weights")
        for row in nonsense(MEASURED, name, None, 2**30, (), ((1,), (1,)), [(1,)], ((),), "1", UNUSUAL)
    ),
    *(
        Bad(MEASURED, f"budget.{name}", new, "invalid_input", name, value)
        for name in ("free_before_load", "free_after_all_weights")
        for new, value in ((([1],), [1]), ((1,), 1), ((b"1",), b"1"), (((1, -1),), -1), (((1, 1.5),), 1.5))
    ),
]
"""Every mistake but a number out of range."""
