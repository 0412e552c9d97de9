"""KV dtypes of a cell: what the server and the draft ask for, on which backends, with which checkpoints.

All combinations are written out and sorted by what the spec resolves them to, so that a cell draws only those whose
draft has the target's dtype (`same`) or another (`other`).
"""

from dataclasses import dataclass
from functools import cache
from itertools import product

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from properties.cells import DRAFTS, Cell
from spec.dtypes import (
    FP4_BLOCK,
    FP4_DTYPES,
    MODEL_DTYPES,
    MXFP8_BLOCK,
    draft_kv_dtype,
    target_kv_dtype,
)
from spec.layers import DEFAULT_POOL, MLA_POOL, WINDOW_POOLS
from spec.model import AttentionShape, Draft, Scenario

WINDOW_DTYPES = ("auto", "bf16", "fp8_e4m3", "fp8_e5m2", "mxfp8")
ALL_DTYPES = (*WINDOW_DTYPES, "fp4_mx_block16", "nvfp4")
SPARSE_DTYPES = ("auto", "bf16", "fp8_e4m3", "fp8_e5m2")
BACKENDS = ("flashinfer", "fa3", "fa4")
SPARSE_BACKENDS = ("flashmla", "trtllm", "tilelang", "flashinfer")
DRAFT_BACKENDS = (None, "flashinfer", "fa4")
CHECKPOINTS = (None, "fp8_e4m3")


@dataclass(frozen=True)
class DtypeChoice:
    """One combination, and the storage dtypes it resolves to. `draft_dtypes` are the draft's before and after its
    weights are loaded; two of them make a dtype that cannot be resolved at start-up."""

    asked: str
    backend: str
    model_dtype: str
    checkpoint: str | None
    is_sparse: bool
    target_dtype: str
    draft_asked: str | None = None
    draft_backend: str | None = None
    draft_model_dtype: str = "bf16"
    draft_checkpoint: str | None = None
    draft_dtypes: tuple[str, ...] = ()

    @property
    def all_dtypes(self) -> tuple[str, ...]:
        """Every storage dtype a geometry of this scenario may have to fit."""
        return (self.target_dtype, *self.draft_dtypes)


@dataclass(frozen=True)
class CellPart:
    """What of a cell its dtypes depend on: 55 combinations instead of 357 cells."""

    pool: str
    draft: str
    draft_dtype: str


def element_block(dtypes: tuple[str, ...]) -> int:
    """Elements a dim must be a multiple of for every one of `dtypes`: the larger block is a multiple of the other."""
    if "mxfp8" in dtypes:
        return MXFP8_BLOCK
    return FP4_BLOCK if needs_equal_dims(dtypes) else 1


def needs_equal_dims(dtypes: tuple[str, ...]) -> bool:
    """FP4 needs V as wide as K."""
    return any(dtype in FP4_DTYPES for dtype in dtypes)


def target_choices(pool: str, *, is_sparse: bool) -> list[DtypeChoice]:
    """Every combination for the target alone. A model dtype other than bf16 and a quantized checkpoint only matter,
    and are only drawn, under `auto`."""
    asked_dtypes = WINDOW_DTYPES if pool in WINDOW_POOLS else SPARSE_DTYPES if is_sparse else ALL_DTYPES
    backends = SPARSE_BACKENDS if is_sparse and pool == MLA_POOL else BACKENDS
    choices = []
    for asked, backend, model_dtype, checkpoint in product(asked_dtypes, backends, MODEL_DTYPES, CHECKPOINTS):
        if asked != "auto" and (model_dtype, checkpoint) != ("bf16", None):
            continue
        if asked == "nvfp4" and pool == DEFAULT_POOL and backend != "flashinfer":
            continue
        shape = AttentionShape((), None, model_dtype=model_dtype, kv_checkpoint_dtype=checkpoint)
        resolved = target_kv_dtype(Scenario(shape, (), kv_cache_dtype=asked))
        choices.append(DtypeChoice(asked, backend, model_dtype, checkpoint, is_sparse, resolved))
    return choices


def draft_dtypes(part: CellPart, target: DtypeChoice, draft: Draft) -> tuple[str, ...]:
    """What the draft's dtype resolves to before and, where that differs, after its weights are loaded."""
    scenario = Scenario(
        AttentionShape((), None),
        (),
        kv_cache_dtype=target.asked,
        attention_backend=target.backend,
        speculative_algorithm=DRAFTS[part.draft],
    )
    before = draft_kv_dtype(scenario, draft)
    after = draft_kv_dtype(scenario, draft, model_is_loaded=True)
    return (before,) if before == after else (before, after)


def fits_the_pools(part: CellPart, target: DtypeChoice, dtypes: tuple[str, ...], backend: str) -> bool:
    """Whether the draft's pools exist in `dtypes`: no FP4 beside window pools, nvfp4 on flashinfer, and no block
    scales for a draft that takes a sparse target's geometry."""
    fp4 = any(dtype in FP4_DTYPES for dtype in dtypes)
    if fp4 and part.pool in WINDOW_POOLS:
        return False
    if "nvfp4" in dtypes and backend != "flashinfer":
        return False
    return not (target.is_sparse and (fp4 or "mxfp8" in dtypes))


def drafted_choices(part: CellPart, target: DtypeChoice) -> list[DtypeChoice]:
    """Every combination of this target with a draft whose dtype is the same, or another, as the cell says."""
    asked_dtypes = (None, *(WINDOW_DTYPES if part.pool in WINDOW_POOLS else ALL_DTYPES))
    choices = []
    for asked, backend, model_dtype, checkpoint in product(asked_dtypes, DRAFT_BACKENDS, MODEL_DTYPES, CHECKPOINTS):
        shape = AttentionShape((), None, model_dtype=model_dtype, kv_checkpoint_dtype=checkpoint)
        dtypes = draft_dtypes(part, target, Draft(shape, kv_cache_dtype=asked, attention_backend=backend))
        wanted = (dtypes[0] == target.target_dtype) == (part.draft_dtype == "same")
        if wanted and fits_the_pools(part, target, dtypes, backend or target.backend):
            choices.append(
                DtypeChoice(
                    target.asked,
                    target.backend,
                    target.model_dtype,
                    target.checkpoint,
                    target.is_sparse,
                    target.target_dtype,
                    asked,
                    backend,
                    model_dtype,
                    checkpoint,
                    dtypes,
                )
            )
    return choices


@cache
def choices_by_kind(part: CellPart) -> tuple[SearchStrategy[DtypeChoice], ...]:
    """The choices of a cell, grouped so that rare kinds are drawn as often as common ones: by what the server asks,
    by sparseness, and by whether the draft's dtype can be resolved."""
    groups: dict[tuple[object, ...], list[DtypeChoice]] = {}
    for is_sparse in (False, True) if part.pool in (DEFAULT_POOL, MLA_POOL) else (False,):
        for target in target_choices(part.pool, is_sparse=is_sparse):
            drafted = [target] if part.draft == "none" else drafted_choices(part, target)
            for choice in drafted:
                kind = (is_sparse, choice.asked, len(choice.draft_dtypes), choice.draft_asked)
                groups.setdefault(kind, []).append(choice)
    return tuple(st.sampled_from(group) for group in groups.values())


@cache
def dtype_choices(cell: Cell) -> SearchStrategy[SearchStrategy[DtypeChoice]]:
    """First a kind of choice, then one of that kind."""
    return st.sampled_from(choices_by_kind(CellPart(cell.pool, cell.draft, cell.draft_dtype)))
