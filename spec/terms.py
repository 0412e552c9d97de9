"""Every intermediate number of one budget, in the order in which it is worked out, for a reader to follow.

Nothing is computed here that another file does not compute: each number is what a formula of the table in
`spec/__init__.py` returns, or a buffer of `spec/accounting.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from spec.accounting import Buffer, stage_buffers
from spec.budget import available_bytes
from spec.capped import capped_swa_rows
from spec.cell import stage_positions
from spec.dtypes import draft_backend, draft_kv_dtype, target_kv_dtype
from spec.layers import (
    CAPPED_POOL,
    WINDOW_POOLS,
    draft_head_ranks,
    draft_lives_on,
    heads_per_rank,
    pool_kind,
    target_head_ranks,
)
from spec.model import (
    FULL,
    LAYER_KINDS,
    SWA,
    AttentionShape,
    Heads,
    Latent,
    PoolSizes,
    Refusal,
    Refused,
    Scenario,
    active_draft,
)
from spec.pools import (
    admission_floor,
    bytes_per_token,
    capped_rows,
    pool_rows,
    request_length,
    rows_that_fit,
    running_requests,
    stage_row_bytes,
)
from spec.validity import check_scenario


@dataclass(frozen=True)
class ModelTerms:
    """How one rank stores one model.

    owner: target or draft. dtype: the KV dtype it is priced in; loaded_dtype: the one it has with its weights.
    head_ranks: ranks its heads are split over. full_heads, swa_heads: KV heads on this rank, None where the model has
    no such layer or stores latents.
    """

    owner: str
    dtype: str
    loaded_dtype: str
    backend: str
    head_ranks: int
    full_heads: int | None
    swa_heads: int | None


@dataclass(frozen=True)
class StageTerms:
    """What one rank of a pipeline stage can hold.

    layers: how many of each kind it has of the target, draft_layers of the draft. available_bytes: A. full_row_bytes,
    swa_row_bytes, draft_row_bytes: F, S, D. token_bytes: the bytes per token ("cell"). paid_bytes: what the SWA rows of
    a capped pool cost beforehand. quotient: floor((A - paid) / cell), rows: the same in whole pages; None where the
    stage holds nothing that costs.
    """

    stage: int
    layers: tuple[tuple[str, int], ...]
    draft_layers: int
    available_bytes: int
    full_row_bytes: int
    swa_row_bytes: int
    draft_row_bytes: int
    token_bytes: int | Fraction
    paid_bytes: int
    quotient: int | None
    rows: int | None


@dataclass(frozen=True)
class AgreedTerms:
    """What every rank sells.

    rows: the smallest N of the stages; kept_rows: after the user cap. full_rows, swa_rows: of each pool.
    admission_floor: SWA rows that admit one request, None without window pools. running_requests, request_length: the
    limits, or the refusal where they are zero.
    """

    rows: int
    kept_rows: int
    full_rows: int
    swa_rows: int
    admission_floor: int | None
    running_requests: int | Refusal
    request_length: int | Refusal


@dataclass(frozen=True)
class BudgetTerms:
    """All of one budget. models: the target, and the draft in use."""

    pool_kind: str
    models: tuple[ModelTerms, ...]
    stages: tuple[StageTerms, ...]
    agreed: AgreedTerms


@dataclass(frozen=True)
class Part:
    """One kind of buffer over all layers of a pool that have it: bytes of one row, rows sold, bytes sold and spare."""

    owner: str
    pool: str
    name: str
    buffers: int
    row_bytes: Fraction
    rows: int
    sold_bytes: int
    spare_bytes: int


def kv_heads(geometry: Heads | Latent | None, held: bool, ranks: int) -> int | None:
    """Heads of one geometry on this rank, None where no layer has it or it has none to split."""
    return heads_per_rank(geometry.num_kv_heads, ranks) if held and isinstance(geometry, Heads) else None


def model_terms(owner: str, shape: AttentionShape, dtypes: tuple[str, str], backend: str, ranks: int) -> ModelTerms:
    """One model; `dtypes` are the one it is priced in and the one it has with its weights."""
    full = kv_heads(shape.full, FULL in shape.layers, ranks)
    return ModelTerms(owner, *dtypes, backend, ranks, full, kv_heads(shape.swa, SWA in shape.layers, ranks))


def models_of(scenario: Scenario) -> tuple[ModelTerms, ...]:
    """The target, and the draft in use."""
    dtype, ranks = target_kv_dtype(scenario), target_head_ranks(scenario.deployment)
    target = model_terms("target", scenario.target, (dtype, dtype), scenario.attention_backend, ranks)
    draft = active_draft(scenario)
    if draft is None:
        return (target,)
    dtypes = draft_kv_dtype(scenario, draft), draft_kv_dtype(scenario, draft, model_is_loaded=True)
    ranks = draft_head_ranks(scenario.deployment)
    return target, model_terms("draft", draft.shape, dtypes, draft_backend(scenario, draft), ranks)


def stage_terms(scenario: Scenario, stage: int, available: int) -> StageTerms:
    """One stage, whose available bytes are given."""
    kind, row_bytes, draft = pool_kind(scenario), stage_row_bytes(scenario, stage), active_draft(scenario)
    held = [scenario.target.layers[position] for position in stage_positions(scenario, stage)]
    token_bytes = bytes_per_token(kind, row_bytes, scenario.swa_full_tokens_ratio)
    paid = capped_swa_rows(scenario) * row_bytes.swa if kind == CAPPED_POOL else 0
    costs = token_bytes > 0
    return StageTerms(
        stage=stage,
        layers=tuple((layer_kind, held.count(layer_kind)) for layer_kind in LAYER_KINDS),
        draft_layers=len(draft.shape.layers) if draft is not None and draft_lives_on(scenario.deployment, stage) else 0,
        available_bytes=available,
        full_row_bytes=row_bytes.full,
        swa_row_bytes=row_bytes.swa,
        draft_row_bytes=row_bytes.draft,
        token_bytes=token_bytes,
        paid_bytes=paid,
        quotient=rows_that_fit(available - paid, token_bytes, 1) if costs else None,
        rows=rows_that_fit(available - paid, token_bytes, scenario.page_size) if costs else None,
    )


def limit(formula: Callable[[Scenario, int], int], scenario: Scenario, rows: int) -> int | Refusal:
    """A request limit, or the refusal where it is zero."""
    try:
        return formula(scenario, rows)
    except Refused as refused:
        return refused.refusal


def agreed_terms(scenario: Scenario, rows: int) -> AgreedTerms:
    """What every rank sells, from the smallest N of the stages."""
    kept = capped_rows(scenario, rows)
    full_rows, swa_rows = pool_rows(scenario, kept, below_cap=kept < rows)
    floor = None
    if pool_kind(scenario) in WINDOW_POOLS:
        floor = admission_floor(scenario.target.sliding_window_size or 0, scenario.page_size)
    requests, length = limit(running_requests, scenario, kept), limit(request_length, scenario, kept)
    return AgreedTerms(rows, kept, full_rows, swa_rows, floor, requests, length)


def budget_terms(scenario: Scenario) -> BudgetTerms | Refusal:
    """Every number up to the answer; a refusal where the scenario is not valid or no memory is left. A budget that is
    refused later shows where: rows below a page, or below the admission floor."""
    try:
        check_scenario(scenario)
        available = available_bytes(scenario)
    except Refused as refused:
        return refused.refusal
    stages = tuple(stage_terms(scenario, stage, stage_bytes) for stage, stage_bytes in enumerate(available))
    rows = min(terms.rows for terms in stages if terms.rows is not None)
    return BudgetTerms(pool_kind(scenario), models_of(scenario), stages, agreed_terms(scenario, rows))


def stage_parts(scenario: Scenario, sizes: PoolSizes, stage: int) -> tuple[Part, ...]:
    """What one rank of a stage allocates for `sizes`, buffers of one owner, pool and name together."""
    groups: dict[tuple[str, str, str], list[Buffer]] = {}
    for buffer in stage_buffers(scenario, sizes, stage):
        groups.setdefault((buffer.owner, buffer.pool, buffer.row.name), []).append(buffer)
    return tuple(
        Part(
            *group,
            buffers=len(buffers),
            row_bytes=sum((Fraction(one.row.elements * one.row.element_bits, 8) for one in buffers), Fraction(0)),
            rows=buffers[0].rows,
            sold_bytes=sum(one.sold_bytes for one in buffers),
            spare_bytes=sum(one.spare_bytes for one in buffers),
        )
        for group, buffers in groups.items()
    )
