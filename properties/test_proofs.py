"""The laws of sizing for all integers."""

import time

import pytest

from properties.proof_report import MUTANT, PROOF, WORDING
from properties.proofs.explore import explore, plain_verdict
from properties.proofs.lemmas import LEMMAS, Lemma, is_valid
from properties.proofs.table import Proof
from properties.proofs.wordings import WORDINGS, Wording
from spec.laws.base import HOLDS, Broken


@pytest.mark.parametrize("lemma", LEMMAS, ids=str)
def test_a_lemma_of_the_prover_holds(lemma: Lemma) -> None:
    """PRODUCT, QUOTIENT, SCALE and MONOTONE, on products as they are; without a premise they are false."""
    assert is_valid(lemma.statement)
    assert not is_valid(lemma.wrong)


def test_a_law_holds_for_all_integers(proof: Proof, record_property) -> None:
    """On no path the claim is broken; its premises are met, and it holds, on plain integers of some path."""
    started = time.process_time()
    found = explore(proof.claim)
    assert not found.open
    assert found.holding
    assert found.example is not None, "no plain integers meet the premises"
    assert plain_verdict(proof.claim, found.example) is HOLDS
    record_property(PROOF, [*proof.names, round(time.process_time() - started, 2), found.paths])


def test_a_function_made_wrong_is_refuted(proof: Proof, record_property) -> None:
    """The solver finds integers that break the claim, and they break it when it is run on them; with the function as it
    is, they do not."""
    found = explore(proof.mutated, refuting=True)
    assert found.counterexample is not None
    assert isinstance(plain_verdict(proof.mutated, found.counterexample), Broken)
    assert not isinstance(plain_verdict(proof.claim, found.counterexample), Broken)
    record_property(MUTANT, [*proof.names, proof.mutant.sentence])


@pytest.mark.parametrize("wording", WORDINGS, ids=str)
def test_a_stronger_wording_is_false(wording: Wording, record_property) -> None:
    """The solver finds integers that break it, and they break it when it is run on them."""
    found = explore(wording.claim, refuting=True)
    assert found.counterexample is not None
    assert isinstance(plain_verdict(wording.claim, found.counterexample), Broken)
    numbers = ", ".join(f"{name}={number}" for name, number in found.counterexample.items())
    record_property(WORDING, [wording.law, wording.name, numbers])
