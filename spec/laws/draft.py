"""D: what a draft takes from the budget."""

import math
from collections.abc import Callable
from dataclasses import replace

from spec.capped import cap_keeps_swa_rows, capped_swa_rows
from spec.cell import stage_positions, target_full_row_bytes, target_layer_bytes, target_swa_row_bytes
from spec.draft import draft_layer_bytes, draft_workspace_bytes, follows_swa_rows
from spec.dtypes import target_kv_dtype
from spec.laws.base import (
    AMPLE_BYTES,
    HOLDS,
    NOT_JUDGED,
    ROW_FIELDS,
    SIZE_FIELDS,
    Answer,
    Broken,
    Case,
    Verdict,
    draft_bytes,
    draft_is_resolved,
    plain_at_same_swa_rows,
    same_answers,
    setting_stages,
    stages,
    with_budget,
    with_draft_shape,
)
from spec.laws.floats import may_need_a_byte_more, unless_float
from spec.layers import ALL_WINDOW_POOL, CAPPED_POOL, HYBRID_POOL, pool_kind
from spec.model import (
    FULL,
    LINEAR,
    SWA,
    AttentionShape,
    Draft,
    Heads,
    Latent,
    PoolSizes,
    Refusal,
    Scenario,
    active_draft,
)
from spec.pools import bytes_per_token, stage_row_bytes


def hangs_on_swa_rows(answer: Answer) -> bool:
    """Whether an answer is a refusal for want of SWA rows. Draft tokens change the fixed rows of a capped pool, either
    way: plain decode allocates a page ahead, speculation may need less."""
    return isinstance(answer, Refusal) and answer.kind == "window_pool_too_small"


def zero_draft_layers_cost_nothing(case: Case) -> Verdict:
    """Compares the draft with all its layers taken away to no draft at all. Capped: the SWA rows themselves are not
    compared, draft tokens move them even without a layer; nor is an admission that hangs on them."""
    draft = active_draft(case.scenario)
    if draft is None:
        return NOT_JUDGED
    empty = with_draft_shape(case.scenario, draft, replace(draft.shape, layers=(), index=None))
    without = plain_at_same_swa_rows(empty)
    if without is None:
        return NOT_JUDGED
    capped = pool_kind(case.scenario) == CAPPED_POOL
    fields = tuple(name for name in SIZE_FIELDS if not (capped and name == "swa_max_total_num_tokens"))
    plain_answer, empty_answer = case.ask(without), case.ask(empty)
    if capped and (hangs_on_swa_rows(plain_answer) or hangs_on_swa_rows(empty_answer)):
        return NOT_JUDGED
    return same_answers(plain_answer, empty_answer, "a draft of no layers, against no draft", fields)


def draft_matches_target(scenario: Scenario, draft: Draft) -> bool:
    """Whether each draft layer's own row costs what each target row costs on this rank: all target layers alike
    (hybrid and capped: the full layers; all-window: the SWA layers), every draft layer on those rows, no workspace
    shared by layers. Under DCP rows are compared before replication: MLA without an index, or one head on both sides.
    """
    shape = scenario.target
    wanted = {HYBRID_POOL: (FULL,), CAPPED_POOL: (FULL,), ALL_WINDOW_POOL: (SWA,)}.get(pool_kind(scenario), (FULL, SWA))
    target_rows = {
        target_layer_bytes(scenario, position) for position, kind in enumerate(shape.layers) if kind in wanted
    }
    kinds = draft.shape.layers
    draft_rows = {draft_layer_bytes(scenario, draft, position) for position in range(len(kinds))}
    shares_workspace = draft_workspace_bytes(scenario, draft) != 0 or (
        target_kv_dtype(scenario) == "nvfp4" and not isinstance(shape.full, Latent)
    )
    on_those_rows = not any(follows_swa_rows(scenario, draft, kind) for kind in kinds)
    return len(target_rows) == 1 and target_rows == draft_rows and on_those_rows and not shares_workspace


def exact_when_the_draft_matches_the_target(case: Case) -> Verdict:
    """Asks again with the geometry unresolved: the layer ratio must give the same sizes."""
    draft = active_draft(case.scenario)
    if draft is None or not draft_is_resolved(case.scenario) or isinstance(case.answer, Refusal):
        return NOT_JUDGED
    if not draft_matches_target(case.scenario, draft):
        return NOT_JUDGED
    unresolved = replace(case.scenario, draft=replace(draft, geometry_resolved=False))
    by_ratio = case.ask(unresolved)
    verdict = same_answers(case.answer, by_ratio, "the layer ratio, against the draft's own geometry")
    return unless_float(case, verdict, (case.scenario, case.answer), (unresolved, by_ratio))


def target_bytes(scenario: Scenario, stage: int, full_rows: int, swa_rows: int) -> int:
    """Bytes of the target's own rows on one rank of `stage`."""
    positions = stage_positions(scenario, stage)
    full_bytes, swa_bytes = target_full_row_bytes(scenario, positions), target_swa_row_bytes(scenario, positions)
    return full_rows * full_bytes + swa_rows * swa_bytes


def a_draft_only_shrinks_the_budget(case: Case) -> Verdict:
    """Compares with the plain answer (capped: at the same SWA rows)."""
    scenario, drafted = case.scenario, case.answer
    if isinstance(drafted, Refusal) or not draft_is_resolved(scenario) or not cap_keeps_swa_rows(scenario):
        return NOT_JUDGED
    without = plain_at_same_swa_rows(scenario)
    if active_draft(scenario) is None or without is None:
        return NOT_JUDGED
    alone = case.ask(without)
    return unless_float(case, shrinks(scenario, alone, drafted), (scenario, drafted), (without, alone))


def shrinks(scenario: Scenario, alone: Answer, drafted: PoolSizes) -> Verdict:
    """D3 of two exact answers, the plain one and the drafted one."""
    if isinstance(alone, Refusal):
        return Broken("refusal", "an answer without the draft, as there is one with it", alone.kind)
    for name in ROW_FIELDS[:2] if pool_kind(scenario) == CAPPED_POOL else ROW_FIELDS:
        if getattr(drafted, name) > getattr(alone, name):
            return Broken(name, f"at most the plain {getattr(alone, name)}", getattr(drafted, name))
    for stage in setting_stages(scenario):
        broken = lost_more_than_the_draft(scenario, alone, drafted, stage)
        if broken is not None:
            return broken
    return HOLDS


def lost_more_than_the_draft(scenario: Scenario, alone: PoolSizes, drafted: PoolSizes, stage: int) -> Broken | None:
    """On the rank that sets the drafted N, the target loses less than the draft's bytes and a page: default, mla and
    capped `P*(F + D)`, all-window `P*(S + D)`, hybrid `P*(F + r*S + D) + (r*N - swa)*S`."""
    kind, ratio = pool_kind(scenario), scenario.swa_full_tokens_ratio
    row_bytes = stage_row_bytes(scenario, stage)
    rows, swa_rows = drafted.max_total_num_tokens, drafted.swa_max_total_num_tokens
    capped = kind == CAPPED_POOL
    alone_swa_rows = swa_rows if capped else alone.swa_max_total_num_tokens
    lost = target_bytes(scenario, stage, alone.full_max_total_num_tokens, alone_swa_rows) - target_bytes(
        scenario, stage, drafted.full_max_total_num_tokens, swa_rows
    )
    slack = scenario.page_size * bytes_per_token(kind, row_bytes, ratio)
    if kind == HYBRID_POOL:
        slack += (ratio * rows - swa_rows) * row_bytes.swa
    taken = draft_bytes(scenario, stage, drafted)
    if lost >= taken + slack:
        return Broken("target bytes", f"less than {taken + slack} lost to a draft of {taken}", lost, f"stage {stage}")
    return None


def rebalanced_heads(geometry: Heads | None) -> list[Heads]:
    """Geometries with the same elements per row: heads halved and dims doubled, dims halved and heads doubled, K and
    V swapped."""
    if geometry is None:
        return []
    heads, head_dim, v_head_dim = geometry.num_kv_heads, geometry.head_dim, geometry.v_head_dim
    found = []
    if heads % 2 == 0:
        found.append(Heads(heads // 2, head_dim * 2, v_head_dim * 2))
    if head_dim % 2 == 0 and v_head_dim % 2 == 0:
        found.append(Heads(heads * 2, head_dim // 2, v_head_dim // 2))
    if head_dim != v_head_dim:
        found.append(Heads(heads, v_head_dim, head_dim))
    return found


def rebalanced_shapes(shape: AttentionShape) -> list[AttentionShape]:
    """Shapes whose rows have as many elements: full and SWA geometry each rebalanced, a latent shifted to its rope."""
    if isinstance(shape.full, Latent):
        latent = shape.full
        moved = Latent(latent.kv_lora_rank + latent.qk_rope_head_dim, 0)
        return [] if shape.index is not None else [replace(shape, full=moved)]
    swa_only = [replace(shape, swa=geometry) for geometry in rebalanced_heads(shape.swa)]
    full_only = [replace(shape, full=geometry) for geometry in rebalanced_heads(shape.full)]
    alike = rebalanced_heads(shape.full) if shape.full == shape.swa else []
    return full_only + swa_only + [replace(shape, full=geometry, swa=geometry) for geometry in alike]


def same_prices(scenario: Scenario, other: Scenario) -> bool:
    """Whether every stage prices F, S and D alike."""
    return all(stage_row_bytes(scenario, stage) == stage_row_bytes(other, stage) for stage in stages(scenario))


def rebalanced_scenarios(scenario: Scenario, draft: Draft) -> list[tuple[str, Scenario]]:
    """The scenario with other target or draft fields and as many elements a row."""
    swaps = [("the target's", replace(scenario, target=shape)) for shape in rebalanced_shapes(scenario.target)]
    swaps += [("the draft's", with_draft_shape(scenario, draft, shape)) for shape in rebalanced_shapes(draft.shape)]
    return swaps


def smallest_budget(sells: Callable[[int], bool], hint: int) -> int:
    """The fewest bytes for which `sells` is true (it never turns false again as bytes grow). `hint` is tried first."""
    if sells(hint) and not sells(hint - 1):
        return hint
    too_few, enough = 0, max(1, hint)
    while not sells(enough):
        too_few, enough = enough, enough * 2
        if enough > AMPLE_BYTES:
            return enough
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if sells(middle) else (middle, enough)
    return enough


def observed_price(case: Case, scenario: Scenario, rows: int) -> int:
    """The fewest bytes on the last stage, where the draft lives, for which the implementation sells `rows` rows."""
    last = scenario.deployment.pp_size - 1
    uncapped = replace(scenario, max_total_tokens=None)
    row_bytes = stage_row_bytes(scenario, last)
    kind = pool_kind(scenario)
    swa_bytes = capped_swa_rows(scenario) * row_bytes.swa if kind == CAPPED_POOL else 0

    def sells(available: int) -> bool:
        answer = case.ask(with_budget(uncapped, (AMPLE_BYTES,) * last + (available,)))
        return isinstance(answer, PoolSizes) and answer.max_total_num_tokens >= rows

    cell = bytes_per_token(kind, row_bytes, scenario.swa_full_tokens_ratio)
    return smallest_budget(sells, math.ceil(rows * cell) + swa_bytes)


def one_layer_deeper(scenario: Scenario, draft: Draft) -> Scenario | None:
    """The scenario with one more draft layer on full rows, None where the draft has no such layer to repeat."""
    for kind in draft.shape.layers:
        if kind != LINEAR and not follows_swa_rows(scenario, draft, kind):
            return with_draft_shape(scenario, draft, replace(draft.shape, layers=(*draft.shape.layers, kind)))
    return None


def the_draft_is_priced_by_its_own_geometry(case: Case) -> Verdict:
    """Swaps fields that leave bytes per row unchanged (looked at only where sizes differ), then adds a draft layer and
    observes by how much the price of the sold rows moves: by the draft's term and nothing else."""
    scenario, answer = case.scenario, case.answer
    draft = active_draft(scenario)
    if isinstance(answer, Refusal) or draft is None or not draft_is_resolved(scenario):
        return NOT_JUDGED
    for whose, other in rebalanced_scenarios(scenario, draft):
        if not case.can_ask(other):
            continue
        swapped = case.ask(other)
        verdict = same_answers(answer, swapped, f"{whose} fields swapped, bytes per row unchanged")
        verdict = unless_float(case, verdict, (scenario, answer), (other, swapped))
        if verdict is not HOLDS and same_prices(scenario, other):
            return verdict
    deeper = one_layer_deeper(scenario, draft)
    if deeper is None:
        return HOLDS
    last, rows = scenario.deployment.pp_size - 1, answer.max_total_num_tokens
    expected = rows * (stage_row_bytes(deeper, last).draft - stage_row_bytes(scenario, last).draft)
    moved = observed_price(case, deeper, rows) - observed_price(case, scenario, rows)
    if abs(moved - expected) > may_need_a_byte_more(case, scenario):
        return Broken("draft term", f"{expected} bytes for {rows} rows of one more draft layer", moved)
    return HOLDS
