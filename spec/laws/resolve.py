"""D5, D6, D7: what start-up knows of a draft, and what must not matter."""

import math
from dataclasses import replace

from spec.accounting import sold_bytes
from spec.budget import available_bytes
from spec.capped import capped_swa_rows
from spec.dtypes import STORAGE_BITS, draft_kv_dtype
from spec.laws.base import (
    HOLDS,
    NOT_JUDGED,
    Broken,
    Case,
    Verdict,
    is_valid,
    same_answers,
)
from spec.laws.draft import observed_price
from spec.laws.floats import may_need_a_byte_more
from spec.layers import CAPPED_POOL, pool_kind
from spec.model import (
    ALGORITHMS,
    FULL,
    LINEAR,
    AttentionShape,
    Draft,
    Heads,
    PoolSizes,
    Refusal,
    Scenario,
    active_draft,
)
from spec.pools import bytes_per_token, stage_row_bytes

LEFT_OVER = Draft(
    AttentionShape((FULL,) * 7, Heads(3, 100, 50), model_dtype="fp32"),
    kv_cache_dtype="not a dtype",
    num_steps=9,
    topk=8,
    num_draft_tokens=500,
)
"""Draft fields of no algorithm in use: expensive, and not even valid."""


def an_unresolved_draft_falls_back_to_the_layer_ratio(case: Case) -> Verdict:
    """Takes the draft's geometry away: start-up goes on, warns once, knows no bytes, and the price of the rows sold
    is that of the layer ratio. A draft that can be resolved warns of nothing. One without KV layers costs nothing
    whatever its geometry: there is nothing to resolve."""
    scenario, draft = case.scenario, active_draft(case.scenario)
    if draft is None or all(kind == LINEAR for kind in draft.shape.layers):
        return NOT_JUDGED
    unresolved = replace(scenario, draft=replace(draft, geometry_resolved=False))
    resolution = case.resolve_draft(unresolved)
    if resolution is None or resolution.bytes_per_row is not None:
        return Broken("draft bytes per row", "None, as the geometry is not resolved", resolution)
    if len(resolution.warnings) != 1:
        return Broken("warnings", "one that says what and why", resolution.warnings)
    known = case.resolve_draft(replace(scenario, draft=replace(draft, geometry_resolved=True)))
    if known is None or known.warnings:
        return Broken("warnings", "none, as the geometry is resolved", known)
    answer = case.ask(unresolved)
    if isinstance(answer, Refusal):
        return NOT_JUDGED
    return fallback_price(case, unresolved, answer)


def fallback_price(case: Case, unresolved: Scenario, answer: PoolSizes) -> Verdict:
    """HOLDS when the observed price of the rows sold is that of the layer ratio."""
    last, rows, kind = unresolved.deployment.pp_size - 1, answer.max_total_num_tokens, pool_kind(unresolved)
    row_bytes = stage_row_bytes(unresolved, last)
    paid = capped_swa_rows(unresolved) * row_bytes.swa if kind == CAPPED_POOL else 0
    expected = max(1, paid + math.ceil(rows * bytes_per_token(kind, row_bytes, unresolved.swa_full_tokens_ratio)))
    observed = observed_price(case, unresolved, rows)
    if not expected <= observed <= expected + may_need_a_byte_more(case, unresolved):
        return Broken("draft term", f"{expected} bytes for {rows} rows by the layer ratio", observed)
    return HOLDS


def quantized_under_auto(draft: Draft) -> Draft:
    """The same draft from a checkpoint that asks for fp8, which nobody knows before it is loaded."""
    shape = replace(draft.shape, kv_checkpoint_dtype="fp8_e4m3")
    return replace(draft, shape=shape, kv_cache_dtype="auto", geometry_resolved=True)


def an_unresolved_dtype_is_never_priced_below_the_truth(case: Case) -> Verdict:
    """Gives the draft a checkpoint whose KV dtype is only known once it is loaded: the dtype it is priced in is no
    narrower than the one it gets, and what it really allocates fits."""
    draft = active_draft(case.scenario)
    if draft is None:
        return NOT_JUDGED
    quantized = quantized_under_auto(draft)
    scenario = replace(case.scenario, draft=quantized)
    if not is_valid(scenario):
        return NOT_JUDGED
    resolution = case.resolve_draft(scenario)
    truth = draft_kv_dtype(scenario, quantized, model_is_loaded=True)
    if resolution is None or STORAGE_BITS[resolution.dtype] < STORAGE_BITS[truth]:
        return Broken("draft dtype", f"as wide as {truth}", resolution)
    answer = case.ask(scenario)
    if isinstance(answer, Refusal):
        return NOT_JUDGED
    for stage, available in enumerate(available_bytes(scenario)):
        allocated = sold_bytes(scenario, answer, stage)
        if allocated > available:
            return Broken("allocated bytes", f"at most {available}", allocated, f"a rank of stage {stage}")
    return HOLDS


def without_draft(scenario: Scenario) -> Scenario:
    """The plain path, and no draft field left over."""
    return replace(scenario, speculative_algorithm=None, draft=None, is_draft_worker=False)


def only_the_algorithm_in_use_is_priced(case: Case) -> Verdict:
    """Asks for the plain path without any draft field, with left-over ones, and with the scenario's own."""
    nothing = without_draft(case.scenario)
    others = [
        ("a left-over draft", replace(nothing, draft=LEFT_OVER)),
        ("its own draft", replace(nothing, draft=case.scenario.draft)),
    ]
    return all_answer_alike(case, nothing, others)


def a_draft_worker_prices_no_draft(case: Case) -> Verdict:
    """Asks as the draft worker of every algorithm, with a draft that would cost."""
    nothing = without_draft(case.scenario)
    worker = replace(nothing, draft=LEFT_OVER, is_draft_worker=True)
    others = [
        (f"the {algorithm} draft worker", replace(worker, speculative_algorithm=algorithm)) for algorithm in ALGORITHMS
    ]
    return all_answer_alike(case, nothing, others)


def all_answer_alike(case: Case, nothing: Scenario, others: list[tuple[str, Scenario]]) -> Verdict:
    """HOLDS when each of `others` is answered as the scenario with no draft field at all."""
    expected = case.ask(nothing)
    if isinstance(expected, Refusal) and isinstance(case.answer, Refusal):
        return NOT_JUDGED
    for who, other in others:
        verdict = same_answers(expected, case.ask(other), f"{who}, against no draft field at all")
        if verdict is not HOLDS:
            return verdict
    return HOLDS
