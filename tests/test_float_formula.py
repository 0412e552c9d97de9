"""The float formula of the layer ratio: every undercount oversells. `test_guide.py` runs the guide's page."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from impl.faults import FloatTruncation
from properties.float_formula import (
    MOST_DRAFT_LAYERS,
    MOST_LAYERS,
    ROW_BYTES,
    TOKENS,
    Case,
    missing_bytes,
    undercounts,
    witness,
)
from spec.accounting import sold_bytes
from spec.draft import layer_ratio_bytes
from spec.model import PoolSizes
from spec.pools import sizes_or_refusal


def test_numpy_counts_what_python_computes():
    """On every case of the fewest layers, and some of the most."""
    found = set(undercounts(MOST_LAYERS[0]))
    for layers in range(1, MOST_LAYERS[0] + 1):
        for draft_layers in range(1, MOST_DRAFT_LAYERS + 1):
            for row_bytes in ROW_BYTES:
                case = Case(layers, draft_layers, row_bytes)
                assert (case.float_price < case.price) == (case in found)
    missing = missing_bytes(MOST_LAYERS[-1])
    for place in range(0, missing.size, 4999):
        layers, draft_layers, row_bytes = np.unravel_index(place, missing.shape)
        case = Case(int(layers) + 1, int(draft_layers) + 1, ROW_BYTES[int(row_bytes)])
        assert missing.flat[place] == case.price - case.float_price


def test_it_is_never_too_much():
    assert missing_bytes(MOST_LAYERS[-1]).min() == 0


def test_the_price_is_the_exact_layer_ratio():
    for case in list(undercounts(MOST_LAYERS[1]))[::97]:
        cell = case.row_bytes * case.layers
        assert case.price == cell + layer_ratio_bytes(cell, case.layers, case.draft_layers)
        assert case.price == cell * Fraction(case.layers + case.draft_layers, case.layers)


@pytest.mark.parametrize("part", range(4))
def test_every_undercount_oversells(part):
    """Every 1000th of the widest bound, and all of the narrowest, through a configurator that has the fault."""
    cases = [*list(undercounts(MOST_LAYERS[-1]))[::1000], *undercounts(4)]
    assert len(cases) > 500
    for case in cases[part::4]:
        scenario = witness(case)
        sold = FloatTruncation().size_pools(scenario)
        assert isinstance(sold, PoolSizes) and sold.max_total_num_tokens == TOKENS
        loaded = replace(scenario, draft=replace(scenario.draft, geometry_resolved=True))
        assert sold_bytes(loaded, sold, stage=0) == TOKENS * case.price > scenario.budget[0]
        assert not isinstance(sizes_or_refusal(scenario), PoolSizes)
