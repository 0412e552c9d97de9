"""What a run prints of the cells in which something is broken."""

import itertools

from properties.cells import CELLS
from properties.summary import cells_text


def expanded(text):
    """Every name a pattern with braces stands for."""
    if "{" not in text:
        return [text]
    before, rest = text.split("{", 1)
    names, after = rest.split("}", 1)
    return [before + name + end for name in names.split(",") for end in expanded(after)]


def test_cells_with_the_same_endings_are_written_at_once():
    """Drafts first, then ranks and dtypes where every combination is there."""
    cells = [
        f"mla-{draft}_own-{ranks}-{dtype}"
        for draft in ("eagle", "mtp")
        for ranks in ("dp", "tp")
        for dtype in ("other", "same")
    ]
    assert cells_text(cells) == "mla-{eagle_own,mtp_own}-{dp,tp}-{other,same}"
    assert cells_text(cells[:3]) == "mla-eagle_own-{dp-other,dp-same,tp-other}"
    assert cells_text(["default-none-tp-same"]) == "default-none-tp-same"


def test_no_cell_is_lost_and_none_invented():
    """Whatever is broken: expanded again, the patterns are the cells."""
    names = [str(cell) for cell in CELLS]
    for step, start in itertools.product((1, 2, 3, 7, 50), range(3)):
        broken = names[start::step]
        patterns = cells_text(broken).split(", ")
        assert sorted(name for pattern in patterns for name in expanded(pattern)) == sorted(broken)
