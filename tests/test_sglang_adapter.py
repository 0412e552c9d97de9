"""The adapter to released SGLang, as far as it can be met without SGLang; `make gate` meets the rest."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import impl.sglang.exemptions as exemptions_file
from impl import PATH_VARIABLE, Exemption, UnknownImplementation, WrongAdapter
from impl.sglang.drift import AdapterDrift, Record
from impl.sglang.exemptions import exemptions_of, in_range
from impl.sglang.releases import LAST, RELEASES, numbers, release_of, told_version
from impl.sglang.sizing import REFUSALS, listed, refusal_of, tokens_of
from impl.sglang.world import NoSGLang, find_sglang
from properties.cells import CELLS
from spec.laws import LAWS
from spec.model import (
    REFUSAL_KINDS,
    PoolSizes,
    Refused,
)
from tests.test_gate import BROKEN, GREEN, NOTHING_JUDGED, ROOT, WORKERS, WRONG_USE, gate, judging, row

# The table of releases.


def test_the_table_has_ten_releases_in_order() -> None:
    assert list(RELEASES) == [f"0.5.{patch}" for patch in range(14, 24)]
    assert all(row.version == version and not row.unknown for version, row in RELEASES.items())
    assert list(RELEASES.values())[-1] is LAST


@pytest.mark.parametrize("after", ["", ".post1", "rc1", ".dev12+g1234567", ".post2.dev0"])
def test_what_follows_the_release_does_not_matter(after: str) -> None:
    for version, known in RELEASES.items():
        assert release_of(version + after) is known
        assert told_version(version + after) == version + after


@pytest.mark.parametrize("version", ["0.5.24", "0.5.24rc1", "0.6.0", "0.6", "1.0.0.dev3", "0.0.0", "0.0.0.dev0"])
def test_a_later_release_is_driven_like_the_last(version: str) -> None:
    assert release_of(version) == replace(LAST, unknown=True)
    assert told_version(version) == f"{version}, driven like 0.5.23"


@pytest.mark.parametrize("version", ["0.5.13", "0.5.13.post1", "0.4.9.post6", "0.5.9", "0.5"])
def test_an_earlier_release_is_not_driven(version: str) -> None:
    with pytest.raises(UnknownImplementation, match=f"SGLang {version} is not driven: 0.5.14 is the first"):
        release_of(version)


def test_a_version_without_numbers_is_said() -> None:
    with pytest.raises(UnknownImplementation, match="'main'"):
        release_of("main")


def test_make_gate_takes_the_last_release_and_make_matrix_all() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.findall(r"^SGLANG := (.+)$", makefile, re.M) == [LAST.version]
    assert re.findall(r"^SGLANG_ALL := (.+)$", makefile, re.M) == [" ".join(RELEASES)]


def test_what_a_release_knows_it_keeps_knowing() -> None:
    rows = list(RELEASES.values())
    for before, after in zip(rows, rows[1:], strict=False):
        assert before.algorithms <= after.algorithms and before.dtypes <= after.dtypes
        assert set(before.namespaces) <= set(after.namespaces)
        for name in ("has_minimax_sparse", "has_dcp_sizing", "heads_under_dcp", "index_under_dcp", "draft_dtype_flag"):
            assert getattr(before, name) <= getattr(after, name)


# Records.


def test_a_record_that_lacks_an_attribute_names_it_with_release_and_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Record, "release", "0.5.99")
    layers = Record("layer_info", end_layer=3)
    assert layers.end_layer == 3
    with pytest.raises(AdapterDrift) as drift:
        _ = layers.start_layer
    assert (drift.value.attribute, drift.value.release) == ("layer_info.start_layer", "0.5.99")
    assert drift.value.file.startswith(f"{__file__}:")
    for part in ("layer_info.start_layer", "0.5.99", Path(__file__).name, "releases.py"):
        assert part in str(drift.value)


def test_drift_is_no_exception_that_an_engine_catches() -> None:
    assert issubclass(AdapterDrift, WrongAdapter) and not issubclass(AdapterDrift, Exception)
    with pytest.raises(AdapterDrift):
        getattr(Record("server_args"), "page_size", None)
    with pytest.raises(AdapterDrift):
        listed(lambda: Record("server_args").page_size, 1)


def test_a_record_says_what_it_lacks_on_purpose() -> None:
    config = Record("hf_config", ("multi_query",))
    assert getattr(config, "multi_query", None) is None and not hasattr(config, "__len__")
    config.update(multi_query=True)
    assert config.multi_query is True


# Refusals.

OTHER_ERRORS = (ValueError, RuntimeError, AssertionError, KeyError)


@pytest.mark.parametrize(("words", "error", "kind", "field"), REFUSALS)
def test_every_message_of_the_table_is_a_refusal(words: str, error: type[Exception], kind: str, field: str) -> None:
    refused = refusal_of(error(f"start-up: {words} pool."), 7, cap=None)
    assert refused is not None and kind in REFUSAL_KINDS
    refusal = refused.refusal
    assert (refusal.kind, refusal.field, refusal.value, refusal.available) == (kind, field, 7, 7)
    for other in OTHER_ERRORS:
        assert other is error or refusal_of(other(f"start-up: {words} pool."), 7, cap=None) is None


def test_a_cap_of_no_page_is_a_refusal_of_the_cap() -> None:
    refused = refusal_of(RuntimeError("Not enough memory."), 7, cap=3)
    assert refused is not None
    assert (refused.refusal.kind, refused.refusal.field, refused.refusal.value) == (
        "cap_too_small",
        "max_total_tokens",
        3,
    )


def test_any_other_exception_goes_on() -> None:
    assert refusal_of(RuntimeError("CUDA error"), 7, cap=None) is None
    assert listed(lambda: 5, 7) == 5
    with pytest.raises(ValueError, match="no such backend"):
        listed(lambda: int("no such backend"), 7)
    with pytest.raises(Refused, match="Not enough memory"):
        listed(lambda: (_ for _ in ()).throw(RuntimeError("Not enough memory")), 7)


def test_the_fewest_rows_of_the_stages_that_have_a_pool_count() -> None:
    stages = [PoolSizes(8, 8, rows, 1, 1) for rows in (0, 5, 3)]
    assert tokens_of(stages, "swa_max_total_num_tokens") == 3
    assert tokens_of([], "swa_max_total_num_tokens") == 0


# Exemptions.


@pytest.mark.parametrize(
    ("releases", "inside", "outside"),
    [
        (">=0.5.18", ["0.5.18", "0.5.18.post2", "0.5.23", "0.6.0", "0.0.0.dev0"], ["0.5.17", "0.5.17.post1"]),
        ("<=0.5.16", ["0.5.14", "0.5.16", "0.5.16rc1"], ["0.5.17", "0.5.17rc1", "0.5.24", "0.0.0.dev0"]),
        (">=0.5.16, <=0.5.17", ["0.5.16", "0.5.17.dev4"], ["0.5.15", "0.5.18"]),
    ],
)
def test_a_range_of_releases_is_honoured(releases: str, inside: list[str], outside: list[str]) -> None:
    assert numbers("0.5.9") < numbers("0.5.10")
    assert all(in_range(releases, release_of(version)) for version in inside)
    assert not any(in_range(releases, release_of(version)) for version in outside)


@pytest.mark.parametrize("version", RELEASES)
def test_every_exemption_leaves_something_out(version: str) -> None:
    claimed = [(law.id, str(cell)) for law in LAWS for cell in CELLS if law.claims(str(cell))]
    entries = exemptions_of(RELEASES[version])
    assert entries and all(any(entry.covers(*verdict) for verdict in claimed) for entry in entries)


def test_exemptions_differ_by_release() -> None:
    def covered(version: str, law_id: str, cell: str) -> bool:
        return any(entry.covers(law_id, cell) for entry in exemptions_of(RELEASES[version]))

    assert covered("0.5.17", "D5", "default-dflash_own-tp-same")
    assert not covered("0.5.18", "D5", "default-dflash_own-tp-same")
    assert not covered("0.5.17", "B1", "default-dflash_own-tp-same")
    assert covered("0.5.16", "B1", "mla-none-dcp-same") and not covered("0.5.17", "B1", "mla-none-dcp-same")


@pytest.mark.parametrize(
    ("line", "said"), [('releases = "<0.5.16"', "is no range"), ('term = "advice"', "nobody reads term")]
)
def test_an_entry_nobody_can_read_is_said(
    line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "exempt.toml"
    file.write_text(f'[[exempt]]\nlaw = "B1"\ncell = "*"\nreason = "none"\ndate = 2026-11-29\n{line}\n')
    monkeypatch.setattr(exemptions_file, "EXEMPT", file)
    with pytest.raises(ValueError, match=said):
        exemptions_of(LAST)


def test_an_exemption_covers_by_globs() -> None:
    entry = Exemption("D5 E*", "mla-*-dcp-* default-none-*", "no")
    assert entry.covers("D5", "mla-none-dcp-same") and entry.covers("E1", "default-none-tp-same")
    assert not entry.covers("D6", "mla-none-dcp-same") and not entry.covers("D5", "mla-none-tp-same")


@pytest.mark.parametrize("workers", [(), WORKERS])
def test_what_is_exempt_is_listed_with_its_reason(workers: tuple[str, ...]) -> None:
    run = gate("--kv-cell", "*-none-tp-same", "--kv-law", "B1,B4,B5", *judging("HasNoPages"), *workers)
    assert run.code == GREEN
    assert "exempt, 2 verdicts of B4, B5: it has no pages" in run.text.splitlines()
    assert [line.split(" ")[0] for line in run.table if " n/a " in line] == ["B4", "B5"]


def test_a_run_of_which_everything_is_exempt_is_not_green() -> None:
    run = gate("--kv-cell", "default-none-tp-same", "--kv-law", "B4", *judging("HasNoPages"))
    assert run.code == NOTHING_JUDGED and "exempt, 1 verdict of B4: it has no pages" in run.text


# How a run ends.


def test_what_cannot_be_judged_after_all_is_counted_with_its_reason() -> None:
    run = gate("--kv-cell", "default-none-tp-same", "--kv-law", "B1", *judging("CannotJudgeAfterAll"))
    assert run.code == BROKEN
    assert [block.splitlines()[0] for block in run.blocks] == ["BROKEN B1 on default in 1 cell: nothing judged"]
    assert re.search(r"^not supported, [\d,]+ judgements: its builder needs a GPU$", run.text, re.M)


@pytest.mark.parametrize("workers", [(), WORKERS])
@pytest.mark.parametrize("name", ["AsksForTooMuch", "AsksForTooMuchAtOnce"])
def test_an_adapter_that_cannot_go_on_is_wrong_use(name: str, workers: tuple[str, ...]) -> None:
    run = gate("--kv-cell", "default-none-*", "--kv-law", "B1,B4", *judging(name), *workers)
    assert run.code == WRONG_USE
    for part in ("--kv-impl: SGLang 0.5.99", "layer_info.end_layer", "configurator.py:7"):
        assert part in run.text
    assert "Traceback" not in run.text and not run.blocks


def test_sglang_is_wrong_use_where_it_is_not(tmp_path: Path) -> None:
    (tmp_path / "sglang").mkdir()
    empty = gate("--kv-impl", "sglang", "--kv-impl-path", str(tmp_path))
    assert empty.code == WRONG_USE and f"{str(tmp_path)!r} holds no sglang/" in empty.text
    (tmp_path / "sglang" / "__init__.py").write_text("import no_such_dependency\n")
    partial = gate("--kv-impl", "sglang", "--kv-impl-path", f"{tmp_path}/")
    assert partial.code == WRONG_USE
    assert "SGLang cannot be imported (No module named 'no_such_dependency')" in partial.text


def test_sglang_is_wrong_use_where_it_is_not_installed() -> None:
    run = gate("--kv-impl", "sglang")
    assert run.code == WRONG_USE
    assert "SGLang cannot be imported (No module named 'sglang'): install it here" in run.text


def test_a_missing_sglang_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PATH_VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "sglang", None)
    with pytest.raises(NoSGLang, match="SGLang cannot be imported .*: install it here, or give a folder"):
        find_sglang()


def test_another_sglang_than_the_one_of_the_folder_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "__init__.py").touch()
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "sglang", re)
    with pytest.raises(NoSGLang, match=f"is given, but sglang comes from {re.escape(str(re.__file__))}"):
        find_sglang()


@pytest.mark.parametrize("workers", [(), WORKERS])
def test_the_folder_is_in_the_header_and_in_the_command(workers: tuple[str, ...], tmp_path: Path) -> None:
    run = gate(
        "--kv-cell",
        "default-none-tp-same",
        "--kv-law",
        "B1",
        *judging("ComesFromAFolder"),
        "--kv-impl-path",
        str(tmp_path),
        *workers,
    )
    assert run.code == BROKEN
    assert f"(tests.wrong_implementations, {tmp_path}), profile dev" in run.text
    assert f" --kv-impl-path {tmp_path} " in row(run.blocks[0], "replay")


def test_a_folder_for_an_implementation_that_has_none_is_wrong_use(tmp_path: Path) -> None:
    run = gate("--kv-impl-path", str(tmp_path))
    assert run.code == WRONG_USE and "'configurator' is not imported from a folder" in run.text
