"""The guide's figures show the numbers of the code they illustrate, and pictures of one budget those of its budget."""

import json
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

from properties.cells import CELLS
from spec.__main__ import main
from spec.explain.charts import COLORS, DARK, svg
from spec.explain.figure_data import DRAFT_GROUPS, cell_names, ratio_errors, startup_traces
from spec.explain.figures import FIGURES, FOLDER
from spec.layers import POOL_KINDS

ROOT = Path(__file__).parents[1]


def data_of(text):
    """The numbers a file says it shows."""
    return json.loads(unescape(re.search(r'<metadata id="data">(.*?)</metadata>', text, flags=re.DOTALL)[1]))


def labels_of(text):
    """What is written in it, and what a reader hears who does not see it."""
    return re.findall(r"<(?:text|title|desc)\b[^>]*>([^<]*)<", text)


@pytest.fixture(scope="module", name="drawn")
def drawn_once():
    """Every figure drawn again."""
    return {name: svg(figure()) for name, figure in FIGURES.items()}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_shows_the_numbers_of_the_code(name, drawn):
    """Data and labels of the file are those of today; where they are not, `python -m spec explain figures`."""
    kept = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert data_of(kept) == data_of(drawn[name])
    assert labels_of(kept) == labels_of(drawn[name])
    assert len(labels_of(kept)) > 5


def test_no_other_figure_is_kept():
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(FIGURES)


def test_a_figure_is_drawn_alike_each_time(drawn, tmp_path):
    assert main(["explain", "figures", str(tmp_path)]) == 0
    for name, text in drawn.items():
        assert (tmp_path / f"{name}.svg").read_text(encoding="utf-8") == text
        assert not re.search(r"\d{4}-\d\d-\d\dT", text)


def test_a_figure_reads_in_the_dark_and_aloud(drawn):
    """Paper and ink turn over together; a title and a description come first."""
    for text in drawn.values():
        assert re.search(r'<svg [^>]*role="img">\s*<title>[^<]+</title>\s*<desc>[^<]+</desc>', text)
        assert "prefers-color-scheme: dark" in text
        for light, dark in DARK.items():
            assert f'[style*="fill: {light}"]{{fill:{dark}!important}}' in text
        assert any(color in text for color in COLORS.values())


def test_the_law_matrix_has_every_cell():
    names = [name for pool in POOL_KINDS for group in DRAFT_GROUPS for name in cell_names(pool, group)]
    assert sorted(names) == sorted(map(str, CELLS))


def test_the_ratio_errors_are_those_of_the_43_pairs():
    """1152 bytes charged for the 32768 of the widest draft."""
    pairs = ratio_errors()
    assert len(pairs) == 43
    assert pairs[0][0] == "Kimi-K2.5 + SpecForge kimi-k25-eagle3" and pairs[0][1][1] * 32768 == 1152


def test_only_the_historical_start_ups_take_too_much():
    over = [told.over_bytes > 0 for told in startup_traces().values()]
    assert over == [False, True, True]


def test_no_picture_no_matplotlib():
    """Explaining a budget does not import it."""
    program = (
        "import sys; from spec.__main__ import main; "
        "main(['explain', 'Qwen3-8B', '--available-bytes', '1GiB']); print('matplotlib' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.endswith("False\n")


def test_without_matplotlib_a_picture_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ValueError, match=r"unsupported: matplotlib=None. .*pip install -e '.\[pictures\]'"):
        FIGURES["memory-bar"]()
