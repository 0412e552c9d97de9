"""The optimized configurator against the spec: literal scenarios, broken ones, generated ones; names and choices."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impl import load
from impl.configurator import (
    AllSWAPoolConfigurator,
    Configurator,
    DefaultPoolConfigurator,
    HybridSWAPoolConfigurator,
    MemoryPoolConfigurator,
    SWARequestCapPoolConfigurator,
    create_memory_pool_configurator,
)
from impl.configurator_screen import screened_kinds
from spec.model import (
    ALGORITHMS,
    DFLASH,
    EAGLE,
    FROZEN_KV_MTP,
    FULL,
    LINEAR,
    MTP,
    STANDALONE,
    SWA,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Index,
    Latent,
    MemoryFigures,
    PoolSizes,
    Refusal,
    Refused,
    Scenario,
)
from spec.pools import size_pools, size_pools_from_max_tokens
from spec.validity import check_scenario

GIB = 2**30

# Literal scenarios.

GQA = Heads(num_kv_heads=8, head_dim=128, v_head_dim=128)
SMALL = Heads(num_kv_heads=4, head_dim=64, v_head_dim=64)
LATENT = Latent(kv_lora_rank=512, qk_rope_head_dim=64)

DENSE = AttentionShape(layers=(FULL,) * 36, full=GQA)
LINEAR_MIX = AttentionShape(layers=(LINEAR, LINEAR, LINEAR, FULL) * 6, full=GQA)
GQA_INDEX = AttentionShape(layers=(FULL,) * 12, full=GQA, index=Index(64, (3, 1, 7, 11), stores_values=True))
MLA = AttentionShape(layers=(FULL,) * 61, full=LATENT)
SPARSE_MLA = AttentionShape(layers=(FULL,) * 61, full=LATENT, index=Index(128, tuple(range(0, 61, 2))))
WINDOW = AttentionShape(layers=(SWA, FULL) * 12, full=SMALL, swa=Heads(8, 64, 32), sliding_window_size=128)
WINDOW_ALIKE = replace(WINDOW, swa=SMALL)
ALL_WINDOW = AttentionShape(layers=(SWA,) * 32, full=None, swa=GQA, sliding_window_size=4096)

SAME_DRAFT = AttentionShape(layers=(FULL,) * 5, full=GQA)
OWN_DRAFT = AttentionShape(layers=(FULL,) * 3, full=Heads(4, 64, 96), model_dtype="fp16")
LATENT_DRAFT = AttentionShape(layers=(FULL,), full=LATENT, index=Index(128, (0,)))
WINDOW_DRAFT = AttentionShape(layers=(SWA, FULL, SWA), full=SMALL, swa=SMALL, sliding_window_size=64)

POOLS: dict[str, tuple[type[MemoryPoolConfigurator], Scenario]] = {
    "default": (DefaultPoolConfigurator, Scenario(DENSE, (40 * GIB,), page_size=64, context_len=32768)),
    "default_linear": (DefaultPoolConfigurator, Scenario(LINEAR_MIX, (40 * GIB,), page_size=16)),
    "default_index": (DefaultPoolConfigurator, Scenario(GQA_INDEX, (40 * GIB,), page_size=16)),
    "default_window": (DefaultPoolConfigurator, Scenario(WINDOW_ALIKE, (9 * GIB,), page_size=16, window_pools=False)),
    "mla": (DefaultPoolConfigurator, Scenario(MLA, (90 * GIB,), page_size=64, context_len=163840)),
    "mla_sparse": (DefaultPoolConfigurator, Scenario(SPARSE_MLA, (90 * GIB,), page_size=64, context_len=163840)),
    "hybrid": (HybridSWAPoolConfigurator, Scenario(WINDOW, (12 * GIB,), page_size=16, context_len=131072)),
    "allswa": (AllSWAPoolConfigurator, Scenario(ALL_WINDOW, (12 * GIB,), page_size=32, context_len=32768)),
    "capped": (
        SWARequestCapPoolConfigurator,
        Scenario(WINDOW, (24 * GIB,), page_size=16, user_max_running_requests=48, disable_radix_cache=True),
    ),
    "capped_decode": (
        SWARequestCapPoolConfigurator,
        Scenario(
            WINDOW,
            (24 * GIB,),
            page_size=64,
            user_max_running_requests=48,
            disable_radix_cache=True,
            chunked_prefill_size=None,
            is_decode_role=True,
            decode_extra_slots=9,
            disable_overlap_schedule=True,
        ),
    ),
}
DRAFTS: dict[str, Draft] = {
    "same": Draft(SAME_DRAFT, num_steps=1, topk=1, num_draft_tokens=16),
    "own": Draft(OWN_DRAFT, "fp8_e4m3", attention_backend="fa4", num_steps=5, topk=8, num_draft_tokens=64),
    "latent": Draft(LATENT_DRAFT, num_steps=3, topk=2, num_draft_tokens=4),
    "window": Draft(WINDOW_DRAFT, num_steps=2, topk=4, num_draft_tokens=6),
    "banded": Draft(WINDOW_DRAFT, swa_at_full_rows=True),
    "unresolved": Draft(OWN_DRAFT, geometry_resolved=False),
    "empty": Draft(AttentionShape(layers=(), full=None)),
}
DEPLOYMENTS = {
    "tp": Deployment(tp_size=2),
    "dp": Deployment(tp_size=8, attn_dp_size=4),
    "dcp": Deployment(tp_size=8, attn_dp_size=2, attn_dcp_size=2),
    "pp": Deployment(tp_size=2, pp_size=5),
    "pp_every": Deployment(tp_size=2, pp_size=3, draft_on_every_stage=True),
}


def both_ways(scenario: Scenario) -> list[PoolSizes | Refusal]:
    """The spec's answers to one scenario, after the configurator's were found equal, on both entry points."""
    configurator = Configurator()
    answers = [size_pools(scenario)]
    assert configurator.size_pools(scenario) == answers[0]
    for tokens in (1, 2, 63, 64, 1000, 1001, 400_000):
        answers.append(size_pools_from_max_tokens(scenario, tokens))
        assert configurator.size_pools_from_max_tokens(scenario, tokens) == answers[-1]
    return answers


def is_valid(scenario: Scenario) -> bool:
    """Whether the spec finds no fault."""
    try:
        check_scenario(scenario)
    except Refused:
        return False
    return True


def deployed(scenario: Scenario, deployment: Deployment) -> Scenario:
    """The scenario on other ranks, its bytes cut unevenly over their stages."""
    [whole] = scenario.budget if isinstance(scenario.budget, tuple) else (40 * GIB,)
    budget = tuple(whole - stage * 1_234_567 for stage in range(deployment.pp_size))
    return replace(scenario, deployment=deployment, budget=budget)


@pytest.mark.parametrize("deployment", DEPLOYMENTS)
@pytest.mark.parametrize("algorithm", [None, *ALGORITHMS])
@pytest.mark.parametrize("pool", POOLS)
def test_agrees_on_literal_scenarios(pool: str, algorithm: str | None, deployment: str) -> None:
    """Every pool kind, algorithm and deployment, with every draft, dtype and cap."""
    scenario = deployed(POOLS[pool][1], DEPLOYMENTS[deployment])
    sized = 0
    for draft in DRAFTS.values() if algorithm is not None else (None, DRAFTS["own"]):
        for dtype in ("auto", "fp8_e4m3", "mxfp8", "nvfp4"):
            asked = replace(scenario, draft=draft, speculative_algorithm=algorithm, kv_cache_dtype=dtype)
            for cap in (None, 40_000, 10**9):
                answers = both_ways(replace(asked, max_total_tokens=cap))
                sized += isinstance(answers[0], PoolSizes)
            both_ways(replace(asked, is_draft_worker=True))
            if is_valid(asked):
                assert screened_kinds(asked) is not None, "the slow path is for odd scenarios only"
    assert sized or (deployment == "dcp" and scenario.target.swa is not None and scenario.window_pools)


@pytest.mark.parametrize("pool", POOLS)
def test_agrees_on_exact_boundaries(pool: str) -> None:
    """One byte below a page, exactly a page, one more: refusal and sale flip where the spec flips."""
    scenario = replace(POOLS[pool][1], draft=DRAFTS["window"], speculative_algorithm=DFLASH, context_len=2)
    if not is_valid(scenario):
        scenario = replace(scenario, draft=DRAFTS["same"])
    refused = size_pools(replace(scenario, budget=(1,)))
    assert isinstance(refused, Refusal) and isinstance(refused.needed, int)
    for pages in range(1, 40):
        for off in (-1, 0, 1):
            both_ways(replace(scenario, budget=(refused.needed * pages + off,)))


@pytest.mark.parametrize("pool", POOLS)
def test_agrees_where_the_cap_is_exactly_what_fits(pool: str) -> None:
    """A cap of N does not bind: capped SWA rows stay above it; one row less binds."""
    scenario = replace(POOLS[pool][1], context_len=64)
    refused = size_pools(replace(scenario, budget=(1,)))
    assert isinstance(refused, Refusal) and isinstance(refused.needed, int)
    tight = replace(scenario, budget=(refused.needed,))
    for cap in range(max(1, scenario.page_size - 1), 3 * scenario.page_size + 2):
        both_ways(replace(tight, max_total_tokens=cap))
    if "capped" in pool:
        page = size_pools(replace(tight, max_total_tokens=scenario.page_size))
        assert isinstance(page, PoolSizes) and page.swa_max_total_num_tokens > page.max_total_num_tokens


def test_agrees_on_a_stage_that_only_pays_for_the_capped_swa_pool() -> None:
    """A stage of SWA layers alone sets no N and is refused from one byte below its SWA rows on."""
    shape = replace(WINDOW, layers=(SWA, SWA, FULL, FULL))
    scenario = replace(POOLS["capped"][1], target=shape, deployment=Deployment(pp_size=2), budget=(1, 40 * GIB))
    refused = size_pools(scenario)
    assert isinstance(refused, Refusal) and isinstance(refused.needed, int)
    for off in (-1, 0, 1):
        both_ways(replace(scenario, budget=(refused.needed + off, 40 * GIB)))


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("page_size", [1, 2, 16, 64])
def test_agrees_on_what_decode_allocates_ahead(page_size: int, overlap: bool) -> None:
    """Every branch of the allocation length, both sides of its maximum."""
    scenario = replace(POOLS["capped"][1], page_size=page_size, disable_overlap_schedule=not overlap)
    scenario = replace(scenario, budget=(900 * GIB,), speculative_algorithm=EAGLE)
    for num_steps in (1, 3, 17, 65):
        for topk in (1, 2, 8):
            for num_draft_tokens in (1, 4, 33, 200):
                draft = Draft(SAME_DRAFT, num_steps=num_steps, topk=topk, num_draft_tokens=num_draft_tokens)
                asked = replace(scenario, draft=draft)
                assert isinstance(size_pools(asked), PoolSizes)
                assert Configurator().size_pools(asked) == size_pools(asked)


# Broken scenarios, one field of a sound one changed.

SOUND = replace(POOLS["default"][1], draft=DRAFTS["same"], speculative_algorithm=EAGLE)
SOUND_MLA = replace(POOLS["mla_sparse"][1], draft=DRAFTS["latent"], speculative_algorithm=EAGLE)
SOUND_WINDOW = replace(POOLS["hybrid"][1], draft=DRAFTS["window"], speculative_algorithm=EAGLE)
ODD: Any = 128.0
FIGURES = MemoryFigures(((80 * GIB, 79 * GIB),), ((60 * GIB, 61 * GIB),), Fraction("0.88"))


def changed(value: Any, path: str, new: object) -> Any:
    """`value` with the field at a dotted path replaced."""
    name, _, rest = path.partition(".")
    return replace(value, **{name: changed(getattr(value, name), rest, new) if rest else new})


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
    (changed(SOUND, "draft.shape.full", Heads(8, 128, 64)), "draft.shape.kv_checkpoint_dtype", "nvfp4"),
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
    broken = changed(sound, path, bad)
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
        both_ways(deployed(changed(SOUND, path, odd), deployment))


# Generated scenarios.

Pick = Callable[[Sequence[Any]], Any]


def some_heads(pick: Pick) -> Heads:
    """Heads that mostly split and mostly fill whole blocks."""
    head_dim = pick((32, 64, 64, 128, 128, 128, 48, 1))
    return Heads(pick((1, 2, 4, 4, 8, 8, 8, 3)), head_dim, pick((head_dim,) * 6 + (32, 96, 5)))


def some_shape(pick: Pick, layers: tuple[str, ...], latent: bool) -> AttentionShape:
    """A shape for these layers, its kinds of layers mostly alike, with an index now and then."""
    owners = tuple(position for position, kind in enumerate(layers) if kind == FULL and pick((True, False)))
    full: Heads | Latent = Latent(pick((128, 512, 512, 100)), pick((64, 64, 0, 7))) if latent else some_heads(pick)
    alike = full if isinstance(full, Heads) and pick((True, True, False)) else some_heads(pick)
    index = Index(pick((128, 128, 256, 64)), owners, pick((True, False)))
    return AttentionShape(
        layers=layers,
        full=full if FULL in layers or pick((True, False, False)) else None,
        swa=alike if SWA in layers or pick((True, False, False)) else None,
        index=pick((None, None, index) if SWA not in layers else (None,) * 30 + (index,)),
        sliding_window_size=pick((1, 4, 7, 7, 128, None)) if SWA in layers else None,
        model_dtype=pick(("bf16", "bf16", "fp16", "fp32")),
        kv_checkpoint_dtype=pick((None,) * 9 + ("fp8_e4m3", "fp16", "nvfp4", "mxfp8")),
    )


PLAIN_DTYPES = ("auto", "auto", "bf16", "fp8_e4m3", "fp8_e5m2")
BLOCK_DTYPES = ("mxfp8", "fp4_mx_block16", "nvfp4")
BACKENDS = ("flashinfer", "flashinfer", "flashinfer", "fa3", "fa4", "trtllm")
FULL_LAYERS: tuple[tuple[str, ...], ...] = (
    (FULL,),
    (FULL,) * 7,
    (FULL, LINEAR, FULL, LINEAR, LINEAR),
    (LINEAR,) * 5 + (FULL,),
)
WINDOW_LAYERS: tuple[tuple[str, ...], ...] = (
    (SWA, FULL),
    (SWA, SWA, FULL, SWA, FULL),
    (FULL, SWA, SWA, LINEAR, SWA, SWA),
    (SWA,) * 4 + (FULL,) * 3,
    (SWA,),
    (SWA,) * 5,
    (SWA, LINEAR, SWA),
)
BAD_LAYERS: tuple[tuple[str, ...], ...] = ((), (LINEAR,), (FULL, "conv"))
DRAFT_FULL_LAYERS: tuple[tuple[str, ...], ...] = ((FULL,), (FULL,) * 3, (), (LINEAR, FULL), (LINEAR,))
DRAFT_WINDOW_LAYERS: tuple[tuple[str, ...], ...] = ((SWA,), (SWA, FULL), (FULL, SWA, FULL))
NASTY = (0, -1, 1, 2, 3, 7, 48, True, False, 2.0, 0.5, None, "bf16", "nvfp4", "", Fraction(1, 2), Fraction(3, 2))


def some_scenario(pick: Pick) -> Scenario:
    """A scenario that is mostly valid; one in eight has one field set to nonsense."""
    layers = pick(pick((FULL_LAYERS,) * 8 + (WINDOW_LAYERS,) * 11 + (BAD_LAYERS,)))
    window_pools = pick((True,) * 8 + (False,))
    has_window = SWA in layers and window_pools
    algorithm = pick((None, *ALGORITHMS))
    windowed_draft = pick((True, False)) if has_window or algorithm == DFLASH else pick((True,) + (False,) * 12)
    pp_size = pick((1, 1, 1, 2, min(3, len(layers) or 1), min(5, len(layers) or 1)))
    dcp = pick((1,) * 40 + (2,)) if has_window else pick((1, 1, 1, 2, 4))
    dp = pick((1, 1, 2))
    dtypes = PLAIN_DTYPES * (6 if has_window else 1) + BLOCK_DTYPES
    draft_layers = pick(DRAFT_WINDOW_LAYERS if windowed_draft else DRAFT_FULL_LAYERS)
    draft = Draft(
        some_shape(pick, draft_layers, pick((False,) * 5 + (True,))),
        kv_cache_dtype=pick((None,) * len(dtypes) + dtypes),
        attention_backend=pick((None,) * 6 + BACKENDS),
        num_steps=pick((1, 2, 3, 5)),
        topk=pick((1, 1, 2, 8)),
        num_draft_tokens=pick((1, 2, 16, 64)),
        swa_at_full_rows=pick((False, False, True)),
        geometry_resolved=pick((True, True, False)),
    )
    figures = MemoryFigures(
        tuple((pick((10**9, 10**6, 5)), 10**9) for _ in range(pp_size)),
        tuple((pick((10**9, 10**6, 5)), 10**9) for _ in range(pp_size)),
        pick((Fraction("0.9"), Fraction("0.123"), Fraction("0.999"))),
    )
    scale = pick((1, 10**3, 10**5, 10**6, 10**7, 10**9))
    budget = tuple(scale * pick((2, 3, 7)) + pick((0, 1, 77)) for _ in range(pp_size))
    scenario = Scenario(
        target=some_shape(pick, layers, SWA not in layers and pick((True, False))),
        budget=pick((budget, budget, budget, figures)),
        draft=pick((draft, draft, draft, None)) if algorithm is None else draft,
        speculative_algorithm=algorithm,
        is_draft_worker=pick((False, False, False, True)),
        deployment=Deployment(pick((1, 1, 2, 4)) * dp * dcp, dp, dcp, pp_size, pick((False, True))),
        page_size=pick((1, 1, 2, 3, 16, 64)),
        kv_cache_dtype=pick(dtypes),
        attention_backend=pick(BACKENDS),
        window_pools=window_pools,
        swa_full_tokens_ratio=pick((Fraction(4, 5), Fraction(1), Fraction(1, 3), Fraction(1, 100), Fraction("0.37"))),
        context_len=pick((4096, 131072, 131072, 40, 2, 1)),
        max_total_tokens=pick((None,) * 8 + (1, 5, 64, 1000, 10**6)),
        user_max_running_requests=pick((None, 1, 3, 64)),
        chunked_prefill_size=pick((1, 8, 8192, None, -1)),
        disable_radix_cache=pick((True, False)),
        disable_overlap_schedule=pick((True, False)),
        is_decode_role=pick((False, False, True)),
        decode_extra_slots=pick((0, 1, 9)),
        swa_eviction_interval=pick((0, 1, 5)),
    )
    if pick((True,) + (False,) * 7):
        broken: Scenario = changed(scenario, pick(breakable(scenario)), pick(NASTY))
        return broken
    return scenario


STRUCTURES = ("target", "draft", "deployment", "shape", "budget", "layers", "full", "swa", "index")
"""Fields whose nonsense is of a kind no caller can write; the broken scenarios above set some of them."""


def breakable(value: Any, prefix: str = "") -> list[str]:
    """The dotted paths of all plain fields."""
    paths = []
    for name in type(value).__dataclass_fields__:
        inner = getattr(value, name)
        if hasattr(inner, "__dataclass_fields__"):
            paths += breakable(inner, f"{prefix}{name}.")
        elif name not in STRUCTURES and not name.startswith("free_"):
            paths.append(prefix + name)
    return paths


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """`some_scenario`, every choice drawn."""
    return some_scenario(lambda values: values[draw(st.integers(0, len(values) - 1))])


@settings(max_examples=3000, derandomize=True, deadline=None, database=None)
@given(scenario=scenarios(), tokens=st.sampled_from((1, 2, 3, 16, 100, 4096, 0, -1, True, 2.0)))
def test_agrees_on_generated_scenarios(scenario: Scenario, tokens: int) -> None:
    """Both entry points, valid or not; and the screen lets nothing through that the spec refuses."""
    configurator = Configurator()
    assert configurator.size_pools(scenario) == size_pools(scenario)
    assert configurator.size_pools_from_max_tokens(scenario, tokens) == size_pools_from_max_tokens(scenario, tokens)
    assert screened_kinds(scenario) is None or is_valid(scenario)


# Names and choices.


def test_is_registered() -> None:
    """`--kv-impl configurator` finds it, and it judges everything."""
    implementation = load("configurator")
    assert isinstance(implementation, Configurator)
    assert (implementation.name, implementation.version) == ("configurator", "0.1")
    assert implementation.supports(SOUND) is None


@pytest.mark.parametrize("pool", POOLS)
def test_factory_chooses_the_class_of_the_pool(pool: str) -> None:
    """One class a pool kind, default for default and mla; the two entry points carry upstream's names."""
    expected, scenario = POOLS[pool]
    configurator = create_memory_pool_configurator(scenario)
    assert type(configurator) is expected
    assert isinstance(scenario.budget, tuple)
    sizes = configurator.calculate_pool_sizes(scenario.budget, scenario.page_size)
    assert sizes == size_pools(scenario)
    again = configurator.calculate_pool_sizes_from_max_tokens(sizes.max_total_num_tokens, scenario.page_size)
    assert again.max_total_num_tokens == sizes.max_total_num_tokens


@pytest.mark.parametrize("pool", POOLS)
def test_a_built_configurator_answers_many_budgets(pool: str) -> None:
    """Other bytes, other page sizes and a page size or bytes that mean nothing: as the spec says of that scenario."""
    scenario = POOLS[pool][1]
    configurator = create_memory_pool_configurator(scenario)
    bad: Any
    page_size: Any
    for bad in ((10**10,), (10**9 + 1,), (5,), (0,), (-1,), (True,), (1.5,), (), (GIB, GIB), [GIB]):
        for page_size in (scenario.page_size, 1, 3, 256, 0, True, 16.0):
            asked = replace(scenario, budget=bad, page_size=page_size)
            try:
                answer: PoolSizes | Refusal = configurator.calculate_pool_sizes(bad, page_size)
            except Refused as refused:
                answer = refused.refusal
            assert answer == size_pools(asked)


def test_the_factory_refuses_what_the_spec_refuses() -> None:
    """A fault is named before anything is built."""
    with pytest.raises(Refused) as caught:
        create_memory_pool_configurator(changed(SOUND, "target.full.num_kv_heads", 0))
    assert caught.value.refusal.field == "target.full.num_kv_heads"


@pytest.mark.parametrize("stage_of_draft", ["last", "every"])
@pytest.mark.parametrize("pool", POOLS)
def test_every_kind_prices_its_draft_through_the_one_accessor(
    pool: str, stage_of_draft: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the accessor says of a stage is in that stage's price, on every class."""
    deployment = Deployment(pp_size=2, draft_on_every_stage=stage_of_draft == "every")
    scenario = deployed(replace(POOLS[pool][1], draft=DRAFTS["same"], speculative_algorithm=EAGLE), deployment)
    asked: list[int] = []

    def dear(_: MemoryPoolConfigurator, stage: int) -> tuple[int, int]:
        asked.append(stage)
        return 10**6, 0

    configurator = create_memory_pool_configurator(scenario)
    plain = create_memory_pool_configurator(replace(scenario, speculative_algorithm=None))
    assert configurator.draft_cell_size_per_token(1) != (0, 0) == plain.draft_cell_size_per_token(1)
    assert (configurator.draft_cell_size_per_token(0) != (0, 0)) is (stage_of_draft == "every")
    assert isinstance(scenario.budget, tuple)
    sold = configurator.calculate_pool_sizes(scenario.budget, scenario.page_size).max_total_num_tokens
    assert sold < plain.calculate_pool_sizes(scenario.budget, scenario.page_size).max_total_num_tokens
    monkeypatch.setattr(MemoryPoolConfigurator, "draft_cell_size_per_token", dear)
    dearer = create_memory_pool_configurator(scenario)
    assert asked == [0, 1]
    assert dearer.calculate_pool_sizes(scenario.budget, scenario.page_size).max_total_num_tokens < sold


def test_no_class_overrides_the_draft_accessor() -> None:
    """A sibling that prices its own draft is how the fault comes back."""
    for kind in (
        DefaultPoolConfigurator,
        HybridSWAPoolConfigurator,
        AllSWAPoolConfigurator,
        SWARequestCapPoolConfigurator,
    ):
        assert kind.draft_cell_size_per_token is MemoryPoolConfigurator.draft_cell_size_per_token
        for base in kind.__mro__[:-1]:
            assert "__slots__" in vars(base)


def test_inactive_drafts_cost_nothing() -> None:
    """Plain decoding, the draft worker itself and frozen-KV MTP add nothing to the price."""
    for scenario in (
        replace(SOUND, speculative_algorithm=None),
        replace(SOUND, is_draft_worker=True),
        replace(SOUND, speculative_algorithm=FROZEN_KV_MTP),
    ):
        assert create_memory_pool_configurator(scenario).draft_cell_size_per_token(0) == (0, 0)


def test_draft_rows_are_priced_apart() -> None:
    """Two SWA layers and a full one of 4 heads x 128 elements x 2 bytes: EAGLE follows SWA rows, DFLASH holds full
    rows, MTP too where banded; an nvfp4 draft pays its workspace once a pool."""
    row = 4 * 128 * 2
    asked = {EAGLE: (row, 2 * row), MTP: (row, 2 * row), DFLASH: (3 * row, 0)}
    for algorithm, expected in asked.items():
        scenario = replace(SOUND_WINDOW, speculative_algorithm=algorithm)
        assert create_memory_pool_configurator(scenario).draft_cell_size_per_token(0) == expected
    banded = replace(SOUND_WINDOW, draft=DRAFTS["banded"], speculative_algorithm=MTP)
    assert create_memory_pool_configurator(banded).draft_cell_size_per_token(0) == (3 * row, 0)
    quarter = replace(SOUND, kv_cache_dtype="nvfp4")
    elements = 8 * 256
    assert create_memory_pool_configurator(quarter).draft_cell_size_per_token(0) == (
        5 * elements * 9 // 16 + elements,
        0,
    )
