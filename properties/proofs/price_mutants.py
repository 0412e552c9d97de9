"""Price functions made wrong, for the claims of `prices.py`."""

from typing import Any

from impl import configurator_prices
from impl.configurator import MemoryPoolConfigurator
from properties.proofs.mutants import Mutant, class_of
from spec import cell
from spec import draft as spec_draft
from spec.draft import DraftPrice
from spec.model import SWA, Heads

RIGHT_LAYER = cell.layer_row_bytes
RIGHT_ROW = configurator_prices.row_bytes
RIGHT_EXACT = spec_draft.exact_draft_price
RIGHT_CELL = configurator_prices.dflash_draft_cell_size_per_token
"""The functions as they are, whatever replaces them."""


def layer_split_over_ranks(shape: Any, kind: Any, ranks: Any, dtype: Any, backend: Any) -> Any:
    """A row is cut into as many parts as there are ranks, heads or not."""
    return RIGHT_LAYER(shape, kind, 1, dtype, backend) // ranks


def row_split_over_ranks(geometry: Any, is_sparse: Any, ranks: Any, dtype: Any, backend: Any) -> Any:
    """The same of a configurator."""
    return RIGHT_ROW(geometry, is_sparse, 1, dtype, backend) // ranks


def key_width(geometry: Any) -> Any:
    """Elements of K of one head, or of a latent."""
    return geometry.head_dim if isinstance(geometry, Heads) else geometry.kv_lora_rank


def layer_with_k_twice(shape: Any, kind: Any, ranks: Any, dtype: Any, backend: Any) -> Any:
    """The elements of one K are counted again."""
    return RIGHT_LAYER(shape, kind, ranks, dtype, backend) + key_width(shape.swa if kind == SWA else shape.full)


def row_with_k_twice(geometry: Any, is_sparse: Any, ranks: Any, dtype: Any, backend: Any) -> Any:
    """The same of a configurator."""
    return RIGHT_ROW(geometry, is_sparse, ranks, dtype, backend) + key_width(geometry)


def exact_price_split(scenario: Any, draft: Any) -> DraftPrice:
    """The draft is split over the DCP ranks."""
    right, dcp = RIGHT_EXACT(scenario, draft), scenario.deployment.attn_dcp_size
    return DraftPrice(right.full // dcp, right.swa // dcp)


def cell_size_split(scenario: Any, draft: Any, ranks: Any, follows_swa: Any) -> Any:
    """The same of a configurator."""
    full, swa = RIGHT_CELL(scenario, draft, ranks, follows_swa)
    dcp = scenario.deployment.attn_dcp_size
    return full // dcp, swa // dcp


def price_and_a_byte(full: Any, swa: Any) -> DraftPrice:
    """Any price is a byte higher."""
    return DraftPrice(full + 1, swa)


def cell_size_and_a_byte(scenario: Any, draft: Any, ranks: Any, follows_swa: Any) -> Any:
    """The same of a configurator."""
    full, swa = RIGHT_CELL(scenario, draft, ranks, follows_swa)
    return full + 1, swa


def price_mutant_of(law: str, kind: str, implementation: str) -> Mutant:
    """The wrong function on which a claim on prices must be refuted."""
    cls = class_of(kind)
    right_ratio = cls._layer_ratio_bytes

    def one_layer_more(configurator: Any, stage: Any, layers: Any) -> Any:
        return right_ratio(configurator, stage, layers + 1)

    spec_side, configurator_side = {
        "R1": (
            Mutant("splits a row over the ranks", cell, "layer_row_bytes", layer_split_over_ranks),
            Mutant("splits a row over the ranks", configurator_prices, "row_bytes", row_split_over_ranks),
        ),
        "R3": (
            Mutant("splits the draft over the DCP ranks", spec_draft, "exact_draft_price", exact_price_split),
            Mutant(
                "splits the draft over the DCP ranks",
                MemoryPoolConfigurator,
                "_own_draft_bytes",
                staticmethod(cell_size_split),
            ),
        ),
        "D1 rows": (
            Mutant("adds a byte to any draft", spec_draft, "DraftPrice", price_and_a_byte),
            Mutant(
                "adds a byte to any draft",
                configurator_prices,
                "dflash_draft_cell_size_per_token",
                cell_size_and_a_byte,
            ),
        ),
        "D2": (
            Mutant("adds a byte to any draft", spec_draft, "DraftPrice", price_and_a_byte),
            Mutant("counts a draft layer more", cls, "_layer_ratio_bytes", one_layer_more),
        ),
        "D4 rows": (
            Mutant("counts one K twice", cell, "layer_row_bytes", layer_with_k_twice),
            Mutant("counts one K twice", configurator_prices, "row_bytes", row_with_k_twice),
        ),
    }[law]
    return spec_side if implementation == "spec" else configurator_side
