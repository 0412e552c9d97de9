"""What one run judges, beyond what the gate prints."""

from impl.optimized import Configurator
from properties.cell_names import BY_NAME
from properties.cells import CELLS
from properties.context import Context
from properties.corpus import LAST_ROUND, corpus_of, supported_round
from properties.known import KnownFailures
from spec.laws import BY_ID, LAWS
from spec.model import PoolSizes, Refusal
from spec.pools import size_pools

CELL = BY_NAME["default-none-tp-same"]
DRAWS = 26


class Picky(Configurator):
    """Judges some scenarios alone."""

    def __init__(self, wanted):
        self.wanted = wanted

    def supports(self, scenario):
        """A reason for all others."""
        return None if scenario in self.wanted else "not wanted"


def judged(wanted):
    """The result of B4 in one cell."""
    context = Context(Picky(wanted), "picky", None, "gate", 0, LAWS, CELLS, KnownFailures(), None, updates=False)
    return context.judge(BY_ID["B4"], CELL)


def answered(scenarios, kind):
    """The scenarios that are answered so."""
    return [scenario for scenario in scenarios if isinstance(size_pools(scenario), kind)]


def test_a_law_that_judged_nothing_is_asked_about_more():
    """Of the corpus only a refusal is supported: more is drawn until something is judged, or the rounds are over."""
    refused = answered(corpus_of(CELL, DRAWS, 0), Refusal)[0]
    late = answered(supported_round(CELL, DRAWS, 0, lambda scenario: True, LAST_ROUND), PoolSizes)[0]
    assert judged([refused, late]).judged == 1
    nothing = judged([refused])
    assert nothing.judged == 0 and nothing.nothing
