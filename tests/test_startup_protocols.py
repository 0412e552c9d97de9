"""What each protocol does: the present ones hold, the historical ones break what they must, no guard is idle."""

from dataclasses import replace
from time import process_time

import pytest

from spec.laws.startup import START_UP_LAWS
from spec.startup.explorer import explore, replayed
from spec.startup.protocols import ANY_ORDER, GUARDS, HISTORICAL, ONCE, PRESENT, mutants, without
from spec.startup.system import ACTIONS, System
from spec.startup.verdicts import broken_by, guards_needed, judged, summary
from spec.startup.worlds import RANKS, small_world
from spec.units import GiB

KINDS = [protocol for protocol in PRESENT if protocol.name != "three-phase"]
"""One present protocol of each kind of draft, and the one that leaves every order open."""
BY_NAME = {protocol.name: protocol for protocol in (*PRESENT, *HISTORICAL)}

BREAKS = {
    "measure before the draft loads": {"S1": 2, "S5": 6},
    "frozen-KV MTP, target pool first": {"S1": 2, "S5": 5},
    "flat reserve of 4 GiB": {"S1": 2, "S5": 6},
    "flat reserve of 6 GiB": {"S1": 2, "S5": 6},
    "draft pool in its constructor": {"S2": 2, "S4": 2, "S5": 12, "S7": 10},
    "backend before its pool": {"S2": 3},
    "loader memory still resident": {"S7": 10},
    "minimum before the rank's own reserve": {"S7": 18},
}
"""The laws each historical protocol breaks, and the fewest steps to it on one or two ranks."""


def ids_of(protocols):
    """A test id for each protocol."""
    return [protocol.name for protocol in protocols]


@pytest.mark.parametrize("protocol", PRESENT, ids=ids_of(PRESENT))
def test_a_present_protocol_holds_every_law_in_every_order(protocol):
    """On one and two ranks, optional steps taken or not; every law that claims it gives verdicts."""
    found = judged(protocol, most_ranks=2)
    assert found.violations == {}
    assert found.is_as_expected
    assert found.ends == {"finished": found.worlds}
    for law in START_UP_LAWS:
        assert (found.judged[law.id] > 0) == (protocol.algorithm in law.algorithms)


@pytest.mark.parametrize("protocol", PRESENT, ids=ids_of(PRESENT))
def test_four_different_ranks_are_explored_completely(protocol):
    """No ranks are alike, so nothing is merged; far below half a minute."""
    started = process_time()
    found = explore(System(small_world(protocol, RANKS[-1])), START_UP_LAWS)
    assert found.violations == {}
    assert found.ends == {"finished": 1}
    assert found.states == found.all_states > 1_500
    assert process_time() - started < 30


@pytest.mark.parametrize("protocol", HISTORICAL, ids=ids_of(HISTORICAL))
def test_a_historical_protocol_breaks_what_it_must(protocol):
    """These laws, no others, each after so many steps; the last of them is what breaks it."""
    found = judged(protocol, most_ranks=2)
    assert found.is_as_expected
    assert {law_id: len(violation.trace) for law_id, (_, violation) in found.violations.items()} == BREAKS[
        protocol.name
    ]
    for system, violation in found.violations.values():
        *_, before, at = replayed(system, violation.trace)
        rank, _ = violation.trace[-1]
        if violation.law.of_rank is not None:
            assert violation.law.of_rank(system, rank, at[rank]) == violation.broken
            assert violation.law.of_rank(system, rank, before[rank]) != violation.broken


@pytest.mark.parametrize(
    ("name", "over"),
    [
        ("measure before the draft loads", 1 * GiB),
        ("frozen-KV MTP, target pool first", 1 * GiB),
        ("flat reserve of 4 GiB", (1 + 4 - 4) * GiB),
        ("flat reserve of 6 GiB", (2 + 9 - 6) * GiB),
    ],
)
def test_the_bytes_over_budget_are_exact(name, over):
    """A GiB of draft weights nobody saw; or those and a draft pool nobody priced, less the reserve: beside 8 GiB of
    target pool half as many draft layers take 4, beside 6 GiB half as many again take 9."""
    world = small_world(BY_NAME[name], RANKS[0], releases=False)
    system, violation = summary(BY_NAME[name], [world]).violations["S5"]
    assert violation.broken.got == 18 * GiB + over
    assert violation.broken.where == f"{over:,} too many"
    assert system.world.mem_fraction_static * 24 * GiB == 18 * GiB


def test_the_frozen_kv_protocols_miss_the_drafts_weights_or_nothing():
    """S6 holds of both; a reading that missed anything else breaks it."""
    for name in ("frozen-KV MTP, target pool first", "frozen-KV MTP"):
        found = judged(BY_NAME[name], most_ranks=2)
        assert found.verdict("S6") == "holds"
        assert found.judged["S6"] > 0
    disguised = replace(BY_NAME["frozen-KV MTP, target pool first"], historical="")
    broken = judged(disguised, most_ranks=1).violations["S6"][1].broken
    assert (broken.expected, broken.got) == (0, 1 * GiB)


@pytest.mark.parametrize("protocol", KINDS, ids=ids_of(KINDS))
def test_every_guard_is_needed(protocol):
    """Without any one of them a law breaks, and a trace shows it; only the guard of the draft's pool has nothing to do
    where there is no draft."""
    found = guards_needed(protocol)
    assert len(found) == len(GUARDS) + len(ONCE) - (protocol.algorithm is None)
    for guard, broken in found.items():
        assert broken is not None, guard
        system, violation = broken
        assert len(replayed(system, violation.trace)) == len(violation.trace) + 1


def test_a_guard_keeps_the_law_it_is_there_for():
    """Guard by guard, where every order is open."""
    found = {guard: broken[1].law.id for guard, broken in guards_needed(ANY_ORDER).items()}
    assert found == {
        "load *, then measure": "S1",
        "release, then measure": "S7",
        "measure on every rank, then size": "S5",
        "size, then allocate *": "S2",
        "allocate target, then allocate draft*": "S4",
        "allocate {owner}, then attach *": "S2",
        "attach *, then capture": "S2",
        "allocate *, then report": "S2",
        "load once": "S3",
        "measure once": "S3",
        "allocate once": "S3",
        "attach once": "S3",
    }
    assert list(found) == list(mutants(ANY_ORDER))


@pytest.mark.parametrize("protocol", KINDS, ids=ids_of(KINDS))
def test_phases_choose_among_orders_that_are_right(protocol):
    """A protocol of guards alone holds every law too: no phase is a guard in disguise."""
    assert judged(replace(protocol, phases=()), most_ranks=2).violations == {}


def test_a_protocol_that_keeps_its_guards_breaks_nothing():
    """Looked for in the same worlds as what breaks without one."""
    assert broken_by(ANY_ORDER) is None


def test_the_other_verbs_write_the_same_again():
    """So nothing guards their second time: no state is added, no law breaks."""
    others = tuple(action.verb for action in ACTIONS if action.verb not in ONCE)
    once = summary(ANY_ORDER, [small_world(ANY_ORDER, RANKS[2])])
    repeating = replace(ANY_ORDER, repeats=others)
    again = summary(repeating, [small_world(repeating, RANKS[2])])
    assert again.violations == {}
    assert (again.states, again.transitions) == (once.states, once.transitions)


def test_a_protocol_that_is_not_as_expected_is_told():
    """A present one that breaks a law, a historical one that breaks none."""
    hasty = replace(ANY_ORDER, guards=without(GUARDS, GUARDS[0]))
    assert not judged(hasty, most_ranks=1).is_as_expected
    assert not judged(replace(ANY_ORDER, historical="none the wiser"), most_ranks=1).is_as_expected
    assert judged(hasty, most_ranks=1).verdict("S1") == "BROKEN"
