"""Geometry to bytes per token, checked on its full space; and the cells it comes down to.

F hangs on the full layers, S on the SWA layers, D on the draft's, each on the ranks and dtypes: three maps, each small.
Every entry of each is priced by `spec/`, held against the buffers of `spec/accounting.py`, and judged by the laws of
prices below. Their combinations are the geometries; the distinct triples are the cells.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from properties.cells import cell_of
from properties.judge import Finding, verdict
from properties.sweep.axes import Axes, Space, WrongSpace
from properties.sweep.swept import implementation_of
from spec.accounting import sold_bytes
from spec.draft import draft_price
from spec.laws import BY_ID
from spec.laws.base import Broken
from spec.layers import ALL_WINDOW_POOL, CAPPED_POOL, FOLLOWING_POOLS, MLA_POOL, WINDOW_POOLS
from spec.model import (
    DFLASH,
    EAGLE,
    FULL,
    SWA,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Latent,
    PoolSizes,
    Refused,
    Scenario,
)
from spec.pools import RowBytes, stage_row_bytes
from spec.validity import check_scenario

PRICE_LAWS = ("B8", "D1", "D2", "R1")
"""Laws of prices that the kernel, which starts from prices, cannot see."""
ROWS = 16
"""Rows of which `spec/accounting.py` counts the bytes."""
RIGHT_SIZING = implementation_of()
"""What sizes the prices."""


@dataclass(frozen=True)
class Part:
    """One entry of a map: layers of one geometry; of a draft also those that follow SWA rows, and its own KV dtype."""

    geometry: Heads | Latent
    layers: int
    swa_layers: int = 0
    dtype: str | None = None


@dataclass(frozen=True)
class Ranks:
    """What target and draft share."""

    tp_size: int
    attn_dcp_size: int
    dtype: str


@dataclass(frozen=True)
class Geometry:
    """One combination: a target, a draft, the ranks."""

    kind: str
    ranks: Ranks
    full: Part | None
    swa: Part | None
    draft: Part


@dataclass(frozen=True)
class Cells:
    """The distinct (F, S, D, the draft's part of S) of one kind: prices of shape (n, 4), and for each where it is met
    first: positions in `ranks`, `full`, `swa`, `draft`, of shape (n, 4). geometries: how many there are."""

    kind: str
    prices: Any
    first: Any
    ranks: tuple[Ranks, ...]
    parts: tuple[tuple[Part | None, ...], tuple[Part | None, ...], tuple[Part, ...]]
    geometries: int

    def geometry(self, number: int) -> Geometry:
        """The first geometry of a cell."""
        ranks, full, swa, draft = (int(place) for place in self.first[number])
        return Geometry(self.kind, self.ranks[ranks], self.parts[0][full], self.parts[1][swa], self.parts[2][draft])


HEAD_AXES = ("num_kv_heads", "head_dim", "v_head_dim")


def heads_parts(axes: Axes) -> tuple[Part, ...]:
    """Every entry of a map of K and V heads, layers first."""
    names = ("layers", *HEAD_AXES)
    return tuple(Part(Heads(*heads), layers) for layers, *heads in product(*(axes[name] for name in names)))


def draft_parts(axes: Axes, kind: str) -> tuple[Part, ...]:
    """Every entry of a map of drafts. Beside a pool of SWA rows and one of full rows, layers can follow either; in the
    other kinds all follow the one there is, as many as `layers` says."""
    swa_layers = axes["swa_layers"] if kind in FOLLOWING_POOLS else (0,)
    names = ("layers", *HEAD_AXES)
    return tuple(
        Part(Heads(*heads), layers, following, dtype)
        for dtype, following in product(axes["kv_cache_dtype"], swa_layers)
        for layers, *heads in product(*(axes[name] for name in names))
    )


def latent_parts(axes: Axes) -> tuple[Part, ...]:
    """Every entry of a map of latents."""
    names = ("layers", "kv_lora_rank", "qk_rope_head_dim")
    return tuple(Part(Latent(*latent), layers) for layers, *latent in product(*(axes[name] for name in names)))


def parts_of(space: Space, kind: str) -> tuple[Any, Any, Any]:
    """The three maps of a kind; a map of nothing has one entry, None."""
    full: Any = latent_parts(space.latent) if kind == MLA_POOL else heads_parts(space.full)
    swa = heads_parts(space.swa)
    return (
        (None,) if kind == ALL_WINDOW_POOL else full,
        swa if kind in WINDOW_POOLS else (None,),
        draft_parts(space.draft, kind),
    )


def ranks_of(space: Space, kind: str) -> tuple[Ranks, ...]:
    """Every combination of ranks and dtype that is a deployment: DCP ranks divide the others, and window pools have no
    DCP."""
    dcp_sizes = (1,) if kind in WINDOW_POOLS else space.ranks["attn_dcp_size"]
    shared = product(space.ranks["tp_size"], dcp_sizes, space.ranks["kv_cache_dtype"])
    return tuple(Ranks(tp_size, dcp_size, dtype) for tp_size, dcp_size, dtype in shared if tp_size % dcp_size == 0)


def shape_of(geometry: Geometry, *, stages: int, window: int | None) -> AttentionShape:
    """The target: on every stage its full layers, then its SWA layers."""
    full, swa = geometry.full, geometry.swa
    layers = (FULL,) * (full.layers if full else 0) + (SWA,) * (swa.layers if swa else 0)
    swa_heads: Any = swa.geometry if swa else None
    return AttentionShape(
        layers=layers * stages,
        full=full.geometry if full else None,
        swa=swa_heads,
        sliding_window_size=window if swa else None,
    )


def scenario_of(geometry: Geometry, budget: tuple[int, ...], *, window: int = 1, **settings: Any) -> Scenario:
    """A geometry as a scenario, on as many stages as there are budgets. Capped: for a user's running requests."""
    draft, ranks = geometry.draft, geometry.ranks
    heads: Any = draft.geometry
    layers, follows = (FULL,) * draft.layers + (SWA,) * draft.swa_layers, draft.swa_layers > 0
    shape = AttentionShape(layers, heads, heads if follows else None, sliding_window_size=window if follows else None)
    scenario = Scenario(
        shape_of(geometry, stages=len(budget), window=window),
        budget,
        Draft(shape, kv_cache_dtype=draft.dtype),
        EAGLE if follows else DFLASH,
        deployment=Deployment(ranks.tp_size, attn_dcp_size=ranks.attn_dcp_size, pp_size=len(budget)),
        kv_cache_dtype=geometry.ranks.dtype,
    )
    capped = {"user_max_running_requests": 1, "disable_radix_cache": True} if geometry.kind == CAPPED_POOL else {}
    return replace(scenario, **(capped | settings))


def entries(space: Space, kind: str) -> Iterator[Geometry]:
    """Every entry of the three maps beside the first ones of the other two."""
    full, swa, draft = parts_of(space, kind)
    for ranks in ranks_of(space, kind):
        for part in full:
            yield Geometry(kind, ranks, part, swa[0], draft[0])
        for part in swa[1:]:
            yield Geometry(kind, ranks, full[0], part, draft[0])
        for part in draft[1:]:
            yield Geometry(kind, ranks, full[0], swa[0], part)


def price_of(geometry: Geometry) -> RowBytes:
    """F, S and D by the spec. Raises WrongSpace for a geometry that the spec refuses."""
    scenario = scenario_of(geometry, (1,))
    try:
        check_scenario(scenario)
    except Refused as refused:
        raise WrongSpace(f"{geometry.kind}: {geometry} is refused: {refused}") from refused
    return stage_row_bytes(scenario, 0)


def draft_bytes_of(geometry: Geometry) -> tuple[int, int]:
    """The draft's bytes on a full row (all-window: an SWA row), and on an SWA row."""
    price = draft_price(scenario_of(geometry, (1,)), 0)
    return price.full, price.swa


def target_swa_bytes(geometry: Geometry) -> int:
    """The target's part of S."""
    return price_of(geometry).swa - draft_bytes_of(geometry)[1]


def counted(geometry: Geometry, price: RowBytes) -> Finding | None:
    """A1 by `spec/accounting.py`: the buffers of so many full rows and twice as many SWA rows cost F, S and D a row."""
    kind = geometry.kind
    rows = 2 * ROWS if kind == ALL_WINDOW_POOL else ROWS
    sizes = PoolSizes(rows, 0 if kind == ALL_WINDOW_POOL else ROWS, 2 * ROWS if geometry.swa else 0, 1, 1)
    scenario = scenario_of(geometry, (1,))
    expected = ROWS * price.full + 2 * ROWS * price.swa + rows * price.draft
    taken = sold_bytes(scenario, sizes, 0)
    if taken == expected:
        return None
    return Finding(BY_ID["A1"], cell_of(scenario), scenario, Broken("bytes a row", taken, expected, f"of {sizes}"))


def law_findings(geometry: Geometry, price: RowBytes) -> Iterator[Finding]:
    """The laws of prices on a budget of some thousand rows."""
    scenario = scenario_of(geometry, (5000 * (price.full + price.swa + price.draft),))
    cell = cell_of(scenario)
    for law_id in PRICE_LAWS:
        law = BY_ID[law_id]
        outcome = verdict(law, RIGHT_SIZING, scenario)[0] if law.claims(str(cell)) else None
        if isinstance(outcome, Broken):
            yield Finding(law, cell, scenario, outcome)


def geometry_findings(geometry: Geometry) -> list[Finding]:
    """What is wrong with one entry of a map."""
    price = price_of(geometry)
    miscounted = counted(geometry, price)
    return [*([miscounted] if miscounted else []), *law_findings(geometry, price)]


def cells_of_space(space: Space, kind: str) -> Cells:
    """The distinct triples of a kind. Each map is priced alone; a triple is met at its first geometry."""
    full, swa, draft = maps = parts_of(space, kind)
    found: list[tuple[tuple[int, int, int, int], tuple[int, ...]]] = []
    for place, ranks in enumerate(ranks_of(space, kind)):
        columns = (
            [price_of(Geometry(kind, ranks, part, swa[0], draft[0])).full for part in full],
            [target_swa_bytes(Geometry(kind, ranks, full[0], part, draft[0])) for part in swa],
            [draft_bytes_of(Geometry(kind, ranks, full[0], swa[0], part)) for part in draft],
        )
        firsts: list[dict[Any, int]] = [
            dict(zip(reversed(column), reversed(range(len(column))), strict=True)) for column in columns
        ]
        for triple in product(*(sorted(first.items()) for first in firsts)):
            (full_bytes, swa_bytes, (draft_full, draft_swa)), firsts_of_it = zip(*triple, strict=True)
            found.append(((full_bytes, swa_bytes + draft_swa, draft_full, draft_swa), (place, *firsts_of_it)))
    cells = dict(reversed(found))
    prices = sorted(cells)
    return Cells(
        kind,
        np.array(prices, dtype=np.float64),
        np.array([cells[price] for price in prices], dtype=np.int64),
        ranks_of(space, kind),
        maps,
        len(ranks_of(space, kind)) * len(full) * len(swa) * len(draft),
    )
