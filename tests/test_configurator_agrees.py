"""The configurator against the spec: literal scenarios on their boundaries, and generated ones."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impl.configurator_screen import screened_kinds
from impl.optimized import Configurator
from properties.invalid_values import with_field
from spec.model import (
    ALGORITHMS,
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
    PoolSizes,
    Refusal,
    Scenario,
)
from spec.pools import size_pools, size_pools_from_max_tokens
from tests.configurator_scenarios import (
    DEPLOYMENTS,
    DRAFTS,
    GIB,
    POOLS,
    SAME_DRAFT,
    WINDOW,
    both_ways,
    deployed,
    is_valid,
)


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


@pytest.mark.parametrize("estimate", [2047, 2048, 2049, 4095, 4096, 4097])
def test_agrees_where_the_estimate_of_requests_meets_its_bounds(estimate: int) -> None:
    """N * 512 / 4096 just below, on and above 2048 and 4096."""
    scenario = replace(POOLS["default_linear"][1], page_size=1)
    for rows in (8 * estimate - 1, 8 * estimate, 8 * estimate + 7):
        assert Configurator().size_pools_from_max_tokens(scenario, rows) == size_pools_from_max_tokens(scenario, rows)


def test_agrees_that_a_chunk_of_nothing_sizes_by_the_ratio() -> None:
    """Without chunks the SWA pool cannot be sized from requests."""
    scenario = replace(POOLS["capped"][1], chunked_prefill_size=0)
    [sizes, *_] = both_ways(scenario)
    assert sizes == size_pools(replace(scenario, disable_radix_cache=False))


def test_agrees_on_the_workspace_of_a_windowed_draft() -> None:
    """An nvfp4 DFLASH draft of SWA layers alone has its workspace in their geometry."""
    draft = Draft(AttentionShape((SWA, SWA), None, Heads(4, 64, 64), sliding_window_size=8))
    both_ways(replace(POOLS["default"][1], draft=draft, speculative_algorithm=DFLASH, kv_cache_dtype="nvfp4"))


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
        broken: Scenario = with_field(scenario, pick(breakable(scenario)), pick(NASTY))
        return broken
    return scenario


STRUCTURES = ("target", "draft", "deployment", "shape", "budget", "layers", "full", "swa", "index")
"""Fields whose nonsense is of a kind no caller can write; the tests of refusals set some of them."""


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
