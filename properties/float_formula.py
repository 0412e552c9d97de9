"""How often `int(cell * (1 + draft_layers / layers))` is short of the draft it prices: every small case.

That is the layer ratio of SGLang up to 0.5.15, in float64 (`impl/faults/sizes.py: FloatTruncation`). A case is a target
of like layers and an unresolved draft of more of them, so the price is a whole number of bytes, and what is missing of
it is sold: `witness` is a scenario that oversells. `spec/guide/float_formula.md` tells of it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from properties.show import table
from spec.model import DFLASH, FULL, AttentionShape, Draft, Heads, Scenario

MOST_DRAFT_LAYERS = 16
ROW_BYTES = range(2, 1025)
"""Of one layer: K and V have a byte at least."""
MOST_LAYERS = (8, 16, 32, 64, 128)
"""Bounds of the target's layers, a row of the table each."""
TOKENS = 2
"""Of a witness: the fewest that a start needs."""


class Case(NamedTuple):
    """A target of `layers` layers of `row_bytes` bytes a row, and a draft of more of them."""

    layers: int
    draft_layers: int
    row_bytes: int

    @property
    def price(self) -> int:
        """Bytes a token costs."""
        return self.row_bytes * (self.layers + self.draft_layers)

    @property
    def float_price(self) -> int:
        """Bytes a token costs by the float formula."""
        return int(self.row_bytes * self.layers * (1 + self.draft_layers / self.layers))


def missing_bytes(most_layers: int) -> Any:
    """Price less float price, of shape (layers from 1, draft layers from 1, `ROW_BYTES`)."""
    layers, draft_layers, row_bytes = np.ix_(
        np.arange(1, most_layers + 1), np.arange(1, MOST_DRAFT_LAYERS + 1), np.array(ROW_BYTES)
    )
    by_float = np.floor(row_bytes * layers * (1 + draft_layers / layers)).astype(np.int64)
    return row_bytes * (layers + draft_layers) - by_float


def undercounts(most_layers: int) -> Iterator[Case]:
    """Every case that is short, the fewest layers first."""
    for layers, draft_layers, row_bytes in np.argwhere(missing_bytes(most_layers) > 0).tolist():
        yield Case(layers + 1, draft_layers + 1, ROW_BYTES[row_bytes])


def witness(case: Case) -> Scenario:
    """The case in fp8, one head of K and V, on the bytes that buy two tokens by the float formula."""
    layer = Heads(1, case.row_bytes - 1, 1)
    draft = Draft(AttentionShape((FULL,) * case.draft_layers, layer), geometry_resolved=False)
    target = AttentionShape((FULL,) * case.layers, layer)
    return Scenario(target, (TOKENS * case.float_price,), draft, DFLASH, kv_cache_dtype="fp8_e4m3")


def undercount_table() -> str:
    """Cases and undercounts for each bound of the layers."""
    rows = []
    for most_layers in MOST_LAYERS:
        missing = missing_bytes(most_layers)
        short = int((missing > 0).sum())
        share = f"{100 * short / missing.size:.1f} %"
        rows.append([f"1 to {most_layers}", f"{missing.size:,}", f"{short:,}", share, str(missing.max())])
    return table(["layers", "cases", "short", "share", "most bytes short"], rows)
