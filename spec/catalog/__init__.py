"""Real models and real drafts as data, each number with the source it was read in.

`targets.json`, `drafts.json` and `pairs.json` hold one model a line; `sources.json` says what the sources are and what
the words of `confidence` mean. A model that lacks a field stays listed and is refused by name. Every call reads its
file again: hold the answer in a constant.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import Any

from spec.architectures import DTYPE_SPELLINGS, WINDOW_POOLS, stored_window
from spec.catalog.records import CatalogDraft, CatalogPair, CatalogTarget, PairRow, Unpriced
from spec.model import DFLASH, DSPARK, EAGLE, MTP, STANDALONE, AttentionShape, Draft, Heads, Index, Latent, refuse

__all__ = [
    "CatalogDraft",
    "CatalogPair",
    "CatalogTarget",
    "PairRow",
    "Unpriced",
    "draft_record",
    "drafts",
    "pairs",
    "target",
    "targets",
    "unpriced",
    "unpriced_drafts",
]

UNKNOWN_DTYPE = "bf16"
"""Compute dtype of a model whose source names none: 2 bytes, as the data prices it; `confidence` says it is null."""

ALGORITHM_OF_KIND = {
    "EAGLE": EAGLE,
    "EAGLE3": EAGLE,
    "P-EAGLE": EAGLE,
    "MTP": EAGLE,
    "MULTI_LAYER_MTP": MTP,
    "STANDALONE": STANDALONE,
    "DFLASH": DFLASH,
    "DOMINO": DFLASH,
    "DFLASH2": DFLASH,
    "DSPARK": DSPARK,
}
"""A draft's kind as its authors name it -> the algorithm it runs under. MTP without a draft path runs as EAGLE."""

WINDOW_ARCHITECTURE = {
    DFLASH: "DFlashDraftModel",
    DSPARK: "DSparkDraftModel",
    MTP: "InklingForConditionalGeneration",
}
"""The class whose way of counting a window a draft of that algorithm follows; no other draft here has a window."""


def read(name: str) -> dict[str, Any]:
    """One data file of this package."""
    text = (Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


def layer_kinds(runs: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """`[["swa", 5], ["full", 1]]` -> one kind a layer."""
    return tuple(kind for kind, count in runs for _ in range(count))


def index_of(entry: Mapping[str, Any]) -> Index:
    """An index; its layers are written as `[start, stop, step]` ranges."""
    layers = tuple(position for part in entry["layers"] for position in range(*part))
    return Index(entry["head_dim"], layers, entry.get("stores_values", False))


def shape_of(entry: Mapping[str, Any], window_architecture: str) -> AttentionShape:
    """The geometry of one line of data. `window_architecture` is the class that says how its window is counted."""
    full, swa, window = entry.get("full"), entry.get("swa"), entry.get("sliding_window")
    return AttentionShape(
        layers=layer_kinds(entry["layers"]),
        full=None if full is None else Latent(**full) if "kv_lora_rank" in full else Heads(**full),
        swa=None if swa is None else Heads(**swa),
        index=index_of(entry["index"]) if "index" in entry else None,
        sliding_window_size=None if window is None else stored_window(window_architecture, window),
        model_dtype=DTYPE_SPELLINGS[entry["dtype"]] if "dtype" in entry else UNKNOWN_DTYPE,
    )


def target_of(entry: Mapping[str, Any]) -> CatalogTarget:
    """One line of `targets.json`."""
    return CatalogTarget(
        name=entry["name"],
        architecture=entry["architecture"],
        shape=shape_of(entry, entry["architecture"]),
        window_pools=entry["architecture"] in WINDOW_POOLS,
        kv_bytes_2_byte_tp1=entry["kv_bytes_2B_tp1"],
        confidence=entry["confidence"],
        sources=tuple(entry["sources"]),
        note=entry.get("note"),
    )


def configured_draft(shape: AttentionShape, algorithm: str, block_size: int | None) -> Draft:
    """The draft with its own block: DFLASH verifies a block, DSPARK a block and its anchor, multi-layer MTP one token
    a step and the anchor. The data names no steps for any other algorithm, which keep the defaults of `Draft`."""
    if algorithm == MTP:
        steps = len(shape.layers)
        return Draft(shape, num_steps=steps, num_draft_tokens=steps + 1, swa_at_full_rows=True)
    if block_size is None:
        return Draft(shape)
    return Draft(shape, num_draft_tokens=block_size + 1 if algorithm == DSPARK else block_size)


def draft_of(entry: Mapping[str, Any]) -> CatalogDraft:
    """One line of `drafts.json`."""
    algorithm = ALGORITHM_OF_KIND[entry["kind"]]
    shape = shape_of(entry, WINDOW_ARCHITECTURE.get(algorithm, ""))
    return CatalogDraft(
        name=entry["name"],
        kind=entry["kind"],
        speculative_algorithm=algorithm,
        for_target=entry.get("for_target"),
        draft=configured_draft(shape, algorithm, entry.get("block_size")),
        kv_bytes_2_byte_tp1=entry["kv_bytes_2B_tp1"],
        confidence=entry["confidence"],
        sources=tuple(entry["sources"]),
        note=entry.get("note"),
    )


def targets() -> tuple[CatalogTarget, ...]:
    """Every target that can be priced."""
    return tuple(target_of(entry) for entry in read("targets")["targets"])


def unpriced() -> tuple[Unpriced, ...]:
    """The targets that lack a field."""
    return tuple(Unpriced(**entry) for entry in read("targets")["unpriced"])


def drafts() -> tuple[CatalogDraft, ...]:
    """Every draft whose geometry is known."""
    return tuple(draft_of(entry) for entry in read("drafts")["drafts"])


def unpriced_drafts() -> tuple[Unpriced, ...]:
    """The drafts that lack a field."""
    return tuple(Unpriced(**entry) for entry in read("drafts")["unpriced"])


def no_such_model(name: str, known: Iterable[str], lacking: Iterable[Unpriced]) -> Exception:
    """The refusal for a name without a price: the field it lacks, or the names that look like it."""
    for model in lacking:
        if model.name == name:
            return refuse("unsupported", f"{name}.{model.missing}", None, model.reason)
    near = get_close_matches(name, known, n=3)
    return refuse("invalid_input", "name", name, f"did you mean {', '.join(near)}?" if near else "no name is near it")


def target(name: str) -> CatalogTarget:
    """One target by name. Refuses a name without a price."""
    known = {entry.name: entry for entry in targets()}
    if name not in known:
        raise no_such_model(name, known, unpriced())
    return known[name]


def draft_record(name: str) -> CatalogDraft:
    """One draft by name. Refuses a name without geometry."""
    known = {entry.name: entry for entry in drafts()}
    if name not in known:
        raise no_such_model(name, known, unpriced_drafts())
    return known[name]


def pairs() -> tuple[CatalogPair, ...]:
    """Every pair. A STANDALONE draft is a target in small."""
    by_name = {entry.name: entry for entry in targets()}
    draft_by_name = {entry.name: entry.draft for entry in drafts()}
    draft_by_name |= {name: Draft(entry.shape) for name, entry in by_name.items()}
    return tuple(
        CatalogPair(
            target=by_name[entry["target"]],
            draft_name=entry["draft"],
            draft=replace(draft_by_name[entry["draft"]], kv_cache_dtype=entry.get("draft_kv_cache_dtype")),
            speculative_algorithm=ALGORITHM_OF_KIND[entry["kind"]],
            kv_cache_dtype=entry.get("kv_cache_dtype", "auto"),
            swa_full_tokens_ratio=Fraction(entry.get("swa_full_tokens_ratio", "0.8")),
            rows=tuple(PairRow(*row) for row in entry["rows"]),
            served_level=entry.get("served_level"),
            evidence=entry.get("evidence"),
            note=entry.get("note"),
        )
        for entry in read("pairs")["pairs"]
    )
