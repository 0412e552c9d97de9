"""The table of what historical start-ups cost on real pairs, computed again."""

import re
from fractions import Fraction

from spec.catalog import pairs
from tests.startup_exposure import PAIRS, TABLE, counted, draft_bytes, over_bytes, rows, table


def test_the_table_is_what_the_protocols_do():
    """Every row: bytes over budget, and what the flat reserve wasted or lacked."""
    found = list(rows())
    assert table(found) == TABLE.read_text(encoding="utf-8")
    assert counted(found)["lacked"] > 200


def test_the_readme_says_how_often_the_reserve_was_too_small():
    """As the table counts."""
    readme = (TABLE.parents[2] / "README.md").read_text(encoding="utf-8")
    lacked, starts = re.search(r"too small in (\d+) of (\d+) starts", TABLE.read_text(encoding="utf-8")).groups()
    assert f"on {len(PAIRS)} real pairs the flat reserve" in readme
    assert f"{lacked} of {starts} starts" in readme


def test_every_pair_with_nominal_weights_is_in_the_table():
    """The others have targets whose name says no number of parameters."""
    text = TABLE.read_text(encoding="utf-8")
    assert len(PAIRS) == 30
    assert len(list(pairs())) == 43
    for pair in PAIRS:
        assert f"| {pair.target.name} | {pair.draft_name} | {pair.speculative_algorithm} |" in text


def test_measuring_early_costs_the_drafts_weights():
    """Less what a page of rows rounds away: never more than its weights."""
    page_bytes = 64 * 2**20
    for pair in PAIRS:
        over = over_bytes(pair, 141, Fraction("0.9"), 8)
        if over is not None:
            assert draft_bytes(pair, 8) - page_bytes < over <= draft_bytes(pair, 8)
