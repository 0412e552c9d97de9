"""The first equations of a budget: KV heads of a rank, bytes of a row in one layer, bytes of a row over all layers."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from spec.cell import index_row_bytes, layer_row_bytes, pool_geometry, stage_positions, workspace_row_bytes
from spec.draft import follows_swa_rows
from spec.dtypes import (
    FP4_BLOCK,
    FP4_DTYPES,
    MXFP8_BLOCK,
    RAW_LATENT_BACKENDS,
    SPARSE_BLOCK,
    SPARSE_SCALE_BYTES,
    STORAGE_BITS,
    draft_backend,
    draft_kv_dtype,
    target_kv_dtype,
)
from spec.explain.wording import number_text
from spec.layers import (
    WINDOW_POOLS,
    draft_head_ranks,
    draft_lives_on,
    heads_per_rank,
    pool_kind,
    target_head_ranks,
)
from spec.model import FROZEN_KV_MTP, FULL, LINEAR, MTP, SWA, AttentionShape, Heads, Latent, Scenario, active_draft


@dataclass(frozen=True)
class Equation:
    """One term. section: where it is printed; name: its letter or name; meaning: in words; formula, numbers: right of
    the equals sign; value, unit; source: the function of `spec/` that returned the value."""

    section: str
    name: str
    meaning: str
    formula: str
    numbers: str
    value: int | Fraction
    unit: str
    source: str


@dataclass(frozen=True)
class Term:
    """One summand: how many rows of that many bytes."""

    name: str
    count: int
    row_bytes: int


@dataclass(frozen=True)
class Model:
    """One model as a rank stores it. owner: target or draft."""

    owner: str
    shape: AttentionShape
    ranks: int
    dtype: str
    backend: str


def models(scenario: Scenario) -> list[Model]:
    """The target, and the draft in use."""
    deployment = scenario.deployment
    found = [
        Model(
            "target",
            scenario.target,
            target_head_ranks(deployment),
            target_kv_dtype(scenario),
            scenario.attention_backend,
        )
    ]
    draft = active_draft(scenario)
    if draft is not None:
        dtype = draft_kv_dtype(scenario, draft)
        found.append(Model("draft", draft.shape, draft_head_ranks(deployment), dtype, draft_backend(scenario, draft)))
    return found


def heads_row(heads: int, geometry: Heads, dtype: str) -> tuple[str, str]:
    """K and V of every head, and the scales of block formats: the formula in names and in numbers."""
    wide = f"({geometry.head_dim} + {geometry.v_head_dim})"
    formula, numbers = "heads * (head_dim + v_head_dim) * bits // 8", f"{heads} * {wide} * {STORAGE_BITS[dtype]} // 8"
    block = MXFP8_BLOCK if dtype == "mxfp8" else FP4_BLOCK if dtype in FP4_DTYPES else None
    if block is None:
        return formula, numbers
    scales = f"{heads} * ({geometry.head_dim} // {block} + {geometry.v_head_dim} // {block})"
    return f"{formula} + heads * (head_dim // {block} + v_head_dim // {block})", f"{numbers} + {scales}"


def latent_row(geometry: Latent, dtype: str, *, is_scaled: bool) -> tuple[str, str]:
    """One latent, with the scales that fp4 and sparse fp8 rows carry."""
    rank, rope = geometry.kv_lora_rank, geometry.qk_rope_head_dim
    if is_scaled:
        scale = f"// {SPARSE_BLOCK} * {SPARSE_SCALE_BYTES}"
        return (
            f"kv_lora_rank + kv_lora_rank {scale} + qk_rope_head_dim * 2",
            f"{rank} + {rank} {scale} + {rope} * 2",
        )
    formula, numbers = (
        "(kv_lora_rank + qk_rope_head_dim) * bits // 8",
        f"({rank} + {rope}) * {STORAGE_BITS[dtype]} // 8",
    )
    if dtype not in FP4_DTYPES:
        return formula, numbers
    scales = f"// {FP4_BLOCK}"
    return f"{formula} + (kv_lora_rank + qk_rope_head_dim) {scales}", f"{numbers} + ({rank} + {rope}) {scales}"


def index_row(shape: AttentionShape, head_dim: int, buffers: int) -> tuple[str, str]:
    """The row of the indexer of a layer that owns one."""
    if isinstance(shape.full, Latent):
        scale = f"// {SPARSE_BLOCK} * {SPARSE_SCALE_BYTES}"
        return f"index_head_dim + index_head_dim {scale}", f"{head_dim} + {head_dim} {scale}"
    return "buffers * index_head_dim * bits // 8", f"{buffers} * {head_dim} * {STORAGE_BITS[shape.model_dtype]} // 8"


def kind_rows(model: Model, kind: str) -> Iterator[Equation]:
    """Heads of a rank and bytes of a row, for one kind of layer the model has."""
    geometry = model.shape.swa if kind == SWA else model.shape.full
    where = f"{model.owner}, {kind} layer"
    row_bytes = layer_row_bytes(model.shape, kind, model.ranks, model.dtype, model.backend)
    if isinstance(geometry, Heads):
        heads = heads_per_rank(geometry.num_kv_heads, model.ranks)
        yield Equation(
            "One row in one layer",
            f"{model.owner} {kind} heads",
            f"KV heads of a rank, {where}",
            "max(1, num_kv_heads // ranks)",
            f"max(1, {geometry.num_kv_heads} // {model.ranks})",
            heads,
            "heads",
            "layers.heads_per_rank",
        )
        formula, numbers = heads_row(heads, geometry, model.dtype)
        source = "cell.heads_row_bytes"
    else:
        assert isinstance(geometry, Latent)
        is_sparse = model.shape.index is not None
        is_scaled = is_sparse and model.dtype == "fp8_e4m3" and model.backend not in RAW_LATENT_BACKENDS
        formula, numbers = latent_row(geometry, model.dtype, is_scaled=is_scaled)
        source = "cell.sparse_row_bytes" if is_sparse else "cell.latent_row_bytes"
    name = f"{model.owner} {kind} row"
    yield Equation(
        "One row in one layer", name, f"{where}, {model.dtype}", formula, numbers, row_bytes, "bytes", source
    )


def model_rows(model: Model) -> Iterator[Equation]:
    """Every row of one model: each kind of layer, its indexer, its workspace."""
    shape = model.shape
    for kind in (FULL, SWA):
        if kind in shape.layers:
            yield from kind_rows(model, kind)
    if shape.index is not None:
        formula, numbers = index_row(shape, shape.index.head_dim, 2 if shape.index.stores_values else 1)
        row_bytes = index_row_bytes(shape, shape.index)
        name = f"{model.owner} index row"
        meaning = f"{model.owner}, a layer that owns an indexer"
        yield Equation(
            "One row in one layer", name, meaning, formula, numbers, row_bytes, "bytes", "cell.index_row_bytes"
        )
    geometry = pool_geometry(shape)
    workspace = workspace_row_bytes(geometry, model.ranks, model.dtype)
    if workspace and isinstance(geometry, Heads):
        heads = heads_per_rank(geometry.num_kv_heads, model.ranks)
        yield Equation(
            "One row in one layer",
            f"{model.owner} workspace row",
            f"{model.owner}, fp8 rows that all layers of a pool share",
            "heads * (head_dim + v_head_dim)",
            f"{heads} * ({geometry.head_dim} + {geometry.v_head_dim})",
            workspace,
            "bytes",
            "cell.workspace_row_bytes",
        )


def layer_terms(model: Model, kinds: tuple[str, ...], positions: list[int], pools: int, index_rows: int) -> list[Term]:
    """The summands of one row over the layers at `positions` whose kind is in `kinds`. pools: how many share a
    workspace each; index_rows: rows of an index for one row of a layer."""
    shape = model.shape
    held = [position for position in positions if shape.layers[position] in kinds]
    terms = []
    for kind in kinds:
        count = sum(shape.layers[position] == kind for position in held)
        row_bytes = layer_row_bytes(shape, kind, model.ranks, model.dtype, model.backend)
        terms.append(Term(f"{kind} layers * {model.owner} {kind} row", count, row_bytes))
    if shape.index is not None:
        owning = len(set(held) & set(shape.index.layers))
        row_bytes = index_row_bytes(shape, shape.index) * index_rows
        times = f" * {index_rows} dcp" if index_rows > 1 else ""
        terms.append(Term(f"index layers * {model.owner} index row{times}", owning, row_bytes))
    workspace = workspace_row_bytes(pool_geometry(shape), model.ranks, model.dtype)
    if workspace and held:
        terms.append(Term(f"pools * {model.owner} workspace row", pools, workspace))
    return [term for term in terms if term.count]


def target_terms(scenario: Scenario, stage: int) -> tuple[list[Term], list[Term]]:
    """The summands of F, and of the target's part of S. An index is kept whole on every DCP rank."""
    model, positions = models(scenario)[0], list(stage_positions(scenario, stage))
    dcp = scenario.deployment.attn_dcp_size
    if pool_kind(scenario) in WINDOW_POOLS:
        return layer_terms(model, (FULL,), positions, 1, dcp), layer_terms(model, (SWA,), positions, 1, dcp)
    return layer_terms(model, (FULL, SWA), positions, 1, dcp), []


def draft_terms(scenario: Scenario, stage: int) -> tuple[list[Term], list[Term]]:
    """The summands of D and of the draft's part of S, before DCP. None where the draft does not live or writes no
    rows."""
    draft = active_draft(scenario)
    lives = draft is not None and draft_lives_on(scenario.deployment, stage)
    if draft is None or not lives or scenario.speculative_algorithm == FROZEN_KV_MTP:
        return [], []
    model, kinds = models(scenario)[1], draft.shape.layers
    held = [position for position, kind in enumerate(kinds) if kind != LINEAR]
    follows = [position for position in held if follows_swa_rows(scenario, draft, kinds[position])]
    pools = len(held) if scenario.speculative_algorithm == MTP else 1
    own = [position for position in held if position not in follows]
    return layer_terms(model, (FULL, SWA), own, pools, 1), layer_terms(model, (SWA,), follows, 0, 1)


def sum_of(terms: list[Term], times: int = 1) -> tuple[str, str]:
    """Summands as a formula in names and in numbers; `times` is the DCP ranks a row is kept on."""
    formula = " + ".join(term.name for term in terms) or "0"
    numbers = " + ".join(f"{term.count} * {number_text(term.row_bytes)}" for term in terms) or "0"
    if times == 1 or not terms:
        return formula, numbers
    return f"dcp * ({formula})", f"{times} * ({numbers})"
