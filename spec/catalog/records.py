"""What the catalog hands out: targets, drafts, pairs, and the models it cannot price."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from spec.model import AttentionShape, Draft


@dataclass(frozen=True)
class CatalogTarget:
    """A served model. window_pools: SGLang gives it window pools. kv_bytes_2_byte_tp1: published bytes per token of
    all layers, every layer at full length, 2-byte KV, tp 1, index rows left out."""

    name: str
    architecture: str
    shape: AttentionShape
    window_pools: bool
    kv_bytes_2_byte_tp1: int
    confidence: Mapping[str, str]
    sources: tuple[str, ...]
    note: str | None


@dataclass(frozen=True)
class CatalogDraft:
    """A speculative draft. for_target: the model it was made for, None where one training recipe serves several."""

    name: str
    kind: str
    speculative_algorithm: str
    for_target: str | None
    draft: Draft
    kv_bytes_2_byte_tp1: int
    confidence: Mapping[str, str]
    sources: tuple[str, ...]
    note: str | None


@dataclass(frozen=True)
class PairRow:
    """Published bytes per token of a pair on one rank, index rows of GLM-5.2 included, window layers times the ratio
    and rounded. draft_bytes is exact geometry, draft_bytes_by_layer_count the fallback."""

    tp_size: int
    target_bytes: int
    draft_bytes: int
    draft_bytes_by_layer_count: int
    total_bytes: int


@dataclass(frozen=True)
class CatalogPair:
    """A target with its draft as somebody serves or trains them. evidence: where the pairing was seen."""

    target: CatalogTarget
    draft_name: str
    draft: Draft
    speculative_algorithm: str
    kv_cache_dtype: str
    swa_full_tokens_ratio: Fraction
    rows: tuple[PairRow, ...]
    served_level: str | None
    evidence: str | None
    note: str | None


@dataclass(frozen=True)
class Unpriced:
    """A known model without a price, the field it lacks, and why."""

    name: str
    missing: str
    reason: str
