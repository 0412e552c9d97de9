"""Bytes to tokens, on cases small enough to check by hand."""

from dataclasses import replace
from fractions import Fraction

import pytest

from spec.accounting import layers_by_stage, sold_bytes, spare_bytes, stage_buffers
from spec.budget import available_bytes, static_bytes
from spec.capped import capped_swa_rows, decode_alloc_tokens
from spec.draft import DraftPrice, draft_price
from spec.layers import heads_per_rank, layers_of_stage, pool_kind
from spec.model import (
    DFLASH,
    EAGLE,
    FROZEN_KV_MTP,
    FULL,
    LINEAR,
    MTP,
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
from spec.pools import (
    RowBytes,
    hybrid_swa_rows,
    request_length,
    rows_that_fit,
    size_pools,
    size_pools_from_max_tokens,
    stage_row_bytes,
)
from spec.units import GiB

BYTE_ROW = AttentionShape((FULL,), Latent(1, 0))
"""One layer whose fp8 row is one byte."""
WINDOWED = AttentionShape((FULL, SWA), Heads(1, 1, 1), Heads(1, 2, 2), sliding_window_size=2)
"""In fp8 F is 2 bytes and S is 4."""


def fp8(shape, available, **changes):
    """A scenario whose bytes are its elements."""
    return Scenario(shape, (available,), kv_cache_dtype="fp8_e4m3", **changes)


def windowed(available, **changes):
    """The hybrid scenario at ratio one half."""
    return fp8(WINDOWED, available, **{"swa_full_tokens_ratio": Fraction(1, 2), **changes})


def capped(available, **changes):
    """The capped scenario: one request, no overlap."""
    limits = {"user_max_running_requests": 1, "disable_radix_cache": True, "chunked_prefill_size": 4}
    return windowed(available, **{**limits, "disable_overlap_schedule": True, **changes})


def rows(answer):
    """(N, full, swa) of an answer, the kind of a refusal."""
    if isinstance(answer, Refusal):
        return answer.kind
    return answer.max_total_num_tokens, answer.full_max_total_num_tokens, answer.swa_max_total_num_tokens


def test_default_sells_whole_pages_and_never_the_spare_one():
    """A // (F + D), aligned down."""
    assert rows(size_pools(fp8(BYTE_ROW, 100, page_size=16))) == (96, 96, 0)
    assert rows(size_pools(fp8(BYTE_ROW, 96, page_size=16))) == (96, 96, 0)
    assert rows(size_pools(fp8(BYTE_ROW, 95, page_size=16))) == (80, 80, 0)
    assert rows(size_pools(fp8(BYTE_ROW, 15, page_size=16))) == "no_page_fits"


def test_hybrid_splits_by_the_ratio():
    """F + r*S = 2 + 2 = 4 bytes a token; SWA rows half the full rows."""
    assert rows(size_pools(windowed(80))) == (20, 20, 10)
    assert rows(size_pools(windowed(79))) == (19, 19, 9)
    assert rows(size_pools(windowed(160, page_size=4))) == (40, 40, 20)
    assert rows(size_pools(windowed(159, page_size=4))) == (36, 36, 16)


def test_all_window_has_no_full_pool_and_no_ratio():
    """S alone."""
    shape = replace(WINDOWED, layers=(SWA, SWA), full=None)
    assert rows(size_pools(fp8(shape, 80))) == (10, 0, 10)
    assert rows(size_pools(fp8(shape, 80, swa_full_tokens_ratio=Fraction(1, 10)))) == (10, 0, 10)


def test_capped_pays_its_swa_rows_first():
    """window 2 + evicted late 1 + page 1 + ahead 1 = 5 rows a request, + chunk 4 + page 1 = 10 rows of 4 bytes."""
    assert pool_kind(capped(100)) == "capped"
    assert capped_swa_rows(capped(100)) == 10
    assert rows(size_pools(capped(100))) == (30, 30, 10)
    assert rows(size_pools(capped(41))) == "swa_pool_leaves_no_room"
    assert rows(size_pools(capped(42))) == "no_running_request"


def test_capped_decode_role_takes_slots_instead_of_chunks():
    """5 rows a request, and window + page = 3 rows for each extra slot; no chunk is asked for."""
    decode = capped(100, is_decode_role=True, decode_extra_slots=2, chunked_prefill_size=None)
    assert pool_kind(decode) == "capped"
    assert capped_swa_rows(decode) == 5 + 2 * 3


def test_two_chunks_are_in_flight_with_overlap():
    """The only difference without speculation."""
    assert capped_swa_rows(capped(100, disable_overlap_schedule=False)) == 10 + 4


@pytest.mark.parametrize(
    ("overlap", "page_size", "steps", "topk", "tokens", "expected"),
    [
        (True, 1, 3, 1, 4, 8),
        (True, 16, 3, 1, 4, 8),
        (True, 1, 3, 4, 4, 24),
        (True, 16, 3, 4, 4, 2 * 32 * 4),
        (True, 16, 1, 4, 4, 2 * 16 * 4),
        (False, 1, 3, 4, 4, 12),
        (False, 16, 3, 1, 20, 32),
        (False, 16, 3, 4, 4, 32 * 4),
        (False, 16, 3, 4, 200, 208),
    ],
)
def test_tokens_allocated_ahead(overlap, page_size, steps, topk, tokens, expected):
    """Each case of the rule: overlap or not, pages or not, tree or chain."""
    draft = Draft(AttentionShape((FULL,), Heads(1, 1, 1)), num_steps=steps, topk=topk, num_draft_tokens=tokens)
    scenario = capped(
        10_000, draft=draft, speculative_algorithm=EAGLE, page_size=page_size, disable_overlap_schedule=not overlap
    )
    assert decode_alloc_tokens(scenario) == expected
    assert decode_alloc_tokens(replace(scenario, speculative_algorithm=None)) == page_size


def test_a_user_cap_is_aligned_after_the_minimum():
    """Below, above, and below a page."""
    assert rows(size_pools(fp8(BYTE_ROW, 100, page_size=16, max_total_tokens=50))) == (48, 48, 0)
    assert rows(size_pools(fp8(BYTE_ROW, 100, page_size=16, max_total_tokens=500))) == (96, 96, 0)
    assert rows(size_pools(fp8(BYTE_ROW, 100, page_size=16, max_total_tokens=15))) == "cap_too_small"
    assert rows(size_pools(windowed(80, max_total_tokens=12))) == (12, 12, 6)


def test_a_cap_takes_swa_rows_of_the_capped_kind_only_where_it_binds():
    """SWA rows min(swa, N); the rank minimum is not a cap."""
    assert rows(size_pools(capped(100, max_total_tokens=8))) == (8, 8, 8)
    assert rows(size_pools(capped(56, max_total_tokens=50))) == (8, 8, 10)
    assert rows(size_pools_from_max_tokens(capped(100), 8)) == (8, 8, 8)


def test_the_weakest_stage_sets_the_number():
    """Uneven stages: three layers on two stages leave one and two; each pays for what it holds."""
    shape = AttentionShape((FULL,) * 3, Latent(1, 0))
    scenario = replace(fp8(shape, 0, deployment=Deployment(pp_size=2)), budget=(10, 16))
    assert [stage_row_bytes(scenario, stage).full for stage in (0, 1)] == [1, 2]
    assert rows(size_pools(scenario)) == (8, 8, 0)
    assert rows(size_pools(replace(scenario, budget=(5, 16)))) == (5, 5, 0)


def test_a_stage_that_holds_nothing_that_costs_sets_no_number():
    """A stage of linear layers only."""
    shape = AttentionShape((LINEAR, LINEAR, FULL, FULL), Latent(1, 0))
    scenario = replace(fp8(shape, 0, deployment=Deployment(pp_size=2)), budget=(1, 100))
    assert rows(size_pools(scenario)) == (50, 50, 0)


def test_the_draft_is_paid_for_where_it_lives():
    """On the last stage, or on every one."""
    shape = AttentionShape((FULL,) * 2, Latent(1, 0))
    draft = Draft(AttentionShape((FULL,), Latent(2, 1)))
    last = replace(
        fp8(shape, 0, deployment=Deployment(pp_size=2), draft=draft, speculative_algorithm=DFLASH), budget=(100, 100)
    )
    everywhere = replace(last, deployment=Deployment(pp_size=2, draft_on_every_stage=True))
    assert [draft_price(last, stage).full for stage in (0, 1)] == [0, 3]
    assert [draft_price(everywhere, stage).full for stage in (0, 1)] == [3, 3]


def test_dcp_shards_the_target_and_replicates_the_draft_and_the_index():
    """Each row of a replicated pool costs attn_dcp_size rows a target row, spare rows too."""
    shape = AttentionShape((FULL, FULL), Latent(128, 8), index=Index(128, (0,)))
    draft = Draft(AttentionShape((FULL,), Heads(2, 4, 4)))
    scenario = fp8(
        shape,
        100_000,
        attention_backend="trtllm",
        draft=draft,
        speculative_algorithm=DFLASH,
        deployment=Deployment(tp_size=2, attn_dcp_size=2),
    )
    assert stage_row_bytes(scenario, 0) == RowBytes(full=2 * 136 + 2 * 132, swa=0, draft=2 * 8)
    sizes = size_pools(scenario)
    n = sizes.max_total_num_tokens
    assert sold_bytes(scenario, sizes, 0) == n * (2 * 136 + 2 * 132 + 2 * 8)
    assert spare_bytes(scenario, sizes, 0) == 2 * 136 + 2 * 132 + 2 * 8
    assert sizes.max_req_len == min(4095, 2 * n - 1)


def test_draft_swa_layers_follow_swa_rows_unless_banded_or_dflash():
    """EAGLE beside a hybrid target shares its SWA rows; banded at full capacity, or in a DFLASH draft, full rows."""
    draft = Draft(AttentionShape((SWA, FULL), Heads(1, 1, 1), Heads(1, 3, 3), sliding_window_size=2))
    eagle = windowed(1000, draft=draft, speculative_algorithm=EAGLE)
    assert draft_price(eagle, 0) == DraftPrice(full=2, swa=6)
    banded = replace(eagle, draft=replace(draft, swa_at_full_rows=True))
    assert draft_price(banded, 0) == DraftPrice(full=8, swa=0)
    assert draft_price(replace(eagle, speculative_algorithm=DFLASH), 0) == DraftPrice(full=8, swa=0)


def test_every_mtp_runner_has_a_pool_of_its_own():
    """In nvfp4 each pool has a workspace: three runners have three, one EAGLE draft of three layers one."""
    target = AttentionShape((FULL,), Heads(1, 16, 16))
    draft = Draft(AttentionShape((FULL,) * 3, Heads(1, 16, 16)), num_steps=3)
    scenario = Scenario(target, (10_000,), draft=draft, speculative_algorithm=MTP, kv_cache_dtype="nvfp4")
    row, workspace = 16 + 2, 32
    assert stage_row_bytes(scenario, 0).full == row + workspace
    assert draft_price(scenario, 0).full == 3 * (row + workspace)
    assert draft_price(replace(scenario, speculative_algorithm=EAGLE), 0).full == 3 * row + workspace


def test_a_frozen_kv_draft_is_not_priced_but_kept():
    """It reads the target's rows; its dummy pool of 64 rows and a page is spare."""
    draft = Draft(AttentionShape((FULL,), Latent(3, 0)))
    scenario = fp8(BYTE_ROW, 100, draft=draft, speculative_algorithm=FROZEN_KV_MTP, page_size=4)
    sizes = size_pools(scenario)
    assert rows(sizes) == (100, 100, 0)
    assert spare_bytes(scenario, sizes, 0) == 4 + (64 + 4) * 3


@pytest.mark.parametrize(
    ("shape", "dcp", "layers", "extra"),
    [
        (AttentionShape((FULL,) * 32, Latent(2048, 0)), 1, 5, 10240),
        (AttentionShape((FULL,) * 3, Latent(7, 0)), 1, 2, 14),
        (AttentionShape((FULL, LINEAR), Latent(7, 0)), 2, 2, 28),
        (AttentionShape((FULL, FULL), Latent(128, 2), index=Index(128, (0,))), 1, 1, (2 * 130 + 132 + 1) // 2),
    ],
)
def test_the_layer_ratio_rounds_up(shape, dcp, layers, extra):
    """`ceil(F * (L + dcp * n) / L) - F`, L the KV layers of the stage."""
    draft = Draft(AttentionShape((FULL,) * layers, Latent(1, 0)), geometry_resolved=False)
    scenario = fp8(
        shape,
        10**9,
        attention_backend="trtllm",
        draft=draft,
        speculative_algorithm=DFLASH,
        deployment=Deployment(tp_size=dcp, attn_dcp_size=dcp),
    )
    assert draft_price(scenario, 0).full == extra


def test_the_fallback_of_a_stage_without_kv_layers_is_the_models_average():
    """Two layers of 7 and a stage of linear ones: a draft layer is priced 7."""
    shape = AttentionShape((FULL, FULL, LINEAR), Latent(7, 0))
    draft = Draft(AttentionShape((FULL,), Latent(1, 0)), geometry_resolved=False)
    scenario = fp8(shape, 0, draft=draft, speculative_algorithm=DFLASH, deployment=Deployment(pp_size=3))
    assert draft_price(scenario, 2).full == 7


def test_the_fallback_beside_window_pools_is_a_row_of_one_layer():
    """A full layer of a hybrid target, an SWA layer of an all-window one."""
    draft = Draft(AttentionShape((FULL,) * 3, Heads(1, 9, 9)), geometry_resolved=False)
    hybrid = windowed(1000, draft=draft, speculative_algorithm=DFLASH)
    assert draft_price(hybrid, 0).full == 3 * 2
    all_window = replace(hybrid, target=replace(WINDOWED, layers=(SWA,), full=None))
    assert draft_price(all_window, 0).full == 3 * 4


def test_admission_is_stricter_than_the_engines_check():
    """Window 127, page 64, 192 rows: more than window + page, yet after the window's pages no page is left."""
    shape = AttentionShape((SWA,), None, Heads(1, 1, 1), sliding_window_size=127)
    refused = size_pools(fp8(shape, 2 * 192, page_size=64))
    assert (refused.kind, refused.value, refused.needed) == ("window_pool_too_small", 192, 255)
    assert rows(size_pools(fp8(shape, 2 * 256, page_size=64))) == (256, 0, 256)


def test_request_limits():
    """The user's number per replica, else clamp(N * 512 // context_len, 2048, 4096); never more than N // 2."""
    scenario = fp8(BYTE_ROW, 100_000, context_len=10_000)
    assert size_pools(scenario).max_running_requests == 4096
    assert size_pools(replace(scenario, context_len=20_000)).max_running_requests == 2560
    assert size_pools(replace(scenario, context_len=100_000)).max_running_requests == 2048
    replicas = replace(scenario, user_max_running_requests=9, deployment=Deployment(tp_size=4, attn_dp_size=4))
    assert size_pools(replicas).max_running_requests == 2
    assert size_pools(replace(scenario, budget=(10,))).max_running_requests == 5
    assert size_pools(replace(scenario, budget=(1,))).kind == "no_running_request"
    assert size_pools(replace(scenario, context_len=1)).kind == "no_request_length"


def test_available_bytes():
    """The smallest readings of all ranks of all stages; rounded down; nothing left is a refusal."""
    assert static_bytes(1000, 300, Fraction("0.9")) == 200
    assert static_bytes(1001, 300, Fraction("0.9")) == 199
    figures = MemoryFigures(((1000, 1100), (1000, 1000)), ((300, 290), (500, 400)), Fraction("0.9"))
    scenario = Scenario(BYTE_ROW, figures, deployment=Deployment(pp_size=2))
    assert available_bytes(scenario) == (190, 190)
    least_on_different_stages = replace(figures, free_before_load=((1100, 1100), (1000, 1000)))
    assert available_bytes(replace(scenario, budget=least_on_different_stages)) == (190, 190)
    spent = replace(figures, free_after_all_weights=((300, 100), (500, 400)))
    refused = size_pools(Scenario(replace(BYTE_ROW, layers=(FULL, FULL)), spent, deployment=Deployment(pp_size=2)))
    assert (refused.kind, refused.field, refused.value) == ("no_memory_left", "available_bytes[0]", 0)


def test_rows_of_one_token_leave_no_length():
    """Whatever the context: the refusal says how many tokens there are."""
    for held in (0, 1):
        with pytest.raises(Refused) as caught:
            request_length(fp8(BYTE_ROW, 100), held)
        assert (caught.value.refusal.needed, caught.value.refusal.available) == (2, held)


def test_ranks_and_stages():
    """Heads split or are replicated; the last stages hold the remainder."""
    assert [heads_per_rank(8, ranks) for ranks in (1, 2, 8, 16)] == [8, 4, 1, 1]
    assert [list(layers_of_stage(7, 3, stage)) for stage in range(3)] == [[0, 1], [2, 3], [4, 5, 6]]
    for layers in range(1, 40):
        for stages in range(1, layers + 1):
            expected = layers_by_stage(layers, stages)
            assert [layers_of_stage(layers, stages, stage) for stage in range(stages)] == expected


def test_accounting_lists_every_buffer():
    """One page of spare rows a buffer; GiB to scale: Qwen3-8B, one token sold and one spare row."""
    shape = AttentionShape((FULL,) * 36, Heads(8, 128, 128))
    scenario = Scenario(shape, (80 * GiB,))
    sizes = PoolSizes(1, 1, 0, 1, 1)
    buffers = list(stage_buffers(scenario, sizes, 0))
    assert len(buffers) == 72
    assert {buffer.row.name for buffer in buffers} == {"k", "v"}
    assert sold_bytes(scenario, sizes, 0) == spare_bytes(scenario, sizes, 0) == 147456


@pytest.mark.parametrize(("dtype", "row"), [("mxfp8", 2 * 64 + 2 * 2), ("fp4_mx_block16", 64 + 8), ("nvfp4", 64 + 8)])
def test_scales_are_stored_for_k_and_v(dtype, row):
    """One head of 64: mxfp8 a byte per 32 elements, fp4 half a byte an element and a byte per 16."""
    scenario = Scenario(AttentionShape((FULL,), Heads(1, 64, 64)), (10_000,), kv_cache_dtype=dtype)
    workspace = 128 if dtype == "nvfp4" else 0
    assert stage_row_bytes(scenario, 0).full == row + workspace


@pytest.mark.parametrize("rows_held", range(30))
def test_rounding_happens_once(rows_held):
    """`align_down(floor(r*N), P)` with an exact ratio: 0.7 of 90 is 63, where a float says 62."""
    assert hybrid_swa_rows(90, Fraction("0.7"), 1) == 63
    assert int(90 * 0.7) == 62
    assert rows_that_fit(rows_held, Fraction(3, 2), 2) == rows_held * 2 // 3 // 2 * 2


def test_a_geometry_no_layer_uses_has_no_workspace():
    """nvfp4, SWA layers stored at full length: the workspace is as wide as the rows that are there."""
    heads = Heads(1, 128, 128)
    alone = AttentionShape((SWA, SWA), None, heads, sliding_window_size=2)
    scenario = Scenario(alone, (10**6,), kv_cache_dtype="nvfp4", window_pools=False)
    spare_geometry = replace(scenario, target=replace(alone, full=Heads(64, 128, 128)))
    assert size_pools(spare_geometry) == size_pools(scenario)
    assert stage_row_bytes(scenario, 0).full == 2 * (128 + 16) + 256


def test_the_constraint_path_needs_a_number():
    """No tokens is not "no cap"."""
    refused = size_pools_from_max_tokens(fp8(BYTE_ROW, 100), None)
    assert (refused.kind, refused.field, refused.value) == ("invalid_input", "tokens", None)


def test_the_dummy_pool_of_a_frozen_kv_draft_has_a_workspace_too():
    """nvfp4, two heads of 64: 68 rows of 2 x (2 x 64 x 9 / 16) bytes and of a workspace of 2 x 2 x 64."""
    shape = AttentionShape((FULL,), Heads(2, 64, 64))
    scenario = Scenario(
        shape, (1,), draft=Draft(shape), speculative_algorithm=FROZEN_KV_MTP, kv_cache_dtype="nvfp4", page_size=4
    )
    target_spare = 4 * (144 + 256)
    assert spare_bytes(scenario, PoolSizes(8, 8, 0, 1, 1), 0) == target_spare + 68 * (144 + 256)
