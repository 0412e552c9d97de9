"""The axes of a space, read from TOML. What is missing, unknown or no such value is refused by its name."""

import hashlib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib.resources import files
from typing import Any

from properties.sweep.formulas import KINDS
from spec.dtypes import KV_CACHE_DTYPES

Axes = Mapping[str, tuple[Any, ...]]


class WrongSpace(ValueError):
    """A space that cannot be read."""


@dataclass(frozen=True)
class Space:
    """kinds: pool kinds. ranks, full, swa, latent, draft, settings: each axis and its values. sizes: numbers of pages,
    from 0. digest: of the text, the name of the space in files of state."""

    kinds: tuple[str, ...]
    ranks: Axes
    full: Axes
    swa: Axes
    latent: Axes
    draft: Axes
    settings: Axes
    sizes: int
    digest: str


def count(value: Any) -> bool:
    """A whole number from 0."""
    return type(value) is int and value >= 0


def number(value: Any) -> bool:
    """A whole number from 1."""
    return type(value) is int and value >= 1


def ratio(value: Any) -> bool:
    """A decimal above 0, at most 1."""
    try:
        return isinstance(value, str) and 0 < Fraction(value) <= 1
    except (ValueError, ZeroDivisionError):
        return False


def dtype(value: Any) -> bool:
    """A KV dtype by its own name."""
    return value in KV_CACHE_DTYPES and value != "auto"


HEADS = {"num_kv_heads": number, "head_dim": number, "v_head_dim": number}
TABLES: dict[str, dict[str, Callable[[Any], bool]]] = {
    "ranks": {"tp_size": number, "attn_dcp_size": number, "kv_cache_dtype": dtype},
    "full": {**HEADS, "layers": number},
    "swa": {**HEADS, "layers": number},
    "latent": {"kv_lora_rank": number, "qk_rope_head_dim": number, "layers": number},
    "draft": {**HEADS, "layers": count, "swa_layers": count, "kv_cache_dtype": dtype},
    "settings": {
        "swa_full_tokens_ratio": ratio,
        "user_max_running_requests": number,
        "chunked_prefill_size": number,
        "page_size": number,
        "sliding_window_size": number,
        "first_stage_pages": count,
    },
}
"""Table, axis and what a value of it is."""


def values_of(name: str, given: Any, is_one: Callable[[Any], bool]) -> tuple[Any, ...]:
    """The values of one axis, each once. Raises WrongSpace."""
    if not isinstance(given, list) or not given:
        raise WrongSpace(f"{name} = {given!r}: give a list of values")
    for value in given:
        if not is_one(value):
            raise WrongSpace(f"{name} = {given!r}: {value!r} is none, {(is_one.__doc__ or '').lower()} expected")
        if given.count(value) > 1:
            raise WrongSpace(f"{name} = {given!r}: {value!r} is given twice")
    return tuple(given)


def only(name: str, given: Any, keys: list[str]) -> dict[str, Any]:
    """A table with exactly these keys. Raises WrongSpace."""
    if not isinstance(given, dict):
        raise WrongSpace(f"{name} = {given!r}: give a table with {', '.join(keys)}")
    for key in given:
        if key not in keys:
            raise WrongSpace(f"{name}: nobody reads {key!r} = {given[key]!r}")
    for key in keys:
        if key not in given:
            raise WrongSpace(f"{name}: {key} is missing")
    return given


def is_kind(value: Any) -> bool:
    """A pool kind."""
    return value in KINDS


def space_of(text: str) -> Space:
    """The space of a TOML text. Raises WrongSpace with the axis and the value."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise WrongSpace(f"no TOML: {error}") from error
    data = only("the space", data, ["kinds", *TABLES, "budgets"])
    tables = {
        table: {axis: values_of(f"{table}.{axis}", given, axes[axis]) for axis, given in read.items()}
        for table, axes in TABLES.items()
        for read in [only(table, data[table], list(axes))]
    }
    sizes = only("budgets", data["budgets"], ["pages"])["pages"]
    if not number(sizes):
        raise WrongSpace(f"budgets.pages = {sizes!r}: give a number of pages from 1")
    kinds = values_of("kinds", data["kinds"], is_kind)
    return Space(kinds=kinds, **tables, sizes=sizes, digest=hashlib.sha256(text.encode()).hexdigest()[:16])


def default_text() -> str:
    """The TOML of the default space."""
    return (files("properties.sweep") / "default.toml").read_text(encoding="utf-8")
