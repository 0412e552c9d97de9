"""What a release has, read from a source of our own, beside what the laws judge of it."""

from datetime import date
from pathlib import Path

import pytest

from impl.sglang.coverage import KINDS, Coverage, Entry, coverage_of, entries, entry_of
from impl.sglang.inventory import NoInventory, inventory
from impl.sglang.releases import release_of
from tests.test_gate import BROKEN, GREEN, ONE_CELL, gate, judging

SOURCE = {
    "srt/model_executor/pool_configurator.py": """
class MemoryPoolConfigurator: ...
class DefaultPoolConfigurator(MemoryPoolConfigurator): ...
class CapPoolConfigurator(DefaultPoolConfigurator): ...
class NotOne: ...
def create_memory_pool_configurator(x):
    return elsewhere.FooPoolConfigurator(x) if x.foo else choose(x)
""",
    "srt/mem_cache/memory_pool.py": """
class KVCache: ...
class MHATokenToKVPool(KVCache): ...
class ReqToTokenPool: ...
""",
    "srt/mem_cache/more/swa.py": "class SWAKVPool(pools.MHATokenToKVPool): ...",
    "srt/hardware_backend/npu/pool.py": "class NPUPool(KVCache[int]): ...",
    "srt/speculative/spec_info.py": """
class SpeculativeAlgorithm(Enum):
    EAGLE = auto()
    NONE = auto()
    note: str
""",
    "srt/arg_groups/fields/model.py": """
class Model:
    kv_cache_dtype: A[str, Arg(choices=["auto", "bf16"], default="no")] = "auto"
    other: A[str, Arg(choices=["x"])] = "x"
""",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder like that of a release."""
    for name, text in SOURCE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_everything_is_read_from_the_source(root: Path) -> None:
    assert inventory(root) == {
        "configurator": {"DefaultPoolConfigurator", "CapPoolConfigurator", "FooPoolConfigurator"},
        "pool": {"MHATokenToKVPool", "SWAKVPool", "NPUPool"},
        "algorithm": {"EAGLE", "NONE"},
        "dtype": {"auto", "bf16"},
    }


@pytest.mark.parametrize("name", [name for name in SOURCE if "hardware" not in name and "more" not in name])
def test_a_source_that_has_moved_ends_the_run(root: Path, name: str) -> None:
    (root / name).write_text("", encoding="utf-8")
    if name.startswith("srt/mem_cache"):
        (root / "srt/hardware_backend/npu/pool.py").unlink()
        (root / "srt/mem_cache/more/swa.py").unlink()
    with pytest.raises(NoInventory, match="teach impl/sglang/inventory.py"):
        inventory(root)


def coverage(*more: Entry, **found: set[str]) -> Coverage:
    """A release with these names, beside two entries and more."""
    judged = Entry("configurator", ("DefaultPoolConfigurator",), ">=0", "", None)
    exempt = Entry("algorithm", ("NGRAM",), ">=0", "it has no rows", date(2026, 11, 30))
    names = {"configurator": {"DefaultPoolConfigurator"}, "algorithm": {"NGRAM"}, **found}
    return Coverage("0.5.24", {kind: frozenset(each) for kind, each in names.items()}, (judged, exempt, *more))


def test_what_is_new_is_not_judged() -> None:
    new = coverage(configurator={"DefaultPoolConfigurator", "FooPoolConfigurator"})
    assert new.complaints() == ["SGLang 0.5.24 adds FooPoolConfigurator: no law judges it"]
    assert new.line() == "1 of 2 configurators, 0 of 1 algorithms; 1 left out with a reason (coverage.toml)"
    assert coverage().complaints() == []


def test_a_name_that_is_gone_is_stale() -> None:
    assert coverage(algorithm={"NONE"}).complaints() == [
        "SGLang 0.5.24 adds NONE: no law judges it",
        "coverage.toml names the algorithm NGRAM, which SGLang 0.5.24 has not",
    ]


def test_a_name_has_one_place() -> None:
    twice = coverage(Entry("algorithm", ("NGRAM",), ">=0", "", None))
    assert twice.complaints() == ["coverage.toml has the algorithm NGRAM as judged and as exempt"]


def test_another_release_has_other_entries(root: Path) -> None:
    said = coverage_of(root, "0.5.24", release_of("0.5.24")).complaints()
    assert "SGLang 0.5.24 adds FooPoolConfigurator: no law judges it" in said
    assert "coverage.toml names the configurator SWARequestCapPoolConfigurator, which SGLang 0.5.24 has not" in said
    old = coverage_of(root, "0.5.14", release_of("0.5.14")).complaints()
    assert "coverage.toml names the configurator SWAChunkCapPoolConfigurator, which SGLang 0.5.14 has not" in old


def test_what_is_left_out_has_a_reason_and_a_date() -> None:
    for entry in entries():
        assert entry.kind in KINDS and entry.names
        assert bool(entry.reason) == (entry.date is not None)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"kind": "pool", "names": ["X"], "reason": "no"}, "date is missing or not read"),
        (
            {"kind": "pool", "names": ["X"], "reason": "no", "date": date.min, "until": 1},
            "until is missing or not read",
        ),
        ({"kind": "model", "names": ["X"], "reason": "no", "date": date.min}, "kind = 'model', one of"),
    ],
)
def test_a_wrong_entry_is_refused(table: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        entry_of("exempt", table)


def test_a_list_nobody_reads_is_refused(tmp_path: Path) -> None:
    (tmp_path / "coverage.toml").write_text("[[covered]]\n", encoding="utf-8")
    with pytest.raises(ValueError, match="nobody reads covered"):
        entries(tmp_path / "coverage.toml")


def test_a_run_with_something_unjudged_is_red() -> None:
    """Every law holds in both."""
    options = (*ONE_CELL, "--kv-law", "B4")
    grown, whole = gate(*options, *judging("HasGrown")), gate(*options, *judging("Sound"))
    assert (whole.code, grown.code) == (GREEN, BROKEN)
    assert "UNCOVERED engine 2 adds FooPoolConfigurator: no law judges it" in grown.text.splitlines()
    assert (
        "UNCOVERED the exemption of B1 in hybrid-*-dcp-* leaves nothing out: it has no DCP" in grown.text.splitlines()
    )
    assert "judged: 1 of 2 configurators" in grown.text.splitlines()
