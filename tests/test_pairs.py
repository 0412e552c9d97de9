"""The catalog's pairs on a card, for any implementation."""

import subprocess
import sys

import pytest

from impl import load
from properties.pairs import BUDGET_BYTES, PairFigures, all_pair_figures, gib, pair_figures, pair_scenarios, pair_table
from spec import catalog
from spec.units import GiB
from tests.test_gate import GREEN, ROOT, WRONG_USE, judging
from tests.wrong_implementations import DividesByZero, OnePageTooMany, SupportsNothing


def test_every_pair_is_asked_on_one_rank_under_a_name_of_its_own() -> None:
    names = [(name, deployment) for name, deployment, _ in pair_scenarios()]
    assert len(set(names)) == len(names)
    assert sum(deployment == "tp1" for _, deployment in names) == len(catalog.pairs())
    assert {deployment for _, deployment in names} == {"tp1", "tp8", "tp8 dp8", "tp8 dcp8"}


def test_the_configurator_sells_what_the_spec_sells_and_builds_pools_that_fit() -> None:
    for pair in all_pair_figures(load("configurator")):
        assert pair.tokens == pair.spec_tokens and not pair.said
        assert pair.built_bytes is not None and 0 <= BUDGET_BYTES - pair.built_bytes < GiB // 8


def first_pair(implementation: object) -> PairFigures:
    """The first pair as an implementation sizes it."""
    return pair_figures(implementation, *next(pair_scenarios()))  # type: ignore[arg-type]


def test_an_implementation_without_pools_has_no_bytes() -> None:
    pair = first_pair(OnePageTooMany())
    assert pair.tokens == pair.spec_tokens + 64 and pair.built_bytes is None and pair.over_bytes is None


@pytest.mark.parametrize(
    ("implementation", "said"),
    [
        (SupportsNothing(), "not supported: no GPU here"),
        (DividesByZero(), "unlisted answer: ZeroDivisionError: cell size is 0"),
    ],
)
def test_what_is_no_answer_is_said(implementation: object, said: str) -> None:
    pair = first_pair(implementation)
    assert pair.tokens is None and pair.said == said
    assert pair_table([pair]).endswith(said)


def test_what_is_over_has_a_sign() -> None:
    pair = first_pair(load("configurator"))
    assert gib(5 * GiB // 2) == "+2.50 GiB" and gib(-GiB) == "-1.00 GiB" and gib(None) == "-"
    assert gib(pair.over_bytes) in pair_table([pair])


def printed(*options: str) -> tuple[int, str]:
    """How the program ends, and what it prints."""
    command = (sys.executable, "-m", "properties.pairs", *options)
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def test_the_program_prints_every_pair() -> None:
    code, text = printed(*judging("OnePageTooMany"))
    assert code == GREEN and len(text.splitlines()) == 1 + len(list(pair_scenarios()))


def test_an_implementation_nobody_knows_is_wrong_use() -> None:
    code, text = printed("--kv-impl", "nobody")
    assert code == WRONG_USE and "--kv-impl: 'nobody' is neither" in text and "Traceback" not in text
