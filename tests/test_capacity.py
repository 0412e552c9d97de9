"""The document on what each release of SGLang sells beside the one before it: complete, and made as it says."""

import re
from pathlib import Path

import pytest

import properties.capacity as capacity
from impl.sglang.releases import RELEASES
from properties.asked import Source
from properties.capacity import CAPACITY, CELLS_HEADER, all_diffs, document, faults_by_cell, faults_text
from properties.cell_names import cells_of, patterns_in
from properties.diff_text import REAL_HEADER
from properties.moves import Move
from properties.witnesses import faults
from spec.model import PoolSizes
from tests.test_diff import FEW, LAYERS_FOR_DRAFT, Here

TEXT = CAPACITY.read_text(encoding="utf-8")
PAIRS = list(zip(RELEASES, list(RELEASES)[1:], strict=False))
MOVED = re.compile(
    r"^([\d,]+) of ([\d,]+) scenarios moved: ([\d,]+) of ([\d,]+) real deployments, ([\d,]+) of ([\d,]+) generated\.$",
    re.M,
)


def section(base: str, head: str) -> str:
    """The part on one release beside the one before it."""
    (found,) = re.findall(rf"^## {re.escape(base)} to {re.escape(head)}\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S)
    return str(found)


def rows_of(text: str, header: tuple[str, ...]) -> list[list[str]]:
    """The rows of the table with this header, none where there is no such table."""
    _, there, rest = text.partition(f"| {' | '.join(header)} |\n")
    rows = rest.splitlines()[1:] if there else []
    table = rows[: next((number for number, row in enumerate(rows) if not row.startswith("|")), len(rows))]
    return [row.strip("| ").split(" | ") for row in table]


def test_every_release_is_told_beside_the_one_before_it() -> None:
    titles = re.findall(r"^## (\S+) to (\S+)$", TEXT, re.M)
    assert titles == PAIRS and len(PAIRS) == 9


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_every_move_is_in_a_row_and_has_a_term(pair: tuple[str, str]) -> None:
    text = section(*pair)
    ((moved, compared, real, of_real, generated, of_generated),) = [
        tuple(int(number.replace(",", "")) for number in found) for found in MOVED.findall(text)
    ]
    assert moved == real + generated and compared == of_real + of_generated > 2000
    deployments, cells = rows_of(text, REAL_HEADER), rows_of(text, CELLS_HEADER)
    assert len(deployments) == real and sum(int(row[1]) for row in cells) == generated
    for row in deployments:
        assert re.search(r" -> ", row[-1]), row
    for row in cells:
        assert cells_of(patterns_in(row[0])) and len(row) == len(CELLS_HEADER)
        terms = re.findall(r"([^,(]+) \(([\d,]+)\)", row[CELLS_HEADER.index("terms that moved")])
        assert (
            sum(int(count) for _, count in terms) >= int(row[1]) and " -> " in row[CELLS_HEADER.index("in the worst")]
        )


def test_the_draft_family_that_was_priced_as_target_layers_moved_in_18_and_nothing_without_a_draft_on_heads() -> None:
    """PR 34234: DFLASH and DSPARK drafts by their own geometry. EAGLE beside heads, and no draft at all, stay."""
    cells = rows_of(section("0.5.17", "0.5.18"), CELLS_HEADER)
    default = {cell for row in cells for cell in cells_of(patterns_in(row[0])) if cell.startswith("default-")}
    assert default and all(cell.split("-")[1].startswith(("dflash", "dspark")) for cell in default)
    (own,) = [row for row in cells if row[0].startswith("default-dflash_own")]
    assert "dflash-as-target-layers" in own[-1] and own[CELLS_HEADER.index("terms that moved")].startswith("draft row")


def test_the_faults_named_are_those_of_the_catalog() -> None:
    names = {fault.id for fault in faults()}
    for release in RELEASES:
        assert faults_by_cell(release).keys() <= names
    move = Move(FEW[0], "default-dflash_own-tp-same", *[PoolSizes(1, 1, 0, 1, 1)] * 2, (), None, None)
    text = faults_text("0.5.17", "0.5.18", [move])
    assert text.startswith("ends dflash-as-target-layers") and "; begins " in text
    assert faults_text("0.5.17", "0.5.17", [move]) == "-"


class Fake(Here):
    """An implementation of this process in place of one in a process of its own."""

    def __init__(self, source: Source) -> None:
        super().__init__(source.name)
        self.closed = 0

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed += 1


def test_each_release_is_asked_once_and_written_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = {"0.5.17": LAYERS_FOR_DRAFT, "0.5.18": "configurator", "0.5.19": "spec"}
    started: list[Fake] = []
    monkeypatch.setattr(capacity, "RELEASES", names)
    monkeypatch.setattr(capacity, "released", lambda name: Source(names[name]))
    monkeypatch.setattr(capacity, "Process", lambda source: started.append(Fake(source)) or started[-1])
    text = document(list(all_diffs(list(FEW), "a few")), "a few")
    assert len(started) == 3 and all(one.closed for one in started)
    assert re.findall(r"^## (.+)$", text, re.M) == ["0.5.17 to 0.5.18", "0.5.18 to 0.5.19"]
    assert "| a pair | 512 | 341 | -33.40 % | +0.00 GiB | -0.00 GiB | draft row 4 -> 8 B |" in text
    (row,) = rows_of(text, CELLS_HEADER)
    assert row[-1].startswith("ends dflash-as-target-layers") and "draft_cell_size_per_token" in row[-2]
    monkeypatch.setattr(capacity, "CAPACITY", tmp_path / "CAPACITY.md")
    monkeypatch.setattr(capacity, "drawn_questions", lambda *_: list(FEW))
    assert capacity.main(["--kv-profile", "dev"]) == 0
    assert (tmp_path / "CAPACITY.md").read_text(encoding="utf-8") == text.replace("(a few)", "(profile dev, seed 0)")
