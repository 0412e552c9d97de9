"""What the laws ask again with: each probe, worked out on a small scenario. A law that asks less sees less."""

from dataclasses import replace
from fractions import Fraction

import pytest

from impl.optimized import Configurator
from properties.judge import case_of
from spec.laws.answers import with_memory_figures
from spec.laws.base import AMPLE_BYTES, plain_at_same_swa_rows, setting_stages
from spec.laws.budget import larger_budgets
from spec.laws.caps import caps_to_try
from spec.laws.draft import (
    draft_matches_target,
    observed_price,
    one_layer_deeper,
    rebalanced_heads,
    rebalanced_scenarios,
    rebalanced_shapes,
    smallest_budget,
    target_bytes,
)
from spec.laws.ranks import held_heads, one_rank_twin, stage_alone, undivided_twin, with_heads
from spec.laws.resolve import LEFT_OVER, quantized_under_auto, without_draft
from spec.laws.scale import (
    cheapest_page,
    costs_no_less,
    dearer_heads,
    dearer_scenarios,
    dearer_shapes,
    keeps_swa_rows,
    orders_within_stages,
    price_of_size,
    reordered,
    repeated,
    row_prices,
    rows_sold,
    scaled_scenarios,
    scales_every_price,
    widened,
    wider_dtypes,
)
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
    PoolSizes,
    Refusal,
    Scenario,
)

TWO, FOUR = Heads(1, 1, 1), Heads(2, 1, 1)
"""In fp8 rows of 2 and of 4 bytes."""
WINDOWED = AttentionShape((FULL, SWA), TWO, FOUR, sliding_window_size=1)
SPARSE = AttentionShape((FULL,) * 3, Latent(128, 2), index=Index(128, (0, 2)))
HYBRID = Scenario(
    WINDOWED,
    (100,),
    Draft(AttentionShape((FULL,), FOUR)),
    DFLASH,
    page_size=2,
    kv_cache_dtype="fp8_e4m3",
    swa_full_tokens_ratio=Fraction(1, 3),
)
"""F 2, S 4, D 4: a token costs 22/3 bytes, a page of 2 costs 44/3."""
CAPPED = replace(HYBRID, user_max_running_requests=1, disable_radix_cache=True, chunked_prefill_size=1)
"""10 SWA rows: a request of 1 + 1 + 2 + 2, two chunks of 1, and a page."""
STAGES = replace(
    HYBRID, target=replace(WINDOWED, layers=(FULL, SWA, FULL)), deployment=Deployment(pp_size=2), budget=(100, 100)
)
"""Stages of 2 and of 4 + 2 bytes; the draft on the last."""


def test_more_memory_is_a_byte_a_page_and_as_much_again() -> None:
    """The page rounded up: 44/3 is 15."""
    assert larger_budgets(HYBRID) == [(101,), (115,), (200,)]
    assert larger_budgets(replace(STAGES, budget=(7, 100))) == [(8, 101), (11, 115), (14, 200)]


def test_sizes_are_priced_with_what_is_paid_beforehand() -> None:
    """6 rows: hybrid 44; capped 10 SWA rows and 6 x 6; no stage less than a byte."""
    assert price_of_size(HYBRID, 6) == (44,)
    assert price_of_size(HYBRID, 5) == (37,)
    assert price_of_size(CAPPED, 6) == (40 + 36,)
    assert price_of_size(STAGES, 6) == (12, 44)
    assert price_of_size(replace(STAGES, target=replace(WINDOWED, layers=(LINEAR, FULL, SWA))), 6) == (1, 44)


def test_a_page_is_cheapest_where_the_least_is_held() -> None:
    assert cheapest_page(HYBRID) == Fraction(44, 3)
    assert cheapest_page(STAGES) == 4


def test_rows_of_a_refusal() -> None:
    """0 for want of a page; unknown after the solve step."""
    assert rows_sold(PoolSizes(6, 6, 2, 1, 1)) == 6
    assert rows_sold(Refusal("no_page_fits", "x", 1)) == rows_sold(Refusal("swa_pool_leaves_no_room", "x", 1)) == 0
    assert rows_sold(Refusal("window_pool_too_small", "x", 1)) is None


def test_dearer_is_one_thing_more() -> None:
    """Heads, K, V, both; a latent; a layer of each kind."""
    assert dearer_heads(Heads(3, 5, 7)) == [Heads(6, 5, 7), Heads(3, 37, 7), Heads(3, 5, 39), Heads(3, 37, 39)]
    assert dearer_heads(None) == []
    shapes = dearer_shapes(WINDOWED)
    assert [shape.full for shape in shapes[:4]] == dearer_heads(TWO)
    assert [shape.swa for shape in shapes[4:8]] == dearer_heads(FOUR)
    assert [shape.layers for shape in shapes[8:]] == [(FULL, SWA, FULL), (FULL, SWA, SWA)]
    wider, deeper = dearer_shapes(replace(SPARSE, index=None))
    assert (wider.full, deeper.layers) == (Latent(256, 2), (FULL,) * 4)


@pytest.mark.parametrize(
    ("dtype", "wider"),
    [
        ("bf16", []),
        ("fp8_e4m3", ["bf16", "fp8_e5m2", "mxfp8"]),
        ("nvfp4", ["bf16", "fp8_e4m3", "fp8_e5m2", "mxfp8", "fp4_mx_block16"]),
    ],
)
def test_wider_dtypes_have_as_many_bits(dtype: str, wider: list[str]) -> None:
    assert wider_dtypes(dtype) == wider


def test_dearer_scenarios_change_target_draft_storage_and_replication() -> None:
    deployment = Deployment(tp_size=4, attn_dp_size=2)
    scenario = replace(HYBRID, deployment=deployment, kv_cache_dtype="bf16")
    changed: dict[str, list[Scenario]] = {}
    for what, dearer in dearer_scenarios(scenario):
        changed.setdefault(what, []).append(dearer)
    assert [dearer.target for dearer in changed["target geometry"]] == dearer_shapes(WINDOWED)
    assert [dearer.draft.shape for dearer in changed["draft geometry"]] == dearer_shapes(HYBRID.draft.shape)
    assert [dearer.deployment for dearer in changed["replication"]] == [
        Deployment(tp_size=4, attn_dp_size=2, attn_dcp_size=2),
        Deployment(tp_size=4, attn_dp_size=4),
    ]
    assert [dearer.deployment.draft_on_every_stage for dearer in changed["draft on every stage"]] == [True]
    assert "kv_cache_dtype" not in changed and "draft dtype" not in changed
    narrow = dearer_scenarios(replace(HYBRID, kv_cache_dtype="fp8_e5m2"))
    assert [dearer.kv_cache_dtype for what, dearer in narrow if what == "kv_cache_dtype"] == [
        "bf16",
        "fp8_e4m3",
        "mxfp8",
    ]
    assert [dearer.draft.kv_cache_dtype for what, dearer in narrow if what == "draft dtype"] == [
        "bf16",
        "fp8_e4m3",
        "mxfp8",
    ]
    assert {what for what, _ in dearer_scenarios(replace(HYBRID, speculative_algorithm=None))} == {
        "target geometry",
        "kv_cache_dtype",
        "replication",
    }


def test_dearer_means_nothing_cheaper_and_something_dearer() -> None:
    assert row_prices(STAGES) == [(2, 0, 0), (2, 4, 4)]
    assert costs_no_less([(1, 1, 1)], [(1, 1, 2)])
    assert not costs_no_less([(1, 1, 1)], [(1, 1, 1)])
    assert not costs_no_less([(1, 1, 1)], [(0, 1, 2)])
    assert not costs_no_less([(1, 1, 1), (1, 1, 1)], [(2, 1, 1), (1, 0, 1)])


def test_more_replicas_may_leave_fewer_swa_rows() -> None:
    """Of 4 requests each of 2 replicas has 2."""
    two = replace(CAPPED, user_max_running_requests=4, deployment=Deployment(tp_size=2))
    halved = replace(two, deployment=Deployment(tp_size=2, attn_dp_size=2))
    assert keeps_swa_rows(two, two) and not keeps_swa_rows(two, halved)
    assert keeps_swa_rows(replace(two, disable_radix_cache=False), replace(halved, disable_radix_cache=False))


def test_layers_are_repeated_and_dims_widened_with_their_index() -> None:
    shape = repeated(SPARSE, 2)
    assert (shape.layers, shape.index.layers) == ((FULL,) * 6, (0, 1, 4, 5))
    assert repeated(WINDOWED, 2).layers == (FULL, FULL, SWA, SWA)
    wide = widened(SPARSE, 3)
    assert (wide.full, wide.index) == (Latent(384, 6), Index(384, (0, 2)))
    assert (widened(WINDOWED, 3).full, widened(WINDOWED, 3).swa) == (Heads(1, 3, 3), Heads(2, 3, 3))
    assert widened(replace(WINDOWED, full=None, layers=(SWA,)), 3).full is None


def test_what_scales_scales_bytes_target_and_draft() -> None:
    deep, wide = scaled_scenarios(STAGES, 3)
    assert deep.budget == wide.budget == (300, 300)
    assert deep.target == repeated(STAGES.target, 3) and wide.target == widened(STAGES.target, 3)
    assert deep.draft.shape == repeated(HYBRID.draft.shape, 3) and wide.draft.shape == widened(HYBRID.draft.shape, 3)
    without = scaled_scenarios(replace(HYBRID, speculative_algorithm=None), 2)
    assert [larger.draft for larger in without] == [HYBRID.draft] * 2
    assert scales_every_price(HYBRID, scaled_scenarios(HYBRID, 2)[1], 2)
    assert not scales_every_price(HYBRID, HYBRID, 2)


def test_layers_change_places_within_their_stage() -> None:
    """Backwards; and by kind, even positions first."""
    shape = AttentionShape((SWA, FULL, SWA, FULL, FULL), TWO, FOUR)
    assert orders_within_stages(shape, 1) == [[4, 3, 2, 1, 0], [4, 1, 3, 0, 2]]
    assert orders_within_stages(shape, 2) == [[1, 0, 4, 3, 2], [1, 0, 4, 3, 2]]
    again = reordered(replace(SPARSE, layers=(FULL, LINEAR, FULL)), [2, 0, 1])
    assert (again.layers, again.index.layers) == ((FULL, FULL, LINEAR), (0, 1))


def test_elements_are_shared_out_otherwise() -> None:
    """Heads for dims, dims for heads, K for V."""
    assert rebalanced_heads(Heads(2, 4, 6)) == [Heads(1, 8, 12), Heads(4, 2, 3), Heads(2, 6, 4)]
    assert rebalanced_heads(Heads(3, 4, 5)) == [Heads(3, 5, 4)]
    assert rebalanced_heads(Heads(3, 5, 5)) == rebalanced_heads(None) == []
    assert rebalanced_shapes(SPARSE) == []
    assert [shape.full for shape in rebalanced_shapes(replace(SPARSE, index=None))] == [Latent(130, 0)]
    alike = AttentionShape((FULL, SWA), FOUR, FOUR, sliding_window_size=1)
    assert [(shape.full, shape.swa) for shape in rebalanced_shapes(alike)] == [
        (Heads(1, 2, 2), FOUR),
        (FOUR, Heads(1, 2, 2)),
        (Heads(1, 2, 2), Heads(1, 2, 2)),
    ]
    assert [shape.swa for shape in rebalanced_shapes(WINDOWED)] == [Heads(1, 2, 2)]
    whose = [
        (who, other.target.swa, other.draft.shape.full) for who, other in rebalanced_scenarios(HYBRID, HYBRID.draft)
    ]
    assert whose == [("the target's", Heads(1, 2, 2), FOUR), ("the draft's", FOUR, Heads(1, 2, 2))]


def test_a_draft_matches_its_target_row_by_row() -> None:
    """Every draft layer on full rows, as dear as every full layer; no linear one, no shared workspace."""
    alike = replace(HYBRID, draft=Draft(AttentionShape((FULL, FULL), TWO)))
    assert draft_matches_target(alike, alike.draft)
    for layers, heads in (((FULL, LINEAR), TWO), ((FULL,), FOUR), ((), TWO)):
        other = Draft(AttentionShape(layers, heads))
        assert not draft_matches_target(replace(HYBRID, draft=other), other)
    follows = Draft(AttentionShape((SWA,), None, TWO, sliding_window_size=1))
    assert draft_matches_target(replace(HYBRID, draft=follows), follows)
    assert not draft_matches_target(replace(HYBRID, draft=follows, speculative_algorithm=EAGLE), follows)
    all_window = replace(HYBRID, target=replace(WINDOWED, layers=(SWA,)), draft=Draft(AttentionShape((FULL,), FOUR)))
    assert draft_matches_target(all_window, all_window.draft)
    quarter = Heads(1, 16, 16)
    shared = Scenario(
        AttentionShape((FULL,), quarter), (1,), Draft(AttentionShape((FULL,), quarter)), DFLASH, kv_cache_dtype="nvfp4"
    )
    assert not draft_matches_target(shared, shared.draft)
    apart = replace(shared, draft=replace(shared.draft, kv_cache_dtype="fp4_mx_block16"))
    assert not draft_matches_target(apart, apart.draft)
    latent = replace(
        shared, target=AttentionShape((FULL,), Latent(16, 0)), draft=Draft(AttentionShape((FULL,), Latent(16, 0)))
    )
    assert draft_matches_target(latent, latent.draft)


def test_one_more_layer_is_one_on_full_rows() -> None:
    shape = AttentionShape((LINEAR, SWA, FULL), TWO, FOUR, sliding_window_size=1)
    scenario = replace(HYBRID, draft=Draft(shape), speculative_algorithm=EAGLE)
    assert one_layer_deeper(scenario, scenario.draft).draft.shape.layers == (LINEAR, SWA, FULL, FULL)
    dflash = replace(scenario, speculative_algorithm=DFLASH)
    assert one_layer_deeper(dflash, dflash.draft).draft.shape.layers == (LINEAR, SWA, FULL, SWA)
    assert one_layer_deeper(scenario, Draft(AttentionShape((LINEAR,), TWO))) is None


@pytest.mark.parametrize(("scenario", "price"), [(HYBRID, 18 * 22 // 3), (CAPPED, 40 + 18 * 6), (STAGES, 132)])
def test_a_price_is_observed_on_the_last_stage(scenario: Scenario, price: int) -> None:
    """Whatever the other stages have, and whatever the cap: 18 rows, which admit a request."""
    poor = replace(scenario, max_total_tokens=2, budget=(1,) * len(scenario.budget))
    assert observed_price(case_of(Configurator(), poor), poor, 18) == price


@pytest.mark.parametrize("fewest", [1, 2, 7, 1000])
def test_the_fewest_bytes_are_found_by_halving(fewest: int) -> None:
    """From any hint, in few steps."""
    for hint in (0, 1, fewest - 1, fewest, fewest + 1, 5000):
        asked: list[int] = []

        def sells(available: int, asked: list[int] = asked) -> bool:
            asked.append(available)
            return available >= fewest

        assert smallest_budget(sells, hint) == fewest
        assert len(asked) < 40


def test_the_targets_own_bytes() -> None:
    """3 full rows of 2 and 5 SWA rows of 4."""
    assert target_bytes(HYBRID, 0, 3, 5) == 26
    assert target_bytes(STAGES, 0, 3, 5) == 6


def test_a_rank_s_twin_has_its_heads_alone() -> None:
    assert [held_heads(heads, ranks) for heads, ranks in ((8, 2), (1, 4), (7, 2), (4, 4))] == [4, 1, 4, 1]
    assert with_heads(Heads(8, 3, 5), 2, 3) == Heads(12, 3, 5) and with_heads(None, 2, 3) is None
    deployment = Deployment(tp_size=16, attn_dp_size=2, attn_dcp_size=2)
    scenario = replace(
        HYBRID,
        target=AttentionShape((FULL, SWA), Heads(8, 3, 5), Heads(2, 3, 5), sliding_window_size=1),
        draft=Draft(AttentionShape((FULL,), Heads(16, 1, 1))),
        deployment=deployment,
        user_max_running_requests=5,
    )
    twin = one_rank_twin(scenario)
    assert (twin.target.full, twin.target.swa) == (Heads(2, 3, 5), Heads(1, 3, 5))
    assert twin.draft.shape.full == Heads(4, 1, 1)
    assert twin.deployment == Deployment(tp_size=2, attn_dcp_size=2)
    assert twin.user_max_running_requests == 2
    assert one_rank_twin(replace(scenario, user_max_running_requests=1)).user_max_running_requests == 1
    assert one_rank_twin(replace(scenario, user_max_running_requests=None)).user_max_running_requests is None
    assert one_rank_twin(replace(scenario, target=SPARSE, draft=None)).target == SPARSE


def test_a_stage_alone_has_neighbours_with_memory_to_spare() -> None:
    two = replace(STAGES, budget=(7, 9))
    assert [stage_alone(two, stage).budget for stage in (0, 1)] == [(7, AMPLE_BYTES), (AMPLE_BYTES, 9)]


def test_the_undivided_twin_keeps_what_dcp_replicates() -> None:
    """Draft layers and index rows twice, on half the ranks; none where a workspace is shared."""
    draft = Draft(AttentionShape((FULL, LINEAR), Heads(8, 1, 1)))
    deployment = Deployment(tp_size=8, attn_dp_size=2, attn_dcp_size=2)
    scenario = Scenario(SPARSE, (1,), draft, EAGLE, deployment=deployment)
    twin = undivided_twin(scenario)
    assert twin.target == replace(SPARSE, index=Index(256, (0, 2)))
    assert twin.draft.shape == AttentionShape((FULL, FULL, LINEAR, LINEAR), Heads(4, 1, 1))
    assert twin.deployment == Deployment(tp_size=4, attn_dp_size=2)
    shared = replace(scenario, draft=Draft(AttentionShape((FULL,), Heads(8, 16, 16)), kv_cache_dtype="nvfp4"))
    assert undivided_twin(shared) is None
    assert undivided_twin(replace(shared, speculative_algorithm=None)) is not None


def test_caps_around_what_is_sold() -> None:
    """Half, a row less, the same, a row more, the scenario's own; none that is nothing."""
    assert caps_to_try(HYBRID, 10) == [5, 9, 10, 11]
    assert caps_to_try(replace(HYBRID, max_total_tokens=3), 10) == [3, 5, 9, 10, 11]
    assert caps_to_try(HYBRID, 1) == [1, 2]


def test_a_draft_left_over_is_dear_and_means_nothing() -> None:
    """No field of it is a default, so that any one that is read shows."""
    assert LEFT_OVER.num_draft_tokens > 100 and LEFT_OVER.kv_cache_dtype == "not a dtype"
    assert len(LEFT_OVER.shape.layers) == 7
    bare = without_draft(replace(HYBRID, is_draft_worker=True))
    assert (bare.draft, bare.speculative_algorithm, bare.is_draft_worker) == (None, None, False)


def test_a_quantized_draft_is_asked_for_under_auto() -> None:
    draft = quantized_under_auto(Draft(AttentionShape((FULL,), TWO), kv_cache_dtype="bf16", geometry_resolved=False))
    assert (draft.kv_cache_dtype, draft.shape.kv_checkpoint_dtype, draft.geometry_resolved) == (
        "auto",
        "fp8_e4m3",
        True,
    )


def test_readings_leave_the_bytes_of_the_poorest_stage() -> None:
    """10 times as much before, twice as much after, at 0.9: once as much is left."""
    made = with_memory_figures(replace(STAGES, budget=(70, 50))).budget
    assert made == MemoryFigures(((500,), (500,)), ((100,), (100,)), Fraction("0.9"))
    figures = MemoryFigures(((1000,),), ((500,),), Fraction("0.9"))
    assert with_memory_figures(replace(HYBRID, budget=figures)).budget == figures


def test_the_plain_capped_pool_is_given_the_drafted_one_s_swa_rows() -> None:
    """8 draft tokens make 8 + 1 + 2 + 16 rows of a request, 32 in all; the plain pool has 10: 22 x 4 bytes go."""
    drafted = replace(CAPPED, budget=(500,), draft=replace(CAPPED.draft, num_draft_tokens=8))
    assert plain_at_same_swa_rows(drafted).budget == (500 - 88,)
    assert plain_at_same_swa_rows(drafted).speculative_algorithm is None
    assert plain_at_same_swa_rows(replace(drafted, budget=(88,))) is None
    assert plain_at_same_swa_rows(replace(drafted, budget=(89,))).budget == (1,)
    assert plain_at_same_swa_rows(HYBRID) == replace(HYBRID, speculative_algorithm=None)


def test_the_stages_that_set_the_rows_hold_the_fewest() -> None:
    """Pages, not bytes: 12 and 44 bytes both hold 6 rows."""
    for budget, setting in (((12, 44), [0, 1]), ((12, 60), [0]), ((100, 44), [1]), ((13, 45), [0, 1])):
        assert setting_stages(replace(STAGES, budget=budget)) == setting
