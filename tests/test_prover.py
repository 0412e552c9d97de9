"""The prover behind `pytest properties -k proofs`: it proves what is true and nothing else."""

import importlib
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import properties.proofs
from properties import proof_report
from properties.plugin import CONTEXT
from properties.proof_report import PROVED_OF
from properties.proofs import instances, paths
from properties.proofs.explore import Inputs, explore, plain_verdict
from properties.proofs.table import LONG, PROOFS
from properties.proofs.wordings import WORDINGS
from spec.laws.base import HOLDS, Broken, Verdict
from spec.layers import ALL_WINDOW_POOL, CAPPED_POOL, DEFAULT_POOL, MLA_POOL, POOL_KINDS

LAWS_OF_ALL_KINDS = ("B1", "B2", "B3", "B4", "B5", "B6", "B7", "C1", "D1", "D2", "D3", "D4", "R1", "D5 oversells")
LAWS_OF_SOME_KINDS = {"R3": (DEFAULT_POOL, MLA_POOL), "W1": (ALL_WINDOW_POOL,), "W3": (CAPPED_POOL,)}


def says(condition: object) -> Verdict:
    """A verdict on a condition."""
    return HOLDS if condition else Broken("condition", True, False)


def pages_are_whole(inputs: Inputs) -> Verdict:
    """True: rounding down to pages leaves less than a page."""
    rows, page_size = inputs.integer("rows"), inputs.integer("page_size", 1)
    kept = rows // page_size * page_size
    return says(kept <= rows and rows - kept < page_size and kept % page_size == 0)


def products_grow(inputs: Inputs) -> Verdict:
    """False where the second number is 0."""
    left, right = inputs.integer("left", 1), inputs.integer("right")
    return says(left * right >= left)


def nothing_costs(inputs: Inputs) -> Verdict:
    """True: where the rows of a stage cost nothing together, any number of them costs nothing."""
    full, swa, ratio, rows = (inputs.integer(name, least) for name, least in (("F", 0), ("S", 0), ("r", 1), ("N", 0)))
    inputs.assume(full + ratio * swa == 0)
    return says(full * rows + swa * rows == 0)


def something_is_nothing(inputs: Inputs) -> Verdict:
    """False: of a product that is 0, either number may be the one that is not."""
    left, right, rows = (inputs.integer(name) for name in ("left", "right", "rows"))
    inputs.assume(left * right == 0)
    return says(left * rows == 0)


def nothing_meets_it(inputs: Inputs) -> Verdict:
    """True of nothing: no integer is both."""
    number = inputs.integer("number")
    inputs.assume(number * number < 0)
    return HOLDS


def divides_by_what_may_be_0(inputs: Inputs) -> Verdict:
    """Without a verdict where the divisor is 0."""
    return says(inputs.integer("rows") // inputs.integer("page_size") >= 0)


def test_a_true_claim_is_proved():
    found = explore(pages_are_whole)
    assert (found.open, found.counterexample) == ("", None)
    assert found.holding and plain_verdict(pages_are_whole, found.example) is HOLDS


def test_a_false_claim_is_open_and_its_counterexample_breaks_it():
    found = explore(products_grow)
    assert found.open.startswith("Broken(")
    assert found.counterexample["right"] == 0
    assert isinstance(plain_verdict(products_grow, found.counterexample), Broken)


def test_what_is_0_together_is_0_alone_and_a_product_of_0_has_one_number_that_is_0():
    assert explore(nothing_costs).open == ""
    found = explore(something_is_nothing)
    assert found.counterexample is not None
    assert isinstance(plain_verdict(something_is_nothing, found.counterexample), Broken)


def test_a_claim_with_premises_that_nothing_meets_has_no_example():
    assert explore(nothing_meets_it).example is None


def test_a_divisor_that_may_be_0_leaves_a_claim_open():
    assert "not shown to be positive" in explore(divides_by_what_may_be_0).open


def test_a_solver_that_gives_up_leaves_a_claim_open(monkeypatch: pytest.MonkeyPatch):
    for module in (instances, paths):
        monkeypatch.setattr(module, "RESOURCES", 1)
    assert explore(pages_are_whole).open


def test_without_the_solver_the_proofs_say_what_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(ImportError, match="need z3-solver, which is not installed: pip install z3-solver"):
        importlib.reload(properties.proofs)


def test_every_law_of_sizes_is_listed_for_every_pool_kind():
    laws = {**dict.fromkeys(LAWS_OF_ALL_KINDS, POOL_KINDS), **LAWS_OF_SOME_KINDS}
    expected = {(law, kind, name) for law, kinds in laws.items() for kind in kinds for name in PROVED_OF}
    listed = [proof.names for proof in PROOFS]
    assert expected <= set(listed)
    assert len(listed) == len(set(listed))
    assert {lemma for proof in PROOFS for lemma in proof.lemmas} <= {proof.law for proof in PROOFS}


def configured(
    implementation: str = "configurator", profile: str = "gate", cell: str = "*", law: str | None = None
) -> Any:
    """A run with these options, as far as the proofs look at it."""
    options = {"--kv-cell": cell, "--kv-law": law}
    deselected = SimpleNamespace(pytest_deselected=lambda items: None)
    context = SimpleNamespace(implementation_name=implementation, profile_name=profile)
    return SimpleNamespace(stash={CONTEXT: context}, getoption=options.get, hook=deselected)


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        ({}, None),
        ({"profile": "nightly"}, None),
        ({"law": "B1"}, None),
        ({"profile": "dev"}, True),
        ({"implementation": "sglang"}, True),
        ({"implementation": "spec"}, None),
        ({"cell": "hybrid-*"}, True),
    ],
)
def test_a_run_of_all_cells_proves_what_it_judges_and_one_of_something_else_does_not(
    options: dict[str, str], left_out: bool | None
):
    path = SimpleNamespace(name="test_proofs.py")
    assert proof_report.pytest_ignore_collect(path, configured(**options)) is left_out


def chosen(law: str | None) -> set[str]:
    """The names of the proofs and wordings that `--kv-law` leaves."""
    tests = [{"proof": proof} for proof in PROOFS] + [{"wording": wording} for wording in WORDINGS] + [{}]
    items = [SimpleNamespace(callspec=SimpleNamespace(params=params)) for params in tests]
    proof_report.pytest_collection_modifyitems(configured(law=law), items)
    return {proof.law for item in items if (proof := proof_report.proof_of(item))}


def test_a_run_of_some_laws_proves_these_and_what_they_go_by():
    assert chosen(None) == {proof.law for proof in (*PROOFS, *WORDINGS)}
    assert chosen("D1") == {"D1", "D1 rows", "limits", "SWA rows"}
    assert chosen("S*") == set()


def test_the_long_proofs_are_named():
    (line,) = proof_report.left_out_lines()
    assert all(law in line for law in LONG)


def test_a_proof_is_a_line_with_its_seconds_paths_and_mutant():
    proofs = [["B1", "default", "spec", 0.5, 12], ["B2", "default", "spec", 1.25, 7]]
    lines = proof_report.proof_table(proofs, [["B1", "default", "spec", "sells a page more"]])
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "B1 default spec 0.50 12 sells a page more",
        "B2 default spec 1.25 7",
        "2 proofs in 1.8 s, 1 mutants refuted",
    ]
