"""What the documents say is what runs."""

import doctest
import re
from pathlib import Path

import spec
from spec.laws import LAWS
from spec.laws.startup import START_UP_LAWS
from spec.model import ALGORITHMS, FROZEN_KV_MTP
from spec.pools import RowBytes

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

WHERE = {
    ("*",): ("all", "all but the spec itself"),
    ("*_same-*", "*_own-*"): ("with a draft",),
    ("*_same-*-same",): ("draft as the target, same dtype",),
    ("allswa-*",): ("all-window",),
    ("*-dcp-*",): ("DCP",),
    ("hybrid-*", "allswa-*", "capped-*"): ("window pools",),
    ("capped-*",): ("capped",),
}
"""How the table words the cells a law claims."""

WHERE_STARTING = {
    "start-up": (None, *ALGORITHMS),
    "start-up with a draft": ALGORITHMS,
    "frozen-KV MTP": (FROZEN_KV_MTP,),
}
"""How it words the algorithms whose protocols a start-up law claims."""


def test_the_examples_of_the_readme_run():
    """Every number after a prompt is what the code says."""
    outcome = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert outcome.attempted >= 10
    assert outcome.failed == 0


def test_the_numbers_in_the_readmes_prose_are_those_of_the_examples():
    """The bytes of a row, and the tokens the draft costs."""
    assert 36 * 8 * (128 + 128) * 2 == 147456
    assert "147456 bytes a token" in README
    assert 436906 - 383625 == 53281
    assert "53281 tokens" in README
    assert RowBytes(147456, 0, 20480).draft == 5 * 8 * (128 + 128) * 2


def test_the_readme_lists_every_law():
    """Id, where it is judged, sentence; in order."""
    rows = re.findall(r"^\| ([A-Z]\d) \| (.+?) \| (.+) \|$", README, flags=re.MULTILINE)
    laws = (*LAWS, *START_UP_LAWS)
    sentences = [(law_id, sentence.replace("\\*", "*")) for law_id, _, sentence in rows]
    assert sentences == [(law.id, law.sentence) for law in laws]
    for (_, where, _), law in zip(rows[: len(LAWS)], LAWS, strict=True):
        assert where in WHERE[law.cells]
        assert (where == "all but the spec itself") == (not law.judges_reference)


def test_the_readme_says_which_protocols_a_start_up_law_claims():
    """By the algorithms that run them."""
    rows = re.findall(r"^\| (S\d) \| (.+?) \| .+ \|$", README, flags=re.MULTILINE)
    assert [WHERE_STARTING[where] for _, where in rows] == [law.algorithms for law in START_UP_LAWS]


def test_the_table_of_formulas_names_functions_that_exist():
    """A reader finds any formula from the table in `spec/__init__.py`."""
    rows = re.findall(r"^\| (.+?) \| (`.+?) \| (.+) \|$", spec.__doc__, flags=re.MULTILINE)
    assert len(rows) >= 25
    for _, functions, upstream in rows:
        for name in re.findall(r"`([\w.]+)`", functions):
            module_name, _, attribute = name.rpartition(".")
            module = __import__(f"spec.{module_name}", fromlist=[attribute])
            assert hasattr(module, attribute), name
        assert "`" in upstream
