"""What a refusal for want of memory advises."""

from dataclasses import replace
from fractions import Fraction

import pytest

from impl.optimized import Configurator
from spec.advice import smallest_starting_fraction
from spec.model import FULL, SWA, AttentionShape, Heads, Latent, MemoryFigures, PoolSizes, Refusal, Scenario
from spec.pools import size_pools, starts

FIGURES = MemoryFigures(((1000,),), ((150,),), Fraction("0.85"))
SCENARIO = Scenario(AttentionShape((FULL,), Latent(1, 0)), FIGURES, kv_cache_dtype="fp8_e4m3", page_size=8)
"""A byte a row: at fraction f there are 150 - 1000 * (1 - f) bytes, and a page takes 8."""


@pytest.mark.parametrize("implementation", [size_pools, Configurator().size_pools])
def test_the_smallest_fraction_that_starts_is_named(implementation):
    """150 - 1000 * 0.142 = 8."""
    refusal = implementation(SCENARIO)
    assert isinstance(refusal, Refusal)
    assert refusal.kind == "no_memory_left"
    assert "mem_fraction_static 0.858 is the smallest that starts" in refusal.advice
    assert isinstance(implementation(at(Fraction("0.858"))), PoolSizes)
    assert isinstance(implementation(at(Fraction("0.857"))), Refusal)


def at(fraction, **changes):
    """The scenario at another fraction."""
    return replace(SCENARIO, budget=replace(FIGURES, mem_fraction_static=fraction, **changes))


@pytest.mark.parametrize("implementation", [size_pools, Configurator().size_pools])
def test_it_is_said_when_no_fraction_helps(implementation):
    """Five bytes are left when all is static."""
    refusal = implementation(at(Fraction("0.9"), free_after_all_weights=((5,),)))
    assert "no mem_fraction_static below 1 starts" in refusal.advice


def test_a_refusal_that_memory_cannot_lift_advises_no_fraction():
    """A cap below a page, and a context of one token."""
    enough = at(Fraction("0.9"))
    assert "mem_fraction_static" not in size_pools(replace(enough, max_total_tokens=3)).advice
    assert "mem_fraction_static" not in size_pools(replace(enough, context_len=1)).advice


def test_without_memory_figures_there_is_no_fraction_to_name():
    """Bytes alone do not say where they came from."""
    assert "0." not in size_pools(replace(SCENARIO, budget=(1,))).advice


def test_a_cap_that_takes_swa_rows_away_is_not_advised_on():
    """Below the fixed SWA rows of a capped pool more memory may buy less, so no smallest fraction is searched."""
    capped = Scenario(
        AttentionShape((FULL, SWA), Heads(1, 1, 1), Heads(1, 1, 1), sliding_window_size=4),
        FIGURES,
        kv_cache_dtype="fp8_e4m3",
        user_max_running_requests=1,
        disable_radix_cache=True,
        chunked_prefill_size=4,
        max_total_tokens=5,
    )
    assert "smallest" not in size_pools(capped).advice
    assert "smallest" in size_pools(replace(capped, max_total_tokens=None)).advice


def test_fractions_are_searched_to_three_decimals():
    """The lowest and the highest there are."""
    rich = at(Fraction("0.5"), free_before_load=((8,),), free_after_all_weights=((1000,),))
    assert smallest_starting_fraction(rich, starts) == Fraction("0.001")
    poor = at(Fraction("0.5"), free_after_all_weights=((9,),))
    assert smallest_starting_fraction(poor, starts) == Fraction("0.999")


def test_every_fraction_may_be_the_smallest():
    """Whatever is asked on the way there; where all start, the lowest that is valid."""
    for thousandths in range(1, 1000):
        smallest = Fraction(thousandths, 1000)

        def enough(scenario, smallest=smallest):
            return scenario.budget.mem_fraction_static >= smallest

        assert smallest_starting_fraction(SCENARIO, enough) == smallest
    assert smallest_starting_fraction(SCENARIO, lambda scenario: True) == Fraction(1, 1000)
    assert smallest_starting_fraction(SCENARIO, lambda scenario: False) is None
