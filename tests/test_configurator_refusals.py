"""The configurator against the spec on broken scenarios: one field of a sound one changed, the same refusal."""

from dataclasses import replace
from fractions import Fraction

import pytest

from impl.configurator_screen import screened_kinds
from properties.invalid_values import with_field
from spec.model import DFLASH, FULL, LINEAR, STANDALONE, SWA, Deployment, Heads, Index, Latent, Refusal, Scenario
from tests.configurator_scenarios import (
    DENSE,
    DRAFTS,
    FIGURES,
    GIB,
    GQA,
    LATENT,
    ODD,
    POOLS,
    SOUND,
    SOUND_MLA,
    SOUND_WINDOW,
    both_ways,
    deployed,
    is_valid,
)

BROKEN: list[tuple[Scenario, str, object]] = [
    *(
        (SOUND, f"deployment.{name}", bad)
        for name in ("tp_size", "attn_dp_size", "attn_dcp_size", "pp_size")
        for bad in (0, -1, True, 2.0, None, 3)
    ),
    *((SOUND, name, bad) for name in ("page_size", "context_len") for bad in (0, -4, True, 1.0, None, "1")),
    *((SOUND, name, bad) for name in ("max_total_tokens", "user_max_running_requests") for bad in (0, -4, True, 1.5)),
    *((SOUND, name, bad) for name in ("decode_extra_slots", "swa_eviction_interval") for bad in (-1, False, 1.0, None)),
    *((SOUND, "chunked_prefill_size", bad) for bad in (True, 2.5, "8192")),
    *((SOUND, "speculative_algorithm", bad) for bad in ("", "NGRAM", 1)),
    *((SOUND, "kv_cache_dtype", bad) for bad in ("int4", "fp16", "", None, ["bf16"])),
    *((SOUND, "attention_backend", bad) for bad in ("cuda", None, ["fa3"])),
    *((SOUND, "swa_full_tokens_ratio", bad) for bad in (0, 1.0, True, None, Fraction(0), Fraction(5, 4), 2)),
    *((SOUND, "budget", bad) for bad in ((), (GIB, GIB), [GIB], GIB, None, (float(GIB),), (True,))),
    *(
        (SOUND, "target.layers", bad)
        for bad in ((), (LINEAR,) * 4, ("full", "mamba"), (FULL, SWA), (FULL, None), (FULL, ["swa"]))
    ),
    *(
        (SOUND, "target.full", bad)
        for bad in (
            None,
            "heads",
            (8, 128, 128),
            Heads(0, 128, 128),
            Heads(8, 0, 1),
            Heads(8, 1, 0),
            Heads(8, 128, ODD),
            Latent(0, 64),
            Latent(512, -1),
            Latent(ODD, 64),
        )
    ),
    *((SOUND, "target.swa", bad) for bad in (LATENT, "heads", Heads(0, 1, 1))),
    *(
        (SOUND, "target.index", bad)
        for bad in (
            Index(0, (0,)),
            Index(ODD, (0,)),
            Index(64, (-1,)),
            Index(64, (36,)),
            Index(64, (1, 1)),
            Index(64, (True,)),
        )
    ),
    *(
        (SOUND, f"{model}.{name}", bad)
        for model in ("target", "draft.shape")
        for name, bad in (
            ("model_dtype", "fp8_e4m3"),
            ("model_dtype", "auto"),
            ("model_dtype", None),
            ("kv_checkpoint_dtype", "auto"),
            ("kv_checkpoint_dtype", ""),
            ("kv_checkpoint_dtype", 8),
        )
    ),
    *((SOUND, f"draft.{name}", bad) for name in ("num_steps", "topk", "num_draft_tokens") for bad in (0, True, None)),
    *((SOUND, "draft.kv_cache_dtype", bad) for bad in ("fp16", "", 4)),
    *((SOUND, "draft.attention_backend", bad) for bad in ("cuda", "")),
    *((SOUND, "draft.shape.layers", bad) for bad in ((SWA,), (FULL, SWA), ("x",))),
    (SOUND, "draft", None),
    (replace(SOUND, deployment=Deployment(tp_size=2)), "target.full.num_kv_heads", 3),
    (replace(SOUND, deployment=Deployment(tp_size=2)), "draft.shape.full.num_kv_heads", 3),
    (SOUND, "deployment.pp_size", 37),
    (replace(SOUND, deployment=Deployment(tp_size=4)), "deployment.attn_dp_size", 3),
    (replace(SOUND, deployment=Deployment(tp_size=4, attn_dp_size=2)), "deployment.attn_dcp_size", 4),
    *(
        (replace(SOUND, kv_cache_dtype=dtype), f"{model}.full", heads)
        for model in ("target", "draft.shape")
        for dtype in ("nvfp4", "fp4_mx_block16")
        for heads in (Heads(8, 128, 72), Heads(8, 72, 72), Heads(8, 64, 128))
    ),
    *(
        (replace(SOUND, kv_cache_dtype="mxfp8"), f"{model}.full", heads)
        for model in ("target", "draft.shape")
        for heads in (Heads(8, 128, 48), Heads(8, 48, 128), Heads(8, 48, 48))
    ),
    *(
        (replace(POOLS["default_index"][1], kv_cache_dtype="bf16"), "kv_cache_dtype", bad)
        for bad in ("mxfp8", "nvfp4", "fp4_mx_block16")
    ),
    (replace(SOUND, kv_cache_dtype="nvfp4"), "attention_backend", "fa3"),
    (replace(SOUND, kv_cache_dtype="nvfp4"), "draft.attention_backend", "triton"),
    (replace(SOUND, target=replace(DENSE, kv_checkpoint_dtype="nvfp4")), "attention_backend", "fa3"),
    (with_field(SOUND, "draft.shape.full", Heads(8, 128, 64)), "draft.shape.kv_checkpoint_dtype", "nvfp4"),
    *((SOUND_MLA, "kv_cache_dtype", bad) for bad in ("mxfp8", "nvfp4", "fp4_mx_block16")),
    *((SOUND_MLA, "target.index.head_dim", bad) for bad in (64, 0, None)),
    (replace(SOUND_MLA, kv_cache_dtype="fp8_e4m3"), "target.full.kv_lora_rank", 500),
    (replace(POOLS["mla"][1], kv_cache_dtype="nvfp4"), "target.full.qk_rope_head_dim", 63),
    (SOUND_MLA, "target.layers", (FULL,) * 60 + (SWA,)),
    (SOUND_MLA, "target.layers", (LINEAR,) + (FULL,) * 60),
    (SOUND_WINDOW, "deployment", Deployment(tp_size=2, attn_dcp_size=2)),
    *((SOUND_WINDOW, "kv_cache_dtype", bad) for bad in ("nvfp4", "fp4_mx_block16")),
    *((SOUND_WINDOW, "draft.kv_cache_dtype", bad) for bad in ("nvfp4", "fp4_mx_block16")),
    (SOUND_WINDOW, "draft.shape.kv_checkpoint_dtype", "fp4_mx_block16"),
    *((SOUND_WINDOW, "target.sliding_window_size", bad) for bad in (None, 0, True, 128.0)),
    (SOUND_WINDOW, "window_pools", False),
    (SOUND_WINDOW, "target.full", None),
    (SOUND_WINDOW, "target.swa", None),
    (SOUND_WINDOW, "target.index", Index(64, (0,))),
    (replace(SOUND, draft=DRAFTS["window"], speculative_algorithm=DFLASH), "draft.shape.swa", GQA),
    (replace(SOUND, draft=DRAFTS["window"], speculative_algorithm=DFLASH), "speculative_algorithm", STANDALONE),
    *(
        (replace(SOUND, budget=FIGURES), "budget.mem_fraction_static", bad)
        for bad in (0.88, Fraction(0), Fraction(1), 1, None)
    ),
    *(
        (replace(SOUND, budget=FIGURES), f"budget.{name}", bad)
        for name in ("free_before_load", "free_after_all_weights")
        for bad in ((), ((),), ((-1,),), ((1.5,),), ((True,),), ((GIB,), (GIB,)))
    ),
]
"""(a sound scenario, the field that breaks it, its broken value)."""


@pytest.mark.parametrize(("sound", "path", "bad"), BROKEN, ids=[f"{path}={bad!r:.40}" for _, path, bad in BROKEN])
def test_agrees_on_broken_scenarios(sound: Scenario, path: str, bad: object) -> None:
    """The same refusal, field by field, and never a size."""
    broken = with_field(sound, path, bad)
    answers = both_ways(broken)
    assert all(isinstance(answer, Refusal) for answer in answers)
    assert {answer.kind for answer in answers if isinstance(answer, Refusal)} <= {"invalid_input", "unsupported"}


@pytest.mark.parametrize("scenario", [SOUND, SOUND_MLA, SOUND_WINDOW], ids=["default", "mla", "window"])
def test_the_sound_scenarios_are_sound(scenario: Scenario) -> None:
    """Otherwise the broken ones would prove nothing."""
    assert is_valid(scenario) and screened_kinds(scenario) is not None
    assert is_valid(replace(scenario, budget=FIGURES)) and screened_kinds(replace(scenario, budget=FIGURES)) is not None


@pytest.mark.parametrize(
    ("path", "odd"),
    [
        ("target.layers", list(DENSE.layers)),
        ("swa_full_tokens_ratio", 1),
        ("target.swa", Heads(3, 5, 7)),
        ("draft.shape.swa", Latent(1, 1)),
        ("target.index", Index(64, [2, 0])),  # type: ignore[arg-type]
        ("target.index", Index(64, ())),
    ],
)
def test_agrees_where_types_are_odd(path: str, odd: object) -> None:
    """Lists, an integer ratio, a geometry no layer uses: whatever the spec makes of them."""
    for deployment in (Deployment(), Deployment(tp_size=2), Deployment(pp_size=2)):
        both_ways(deployed(with_field(SOUND, path, odd), deployment))
