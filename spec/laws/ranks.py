"""R: what one rank holds."""

from dataclasses import replace

from spec.budget import available_bytes
from spec.draft import draft_workspace_bytes
from spec.laws.base import (
    AMPLE_BYTES,
    HOLDS,
    NOT_JUDGED,
    ROW_FIELDS,
    Broken,
    Case,
    Verdict,
    same_answers,
    stages,
    with_budget,
)
from spec.laws.scale import repeated
from spec.layers import CAPPED_POOL, pool_kind
from spec.model import AttentionShape, Heads, Latent, PoolSizes, Refusal, Scenario, active_draft
from spec.pools import bytes_per_token, stage_row_bytes
from spec.units import ceil_div


def held_heads(num_kv_heads: int, ranks: int) -> int:
    """The fewest heads per rank that lose none: with one head at least, replicated when ranks outnumber heads."""
    return max(1, ceil_div(num_kv_heads, ranks))


def with_heads(geometry: Heads | None, ranks: int, twin_ranks: int) -> Heads | None:
    """The geometry whose heads, split over `twin_ranks`, are those one of `ranks` ranks holds."""
    if geometry is None:
        return None
    return replace(geometry, num_kv_heads=held_heads(geometry.num_kv_heads, ranks) * twin_ranks)


def shape_with_heads(shape: AttentionShape, ranks: int, twin_ranks: int) -> AttentionShape:
    """The shape with full and SWA heads each by their own count."""
    full = shape.full if isinstance(shape.full, Latent) else with_heads(shape.full, ranks, twin_ranks)
    return replace(shape, full=full, swa=with_heads(shape.swa, ranks, twin_ranks))


def one_rank_twin(scenario: Scenario) -> Scenario:
    """The same pools on the fewest ranks: no DP attention, as many attention ranks as DCP needs, and models that have
    just the heads one rank holds."""
    deployment = scenario.deployment
    dcp = deployment.attn_dcp_size
    attention_ranks = deployment.tp_size // deployment.attn_dp_size
    requests = scenario.user_max_running_requests
    draft = scenario.draft
    return replace(
        scenario,
        target=shape_with_heads(scenario.target, attention_ranks // dcp, 1),
        draft=draft and replace(draft, shape=shape_with_heads(draft.shape, attention_ranks, dcp)),
        deployment=replace(deployment, tp_size=dcp, attn_dp_size=1),
        user_max_running_requests=requests and max(1, requests // deployment.attn_dp_size),
    )


def a_rank_holds_its_heads(case: Case) -> Verdict:
    """The answer is that of the twin whose models have just the heads of one rank: an implementation that floors
    heads to zero, replicates too little or too often, or splits over the wrong ranks prices the two differently."""
    twin = one_rank_twin(case.scenario)
    return same_answers(case.ask(twin), case.answer, "the one-rank twin's answer is expected")


def stage_alone(scenario: Scenario, stage: int) -> Scenario:
    """The same scenario with memory no other stage can exhaust."""
    here = available_bytes(scenario)[stage]
    return with_budget(scenario, tuple(here if other == stage else AMPLE_BYTES for other in stages(scenario)))


def every_rank_agrees(case: Case) -> Verdict:
    """The agreed rows are priced on every stage; then, without a user cap, the answer is the smallest of those with
    each stage's memory alone."""
    scenario, answer = case.scenario, case.answer
    if isinstance(answer, Refusal):
        return NOT_JUDGED
    kind, ratio = pool_kind(scenario), scenario.swa_full_tokens_ratio
    rows, swa_rows = answer.max_total_num_tokens, answer.swa_max_total_num_tokens
    for stage, available in enumerate(available_bytes(scenario)):
        row_bytes = stage_row_bytes(scenario, stage)
        paid = swa_rows * row_bytes.swa if kind == CAPPED_POOL else 0
        price = paid + rows * bytes_per_token(kind, row_bytes, ratio)
        if price > available:
            return Broken("priced bytes", f"at most {available}", price, f"a rank of stage {stage}")
    return weakest_stage_sets_rows(case) if scenario.deployment.pp_size > 1 else HOLDS


def weakest_stage_sets_rows(case: Case) -> Verdict:
    """Without a user cap: the agreed rows are the fewest that any stage's memory alone buys."""
    uncapped = replace(case.scenario, max_total_tokens=None)
    together = case.ask(uncapped)
    alone = [case.ask(stage_alone(uncapped, stage)) for stage in stages(uncapped)]
    held = [answer.max_total_num_tokens for answer in (together, *alone) if isinstance(answer, PoolSizes)]
    if len(held) <= len(alone):
        return Broken("refusal", "an answer without a cap, and with more memory elsewhere", "a refusal")
    if min(held[1:]) != held[0]:
        return Broken("max_total_num_tokens", f"the smallest of {held[1:]}", held[0], "each stage's memory alone")
    return HOLDS


def undivided_twin(scenario: Scenario) -> Scenario | None:
    """The same bytes per row without DCP: the target's heads on as many ranks as they were split over, the draft's
    layers and the index as many times as they were kept. None where a workspace is shared, which does not repeat."""
    deployment = scenario.deployment
    dcp = deployment.attn_dcp_size
    ranks = deployment.tp_size // deployment.attn_dp_size
    draft = scenario.draft
    if draft is not None and draft_workspace_bytes(scenario, draft) and active_draft(scenario) is not None:
        return None
    shape = scenario.target
    return replace(
        scenario,
        target=replace(shape, index=shape.index and replace(shape.index, head_dim=dcp * shape.index.head_dim)),
        draft=draft and replace(draft, shape=repeated(shape_with_heads(draft.shape, ranks, ranks // dcp), dcp)),
        deployment=replace(deployment, tp_size=deployment.tp_size // dcp, attn_dcp_size=1),
    )


def replication_is_paid_for(case: Case) -> Verdict:
    """The answer has the rows of the twin without DCP whose draft layers and index rows are there as often as DCP
    keeps them."""
    twin = undivided_twin(case.scenario)
    if twin is None:
        return NOT_JUDGED
    return same_answers(case.ask(twin), case.answer, "the undivided twin's rows are expected", ROW_FIELDS)
