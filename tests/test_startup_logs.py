"""Sizes and token budgets that real servers printed at start-up, recomputed to the printed digit.

`data/startup_logs.json` holds the logs; no number here has a tolerance beyond the digits that were printed.
"""

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from spec.layers import HYBRID_POOL, pool_kind
from spec.model import EAGLE, Latent, MemoryFigures, Refused
from spec.pools import bytes_per_token, hybrid_swa_rows, rows_that_fit, size_pools, stage_row_bytes
from spec.units import GiB
from spec.validity import check_scenario
from tests.startup_logs import BY_ID, DATAPOINTS, SIZES, identifiers, printed_size, row_bytes, scenario_of

each_size = pytest.mark.parametrize(("entry", "size"), SIZES, ids=identifiers(SIZES))
"""Every printed size."""

HALF_A_DIGIT = Fraction("0.005")
"""A reading printed to two decimals lies this close to what was measured, in GiB."""

MEASURED = [entry for entry in DATAPOINTS if "budget" in entry]
EXACT = [(entry, rank) for entry in DATAPOINTS for rank in entry.get("exact_budget", ())]
DEPLOYED = [entry for entry in DATAPOINTS if "target" in entry or "target_geometry" in entry]


def ids_of(entries):
    """One test id for each datapoint."""
    return [entry["id"] for entry in entries]


def with_wrong_heads(shape, ranks):
    """The shape with one KV head more on each rank; a latent has none and loses its rope part."""
    if isinstance(shape.full, Latent):
        return replace(shape, full=replace(shape.full, qk_rope_head_dim=0))
    swa = shape.swa and replace(shape.swa, num_kv_heads=shape.swa.num_kv_heads + ranks)
    return replace(shape, full=replace(shape.full, num_kv_heads=shape.full.num_kv_heads + ranks), swa=swa)


def wrong_heads(scenario):
    """The deployment with a head too many per rank, in target and draft."""
    ranks, draft = scenario.deployment.tp_size, scenario.draft
    draft = draft and replace(draft, shape=with_wrong_heads(draft.shape, ranks))
    return replace(scenario, target=with_wrong_heads(scenario.target, ranks), draft=draft)


def widest_readings(scenario, budget):
    """The fewest and the most tokens that the spec sells within the rounding of the printed readings."""
    before, after = Fraction(budget["free_before_load"]), Fraction(budget["free_after_all_weights"])
    fraction = Fraction(budget["mem_fraction_static"]) * Fraction(budget.get("multimodal_factor", "1"))
    sold = []
    for off in (-HALF_A_DIGIT, HALF_A_DIGIT):
        figures = MemoryFigures(
            free_before_load=((math.floor((before - off) * GiB),),),
            free_after_all_weights=((math.floor((after + off) * GiB),),),
            mem_fraction_static=fraction,
        )
        sold.append(size_pools(replace(scenario, budget=figures)).max_total_num_tokens)
    return tuple(sold)


def test_all_the_sizes_of_the_collection_are_here():
    """62 sizes of 28 servers, 2 exact token budgets and 4 from rounded readings; 30 servers in all."""
    assert len(BY_ID) == len(DATAPOINTS) == 30
    assert len(SIZES) == len(set(identifiers(SIZES))) == 62
    assert len([entry for entry in DATAPOINTS if entry["printed"]]) == 28
    assert len({entry["id"] for entry, _ in EXACT}) == 2
    assert len(MEASURED) == 4


@each_size
def test_a_printed_size_is_the_bytes_really_allocated(entry, size):
    """Rows sold and the spare page, in GiB, to the digit the server printed."""
    assert printed_size(scenario_of(entry), size) == size["printed"]


@each_size
def test_a_row_costs_what_was_worked_out_by_hand(entry, size):
    """Bytes of one row over all layers a printed size counts: exact, where two decimals of a GiB say little."""
    assert row_bytes(scenario_of(entry), size) == size["row_bytes"]


@each_size
def test_a_head_too_many_does_not_print_the_same(entry, size):
    """One head more per rank (a latent: no rope part) misses the printed digit, except where two decimals are too few
    to tell, which the data marks."""
    is_the_same = printed_size(wrong_heads(scenario_of(entry)), size) == size["printed"]
    assert is_the_same == size.get("cannot_tell_a_head", False)


@each_size
def test_the_spare_rows_are_in_the_printed_size(entry, size):
    """Without spare rows four sizes miss their printed digit, with a single one instead of a page two still do; the
    others are too coarse to tell."""
    scenario = scenario_of(entry)
    assert (printed_size(scenario, size, spare_rows=0) == size["printed"]) != size.get("needs_spare_rows", False)
    assert (printed_size(scenario, size, spare_rows=1) == size["printed"]) != size.get("only_with_page_padding", False)


@pytest.mark.parametrize("entry", DEPLOYED, ids=ids_of(DEPLOYED))
def test_the_spec_accepts_what_a_server_ran(entry):
    """Every deployment that printed a log is valid; one that the data marks as disputed is refused."""
    scenario = scenario_of(entry)
    if "disputed" in entry:
        with pytest.raises(Refused, match="no FP4 beside window pools"):
            check_scenario(scenario)
    else:
        check_scenario(scenario)


WINDOWED = {entry["id"]: size for entry, size in SIZES if "swa" in size["tokens"]}


@pytest.mark.parametrize("name", WINDOWED)
def test_the_printed_swa_rows_are_the_ratio_of_the_full_rows(name):
    """Four fifths, aligned down to the page."""
    scenario, tokens = scenario_of(BY_ID[name]), WINDOWED[name]["tokens"]
    assert pool_kind(scenario) == HYBRID_POOL
    assert hybrid_swa_rows(tokens["full"], scenario.swa_full_tokens_ratio, scenario.page_size) == tokens["swa"]


@pytest.mark.parametrize("entry", MEASURED, ids=ids_of(MEASURED))
def test_a_token_budget_is_within_the_rounding_of_its_readings(entry):
    """The tokens sold lie between those of the lowest and of the highest readings that print alike."""
    fewest, most = widest_readings(scenario_of(entry), entry["budget"])
    assert fewest <= entry["budget"]["tokens"] <= most
    assert most - fewest < entry["budget"]["tokens"] / 1000


@pytest.mark.parametrize("entry", MEASURED, ids=ids_of(MEASURED))
def test_a_wrong_price_or_fraction_is_outside_the_rounding(entry):
    """A head too many sells too few tokens, another fraction (mllama: without its multimodal factor) other tokens."""
    scenario, budget = scenario_of(entry), entry["budget"]
    _, most = widest_readings(wrong_heads(scenario), budget)
    assert most < budget["tokens"]
    plain = {**budget, "multimodal_factor": "1" if "multimodal_factor" in budget else "0.999"}
    fewest, most = widest_readings(scenario, plain)
    assert not fewest <= budget["tokens"] <= most


@pytest.mark.parametrize(
    ("entry", "rank"), EXACT, ids=[f"{entry['id']}-{rank['available_bytes']}" for entry, rank in EXACT]
)
def test_a_token_budget_printed_in_full_is_exact(entry, rank):
    """`align_down(A // cell, P)` of the printed bytes is the printed number of tokens; a page's worth of bytes less,
    and it is not."""
    available, page_size = rank["available_bytes"], entry["page_size"]
    if "bytes_per_token" in rank:
        token_bytes = rank["bytes_per_token"]
    else:
        scenario = scenario_of(entry, budget=(available,))
        token_bytes = bytes_per_token(pool_kind(scenario), stage_row_bytes(scenario, 0), scenario.swa_full_tokens_ratio)
        assert size_pools(scenario).max_total_num_tokens == rank["tokens"]
    assert rows_that_fit(available, token_bytes, page_size) == rank["tokens"]
    assert rows_that_fit(available - page_size * token_bytes, token_bytes, page_size) != rank["tokens"]


PRICED = [entry for entry in DATAPOINTS if "bytes_per_token" in entry]


@pytest.mark.parametrize("entry", PRICED, ids=ids_of(PRICED))
def test_printed_bytes_per_token_are_those_of_the_target(entry):
    """24 MLA layers of Kimi-K3: 27648 bytes in bf16, 13824 in fp8."""
    assert stage_row_bytes(scenario_of(entry), 0).full == entry["bytes_per_token"]["target"]


def test_an_mtp_layer_is_a_seventeenth_kv_layer():
    """Bytes that held 2394 tokens without the draft hold 2253.2 with it, as measured."""
    entry = BY_ID["pr1328-mtp-17th"]
    scenario = scenario_of(entry)
    row = stage_row_bytes(scenario, 0)
    assert scenario.speculative_algorithm == EAGLE and row.full == 16 * row.draft
    tokens = Fraction(entry["tokens_given_up"]["without_draft"]) * row.full / (row.full + row.draft)
    assert f"{float(tokens):.1f}" == entry["tokens_given_up"]["with_draft"]
