"""Geometries no corpus draws: rows so wide that another scale block would show, an index on some draft layers, a
frozen-KV draft on many ranks. Spec, configurator, accounting and tensors must agree, and the numbers are worked out.
"""

from dataclasses import replace

import pytest

from impl.configurator_prices import workspace_bytes
from impl.torch_pools import allocated_bytes
from spec.accounting import sold_bytes, target_buffers, workspace_rows
from spec.cell import heads_row_bytes, workspace_row_bytes
from spec.draft import DraftPrice, draft_price
from spec.layers import DEFAULT_POOL, MLA_POOL, pool_kind
from spec.model import (
    DFLASH,
    EAGLE,
    FROZEN_KV_MTP,
    FULL,
    LINEAR,
    SWA,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Index,
    Latent,
    PoolSizes,
    Scenario,
)
from spec.pools import stage_row_bytes
from tests.configurator_scenarios import GIB, both_ways
from tests.torch_scenarios import accounted_bytes, rows


def all_agree(scenario):
    """Two ways to size, two ways to count bytes."""
    sizes, *_ = both_ways(scenario)
    assert isinstance(sizes, PoolSizes)
    assert allocated_bytes(scenario, sizes) == accounted_bytes(scenario, sizes)


@pytest.mark.parametrize(
    ("dtype", "head_dim", "row_bytes"),
    [
        ("mxfp8", 32 * 31, 2 * (32 * 31 + 31)),
        ("fp4_mx_block16", 16 * 15, 2 * (8 * 15 + 15)),
        ("nvfp4", 16 * 15, 2 * (8 * 15 + 15) + 2 * 16 * 15),
    ],
)
def test_blocks_of_a_wide_head_are_counted_exactly(dtype, head_dim, row_bytes):
    """31 blocks of 32 are 32 blocks of 31; 15 blocks of 16 are 16 blocks of 15."""
    scenario = Scenario(AttentionShape((FULL,), Heads(1, head_dim, head_dim)), (GIB,), kv_cache_dtype=dtype)
    assert stage_row_bytes(scenario, 0).full == row_bytes
    all_agree(scenario)


def test_blocks_of_a_wide_latent_are_counted_exactly():
    """fp4: 15 blocks of 16."""
    scenario = Scenario(AttentionShape((FULL,), Latent(13, 16 * 15 - 13)), (GIB,), kv_cache_dtype="nvfp4")
    assert stage_row_bytes(scenario, 0).full == 8 * 15 + 15
    all_agree(scenario)


def test_blocks_of_a_wide_sparse_row_are_counted_exactly():
    """127 blocks of 128 are 128 blocks of 127, in a latent of fp8 with 4-byte scales and in its index."""
    wide = 128 * 127
    shape = AttentionShape((FULL,), Latent(wide, 64), index=Index(wide, (0,)))
    scenario = Scenario(shape, (GIB,), kv_cache_dtype="fp8_e4m3", attention_backend="flashmla")
    assert stage_row_bytes(scenario, 0).full == wide + 4 * 127 + 2 * 64 + wide + 4 * 127
    all_agree(scenario)


def test_a_draft_may_own_an_index_on_some_layers():
    """Two sparse draft layers of 656 bytes, an index of 132 on the second."""
    shape = AttentionShape((FULL, FULL), Latent(512, 64), index=Index(128, (1,)))
    scenario = Scenario(
        replace(shape, layers=(FULL,), index=Index(128, (0,))),
        (GIB,),
        kv_cache_dtype="fp8_e4m3",
        attention_backend="flashmla",
        draft=Draft(shape),
        speculative_algorithm=EAGLE,
    )
    assert draft_price(scenario, 0) == DraftPrice(2 * 656 + 132, 0)
    all_agree(scenario)


def test_a_frozen_kv_draft_is_split_over_its_attention_ranks():
    """8 heads on 4 of 8 ranks under DP attention, with pages of 4: 68 rows of 2 heads of 2 + 2 bytes."""
    shape = AttentionShape((FULL, SWA), Heads(8, 2, 2), Heads(8, 2, 2), sliding_window_size=2)
    scenario = Scenario(
        AttentionShape((FULL,), Heads(8, 2, 2)),
        (GIB,),
        page_size=4,
        kv_cache_dtype="fp8_e4m3",
        deployment=Deployment(tp_size=8, attn_dp_size=2),
        draft=Draft(shape),
        speculative_algorithm=FROZEN_KV_MTP,
    )
    assert accounted_bytes(scenario, rows(8)) == (12 * 8 + 2 * 68 * 8,)
    all_agree(scenario)


def test_an_index_of_a_frozen_kv_draft_is_kept_in_the_dummy_pool():
    """65 rows of 656 and of 132 bytes on pages of one."""
    shape = AttentionShape((FULL,), Latent(512, 64), index=Index(128, (0,)))
    scenario = Scenario(
        shape,
        (GIB,),
        kv_cache_dtype="fp8_e4m3",
        attention_backend="flashmla",
        draft=Draft(shape),
        speculative_algorithm=FROZEN_KV_MTP,
    )
    assert accounted_bytes(scenario, rows(0)) == (788 + 65 * 788,)
    all_agree(scenario)


def test_without_window_pools_nothing_is_priced_by_swa_rows():
    """Neither SWA layers at full length, nor a draft by the layer ratio."""
    heads = Heads(1, 2, 2)
    shape = AttentionShape((FULL, SWA), heads, heads, sliding_window_size=2)
    draft = Draft(AttentionShape((FULL,), heads), geometry_resolved=False)
    scenario = Scenario(shape, (GIB,), draft, DFLASH, kv_cache_dtype="fp8_e4m3", window_pools=False)
    row_bytes = stage_row_bytes(scenario, 0)
    assert (row_bytes.full, row_bytes.swa, row_bytes.draft) == (8, 0, 4)
    assert draft_price(scenario, 0) == DraftPrice(4, 0)


def test_latents_and_heads_are_pools_of_two_kinds():
    """Though both are sized by one sum."""
    assert pool_kind(Scenario(AttentionShape((FULL,), Latent(1, 1)), (1,))) == MLA_POOL
    assert pool_kind(Scenario(AttentionShape((FULL,), Heads(1, 1, 1)), (1,))) == DEFAULT_POOL


def test_a_buffer_knows_its_pool():
    """Full and SWA layers of a window model; all full without window pools."""
    heads = Heads(1, 2, 2)
    shape = AttentionShape((FULL, SWA), heads, heads, sliding_window_size=2)
    for window_pools, pools in ((True, ["full", "full", "swa", "swa"]), (False, ["full"] * 4)):
        scenario = Scenario(shape, (GIB,), window_pools=window_pools)
        assert [buffer.pool for buffer in target_buffers(scenario, rows(4, 2), 0)] == pools


def test_a_geometry_that_no_layer_uses_is_not_asked_to_split():
    """7 SWA heads beside 2 ranks, in a model without SWA layers."""
    shape = AttentionShape((FULL,), Heads(2, 2, 2), Heads(7, 2, 2))
    all_agree(Scenario(shape, (GIB,), deployment=Deployment(tp_size=2)))


def test_a_sparse_latent_in_bf16_needs_no_whole_blocks():
    """Only scaled fp8 has blocks of 128."""
    shape = AttentionShape((FULL,), Latent(100, 4), index=Index(128, (0,)))
    scenario = Scenario(shape, (GIB,), kv_cache_dtype="bf16", attention_backend="flashmla")
    assert stage_row_bytes(scenario, 0).full == 208 + 132
    all_agree(scenario)


NARROW = Heads(1, 16, 16)
"""In nvfp4 a row of 18 bytes, and 32 more for a workspace."""


def nvfp4(layers, **changes):
    """A target that stores every layer at full length, one stage a gibibyte."""
    stages = changes.get("deployment", Deployment()).pp_size
    shape = AttentionShape(layers, NARROW, NARROW if SWA in layers else None)
    return Scenario(shape, (GIB,) * stages, kv_cache_dtype="nvfp4", window_pools=False, **changes)


def test_a_stage_of_linear_layers_keeps_no_workspace():
    """The heads are those of another stage."""
    scenario = nvfp4((LINEAR, FULL), deployment=Deployment(pp_size=2))
    assert [stage_row_bytes(scenario, stage).full for stage in (0, 1)] == [0, 50]
    all_agree(scenario)


@pytest.mark.parametrize(
    ("layers", "draft_bytes"),
    [
        ((FULL, FULL), 50),  # one of its one layer: 18 + 32
        ((FULL, SWA), 50),
        ((FULL, FULL, FULL, SWA), 34),  # one of two: half of 2 x 18 + 32
        ((FULL, LINEAR), 50),  # it has none, so the model's: one of one
        ((FULL, FULL, LINEAR, LINEAR), 34),
    ],
)
def test_the_layer_ratio_is_that_of_the_stage_its_workspace_included(layers, draft_bytes):
    """The second of two stages, with an unresolved draft of one layer."""
    draft = Draft(AttentionShape((FULL,), NARROW), geometry_resolved=False)
    scenario = nvfp4(layers, deployment=Deployment(pp_size=2), draft=draft, speculative_algorithm=EAGLE)
    assert stage_row_bytes(scenario, 1).draft == draft_bytes
    both_ways(scenario)


@pytest.mark.parametrize("layers", [(SWA,), (LINEAR, SWA)])
def test_the_workspace_of_a_draft_without_full_layers_has_its_sliding_heads(layers):
    """A row of 18 bytes and 32 of workspace."""
    draft = Draft(AttentionShape(layers, None, NARROW, sliding_window_size=1))
    scenario = nvfp4((FULL,), draft=draft, speculative_algorithm=DFLASH)
    assert draft_price(scenario, 0) == DraftPrice(50, 0)
    all_agree(scenario)


def test_sliding_draft_layers_beside_an_all_window_target_go_with_its_rows():
    """D, not a part of S: both are paid by the same rows."""
    heads = Heads(1, 2, 2)
    shape = AttentionShape((SWA,), None, heads, sliding_window_size=2)
    scenario = Scenario(shape, (GIB,), Draft(shape), EAGLE, kv_cache_dtype="fp8_e4m3")
    assert draft_price(scenario, 0) == DraftPrice(4, 0)
    all_agree(scenario)


def test_a_frozen_kv_draft_sells_no_workspace():
    """65 rows of 18 + 32 bytes, all spare."""
    scenario = nvfp4((FULL,), draft=Draft(AttentionShape((FULL,), NARROW)), speculative_algorithm=FROZEN_KV_MTP)
    assert sold_bytes(scenario, rows(7), 0) == 7 * 50
    assert accounted_bytes(scenario, rows(7)) == ((7 + 1) * 50 + 65 * 50,)
    all_agree(scenario)


def test_a_frozen_kv_draft_has_the_dtype_of_its_checkpoint():
    """fp8 beside a bf16 target: rows of 2 bytes, not of 4."""
    shape = AttentionShape((FULL,), Heads(1, 1, 1), kv_checkpoint_dtype="fp8_e4m3")
    target = replace(shape, kv_checkpoint_dtype=None)
    scenario = Scenario(target, (GIB,), Draft(shape), FROZEN_KV_MTP)
    assert accounted_bytes(scenario, rows(0)) == (4 + 65 * 2,)
    all_agree(scenario)


def test_heads_are_shared_out_before_tokens_are():
    """6 heads on the 2 ranks that DCP leaves of 4: on 4 they would not split."""
    scenario = Scenario(
        AttentionShape((FULL,), Heads(6, 2, 2)),
        (GIB,),
        kv_cache_dtype="fp8_e4m3",
        deployment=Deployment(tp_size=4, attn_dcp_size=2),
    )
    assert stage_row_bytes(scenario, 0).full == 3 * 4
    all_agree(scenario)


def test_formulas_count_k_and_v_apart_where_no_pool_can_tell():
    """fp4 needs K as wide as V: 2 heads of 32 and 16 have 48 elements each, 3 scales, and 48 bytes of workspace."""
    wide = Heads(2, 32, 16)
    shape = AttentionShape((FULL,), wide)
    assert heads_row_bytes(2, 32, 16, "nvfp4") == 2 * (24 + 3)
    assert workspace_row_bytes(wide, 1, "nvfp4") == workspace_bytes(wide, 1) == 2 * 48
    assert [row.elements for row in workspace_rows(shape, (FULL,), 1, "nvfp4")] == [64, 32]
