"""What to change when a start is refused for want of memory: the smallest `mem_fraction_static` that starts.

SGLang advises to raise the fraction without saying how far; once, in the wrong direction.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from spec.capped import cap_keeps_swa_rows
from spec.model import MemoryFigures, Refusal, Scenario

SHORT_OF_MEMORY = (
    "no_memory_left",
    "no_page_fits",
    "swa_pool_leaves_no_room",
    "window_pool_too_small",
    "no_running_request",
)
"""Refusals that more bytes may lift."""

STEPS = 1000
"""Fractions are advised with three decimals."""


def smallest_starting_fraction(scenario: Scenario, starts: Callable[[Scenario], bool]) -> Fraction | None:
    """The smallest three-decimal fraction below 1 at which the scenario starts, None when none does. Bisected: more
    memory never turns a start into a refusal (law B5)."""
    if not starts(at_fraction(scenario, STEPS - 1)):
        return None
    refused, enough = 0, STEPS - 1
    while enough - refused > 1:
        middle = (refused + enough) // 2
        refused, enough = (refused, middle) if starts(at_fraction(scenario, middle)) else (middle, enough)
    return Fraction(enough, STEPS)


def at_fraction(scenario: Scenario, thousandths: int) -> Scenario:
    """The scenario with another `mem_fraction_static`, its readings as they are."""
    if not isinstance(scenario.budget, MemoryFigures):
        raise TypeError("a fraction needs memory figures")
    return replace(scenario, budget=replace(scenario.budget, mem_fraction_static=Fraction(thousandths, STEPS)))


def advised(scenario: Scenario, refusal: Refusal, starts: Callable[[Scenario], bool]) -> Refusal:
    """The refusal with the fraction that lifts it, where there are memory figures and more memory helps at all."""
    if not isinstance(scenario.budget, MemoryFigures) or refusal.kind not in SHORT_OF_MEMORY:
        return refusal
    if not cap_keeps_swa_rows(scenario):
        return refusal
    fraction = smallest_starting_fraction(scenario, starts)
    if fraction is None:
        return replace(refusal, advice=f"{refusal.advice}: no mem_fraction_static below 1 starts")
    lifts = f"mem_fraction_static 0.{int(fraction * STEPS):03d} is the smallest that starts"
    return replace(refusal, advice=f"{refusal.advice}: {lifts}")
