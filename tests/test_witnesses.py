"""The faults of released SGLang and their witnesses, as far as they can be met without SGLang."""

import re
from datetime import date
from pathlib import Path

import pytest

from impl import Exemption, load
from properties.measure import measured
from properties.pairs import pair_scenarios
from properties.witnesses import BROKEN, FAULTS, HOLDS, NOT_ASKED, WrongFault, faults, witness_figures
from spec.laws import BY_ID
from tests.wrong_implementations import DividesByZero, OnePageTooMany, Sound, SupportsNothing

ALL = faults()
BY_NAME = {fault.id: fault for fault in ALL}


def test_every_fault_says_what_where_and_who() -> None:
    assert len({fault.title for fault in ALL}) == len(ALL) >= 22
    for fault in ALL:
        assert fault.title and fault.reason and fault.reach and not fault.reason.endswith(".")
        assert re.match(r"[\w/]+\.py: ", fault.function), fault.id
        assert fault.law in BY_ID and BY_ID[fault.law].claims(fault.cell)
        assert fault.date >= date(2026, 11, 29)
        assert not fault.link or fault.link.startswith("https://github.com/")


@pytest.mark.parametrize("implementation", ["spec", "configurator"])
def test_what_is_sound_breaks_no_law_on_any_witness(implementation: str) -> None:
    for fault in ALL:
        figures = witness_figures(load(implementation), fault)
        # The spec is no yardstick of itself: Q1 is judged of the others.
        assert figures.verdict == HOLDS and figures.answer == figures.spec_answer, fault.id
        if figures.built_bytes is not None and figures.available_bytes is not None:
            assert figures.built_bytes <= figures.available_bytes, fault.id


def test_witnesses_are_small() -> None:
    for fault in ALL:
        assert len(fault.witness.target.layers) <= 4 and fault.witness.page_size in (1, 2, 64)


def test_a_fault_is_measured_with_its_bytes() -> None:
    figures = witness_figures(OnePageTooMany(), BY_NAME["eagle-as-target-layers"])
    assert figures.verdict == BROKEN and figures.said.startswith("allocated bytes: expected at most 24, got 36")
    assert figures.answer == "3 tokens"
    assert figures.spec_answer == "2 tokens"
    assert (figures.built_bytes, figures.available_bytes) == (None, 24)


def test_an_exception_is_told_as_it_is() -> None:
    figures = witness_figures(DividesByZero(), BY_NAME["stage-without-kv"])
    assert figures.verdict == BROKEN and figures.answer == "ZeroDivisionError: cell size is 0"


class LeavesCapsOut(Sound):
    """The spec without one verdict."""

    def exemptions(self) -> tuple[Exemption, ...]:
        """Whole pages of capped pools."""
        return (Exemption("B4", "capped-*", "it has no caps"),)


def test_what_cannot_be_asked_says_why() -> None:
    unsupported = witness_figures(SupportsNothing(), BY_NAME["stage-without-kv"])
    assert (unsupported.verdict, unsupported.said) == (NOT_ASKED, "no GPU here")
    exempt = witness_figures(LeavesCapsOut(), BY_NAME["capped-rows-unaligned"])
    assert (exempt.verdict, exempt.said) == (NOT_ASKED, "it has no caps")
    assert witness_figures(LeavesCapsOut(), BY_NAME["window-pool-unchecked"]).verdict == HOLDS


ENTRY = """\
[fault.one]
title = "A title"
reason = "a reason"
function = "a.py: f"
reach = "nobody"
date = 2026-11-29
laws = ["B*"]
cells = ["default-none-*"]
pairs = []
law = "B1"
witness = '{"target": {"layers": ["full"], "full": {"Heads": {"num_kv_heads": 1, "head_dim": 1, "v_head_dim": 1}}},
"budget": [24]}'
"""


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('reach = "nobody"\n', "", "one: reach is missing"),
        ('reach = "nobody"', 'reach = "nobody"\nseverity = 3', "severity is missing, or nobody reads it"),
        ("default-none-*", "default-nothing-*", "one: no cell matches 'default-nothing-\\*'"),
        ('"B*"', '"D*"', "one: its laws and cells leave out B1 in default-none-tp-same"),
        ("[24]", "[24.5]", "one: budget"),
        ('"head_dim": 1', '"head_dim": 0', "one: invalid_input"),
    ],
)
def test_an_entry_nobody_can_read_is_said(before: str, after: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    text = ENTRY.replace(",\n", ", ")
    file.write_text(text)
    assert [fault.id for fault in faults(file)] == ["one"]
    file.write_text(text.replace(before, after, 1))
    with pytest.raises(WrongFault, match=said):
        faults(file)


def test_the_file_lies_beside_the_adapter() -> None:
    assert FAULTS.is_file() and FAULTS.parent.name == "sglang"


def test_everything_is_measured_at_once() -> None:
    found = measured(load("spec"))
    assert found["impl"]["name"] == "spec"
    assert [figures["fault"] for figures in found["witnesses"]] == list(BY_NAME)
    assert len(found["pairs"]) == len(list(pair_scenarios()))
