"""Each law seen to hold on the spec's answer and to fail on a wrong one, with the term it names."""

from dataclasses import replace
from fractions import Fraction

import pytest

from impl.resolve import resolve_draft
from impl.torch_pools import allocated_bytes
from spec.laws import BY_ID, LAWS
from spec.laws.base import HOLDS, NOT_JUDGED, Broken, Case
from spec.layers import HYBRID_POOL
from spec.model import DFLASH, FULL, SWA, AttentionShape, Draft, Heads, Latent, PoolSizes, Refusal, Scenario
from spec.pools import (
    RowBytes,
    bytes_per_token,
    hybrid_swa_rows,
    rows_that_fit,
    size_pools,
    size_pools_from_max_tokens,
)
from tests.wrong_answers import DEFAULT, DRAFT, WRONG


def judged(law_id, scenario, size=size_pools, resolve=resolve_draft, allocate=allocated_bytes):
    """The law's verdict on an implementation given as functions."""
    return BY_ID[law_id].predicate(Case(scenario, size(scenario), size, size_pools_from_max_tokens, resolve, allocate))


@pytest.mark.parametrize(("law_id", "scenario", "wrong", "term"), WRONG)
def test_a_law_fails_on_a_wrong_answer(law_id, scenario, wrong, term):
    """The law holds on the spec's own answer; the wrong implementation breaks the law in the term."""
    assert judged(law_id, scenario) is HOLDS
    broken = judged(law_id, scenario, **wrong)
    assert isinstance(broken, Broken)
    assert broken.term == term


def test_every_law_is_seen_to_fail():
    """No law without a wrong answer above."""
    assert {law_id for law_id, *_ in WRONG} == {law.id for law in LAWS}


def test_a_refusal_is_no_judgement_of_sizes():
    """Laws about sizes have nothing to say about a refusal; waste counts it as zero rows."""
    tiny = replace(DEFAULT, budget=(10,))
    assert isinstance(size_pools(tiny), Refusal)
    for law_id in ("B1", "B3", "B4", "B5", "B6", "B7", "C1", "D2", "D3", "D4", "R2", "A1", "E2"):
        assert judged(law_id, tiny) is NOT_JUDGED
    assert judged("B2", tiny) is HOLDS


def test_refusing_what_fits_is_waste():
    """A refusal for want of a page where pages fit breaks B2."""
    broken = judged("B2", DEFAULT, lambda scenario: Refusal("no_page_fits", "available_bytes[0]", 0))
    assert isinstance(broken, Broken)


def test_an_unresolved_draft_is_not_held_to_its_geometry():
    """Its price is the fallback's, so the laws of the exact price do not judge it."""
    unresolved = replace(DEFAULT, draft=replace(DRAFT, geometry_resolved=False))
    for law_id in ("B1", "B2", "B3", "B6", "B7", "D2", "D3", "D4", "A1"):
        assert judged(law_id, unresolved) is NOT_JUDGED
    for law_id in ("B4", "B5", "C1", "D1", "R1", "R2", "E1", "E2", "Q1"):
        assert judged(law_id, unresolved) is HOLDS


def test_one_more_page_of_real_bytes_is_the_wrong_measure_of_waste():
    """Hybrid, A=4, F=S=1, r=1/2, P=1: the solve gives (2, 1), and (3, 1) costs 4, which would still fit. So B2 says
    `(N + P) * (F + r*S + D) > A`, not "one more page of real bytes would not fit"."""
    row_bytes, ratio = RowBytes(full=1, swa=1, draft=0), Fraction(1, 2)
    rows = rows_that_fit(4, bytes_per_token(HYBRID_POOL, row_bytes, ratio), 1)
    assert (rows, hybrid_swa_rows(rows, ratio, 1)) == (2, 1)
    assert 3 * row_bytes.full + hybrid_swa_rows(3, ratio, 1) * row_bytes.swa == 4


def test_draft_tokens_may_lower_the_fixed_swa_rows():
    """Capped, decode role, one request: plain decode allocates a page ahead (768 rows), a draft of one token less (512
    rows, and no request is admitted). D1 and D3 set the SWA rows aside, and an admission that hangs on them."""
    scenario = Scenario(
        target=AttentionShape((SWA, FULL) * 4, Heads(1, 32, 32), Heads(1, 128, 96), sliding_window_size=5),
        budget=(5_000_000,),
        draft=Draft(AttentionShape((FULL,), Latent(1, 1))),
        speculative_algorithm=DFLASH,
        page_size=256,
        user_max_running_requests=1,
        disable_radix_cache=True,
        is_decode_role=True,
        swa_eviction_interval=0,
    )
    drafted, alone = size_pools(scenario), size_pools(replace(scenario, speculative_algorithm=None))
    assert isinstance(drafted, Refusal)
    assert (drafted.kind, drafted.value) == ("window_pool_too_small", 512)
    assert isinstance(alone, PoolSizes)
    assert alone.swa_max_total_num_tokens == 768
    assert judged("D1", scenario) is NOT_JUDGED
