"""Scenarios whose bytes are inputs: what a claim about sizing runs the real functions on.

The scenario has two pipeline stages. Sums over layers are taken as given, for they have no end: F and S of each stage
and the draft's bytes are any integers at all, and stand where the sums of `spec/cell.py` and `spec/draft.py` or the
layer counts of `impl/configurator_prices.py` would. Everything from these sums on is the code that numbers go through.
"""

import builtins
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest.mock import patch

from impl import Implementation
from impl.optimized import Configurator
from impl.reference import Reference
from properties.proofs.explore import Inputs
from properties.proofs.symbolic import SymInt
from spec.draft import DraftPrice
from spec.laws.base import Case
from spec.layers import ALL_WINDOW_POOL, CAPPED_POOL, DEFAULT_POOL, FOLLOWING_POOLS, HYBRID_POOL, MLA_POOL
from spec.model import (
    EAGLE,
    FULL,
    SWA,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Latent,
    PoolSizes,
    Scenario,
    active_draft,
)

STAGES = 2
"""Pipeline stages of every scenario."""
IMPLEMENTATIONS: dict[str, Implementation] = {"spec": Reference(), "configurator": Configurator()}
LAYERS = {
    DEFAULT_POOL: (FULL, FULL),
    MLA_POOL: (FULL, FULL),
    HYBRID_POOL: (FULL, SWA),
    ALL_WINDOW_POOL: (SWA, SWA),
    CAPPED_POOL: (FULL, SWA),
}
"""A layer a stage: what tells the pool kinds apart. Their bytes are inputs."""


@dataclass(frozen=True)
class PricedShape(AttentionShape):
    """A target whose F and S are given for each stage, and the pages of its fixed SWA pool (capped kind)."""

    full_bytes: tuple[int, ...] = ()
    swa_bytes: tuple[int, ...] = ()
    fixed_pages: int = 0


@dataclass(frozen=True)
class PricedDraft(Draft):
    """A draft whose bytes on a rank of each stage are given: per full row (all-window: SWA row), and per SWA row."""

    full_bytes: tuple[int, ...] = ()
    swa_bytes: tuple[int, ...] = ()
    fixed_pages: int = 0


def stage_of(positions: range) -> int:
    """There is a layer a stage."""
    return positions.start


def given_full_bytes(scenario: Scenario, positions: range) -> int:
    """F, in place of the sum over layers."""
    return scenario.target.full_bytes[stage_of(positions)]  # type: ignore[attr-defined, no-any-return]


def given_swa_bytes(scenario: Scenario, positions: range) -> int:
    """The target's part of S, in place of the sum over layers."""
    return scenario.target.swa_bytes[stage_of(positions)]  # type: ignore[attr-defined, no-any-return]


def given_draft_price(scenario: Scenario, stage: int) -> DraftPrice:
    """The draft's bytes on a stage, in place of the sum over its layers; that of none is 0 (`D1 rows`)."""
    draft: Any = active_draft(scenario)
    if draft is None or not draft.shape.layers:
        return DraftPrice(0, 0)
    return DraftPrice(draft.full_bytes[stage], draft.swa_bytes[stage])


def given_swa_rows(scenario: Scenario, *requests: int) -> int:
    """The fixed SWA rows of the capped kind: any number of pages (lemma `fixed SWA rows are whole pages`). Plain and
    drafted, they are two numbers: draft tokens move them."""
    holder: Any = active_draft(scenario) or scenario.target
    pages: int = holder.fixed_pages
    return pages * scenario.page_size


def given_sold_bytes(scenario: Scenario, sizes: PoolSizes, stage: int) -> int:
    """Bytes of all rows sold, in place of the sum over buffers: each pool's rows by the bytes of one."""
    shape: Any = scenario.target
    price = given_draft_price(scenario, stage)
    full_bytes, swa_bytes = shape.full_bytes[stage], shape.swa_bytes[stage] + price.swa
    sold: int = (
        sizes.full_max_total_num_tokens * full_bytes
        + sizes.swa_max_total_num_tokens * swa_bytes
        + sizes.max_total_num_tokens * price.full
    )
    return sold


def given_kinds_by_stage(shape: Any, pp_size: int) -> tuple[tuple[int, int, int], ...]:
    """F layers of one byte and S layers of one byte: a configurator counts layers, so any F and S is some model's."""
    return tuple((full, swa, 0) for full, swa in zip(shape.full_bytes, shape.swa_bytes, strict=True))


def one_byte(*_: object) -> int:
    """The row of one layer where `given_kinds_by_stage` counts bytes."""
    return 1


def given_draft_cell_size(configurator: Any, stage: int) -> tuple[int, int]:
    """The draft's bytes on a stage, in place of its layer counts."""
    price = given_draft_price(configurator._scenario, stage)
    return price.full, price.swa


def type_of(value: object) -> type:
    """`type`, for which a symbolic integer is an integer."""
    return int if isinstance(value, SymInt) else builtins.type(value)


def nothing(*_: object) -> None:
    """What checks a scenario: its checks are the premises of a claim."""


def any_kinds(scenario: Scenario) -> tuple[int, int]:
    """(full layers, SWA layers), of a scenario nobody screens."""
    layers = scenario.target.layers
    return layers.count(FULL), layers.count(SWA)


def sizes_without_limits(scenario: Scenario, rows: int, full_rows: int, swa_rows: int) -> PoolSizes:
    """The pools, no request limits: the rows stand in for them (lemma `limits follow the rows`)."""
    return PoolSizes(rows, full_rows, swa_rows, rows, rows)


def finished_without_limits(configurator: Any, rows: int, below_cap: bool) -> PoolSizes:
    """The same of a configurator."""
    full_rows, swa_rows = configurator._pool_rows(rows, below_cap)
    return PoolSizes(rows, full_rows, swa_rows, rows, rows)


GIVEN: dict[str, Callable[..., Any]] = {
    "target_full_row_bytes": given_full_bytes,
    "target_swa_row_bytes": given_swa_bytes,
    "draft_price": given_draft_price,
    "capped_swa_rows": given_swa_rows,
    "sold_bytes": given_sold_bytes,
    "check_scenario": nothing,
    "check_int": nothing,
    "kinds_by_stage": given_kinds_by_stage,
    "compute_swa_request_cap": given_swa_rows,
    "screened_kinds": any_kinds,
    "sizes_of": sizes_without_limits,
}
"""What stands in for the functions of these names, in every module of `spec` and `impl` that has them."""


@cache
def places_of(name: str) -> tuple[Any, ...]:
    """The loaded modules of `spec` and `impl` in which a name is a function."""
    modules = [module for key, module in sorted(sys.modules.items()) if key.split(".")[0] in ("spec", "impl")]
    return tuple(module for module in modules if callable(vars(module).get(name)))


@contextmanager
def given(stand_ins: dict[str, Callable[..., Any]] = GIVEN) -> Iterator[None]:
    """The functions of these names replaced, wherever they are called from."""
    with ExitStack() as stack:
        for name, stand_in in stand_ins.items():
            for module in places_of(name):
                stack.enter_context(patch.object(module, name, stand_in))
        configurator = sys.modules["impl.configurator"]
        stack.enter_context(patch.object(configurator, "type", type_of, create=True))
        base = configurator.MemoryPoolConfigurator
        stack.enter_context(patch.object(base, "_finished_sizes", finished_without_limits))
        stack.enter_context(patch.object(base, "draft_cell_size_per_token", given_draft_cell_size))
        stack.enter_context(patch.object(base, "_layer_bytes", staticmethod(one_byte)))
        stack.enter_context(patch.object(base, "_own_draft_bytes", staticmethod(nothing)))
        yield


def geometry(kind: str) -> Heads | Latent:
    """One that makes a target of this kind; its bytes are not looked at."""
    return Latent(1, 0) if kind == MLA_POOL else Heads(1, 1, 1)


def priced_target(inputs: Inputs, kind: str, stages: range) -> PricedShape:
    """A target with any bytes: full rows where the kind has full layers, SWA rows where it has a window pool."""
    layers = LAYERS[kind]
    full, swa = FULL in layers, SWA in layers
    return PricedShape(
        layers,
        full=geometry(kind) if full else None,
        swa=Heads(1, 1, 1) if swa else None,
        sliding_window_size=inputs.integer("window", 1) if swa else None,
        full_bytes=tuple(inputs.integer(f"F{stage}") if full else 0 for stage in stages),
        swa_bytes=tuple(inputs.integer(f"S{stage}") if swa else 0 for stage in stages),
        fixed_pages=inputs.integer("fixed_pages", 1) if kind == CAPPED_POOL else 0,
    )


def priced_draft(inputs: Inputs, kind: str, stages: range) -> PricedDraft:
    """A draft with any bytes, 0 too, which is what no draft adds."""
    return PricedDraft(
        AttentionShape((FULL,), Heads(1, 1, 1)),
        full_bytes=tuple(inputs.integer(f"D{stage}") for stage in stages),
        swa_bytes=tuple(inputs.integer(f"D{stage}_swa") if kind in FOLLOWING_POOLS else 0 for stage in stages),
        fixed_pages=inputs.integer("fixed_pages_drafted", 1) if kind == CAPPED_POOL else 0,
    )


def priced_scenario(inputs: Inputs, kind: str, pp_size: int = STAGES, *, may_have_cap: bool = True) -> Scenario:
    """Any valid scenario of a pool kind, as far as sizing sees it. Some stage holds a row that costs."""
    capped, stages = kind == CAPPED_POOL, range(pp_size)
    scenario = Scenario(
        priced_target(inputs, kind, stages),
        tuple(inputs.integer(f"A{stage}", 1) for stage in stages),
        draft=priced_draft(inputs, kind, stages),
        speculative_algorithm=EAGLE,
        deployment=Deployment(pp_size=pp_size, draft_on_every_stage=True),
        page_size=inputs.integer("P", 1),
        kv_cache_dtype="bf16",
        swa_full_tokens_ratio=inputs.ratio("r"),
        context_len=inputs.integer("context_len", 1),
        max_total_tokens=inputs.integer("cap", 1) if may_have_cap and inputs.flag("has_cap") else None,
        user_max_running_requests=inputs.integer("requests", 1) if capped else None,
        disable_radix_cache=capped,
    )
    inputs.assume(sum(bytes_that_set_rows(scenario, kind)) > 0)
    return scenario


def bytes_that_set_rows(scenario: Scenario, kind: str) -> tuple[int, ...]:
    """Bytes, on each stage, of the target's rows that set N: above 0 on some stage of every valid scenario."""
    shape: Any = scenario.target
    given: tuple[int, ...] = shape.swa_bytes if kind == ALL_WINDOW_POOL else shape.full_bytes
    return given


def case_of(scenario: Scenario, implementation: str) -> Case:
    """The scenario, the implementation's answer, and the implementation to ask again."""
    asked = IMPLEMENTATIONS[implementation]
    return Case(scenario, asked.size_pools(scenario), asked.size_pools, asked.size_pools_from_max_tokens)
