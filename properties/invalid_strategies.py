"""Invalid scenarios: a fault first, then a cell it can happen in, then a valid scenario of that cell, broken by it.

Nothing is filtered. Every check of `spec/validity.py` is met by a fault, and every fault is refused for the field it
names (`tests/test_bad_input.py`).
"""

from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from properties.invalid_combinations import COMBINATIONS
from properties.invalid_values import NONSENSE
from properties.strategies import SCENARIOS
from spec.model import Scenario

FAULTS = {fault.name: fault for fault in (*NONSENSE, *COMBINATIONS)}
"""Every fault by its name."""

CELLS_OF = {name: st.sampled_from(fault.cells) for name, fault in FAULTS.items()}


class Invalid(NamedTuple):
    """A scenario that must be refused: which fault it has, and the kind and field of the refusal."""

    category: str
    kind: str
    field: str
    scenario: Scenario


@st.composite
def invalid_scenarios(draw: DrawFn, names: SearchStrategy[str]) -> Invalid:
    """A valid scenario with one of these faults."""
    fault = FAULTS[draw(names)]
    scenario = draw(SCENARIOS[draw(CELLS_OF[fault.name])])
    return Invalid(fault.name, fault.kind, fault.field, fault.breaks(draw, scenario))


INVALID = invalid_scenarios(st.sampled_from(tuple(FAULTS)))
"""Scenarios that are refused as `invalid_input` or `unsupported`, everywhere."""
INVALID_OF = {name: invalid_scenarios(st.just(name)) for name in FAULTS}
"""The same, one strategy a fault."""
