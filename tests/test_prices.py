"""Prices found by asking: the configurator's are those of the spec, a fault's are wrong in the pool it is wrong in."""

from dataclasses import replace
from fractions import Fraction

import pytest

from impl.faults import FAULTS
from impl.faults.base import Fault
from impl.optimized import Configurator
from properties.prices import PoolPrice, StageBytes, pool_prices, priced_rows, token_price, worst_bytes
from spec.model import DFLASH, AttentionShape, Deployment, Draft, Heads, Latent, PoolSizes, Scenario
from spec.pools import size_pools
from tests.wrong_implementations import DividesByZero, SellsNothing, SupportsNothing

ONE, TWO = Heads(1, 1, 1), Heads(1, 2, 2)
DEFAULT = Scenario(
    AttentionShape(("full",) * 4, ONE),
    (4096, 8192),
    Draft(AttentionShape(("full",), TWO)),
    DFLASH,
    deployment=Deployment(pp_size=2),
    page_size=4,
)
MLA = Scenario(AttentionShape(("full",), Latent(512, 64)), (2**20,))
HYBRID = Scenario(
    AttentionShape(("full", "swa"), ONE, TWO, sliding_window_size=1),
    (4096,),
    Draft(AttentionShape(("full",), TWO)),
    DFLASH,
    swa_full_tokens_ratio=Fraction(1, 3),
)
ALL_WINDOW = replace(HYBRID, target=AttentionShape(("swa",), None, TWO, sliding_window_size=1))
CAPPED = replace(HYBRID, user_max_running_requests=2, disable_radix_cache=True, chunked_prefill_size=8, context_len=64)


def prices(implementation: Configurator, scenario: Scenario, stage: int = 0) -> dict[str, PoolPrice]:
    """The pools of a stage, by name."""
    sizes = size_pools(scenario)
    assert isinstance(sizes, PoolSizes)
    return {price.pool: price for price in pool_prices(implementation, scenario, sizes, stage)}


@pytest.mark.parametrize(
    ("scenario", "stage", "expected"),
    [
        (DEFAULT, 0, {"full": 8}),
        (DEFAULT, 1, {"full": 8, "draft": 8}),
        (MLA, 0, {"full": 1152}),
        (HYBRID, 0, {"full": 4, "swa": 8, "draft": 8}),
        (ALL_WINDOW, 0, {"swa": 8, "draft": 8}),
        (CAPPED, 0, {"full": 4, "swa": 8, "draft": 8}),
    ],
)
def test_a_price_is_found_by_asking(scenario: Scenario, stage: int, expected: dict[str, int]) -> None:
    found = prices(Configurator(), scenario, stage)
    assert {pool: price.priced for pool, price in found.items()} == expected
    assert {pool: price.allocated for pool, price in found.items()} == expected
    assert not any(price.is_off for price in found.values())


@pytest.mark.parametrize(
    ("fault", "scenario", "stage", "pool"),
    [
        ("NoDraftOnHybrid", HYBRID, 0, "draft"),
        ("NoDraftOnAllWindow", ALL_WINDOW, 0, "draft"),
        ("NoDraftOnCapped", CAPPED, 0, "draft"),
        ("LayerRatioForEveryDraft", DEFAULT, 1, "draft"),
        ("HeadsOfFullLayersForSwa", HYBRID, 0, "swa"),
        ("HeadsOfFullLayersForSwa", CAPPED, 0, "swa"),
    ],
)
def test_the_pool_that_is_wrong_is_named(fault: str, scenario: Scenario, stage: int, pool: str) -> None:
    wrong: type[Fault] = next(one for one in FAULTS if one.__name__ == fault)
    off = {name for name, price in prices(wrong(), scenario, stage).items() if price.is_off}
    assert off == {pool}


def test_a_fallback_is_no_wrong_price() -> None:
    """The spec prices a draft it cannot read by the layer ratio too, though it takes more."""
    assert DEFAULT.draft is not None
    unread = prices(Configurator(), replace(DEFAULT, draft=replace(DEFAULT.draft, geometry_resolved=False)), 1)["draft"]
    assert (unread.priced, unread.spec_priced, unread.allocated, unread.is_off) == (4, 4, 8, False)


def test_a_stage_that_holds_nothing_charges_nothing() -> None:
    """The other stage sets the tokens, however much there is on this one."""
    scenario = replace(DEFAULT, target=AttentionShape(("linear",) * 2 + ("full",) * 2, ONE))
    assert [prices(Configurator(), scenario, stage).get("full") is None for stage in (0, 1)] == [True, False]
    assert [token_price(Configurator(), scenario, stage) for stage in (0, 1)] == [0, 16]


@pytest.mark.parametrize("implementation", [SupportsNothing(), DividesByZero(), SellsNothing()])
@pytest.mark.parametrize("scenario", [DEFAULT, HYBRID, CAPPED])
def test_who_cannot_be_asked_has_no_price(implementation: Configurator, scenario: Scenario) -> None:
    assert set(priced_rows(implementation, scenario, 0).values()) == {None}


def test_the_worst_rank_is_the_one_where_most_is_missing() -> None:
    worst = worst_bytes(DEFAULT, PoolSizes(1024, 1024, 0, 1, 1))
    assert worst == StageBytes(1, 1024 * 16, 8192) and worst.text() == "16,384 of 8,192 B, OVER by 8,192 B (100.0 %)"
    assert StageBytes(0, 6, 8).text() == "6 of 8 B, 2 B left (25.0 %)"
    assert worst_bytes(replace(DEFAULT, budget=(0, 8)), PoolSizes(1, 1, 0, 1, 1)) is None
