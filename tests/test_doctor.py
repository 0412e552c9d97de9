"""`python -m properties doctor`: what it finds, what it says to do, and how it exits."""

from dataclasses import replace
from datetime import date

import pytest

from impl import PATH_VARIABLE
from properties import doctor
from properties.doctor import CLASHES, MENDS, Remark, missing_packages, of_implementation, plugin_clashes, surroundings
from properties.known import KnownFailures
from properties.verbs import main
from tests.test_gate import BROKEN, GREEN, WRONG_USE, judging
from tests.test_known_failures import TODAY, entry, known
from tests.wrong_implementations import HasGrown, Sound


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the shell the tests were started from."""
    for name in (PATH_VARIABLE, "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)


def examined(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    """(exit code, what is printed)."""
    code = main(["doctor", *options])
    return code, capsys.readouterr().out


def test_it_says_who_is_judged_and_how_much(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = examined(capsys)
    assert code == GREEN
    assert "  versions       Python 3." in text and "hypothesis " in text
    assert "  judged         configurator 0.1 by impl.optimized.Configurator\n" in text
    assert "in 357 cells\n" in text and "  known          no file\n" in text
    assert "Q1" in examined(capsys, "--kv-impl", "spec")[1]


def test_what_would_make_a_run_red_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = examined(capsys, *judging("HasGrown"))
    assert code == BROKEN
    assert "  FAILS          engine 2 adds FooPoolConfigurator: no law judges it\n" in text
    assert "  coverage       1 of 2 configurators\n" in text
    assert "  exempt         B1 in hybrid-*-dcp-*: it has no DCP\n" in text


def test_who_cannot_be_loaded_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = examined(capsys, "--kv-impl", "no.such.module:Name")
    assert code == WRONG_USE and "No module named 'no'" in text and "no run can begin: exit code 4" in text


def test_a_missing_package_says_what_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "installed", lambda package: None)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    assert [remark.mend for remark in missing_packages()] == list(MENDS.values())


def test_a_plugin_that_clashes_is_named() -> None:
    assert [remark.mend for remark in plugin_clashes(("xdist", "randomly", "pytest_sugar"))] == [
        CLASHES["randomly"],
        CLASHES["sugar"],
    ]


def test_the_surroundings_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(surroundings()) == []
    monkeypatch.setenv(PATH_VARIABLE, "elsewhere")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-x")
    monkeypatch.setattr(doctor, "providers", object())
    said = [remark.what for remark in surroundings()]
    assert said[0] == "KV_IMPL_PATH is set to 'elsewhere'" and said[1] == "PYTEST_ADDOPTS is '-x'"
    assert said[2].startswith("Hypothesis ")


def test_an_expired_fault_and_a_later_release_are_told() -> None:
    expected = known(entry())
    ((name, fault),) = expected.faults
    expired = replace(expected, faults=((name, replace(fault, until=date(2026, 11, 30))),))
    later = Sound()
    later.version = "9, driven like 8"
    remarks = list(of_implementation(later, expired, TODAY))
    assert [(remark.fails, remark.what.split()[-1]) for remark in remarks] == [(True, "2026-11-30"), (False, "own")]
    assert list(of_implementation(Sound(), KnownFailures(), TODAY)) == []
    assert all(isinstance(remark, Remark) and remark.fails for remark in of_implementation(HasGrown(), expected, TODAY))
