"""The SWA rows of the capped pool, and the user caps that leave it all of them."""

from dataclasses import replace

import pytest

from spec.capped import cap_keeps_swa_rows, capped_swa_rows
from spec.layers import CAPPED_POOL, HYBRID_POOL, pool_kind
from spec.model import FULL, SWA, AttentionShape, Heads, Scenario

CAPPED = Scenario(
    AttentionShape((FULL, SWA), Heads(1, 1, 1), Heads(1, 1, 1), sliding_window_size=1),
    (100,),
    page_size=2,
    user_max_running_requests=1,
    disable_radix_cache=True,
    chunked_prefill_size=1,
)


def test_a_request_two_chunks_and_a_page_in_whole_pages() -> None:
    """1 + 1 + 2 + 2 and 2 x 1 and 2."""
    assert capped_swa_rows(CAPPED) == 10


@pytest.mark.parametrize(
    ("cap", "keeps"), [(None, True), (12, True), (11, True), (10, True), (9, False), (8, False), (1, False)]
)
def test_a_cap_keeps_the_rows_where_its_whole_pages_hold_them(cap: int | None, keeps: bool) -> None:
    assert cap_keeps_swa_rows(replace(CAPPED, max_total_tokens=cap)) is keeps


def test_a_pool_of_another_kind_has_no_fixed_rows_to_lose() -> None:
    assert cap_keeps_swa_rows(replace(CAPPED, max_total_tokens=1, disable_radix_cache=False))


@pytest.mark.parametrize(
    ("chunk", "kind"), [(None, HYBRID_POOL), (-1, HYBRID_POOL), (0, HYBRID_POOL), (1, CAPPED_POOL)]
)
def test_only_a_chunk_of_something_bounds_a_prefill(chunk: int | None, kind: str) -> None:
    assert pool_kind(replace(CAPPED, chunked_prefill_size=chunk)) == kind
    assert pool_kind(replace(CAPPED, chunked_prefill_size=chunk, is_decode_role=True)) == CAPPED_POOL
