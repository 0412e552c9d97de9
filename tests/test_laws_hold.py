"""The laws on a sample of cells, in this process: none is broken, by the spec or by the configurator."""

import pytest

from impl import load
from impl.optimized import Configurator
from properties.cells import CELLS
from properties.corpus import corpus_of
from properties.judge import judge_cell
from spec.laws import LAWS
from spec.validity import check_scenario

SAMPLE = CELLS[::12]
"""Every pool kind, draft and deployment."""


@pytest.mark.parametrize("name", ["spec", "configurator"])
@pytest.mark.parametrize("cell", SAMPLE, ids=str)
def test_no_law_is_broken(name, cell):
    """And every one that claims the cell judges something there."""
    implementation = load(name)
    corpus = corpus_of(cell, 12, run_seed=1)
    for law in LAWS:
        if law.claims(str(cell)):
            tally, findings = judge_cell(law, cell, implementation, corpus)
            assert not findings
            assert tally.judged > 0 or law.id == "D2"


class Literal(Configurator):
    """The configurator, which raises when it is asked about what no operator could start."""

    def size_pools(self, scenario):
        """Checks before it answers."""
        check_scenario(scenario)
        return super().size_pools(scenario)


@pytest.mark.parametrize("cell", SAMPLE, ids=str)
def test_laws_only_ask_about_valid_scenarios(cell):
    """An engine driven through its own code would crash on ranks that do not factor, and the law would be blamed."""
    corpus = corpus_of(cell, 12, run_seed=2)
    for law in LAWS:
        if law.claims(str(cell)):
            _, findings = judge_cell(law, cell, Literal(), corpus)
            assert not findings
