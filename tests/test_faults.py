"""Known-bad implementations: each does what its docstring says, and is seen by a law it names where it does."""

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from impl import load
from impl.faults import FAULTS
from impl.faults.sizes import AdviceTheWrongWay
from impl.optimized import Configurator
from properties.cells import CELLS, cell_of
from properties.judge import verdict
from spec.laws import BY_ID
from spec.laws.base import HOLDS, NOT_JUDGED, Broken
from spec.model import PoolSizes
from tests.fault_examples import EXAMPLES
from tests.kill_report import BYTES_ARE_THE_POINT, LAYERS_ARE_THE_POINT, PAGES_ARE_THE_POINT

ROOT = Path(__file__).parents[1]


def names(faults):
    """How faults are called."""
    return [fault.__name__ for fault in faults]


def acts_in(fault, cell):
    """Whether a fault says that it may size scenarios of a cell wrongly."""
    return any(fnmatchcase(str(cell), glob) for glob in fault.cells.split())


def effect(fault, scenario):
    """The first thing in which a fault differs from the configurator, as its docstring has it."""
    answers = [implementation.size_pools(scenario) for implementation in (fault(), Configurator())]
    for field, unit in (
        ("max_total_num_tokens", "rows"),
        ("swa_max_total_num_tokens", "SWA rows"),
        ("max_running_requests", "running requests"),
    ):
        wrong, right = (getattr(answer, field, "a refusal") for answer in answers)
        if wrong != right:
            return f"{wrong} {unit} for {right}"
    if not isinstance(answers[0], PoolSizes):
        wrong, right = (" ".join(answer.advice.split(",")[0].split()[:2]) for answer in answers)
        return f"{wrong} for {right}"
    allocated = [one.allocated_bytes(scenario, answers[0])[0] for one in (fault(), Configurator())]
    if allocated[0] != allocated[1]:
        return f"{allocated[0]} bytes allocated for {allocated[1]}"
    warned = [len(one.resolve_draft(scenario).warnings) for one in (fault(), Configurator())]
    return f"{warned[0]} warnings for {warned[1]}"


@pytest.mark.parametrize("fault", FAULTS, ids=names(FAULTS))
def test_a_fault_does_what_its_docstring_says(fault):
    """The numbers are those of the example: the wrong size for the right one."""
    assert effect(fault, EXAMPLES[fault.__name__]) in " ".join(fault.__doc__.split())


@pytest.mark.parametrize("fault", FAULTS, ids=names(FAULTS))
def test_a_law_it_names_breaks_on_the_example(fault):
    """And the configurator keeps all laws it names, there."""
    scenario, broken = EXAMPLES[fault.__name__], []
    for law_id in fault.caught_by:
        broken.append(isinstance(verdict(BY_ID[law_id], fault(), scenario)[0], Broken))
        assert verdict(BY_ID[law_id], Configurator(), scenario)[0] in (HOLDS, NOT_JUDGED)
    assert any(broken)


@pytest.mark.parametrize("fault", FAULTS, ids=names(FAULTS))
def test_the_example_is_in_a_cell_the_fault_acts_in(fault):
    """So that the globs say what the docstring does."""
    assert acts_in(fault, cell_of(EXAMPLES[fault.__name__]))


@pytest.mark.parametrize("fault", FAULTS, ids=names(FAULTS))
def test_a_fault_is_right_in_the_cells_it_does_not_act_in(fault):
    """On the examples of the others: what is sold and what is allocated for it."""
    for scenario in EXAMPLES.values():
        if not acts_in(fault, cell_of(scenario)):
            answer = fault().size_pools(scenario)
            assert answer == Configurator().size_pools(scenario)
            if isinstance(answer, PoolSizes):
                allocated = Configurator().allocated_bytes(scenario, answer)
                assert fault().allocated_bytes(scenario, answer) == allocated


def test_advice_is_only_turned_round_where_it_is_given():
    """A scenario that starts gets none."""
    scenario = EXAMPLES["OneTokenTooMany"]
    assert AdviceTheWrongWay().size_pools(scenario) == Configurator().size_pools(scenario)


@pytest.mark.parametrize("fault", FAULTS, ids=names(FAULTS))
def test_the_laws_it_names_claim_cells_it_acts_in(fault):
    """Law Q1 is never named: the laws must see a fault by themselves."""
    assert fault.caught_by and "Q1" not in fault.caught_by
    for law_id, globs in fault.caught_by.items():
        for glob in globs.split():
            claimed = [str(cell) for cell in CELLS if fnmatchcase(str(cell), glob) and BY_ID[law_id].claims(str(cell))]
            assert claimed, f"{law_id} claims nothing in {glob}"
            assert any(fnmatchcase(cell, own) for cell in claimed for own in fault.cells.split()), glob


def test_there_are_at_least_36_faults():
    """Each with an example, and found by its name."""
    assert len(FAULTS) >= 36
    for document in ("README.md", "CHANGELOG.md"):
        assert f"{len(FAULTS)} bugs" in (ROOT / document).read_text(encoding="utf-8")
    assert set(names(FAULTS)) == set(EXAMPLES)
    assert all(load(f"impl.faults:{fault.__name__}").name == fault.__name__ for fault in FAULTS)


def test_the_faults_that_need_room_exist():
    """No exception outlives its fault."""
    assert {*PAGES_ARE_THE_POINT, *LAYERS_ARE_THE_POINT, *BYTES_ARE_THE_POINT} <= set(names(FAULTS))
