"""B3, B6, B7, B8: one budget beside another."""

import math
from dataclasses import replace
from fractions import Fraction

from spec.accounting import sold_bytes
from spec.budget import available_bytes
from spec.capped import cap_keeps_swa_rows, capped_swa_rows
from spec.dtypes import KV_CACHE_DTYPES, STORAGE_BITS, draft_kv_dtype, target_kv_dtype
from spec.laws.base import (
    HOLDS,
    NOT_JUDGED,
    ROW_FIELDS,
    Broken,
    Case,
    Verdict,
    draft_is_resolved,
    same_answers,
    stages,
    with_budget,
    with_draft_shape,
)
from spec.laws.floats import unless_float
from spec.layers import CAPPED_POOL, HYBRID_POOL, layers_of_stage, pool_kind
from spec.model import (
    FULL,
    SWA,
    AttentionShape,
    Heads,
    Latent,
    PoolSizes,
    Refusal,
    Scenario,
    active_draft,
)
from spec.pools import bytes_per_token, stage_row_bytes

SCALES = (2, 3)
"""Factors by which bytes and rows grow together."""


def rows_sold(answer: PoolSizes | Refusal) -> int | None:
    """N of an answer; 0 of a refusal for want of a page; None of a refusal after the solve step."""
    if isinstance(answer, PoolSizes):
        return answer.max_total_num_tokens
    return 0 if answer.kind in ("no_page_fits", "swa_pool_leaves_no_room") else None


def price_of_size(scenario: Scenario, rows: int) -> tuple[int, ...]:
    """`ceil(N * cell)` bytes on each stage (capped: and its fixed SWA pool), at least the byte a stage must have."""
    kind = pool_kind(scenario)
    prices = []
    for stage in stages(scenario):
        row_bytes = stage_row_bytes(scenario, stage)
        paid = capped_swa_rows(scenario) * row_bytes.swa if kind == CAPPED_POOL else 0
        cell = bytes_per_token(kind, row_bytes, scenario.swa_full_tokens_ratio)
        prices.append(max(1, paid + math.ceil(rows * cell)))
    return tuple(prices)


def cheapest_page(scenario: Scenario) -> int | Fraction:
    """`P * cell` on the rank where it is least, in bytes."""
    kind, ratio = pool_kind(scenario), scenario.swa_full_tokens_ratio
    return min(
        scenario.page_size * bytes_per_token(kind, stage_row_bytes(scenario, stage), ratio)
        for stage in stages(scenario)
    )


def sizing_inverts_pricing(case: Case) -> Verdict:
    """Default, mla, all-window, capped: the bytes of the size buy it again. Hybrid: `ceil(N * cell)` buys N, a byte
    less N - P, and the *allocated* bytes never more than N; they may buy less: at r = 4/5, F = S = 1, P = 1 the size
    (2, 1) costs 3 bytes, and 3 bytes solve to (1, 0)."""
    scenario, answer = case.scenario, case.answer
    if isinstance(answer, Refusal) or not draft_is_resolved(scenario):
        return NOT_JUDGED
    uncapped, rows = replace(scenario, max_total_tokens=None), answer.max_total_num_tokens
    kind = pool_kind(scenario)
    if kind == CAPPED_POOL and answer.swa_max_total_num_tokens != capped_swa_rows(scenario):
        return NOT_JUDGED
    price = price_of_size(scenario, rows)
    priced = with_budget(uncapped, price)
    again = case.ask(priced)
    verdict = same_answers(answer, again, f"sized from {price} bytes", ROW_FIELDS)
    verdict = unless_float(case, verdict, (scenario, answer), (priced, again))
    if verdict is not HOLDS or kind != HYBRID_POOL:
        return verdict
    return hybrid_inverts_pricing(case, uncapped, answer, price)


def hybrid_inverts_pricing(case: Case, uncapped: Scenario, answer: PoolSizes, price: tuple[int, ...]) -> Verdict:
    """The two other clauses of a hybrid pool."""
    rows, page_size = answer.max_total_num_tokens, uncapped.page_size
    if cheapest_page(uncapped) >= 1:
        fewer = rows_sold(case.ask(with_budget(uncapped, tuple(stage_bytes - 1 for stage_bytes in price))))
        if fewer is not None and fewer != rows - page_size:
            return Broken("max_total_num_tokens", rows - page_size, fewer, "a byte less than the price of the size")
    allocated = tuple(max(1, sold_bytes(uncapped, answer, stage)) for stage in stages(uncapped))
    again = rows_sold(case.ask(with_budget(uncapped, allocated)))
    if again is not None and again > rows:
        return Broken("max_total_num_tokens", f"at most {rows}", again, "sized from the allocated bytes")
    return HOLDS


def dearer_heads(heads: Heads | None) -> list[Heads]:
    """More heads, wider K, wider V, by whole blocks of every format."""
    if heads is None:
        return []
    return [
        replace(heads, num_kv_heads=heads.num_kv_heads * 2),
        replace(heads, head_dim=heads.head_dim + 32),
        replace(heads, v_head_dim=heads.v_head_dim + 32),
        replace(heads, head_dim=heads.head_dim + 32, v_head_dim=heads.v_head_dim + 32),
    ]


def dearer_shapes(shape: AttentionShape) -> list[AttentionShape]:
    """More heads, wider heads or a wider latent, one more layer of each kind there is."""
    if isinstance(shape.full, Latent):
        shapes = [replace(shape, full=replace(shape.full, kv_lora_rank=shape.full.kv_lora_rank + 128))]
    else:
        shapes = [replace(shape, full=full) for full in dearer_heads(shape.full)]
        shapes += [replace(shape, swa=swa) for swa in dearer_heads(shape.swa)]
    deeper = [replace(shape, layers=(*shape.layers, kind)) for kind in (FULL, SWA) if kind in shape.layers]
    return shapes + deeper


def wider_dtypes(dtype: str) -> list[str]:
    """KV dtypes to ask for whose rows are at least as wide; scales may tip the balance either way."""
    explicit = [asked for asked in KV_CACHE_DTYPES if asked not in ("auto", dtype)]
    return [asked for asked in explicit if STORAGE_BITS[asked] >= STORAGE_BITS[dtype]]


def dearer_scenarios(scenario: Scenario) -> list[tuple[str, Scenario]]:
    """Scenarios in which something costs more: target or draft geometry, storage, replication."""
    deployment, draft = scenario.deployment, active_draft(scenario)
    found = [("target geometry", replace(scenario, target=shape)) for shape in dearer_shapes(scenario.target)]
    wider = wider_dtypes(target_kv_dtype(scenario))
    found += [("kv_cache_dtype", replace(scenario, kv_cache_dtype=dtype)) for dtype in wider]
    more_ranks = replace(deployment, attn_dcp_size=2 * deployment.attn_dcp_size)
    fewer_splits = replace(deployment, attn_dp_size=2 * deployment.attn_dp_size)
    found += [("replication", replace(scenario, deployment=changed)) for changed in (more_ranks, fewer_splits)]
    if draft is None:
        return found
    found.append(("draft on every stage", replace(scenario, deployment=replace(deployment, draft_on_every_stage=True))))
    found += [("draft geometry", with_draft_shape(scenario, draft, shape)) for shape in dearer_shapes(draft.shape)]
    wider = wider_dtypes(draft_kv_dtype(scenario, draft))
    found += [("draft dtype", replace(scenario, draft=replace(draft, kv_cache_dtype=dtype))) for dtype in wider]
    return found


def row_prices(scenario: Scenario) -> list[tuple[int, int, int]]:
    """F, S and D of every stage."""
    prices = (stage_row_bytes(scenario, stage) for stage in stages(scenario))
    return [(row_bytes.full, row_bytes.swa, row_bytes.draft) for row_bytes in prices]


def keeps_swa_rows(scenario: Scenario, other: Scenario) -> bool:
    """One count of SWA rows: more replicas leave a replica fewer requests, and a capped pool fewer SWA rows."""
    return pool_kind(scenario) != CAPPED_POOL or capped_swa_rows(other) == capped_swa_rows(scenario)


def costs_no_less(before: list[tuple[int, int, int]], after: list[tuple[int, int, int]]) -> bool:
    """Whether F, S and D of every stage are each as dear or dearer, and something is."""
    pairs = [pair for stage in zip(before, after, strict=True) for pair in zip(*stage, strict=True)]
    return all(old <= new for old, new in pairs) and any(old < new for old, new in pairs)


def nothing_that_costs_helps(case: Case) -> Verdict:
    """Asks again with dearer geometry, storage and replication. A layer more moves the layer-to-stage map; it counts
    where every stage's rows stay as dear or get dearer. Only valid scenarios are asked about; the rest of the premise
    is looked at where rows rise."""
    scenario, answer = case.scenario, case.answer
    if isinstance(answer, Refusal) or not draft_is_resolved(scenario) or not cap_keeps_swa_rows(scenario):
        return NOT_JUDGED
    for what, dearer in dearer_scenarios(scenario):
        if not case.can_ask(dearer):
            continue
        risen = risen_rows(answer, case.ask(dearer), f"dearer {what}")
        if risen is None or not keeps_swa_rows(scenario, dearer):
            continue
        if costs_no_less(row_prices(scenario), row_prices(dearer)):
            return risen
    return HOLDS


def risen_rows(before: PoolSizes, after: PoolSizes | Refusal, where: str) -> Broken | None:
    """The first pool whose rows rose; a refusal raises none."""
    if isinstance(after, Refusal):
        return None
    for name in ROW_FIELDS:
        if getattr(after, name) > getattr(before, name):
            return Broken(name, f"at most {getattr(before, name)}", getattr(after, name), where)
    return None


def repeated(shape: AttentionShape, scale: int) -> AttentionShape:
    """Every layer `scale` times in its place."""
    layers = tuple(kind for kind in shape.layers for _ in range(scale))
    index = shape.index and replace(
        shape.index,
        layers=tuple(scale * position + copy for position in shape.index.layers for copy in range(scale)),
    )
    return replace(shape, layers=layers, index=index)


def widened(shape: AttentionShape, scale: int) -> AttentionShape:
    """Every dim `scale` times as wide."""
    index = shape.index and replace(shape.index, head_dim=scale * shape.index.head_dim)
    swa = shape.swa and wider_heads(shape.swa, scale)
    if isinstance(shape.full, Latent):
        latent = Latent(scale * shape.full.kv_lora_rank, scale * shape.full.qk_rope_head_dim)
        return replace(shape, full=latent, index=index)
    return replace(shape, full=shape.full and wider_heads(shape.full, scale), swa=swa, index=index)


def wider_heads(heads: Heads, scale: int) -> Heads:
    """K and V `scale` times as wide."""
    return replace(heads, head_dim=scale * heads.head_dim, v_head_dim=scale * heads.v_head_dim)


def scaled_scenarios(scenario: Scenario, scale: int) -> list[Scenario]:
    """The layers repeated, and the dims widened, on `scale` times the bytes."""
    draft = active_draft(scenario)
    stage_bytes = tuple(scale * available for available in available_bytes(scenario))
    found = []
    for grow in (repeated, widened):
        larger = replace(scenario, target=grow(scenario.target, scale), budget=stage_bytes)
        found.append(larger if draft is None else with_draft_shape(larger, draft, grow(draft.shape, scale)))
    return found


def scales_every_price(scenario: Scenario, other: Scenario, scale: int) -> bool:
    """Whether F, S and D of every stage are `scale` times as dear: the stage map is kept, and no workspace is
    shared by more layers."""
    scaled = [(scale * full, scale * swa, scale * draft) for full, swa, draft in row_prices(scenario)]
    return row_prices(other) == scaled


def bytes_scale_out(case: Case) -> Verdict:
    """Asks again with bytes and rows two and three times as large. The premise is only looked at where sizes differ."""
    scenario = case.scenario
    if isinstance(case.answer, Refusal) or not draft_is_resolved(scenario):
        return NOT_JUDGED
    for scale in SCALES:
        for larger in filter(case.can_ask, scaled_scenarios(scenario, scale)):
            answer = case.ask(larger)
            verdict = same_answers(case.answer, answer, f"bytes and rows times {scale}")
            verdict = unless_float(case, verdict, (scenario, case.answer), (larger, answer))
            if verdict is not HOLDS and scales_every_price(scenario, larger, scale):
                return verdict
    return HOLDS


def reordered(shape: AttentionShape, order: list[int]) -> AttentionShape:
    """The layers in another order, each with the index it owns: position i is what `order[i]` was."""
    index = shape.index and replace(
        shape.index, layers=tuple(new for new, old in enumerate(order) if old in shape.index.layers)
    )
    return replace(shape, layers=tuple(shape.layers[old] for old in order), index=index)


def orders_within_stages(shape: AttentionShape, pp_size: int) -> list[list[int]]:
    """Two other orders of the layers, each layer on its stage: reversed, and grouped by kind."""
    held = [list(layers_of_stage(len(shape.layers), pp_size, stage)) for stage in range(pp_size)]
    backwards = [position for stage in held for position in reversed(stage)]
    grouped = [position for stage in held for position in sorted(stage, key=lambda old: (shape.layers[old], old % 2))]
    return [backwards, grouped]


def layers_are_a_sum(case: Case) -> Verdict:
    """Asks again with the layers of each stage, and those of the draft, reversed and grouped by kind."""
    scenario, draft = case.scenario, active_draft(case.scenario)
    for order in orders_within_stages(scenario.target, scenario.deployment.pp_size):
        other = replace(scenario, target=reordered(scenario.target, order))
        verdict = same_answers(case.answer, case.ask(other), "the target's layers in another order")
        if verdict is not HOLDS:
            return verdict
    if draft is None:
        return HOLDS
    for order in orders_within_stages(draft.shape, 1):
        other = with_draft_shape(scenario, draft, reordered(draft.shape, order))
        verdict = same_answers(case.answer, case.ask(other), "the draft's layers in another order")
        if verdict is not HOLDS:
            return verdict
    return HOLDS
