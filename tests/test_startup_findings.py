"""How `pytest properties` judges start-ups: each law seen to fail on an implementation, and what a run says."""

import subprocess
import sys
from pathlib import Path

import pytest

from impl.optimized import Configurator
from properties.startup import claimed, implementation_findings, offers_start_up, spec_findings
from spec.laws.startup import START_UP_BY_ID, START_UP_LAWS
from spec.startup.protocols import HISTORICAL, PRESENT
from tests import wrong_startups as wrong

EAGLE = next(protocol for protocol in PRESENT if protocol.name == "EAGLE")
FROZEN = next(protocol for protocol in PRESENT if protocol.name == "frozen-KV MTP")
ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("law_id", "start_up", "term"),
    [
        ("S1", wrong.ForgetsADraftRunner, "weights resident when measured"),
        ("S2", wrong.AttachesAtOnce, "backend"),
        ("S3", wrong.AllocatesAgain, "asking again"),
        ("S4", wrong.AllocatesApart, "allocator of draft"),
        ("S5", wrong.ReadsTooSoon, "resident bytes"),
        ("S6", wrong.LosesItsReserve, "bytes the measurement missed"),
        ("S7", wrong.Disagrees, "max_total_num_tokens"),
    ],
)
def test_a_law_sees_its_fault_in_an_implementation(law_id, start_up, term):
    """With the steps that lead to it; the right start-up breaks nothing."""
    found = implementation_findings(FROZEN, wrong.implementation(start_up)())
    *steps, told = found.broken[law_id].splitlines()
    assert told.startswith(f"  {law_id} broken: {term}: ")
    assert steps[0].startswith("  rank ")
    assert implementation_findings(FROZEN, Configurator()).broken == {}


def test_a_start_up_that_refuses_what_is_allowed_breaks_every_law():
    """It cannot be judged."""
    found = implementation_findings(EAGLE, wrong.implementation(wrong.Refuses)())
    assert set(found.broken) == {law.id for law in START_UP_LAWS}
    assert "load target: expected taken, got refused" in found.broken["S1"]


def test_the_specs_own_findings_are_stories():
    """A historical protocol stands in for one that is wrong."""
    assert spec_findings(EAGLE).broken == {}
    assert spec_findings(HISTORICAL[0]).broken["S5"].startswith("measure before the draft loads: ")


def test_a_law_claims_the_protocols_it_speaks_of():
    """All present ones, those with a draft, or both frozen-KV ones."""
    assert len(claimed(START_UP_BY_ID["S1"])) == len(PRESENT)
    assert len(claimed(START_UP_BY_ID["S4"])) == len(PRESENT) - 1
    assert [protocol.name for protocol in claimed(START_UP_BY_ID["S6"])] == [
        "frozen-KV MTP",
        "frozen-KV MTP, target pool first",
    ]


def test_an_implementation_may_have_no_start_up():
    """Then it is not asked for one."""
    assert offers_start_up(Configurator())
    assert not offers_start_up(wrong.SilentStart())


def run(*options):
    """`pytest properties/test_startup.py` in a process of its own: exit code and text."""
    command = (sys.executable, "-m", "pytest", "properties/test_startup.py", "-p", "no:cacheprovider", "--color=no")
    done = subprocess.run((*command, *options), cwd=ROOT, text=True, capture_output=True)
    return done.returncode, done.stdout


def test_a_wrong_start_up_ends_a_run_with_its_story():
    """Exit code 1, the law, the protocol, the steps; the spec's own tests pass."""
    code, text = run("--kv-impl", "tests.wrong_startups:Disagreeing", "-k", "plain")
    assert code == 1
    assert "S7 of plain, implementation\n  rank " in text
    assert "1 failed, 9 passed" in text


def test_a_run_of_some_laws_or_cells_leaves_the_start_up_out():
    """They have no cells."""
    for options in (("--kv-law", "B1"), ("--kv-cell", "default-*")):
        code, text = run(*options)
        assert code == 5
        assert "109 deselected" in text


def test_start_up_laws_are_chosen_by_name():
    """A run of them alone judges no cell."""
    code, text = run("--kv-law", "S1,S3", "-k", "plain")
    assert code == 0
    assert "4 passed" in text


def test_an_implementation_without_a_start_up_is_not_asked_for_one():
    """The spec's own start-up is judged in its own runs."""
    code, text = run("--kv-impl", "tests.wrong_startups:SilentStart", "--collect-only")
    assert code == 5
    assert "55 deselected" in text
