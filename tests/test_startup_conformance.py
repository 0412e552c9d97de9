"""Legal and illegal calls in any order: the start-up over tensors beside the spec's transition system."""

from dataclasses import replace
from fractions import Fraction

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from spec.model import Refusal, Refused
from spec.startup.system import Step, System
from spec.startup.world import Rank, draft_owners
from spec.startup.worlds import small_world
from spec.units import GiB
from tests.startup_runs import BARE, assert_ledgers_are_right, assert_refused_alike, start_up

MEMORY = st.integers(5 * 4, 26 * 4).map(lambda quarters: quarters * GiB // 4)
"""Too little for the weights, too little for a pool, too little for the graphs, or enough."""
RANKS = st.lists(st.builds(Rank, MEMORY, st.sampled_from([0, GiB])), min_size=1, max_size=2).map(tuple)
FRACTIONS = st.sampled_from([Fraction(1, 2), Fraction(3, 4), Fraction(99, 100), Fraction(9_999, 10_000)])


@st.composite
def worlds(draw):
    """A world of any kind of draft, from hopeless to roomy."""
    world = small_world(
        draw(st.sampled_from(BARE)), draw(RANKS), captures=draw(st.booleans()), releases=draw(st.booleans())
    )
    capped = draw(st.sampled_from([None, None, 160]))
    scenario = replace(world.scenario, max_total_tokens=capped)
    return replace(world, scenario=scenario, mem_fraction_static=draw(FRACTIONS))


class BesideTheSpec(RuleBasedStateMachine):
    """Each call goes to both; they agree on the state and on every refusal, and the ledgers add up."""

    @initialize(world=worlds())
    def begin(self, world):
        """A fresh start."""
        self.world, self.system, self.run = world, System(world), start_up(world)
        self.state = self.system.initial

    def step(self, rank, step):
        """One step asked of the spec alone; whether it was taken."""
        answer = self.system.ask(self.state, rank, step)
        if isinstance(answer, Refusal):
            return answer
        self.state = answer
        return None

    @rule(data=st.data())
    def ask(self, data):
        """Any rank, any step."""
        rank = data.draw(st.integers(0, len(self.state) - 1))
        step = data.draw(st.sampled_from(self.system.steps))
        expected, refusal = self.step(rank, step), self.run.ask(rank, step)
        if expected is None:
            assert refusal is None
        else:
            assert_refused_alike(expected, refusal)

    @rule(data=st.data())
    def advance(self, data):
        """The first step of a rank that is neither done nor refused, so that runs get far."""
        rank = data.draw(st.integers(0, len(self.state) - 1))
        for step in self.system.steps:
            if not self.system.is_done(self.state[rank], step) and self.step(rank, step) is None:
                assert self.run.ask(rank, step) is None
                return

    @rule(data=st.data())
    def init_memory_pools(self, data):
        """Measure, size, allocate the target's pool and every draft runner's, in one call; it stops where it must."""
        rank = data.draw(st.integers(0, len(self.state) - 1))
        owners = ("target", *draft_owners(self.world))
        steps = [Step("measure"), Step("size"), *(Step("allocate", owner) for owner in owners)]
        expected = next((refusal for refusal in (self.step(rank, step) for step in steps) if refusal), None)
        self.call(self.run.schedulers[rank].init_memory_pools, expected)

    @rule(data=st.data())
    def init_all_attention_backends(self, data):
        """Attach the target's backend, then every draft runner's."""
        rank = data.draw(st.integers(0, len(self.state) - 1))
        steps = [Step("attach", owner) for owner in ("target", *draft_owners(self.world))]
        expected = next((refusal for refusal in (self.step(rank, step) for step in steps) if refusal), None)
        self.call(self.run.schedulers[rank].init_all_attention_backends, expected)

    def call(self, method, expected):
        """A method of several steps ends well, or as the first refused step does."""
        try:
            method()
            assert expected is None
        except Refused as refused:
            assert_refused_alike(expected, refused.refusal)
        except RuntimeError as full:
            assert str(full).startswith("out of memory")
            assert expected.kind == "out_of_memory"

    @invariant()
    def agree(self):
        """The same state; nothing leaked, nothing twice."""
        if hasattr(self, "run"):
            assert self.run.state() == self.state
            assert_ledgers_are_right(self.world, self.run)


TestBesideTheSpec = BesideTheSpec.TestCase
TestBesideTheSpec.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, derandomize=True)
