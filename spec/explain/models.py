"""The models a reader names: a catalog entry, or the `config.json` of a checkpoint."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from spec import catalog
from spec.architectures import DFLASH_DRAFTS, DSPARK_DRAFTS, EAGLE_DRAFTS
from spec.config_fields import Config, as_config
from spec.draft_shapes import draft_from_config, mtp_draft_from_target_config
from spec.model import DFLASH, DSPARK, EAGLE, STANDALONE, AttentionShape, Draft, refuse
from spec.shapes import architecture_of, runs_with_window_pools, shape_from_config

ALGORITHM_OF_CLASSES = ((DFLASH_DRAFTS, DFLASH), (DSPARK_DRAFTS, DSPARK), (EAGLE_DRAFTS, EAGLE))
"""Draft classes that run under one algorithm; any other config needs `--speculative-algorithm`."""


@dataclass(frozen=True)
class NamedTarget:
    """A target as its reader named it. config: its `config.json`, None from the catalog."""

    name: str
    shape: AttentionShape
    window_pools: bool
    config: Config | None = None


@dataclass(frozen=True)
class NamedDraft:
    """A draft, and the algorithm it runs under."""

    name: str
    draft: Draft
    algorithm: str


@dataclass(frozen=True)
class DraftSwitches:
    """What the operator said of the draft; None where nothing was said.

    algorithm: `--speculative-algorithm`; num_steps, topk, num_draft_tokens: `--speculative-num-steps`,
    `--speculative-eagle-topk`, `--speculative-num-draft-tokens`; kv_cache_dtype, attention_backend: the draft's own.
    """

    algorithm: str | None = None
    num_steps: int | None = None
    topk: int | None = None
    num_draft_tokens: int | None = None
    kv_cache_dtype: str | None = None
    attention_backend: str | None = None


def is_path(name: str) -> bool:
    """Whether a name means a file or a checkpoint's folder; no name of the catalog ends in .json."""
    try:
        return name.endswith(".json") or Path(name).exists()
    except OSError:
        return False


def read_config(name: str) -> Config:
    """The parsed `config.json`, given itself or by its folder. Refuses what cannot be read."""
    path = Path(name) / "config.json" if Path(name).is_dir() else Path(name)
    try:
        return as_config(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        raise refuse("invalid_input", "config", str(path), f"it cannot be read as JSON: {error}") from error


def nearest(name: str, known: Iterable[str]) -> str:
    """`did you mean A, B`, the names most like this one, case and organization aside."""
    by_lower = {entry.lower(): entry for entry in known}
    found = get_close_matches(name.lower().split("/")[-1], by_lower, n=3, cutoff=1 / 2)
    return f"did you mean {', '.join(by_lower[lower] for lower in found)}" if found else "no name is near it"


def listed(name: str, known: Iterable[str]) -> str:
    """The name as the catalog has it: the last part of a hub's or a folder's, where only one entry ends so; else as it
    is."""
    last = name.rstrip("/").split("/")[-1]
    found = [entry for entry in known if entry.split("/")[-1] == last]
    return found[0] if name not in known and len(found) == 1 else name


def find_target(name: str) -> NamedTarget:
    """A target by catalog name or config. Refuses an unknown name, with the nearest."""
    if is_path(name):
        config = read_config(name)
        return NamedTarget(name, shape_from_config(config), runs_with_window_pools(config), config)
    known = [entry.name for entry in catalog.targets()]
    lacking = [entry.name for entry in catalog.unpriced()]
    name = listed(name, [*known, *lacking])
    if name not in known and name not in lacking:
        raise refuse("invalid_input", "TARGET", name, f"{nearest(name, known)}. Or give the path of a config.json")
    entry = catalog.target(name)
    return NamedTarget(name, entry.shape, entry.window_pools)


def drafts_for(target: str) -> list[str]:
    """The drafts of the catalog's pairs with this target, then those made for it."""
    paired = [pair.draft_name for pair in catalog.pairs() if pair.target.name == target]
    made = [entry.name for entry in catalog.drafts() if entry.for_target == target]
    return list(dict.fromkeys(paired + made))


def no_such_draft(name: str | None, target: str, known: Iterable[str]) -> Exception:
    """The refusal of a draft nobody knows: those of this target, or the nearest names."""
    own = drafts_for(target)
    advice = f"drafts of {target}: {', '.join(own)}" if own else nearest(name or target, known)
    return refuse("invalid_input", "DRAFT", name, f"{advice}. Or give the path of a config.json")


def switched(draft: Draft, switches: DraftSwitches) -> Draft:
    """The draft with the operator's switches; what was not said stays as its own block has it."""
    return replace(
        draft,
        num_steps=switches.num_steps or draft.num_steps,
        topk=switches.topk or draft.topk,
        num_draft_tokens=switches.num_draft_tokens or draft.num_draft_tokens,
        kv_cache_dtype=switches.kv_cache_dtype or draft.kv_cache_dtype,
        attention_backend=switches.attention_backend or draft.attention_backend,
    )


def algorithm_of(config: Config, asked: str | None) -> str:
    """The algorithm a draft's config runs under: as asked, else that of its class."""
    if asked is not None:
        return asked
    architecture = architecture_of(config)
    for classes, algorithm in ALGORITHM_OF_CLASSES:
        if architecture in classes:
            return algorithm
    raise refuse("invalid_input", "speculative_algorithm", None, f"{architecture} does not say; give it")


def catalog_draft(name: str, target: str) -> NamedDraft:
    """A draft by catalog name; a target of the catalog is a STANDALONE draft."""
    drafts = {
        entry.name: NamedDraft(entry.name, entry.draft, entry.speculative_algorithm) for entry in catalog.drafts()
    }
    small = {entry.name: NamedDraft(entry.name, Draft(entry.shape), STANDALONE) for entry in catalog.targets()}
    known = small | drafts
    name = listed(name, list(known))
    if name in known:
        return known[name]
    if name in [entry.name for entry in catalog.unpriced_drafts()]:
        catalog.draft_record(name)
    raise no_such_draft(name, target, known)


def find_draft(name: str | None, target: NamedTarget, switches: DraftSwitches) -> NamedDraft | None:
    """The draft, None for plain decoding: without an algorithm and a name. An algorithm without a name runs the
    target's own MTP layers, which only its config describes."""
    asked = switches.algorithm
    if name is None and asked is None:
        return None
    steps = switches.num_steps or 1
    if name is None:
        if target.config is None:
            raise no_such_draft(None, target.name, [])
        draft = mtp_draft_from_target_config(target.config, asked or EAGLE, num_steps=steps)
        return NamedDraft("its own MTP layers", switched(draft, switches), asked or EAGLE)
    if is_path(name):
        config = read_config(name)
        algorithm = algorithm_of(config, asked)
        return NamedDraft(name, switched(draft_from_config(config, algorithm, num_steps=steps), switches), algorithm)
    found = catalog_draft(name, target.name)
    if asked not in (None, found.algorithm):
        raise refuse("invalid_input", "speculative_algorithm", asked, f"{name} runs under {found.algorithm}")
    return replace(found, draft=switched(found.draft, switches))
