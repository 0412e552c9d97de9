"""`explain law`: every law has its reason, and its gallery is that of the faults."""

import json

import pytest

from impl.faults import FAULTS
from spec.explain.law import GALLERY, gallery
from spec.explain.law_notes import WHY
from spec.laws import BY_ID
from spec.laws.startup import START_UP_BY_ID
from tests.gallery import text
from tests.test_explain_command import printed


def test_every_law_has_a_reason():
    assert list(WHY) == [*BY_ID, *START_UP_BY_ID]
    assert len(set(WHY.values())) == len(WHY)


def test_the_gallery_is_that_of_the_faults():
    """Where it is not: `python -m tests.gallery`."""
    assert GALLERY.read_text(encoding="utf-8") == text()


def test_every_law_a_fault_names_tells_of_it():
    told = {(entry["law"], entry["fault"]) for entry in json.loads(GALLERY.read_text(encoding="utf-8"))}
    assert told == {(law_id, fault.__name__) for fault in FAULTS for law_id in fault.caught_by}


@pytest.mark.parametrize("law_id", [*BY_ID, *(law for law in START_UP_BY_ID if law not in ("S2", "S4", "S7"))])
def test_a_law_is_told(law_id, capsys):
    """Its sentence, its reason, its predicate, and every bug of the gallery that it must stop."""
    out = printed(f"law {law_id}", capsys).out
    law = BY_ID.get(law_id) or START_UP_BY_ID[law_id]
    words = " ".join(out.split())
    assert out.startswith(f"{law_id} {law.name}\n")
    assert law.sentence in words and WHY[law_id] in words and "How it is judged: spec.laws." in words
    for entry in gallery(law_id):
        assert entry["fault"] in words and entry["what"] in words


def test_a_law_is_drawn(capsys):
    """Bytes available, as they should be sold, as they are sold."""
    out = printed("law B1", capsys).out
    assert "available                  8 bytes  ################################\n" in out
    assert "with the bug              10 bytes  ########################################\n" in out
    assert out.endswith("pytest properties --kv-impl impl.faults:HeadDimFromHiddenSize --kv-law B1\n")


def test_what_can_be_drawn_comes_first():
    """A case with two sizes to compare before one that is refused or crashes, a small one before a large one."""
    entries = gallery("B1")
    drawn = [bool(entry.get("bytes")) for entry in entries]
    assert drawn == sorted(drawn, reverse=True)
    for available, right, wrong in (entry["bytes"] for entry in entries if entry.get("bytes")):
        assert right <= available < wrong


def test_a_law_of_the_start_up_tells_the_historical_faults(capsys):
    assert "frozen-KV MTP, target pool first: as PR 23862 left it" in printed("law S1", capsys).out
    assert "No protocol that was in use breaks it" in printed("law S3", capsys).out


def test_an_unknown_law_is_refused(capsys):
    assert "invalid_input: law='B99'. laws are B1 B2 " in printed("law B99", capsys, code=2).err
    assert "invalid_input: law=''. give one id, like B1" in printed("law", capsys, code=2).err
