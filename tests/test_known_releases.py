"""The files of known failures of released SGLang: one a release, whole, and explained."""

from types import SimpleNamespace

import pytest

from impl.sglang.adapter import KNOWN
from impl.sglang.exemptions import exemptions_of
from impl.sglang.releases import RELEASES
from properties.context import judged_cells
from properties.known import read_known
from properties.known_update import UNEXPLAINED
from properties.witnesses import faults


def known_of(version):
    """The file of one release, read as the gate reads it, with the verdicts that the release is asked for."""
    release = SimpleNamespace(
        name="sglang",
        exemptions=lambda: exemptions_of(RELEASES[version]),
        size_pools_from_max_tokens=None,
        resolve_draft=None,
        allocated_bytes=None,
    )
    return read_known(KNOWN / f"{version}.toml", lambda law: judged_cells(release, law))


def test_every_release_has_a_file_and_no_other():
    """A later release is driven like the last one, and expected to fail like it."""
    assert {path.stem for path in KNOWN.glob("*.toml")} == set(RELEASES)


@pytest.mark.parametrize("version", RELEASES)
def test_every_known_failure_has_a_cause(version):
    """A fault of faults.toml that can break each verdict it is said to, and a case that is valid and in its cell."""
    known = known_of(version)
    by_id = {fault.id: fault for fault in faults()}
    assert known.entries and UNEXPLAINED not in dict(known.faults)
    for entry in known.entries:
        assert all(by_id[entry.fault].explains(entry.law, cell) for cell in entry.cells)


def test_fixed_faults_leave_the_files():
    """PR 34234: the layer ratio in place of a draft's own geometry, and no price beside window pools, until 0.5.17."""
    expected = {version: {entry.fault for entry in known_of(version).entries} for version in ("0.5.17", "0.5.18")}
    fixed = {"dflash-as-target-layers", "dflash-unpriced-beside-windows"}
    assert fixed <= expected["0.5.17"]
    assert not fixed & expected["0.5.18"]
