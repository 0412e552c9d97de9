"""The explorer sees every state once, the same way each time, and tells the shortest way to what is wrong."""

import os
import runpy
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import spec.startup.checks
from spec.laws.base import HOLDS, NOT_JUDGED, Broken
from spec.laws.startup import START_UP_BY_ID, START_UP_LAWS
from spec.model import Refusal
from spec.startup.checks import guard_lines, main, one_a_kind, timed, verdict
from spec.startup.explorer import explore, finished, replayed, ways_through
from spec.startup.protocols import ANY_ORDER, GUARDS, HISTORICAL, PRESENT, TARGET_POOL_FIRST, without
from spec.startup.story import story
from spec.startup.system import RankState, System
from spec.startup.verdicts import judged
from spec.startup.worlds import RANKS, ROOMY, SCARCE, small_world
from spec.units import GiB

BY_NAME = {protocol.name: protocol for protocol in (*PRESENT, *HISTORICAL)}
ROOT = Path(__file__).parents[1]


def every_state(system):
    """All states, no rank merged with another, and the moves between them, by brute force."""
    seen, pending, moves = {system.initial}, [system.initial], 0
    while pending:
        state = pending.pop()
        for rank in range(len(state)):
            for step in system.steps:
                after = system.ask(state, rank, step)
                if isinstance(after, Refusal) or after == state:
                    continue
                moves += 1
                if after not in seen:
                    seen.add(after)
                    pending.append(after)
    return seen, moves


@pytest.mark.parametrize("name", ["EAGLE", "plain", "draft pool in its constructor", "loader memory still resident"])
@pytest.mark.parametrize("ranks", RANKS[:5])
def test_every_state_is_counted_once(name, ranks):
    """What merged states stand for is what brute force finds; where no ranks are alike, so are the moves."""
    system = System(small_world(BY_NAME[name], ranks))
    seen, moves = every_state(system)
    found = explore(system, ())
    assert found.all_states == len(seen)
    assert found.states <= found.all_states
    if len(set(ranks)) == len(ranks):
        assert (found.states, found.transitions) == (len(seen), moves)
    else:
        assert found.states < len(seen)


def test_the_ways_pass_through_every_state():
    """One rank and two different ones; of alike ranks that trade places, one way is enough."""
    for ranks in RANKS[:4]:
        system = System(small_world(ANY_ORDER, ranks))
        passed = {state for way in ways_through(system) for state in replayed(system, way)}
        found = explore(system, ())
        assert len(passed) >= found.states
        assert len(passed) == found.states or len(set(ranks)) < len(ranks)


def test_a_finished_way_ends_where_nothing_is_left_to_do():
    """From the first state, and from any other."""
    system = System(small_world(ANY_ORDER, (ROOMY, SCARCE)))
    for way in ways_through(system)[::10]:
        end = replayed(system, finished(system, way))[-1]
        assert all(map(system.is_finished, end))
        assert finished(system, way)[: len(way)] == way


def test_two_runs_find_the_same():
    """Whatever order a hash gives: counts, ways and violations."""
    program = (
        "from spec.startup.explorer import *; from spec.startup.worlds import *; from spec.startup.protocols import *\n"
        "from spec.laws.startup import START_UP_LAWS\n"
        "for protocol in (ANY_ORDER, HISTORICAL[4]):\n"
        "    system = System(small_world(protocol, RANKS[4]))\n"
        "    found = explore(system, START_UP_LAWS)\n"
        "    print(found.states, found.all_states, found.transitions, found.judged, found.ends)\n"
        "    print([(name, violation.broken, violation.trace) for name, violation in found.violations.items()])\n"
        "    print(ways_through(system))\n"
    )
    texts = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        run = subprocess.run(
            (sys.executable, "-c", program), env=environment, capture_output=True, check=True, text=True
        )
        texts.add(run.stdout)
    (text,) = texts
    assert "finished" in text
    assert "'S2'" in text


def test_a_start_without_memory_is_refused_in_every_order():
    """Weights leave nothing static: sizing refuses. Weights do not fit: loading does. The pool's spare rows, request
    table or the graphs do not fit beside the static share: those do. Each is an end like any other."""
    world = small_world(ANY_ORDER, (ROOMY, SCARCE))
    cases = [
        ({"mem_fraction_static": Fraction(1, 8)}, "no_memory_left"),
        ({"target_weight_bytes": 30 * GiB}, "out_of_memory"),
        ({"mem_fraction_static": Fraction(9_999, 10_000)}, "out_of_memory"),
        ({"graph_bytes": 8 * GiB}, "out_of_memory"),
    ]
    for changes, kind in cases:
        found = explore(System(replace(world, **changes)), START_UP_LAWS)
        assert found.violations == {}
        assert set(found.ends) == {kind}


def test_an_end_may_have_nothing_left_but_waits():
    """Two steps that wait for each other."""
    knotted = replace(ANY_ORDER, guards=(*GUARDS, *BY_NAME["frozen-KV MTP, target pool first"].phases[:1]))
    assert explore(System(small_world(knotted, (ROOMY,))), START_UP_LAWS).ends == {"stuck": 1}


def test_exploring_may_stop_at_the_first_violation():
    """Before the rest is seen."""
    system = System(small_world(HISTORICAL[0], (ROOMY, SCARCE)))
    stopped = explore(system, START_UP_LAWS, until_broken=True)
    assert stopped.states < explore(system, START_UP_LAWS).states
    assert list(stopped.violations) == ["S1"]


SIZED = replayed(System(small_world(ANY_ORDER, (ROOMY,))), finished(System(small_world(ANY_ORDER, (ROOMY,))), ()))[-1][
    0
]
ALONE = System(small_world(ANY_ORDER, (ROOMY,)))


@pytest.mark.parametrize(
    ("law_id", "state", "term"),
    [
        ("S2", replace(SIZED, pools=SIZED.pools[:1], reported=True, captured=False, backends=()), "worker info"),
        ("S2", replace(SIZED, backends=("target",)), "graphs"),
        ("S3", replace(SIZED, pools=(SIZED.pools[0], *SIZED.pools)), "pools"),
        ("S3", replace(SIZED, backends=("target", "target", "draft")), "backends"),
        ("S4", replace(SIZED, sizes=None), "sizes"),
        (
            "S4",
            replace(SIZED, pools=(SIZED.pools[0], replace(SIZED.pools[1], allocator="draft"))),
            "allocator of draft",
        ),
        ("S5", replace(SIZED, weights=("target", "target", "draft")), "resident bytes"),
    ],
)
def test_a_law_of_a_rank_names_what_is_off(law_id, state, term):
    """It holds on a finished rank, and says nothing of a rank that has done nothing."""
    predicate = START_UP_BY_ID[law_id].of_rank
    assert predicate(ALONE, 0, SIZED) is HOLDS
    broken = predicate(ALONE, 0, state)
    assert isinstance(broken, Broken)
    assert broken.term == term


def test_a_rank_that_has_done_nothing_is_judged_by_no_law_but_one():
    """Asking again is always judged."""
    silent = {law.id for law in START_UP_LAWS if law.of_rank and law.of_rank(ALONE, 0, RankState()) is NOT_JUDGED}
    assert silent == {"S1", "S2", "S4", "S5", "S6"}


def test_ends_that_differ_break_a_law():
    """In the sizes of a rank, in the sizes of an order, in whether there are any, in whether the start was finished."""
    predicate = START_UP_BY_ID["S7"].of_end
    fewer = replace(SIZED, sizes=replace(SIZED.sizes, max_total_num_tokens=16))
    unsized, unfinished = replace(SIZED, sizes=None), replace(SIZED, captured=False)
    system = System(small_world(ANY_ORDER, (ROOMY, ROOMY)))
    assert predicate(system, (SIZED, SIZED), (SIZED, SIZED)) is HOLDS
    assert predicate(system, (unsized, unsized), (unsized, unsized)) is HOLDS
    for first, end, term in (
        ((SIZED, SIZED), (SIZED, fewer), "max_total_num_tokens"),
        ((SIZED, SIZED), (fewer, fewer), "max_total_num_tokens"),
        ((SIZED, SIZED), (SIZED, unsized), "sizes"),
        ((unsized, unsized), (SIZED, SIZED), "sizes"),
        ((SIZED, SIZED), (SIZED, unfinished), "end"),
    ):
        broken = predicate(system, first, end)
        assert isinstance(broken, Broken)
        assert broken.term == term


STORY = """\
  5 steps to S5, 1 rank of 24.00 GiB, 18.00 GiB static
  rank 0  load target          -6,442,450,944    19,327,352,832 free
  rank 0  measure                                19,327,352,832 free  reads 18.00 GiB
          S1 broken: weights resident when measured: expected all, got not draft (1,073,741,824 bytes to come)
  rank 0  size                                   19,327,352,832 free  786,432 tokens for 4,096 requests
  rank 0  allocate target     -12,952,371,220     6,374,981,612 free
  rank 0  load draft           -1,073,741,824     5,301,239,788 free
          S5 broken: resident bytes: expected at most 19,327,352,832, got 20,401,094,656 (1,073,741,824 too many)"""


def test_a_violation_is_told_with_the_bytes_of_every_step():
    """The frozen-KV start of 0.5.14, to the byte."""
    title, told = story(*judged(HISTORICAL[1], most_ranks=1).violations["S5"]).split("\n", 1)
    assert title == f"{HISTORICAL[1].name}: {HISTORICAL[1].historical}"
    assert told == STORY


def test_a_story_of_two_ranks_says_where_they_differ():
    """Orders end apart, and what was reported on the way."""
    text = story(*judged(HISTORICAL[-1], most_ranks=2).violations["S7"])
    assert "18 steps to S7, 2 ranks of 24.00 GiB and 24.00 GiB, 18.00 GiB static on the first" in text
    assert "requests of up to 4,095 tokens" in text
    assert text.endswith("S7 broken: max_total_num_tokens: expected 480,592, got 393,216 (rank 1 beside rank 0)")


def test_a_present_protocol_that_breaks_a_law_has_a_story_too():
    """What a contributor sees of a protocol in the making."""
    hasty = replace(ANY_ORDER, name="a hasty worker", guards=without(GUARDS, TARGET_POOL_FIRST))
    text = story(*judged(hasty, most_ranks=1).violations["S4"])
    assert text.startswith("a hasty worker: breaks a law\n")
    assert text.endswith("S4 broken: allocator of draft: expected target, got draft")


def test_the_model_check_tells_all(capsys):
    """Its table, its guards, its stories, its last line; explored here on one rank, where one protocol is right."""
    assert main(most_ranks=1) == 1
    text = capsys.readouterr().out
    for protocol in (*PRESENT, *HISTORICAL):
        assert f"\n{protocol.name} " in text
    assert f"\n{STORY}\n" in text
    assert "  size, then allocate *                        S2 in 1\n" in text
    explored = [timed(protocol, 1)[0] for protocol in (*PRESENT, *HISTORICAL)]
    states, transitions = (sum(getattr(found, name) for found in explored) for name in ("states", "transitions"))
    assert text.splitlines()[-1] == (
        f"9 present protocols, 8 historical: {states:,} states, {transitions:,} transitions; 83 of 83 guards are "
        "needed; NOT AS EXPECTED: minimum before the rank's own reserve"
    )


def test_the_model_check_ends_well_when_all_is_as_expected(capsys):
    """And not when a guard can be taken away unnoticed."""
    explored = [judged(protocol, most_ranks=1) for protocol in (PRESENT[0], HISTORICAL[0])]
    assert verdict(explored, ["S1 in 1"]) == 0
    assert capsys.readouterr().out.endswith("1 of 1 guards are needed; every protocol as expected\n")
    assert verdict(explored, ["S1 in 1", ""]) == 1
    assert "1 of 2 guards are needed" in capsys.readouterr().out
    assert list(guard_lines({"a guard": ["S1 in 1", "S1 in 2", ""]})) == [
        f"  {'a guard':<44} S1 in 1, S1 in 2, NOTHING in 1"
    ]


def test_guards_are_taken_from_one_protocol_of_each_kind():
    """Their phases aside the others are the same."""
    kinds = [protocol.algorithm for protocol in one_a_kind(PRESENT)]
    assert len(kinds) == len(set(kinds)) == 7


def test_the_module_runs_the_model_check(monkeypatch):
    """`python -m spec.startup` exits as the check says."""
    monkeypatch.setattr(spec.startup.checks, "main", lambda: 7)
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("spec.startup", run_name="__main__")
    assert ended.value.code == 7
