"""W: sliding-window pools."""

from dataclasses import replace
from fractions import Fraction

from spec.budget import available_bytes
from spec.laws.base import HOLDS, NOT_JUDGED, Broken, Case, Verdict, cap_may_bind, same_answers, setting_stages
from spec.model import Refusal
from spec.pools import stage_row_bytes

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


def a_started_window_pool_admits_a_request(case: Case) -> Verdict:
    """After a user cap too: the rows beside one window and a page hold a page more."""
    scenario, answer = case.scenario, case.answer
    if isinstance(answer, Refusal):
        return NOT_JUDGED
    window, page_size = scenario.target.sliding_window_size or 0, scenario.page_size
    left = answer.swa_max_total_num_tokens - window - page_size
    if left < page_size:
        return Broken("swa_max_total_num_tokens", f"{page_size} rows beside a window of {window} and a page", left)
    return HOLDS


def full_rows_come_with_their_draft_rows(case: Case) -> Verdict:
    """Capped: after the SWA pool every full row is paid with its draft row, and where no user cap binds less than a
    page of both is left on the rank that sets N."""
    scenario, answer = case.scenario, case.answer
    if isinstance(answer, Refusal):
        return NOT_JUDGED
    rows, swa_rows = answer.max_total_num_tokens, answer.swa_max_total_num_tokens
    left = {}
    for stage, available in enumerate(available_bytes(scenario)):
        row_bytes = stage_row_bytes(scenario, stage)
        left[stage] = available - swa_rows * row_bytes.swa - rows * (row_bytes.full + row_bytes.draft)
        if left[stage] < 0:
            return Broken("priced bytes", f"at most {available}", available - left[stage], f"stage {stage}")
    if cap_may_bind(scenario, rows):
        return HOLDS
    for stage in setting_stages(scenario):
        row_bytes = stage_row_bytes(scenario, stage)
        page_bytes = scenario.page_size * (row_bytes.full + row_bytes.draft)
        if left[stage] >= page_bytes:
            return Broken("max_total_num_tokens", f"less than {page_bytes} bytes left", left[stage], f"stage {stage}")
    return HOLDS
