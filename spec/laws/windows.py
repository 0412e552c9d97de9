"""W: sliding-window pools."""

from dataclasses import replace
from fractions import Fraction

from spec.laws.base import HOLDS, Case, Verdict, same_answers

OTHER_RATIOS = (Fraction(1), Fraction(1, 2), Fraction(1, 10))
"""Ratios to ask again with."""


def an_all_window_model_ignores_the_ratio(case: Case) -> Verdict:
    """Asks again with other ratios: without full rows there is nothing to relate SWA rows to."""
    for ratio in OTHER_RATIOS:
        other = case.ask(replace(case.scenario, swa_full_tokens_ratio=ratio))
        verdict = same_answers(case.answer, other, f"with swa_full_tokens_ratio {ratio}")
        if verdict is not HOLDS:
            return verdict
    return HOLDS
