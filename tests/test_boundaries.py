"""No law is empty: each is judged on every boundary of every pool kind it claims, and at several page sizes."""

import random
from fnmatch import fnmatchcase

import pytest

from spec.laws import BY_ID, LAWS
from spec.layers import POOL_KINDS
from tests.boundaries import BOUNDARIES, NO_SUCH_PLACE, expected, is_judged, never_met, place_of


@pytest.fixture(scope="module")
def places(gate_corpora):
    """What the gate draws, and where each scenario lies; cells mixed, so that everything is met early."""
    found = [place_of(cell, scenario) for cell, corpus in gate_corpora.items() for scenario in corpus]
    random.Random(0).shuffle(found)
    return found


@pytest.mark.parametrize("law", LAWS, ids=[law.id for law in LAWS])
def test_a_law_is_judged_on_every_boundary(places, law):
    """In every pool kind it claims."""
    missing = {pool: never_met(law, pool, places) for pool in POOL_KINDS if expected(law, pool)}
    assert missing == dict.fromkeys(missing, set())
    assert missing


@pytest.mark.parametrize("boundary", BOUNDARIES, ids=[boundary.name for boundary in BOUNDARIES])
def test_a_boundary_that_is_never_met_is_seen(places, boundary):
    """Without its scenarios the law that claims all cells misses it, where it exists."""
    elsewhere = [place for place in places if boundary.name not in place.boundaries]
    for pool in boundary.pools:
        assert boundary.name in never_met(BY_ID["Q1"], pool, elsewhere)


def test_pages_of_one_token_alone_are_seen(places):
    """The corpus of another page size left out."""
    ones = [place for place in places if place.scenario.page_size == 1]
    assert "pages of [1] tokens only" in never_met(BY_ID["B4"], POOL_KINDS[0], ones)


@pytest.mark.parametrize("exception", NO_SUCH_PLACE, ids=" ".join)
def test_an_exception_is_needed(places, exception):
    """What it leaves out is met nowhere."""
    law_id, pools, names = exception
    met = [
        place
        for place in places
        if fnmatchcase(place.cell.pool, pools)
        and any(fnmatchcase(name, names) for name in place.boundaries)
        and BY_ID[law_id].claims(str(place.cell))
    ]
    assert met and not any(is_judged(BY_ID[law_id], place.scenario) for place in met)
