"""The catalog: complete, priced as published, honest about what it lacks, in step with the published configs."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from spec import catalog
from spec.architectures import KNOWN
from spec.model import DFLASH, DSPARK, EAGLE, FULL, MTP, STANDALONE, SWA, AttentionShape, Heads, Index, Latent, Refused
from spec.shapes import runs_with_window_pools, shape_from_config

TARGETS = catalog.targets()
DRAFTS = catalog.drafts()
PAIRS = catalog.pairs()
CONFIGS = Path(__file__).parent / "data" / "configs"


def row_bytes(geometry: Heads | Latent | None, element_bytes: int, ranks: int) -> int:
    """One row of one layer on one of `ranks` ranks."""
    if geometry is None:
        return 0
    if isinstance(geometry, Latent):
        return (geometry.kv_lora_rank + geometry.qk_rope_head_dim) * element_bytes
    heads = max(1, geometry.num_kv_heads // ranks)
    return heads * (geometry.head_dim + geometry.v_head_dim) * element_bytes


def token_bytes(
    shape: AttentionShape, element_bytes: int = 2, ranks: int = 1, ratio: Fraction = Fraction(1)
) -> Fraction:
    """One token in all layers, `ratio` SWA rows a token, index rows left out."""
    full_bytes = shape.layers.count(FULL) * row_bytes(shape.full, element_bytes, ranks)
    return full_bytes + ratio * shape.layers.count(SWA) * row_bytes(shape.swa, element_bytes, ranks)


def test_the_catalog_is_complete() -> None:
    assert (len(TARGETS), len(catalog.unpriced()), len(PAIRS)) == (78, 6, 43)
    assert (len(DRAFTS), len(catalog.unpriced_drafts())) == (74, 9)


def test_names_are_unique() -> None:
    target_names = [entry.name for entry in TARGETS] + [entry.name for entry in catalog.unpriced()]
    draft_names = [entry.name for entry in DRAFTS] + [entry.name for entry in catalog.unpriced_drafts()]
    assert len(set(target_names)) == len(target_names) == 84
    assert len(set(draft_names)) == len(draft_names) == 83


@pytest.mark.parametrize("entry", TARGETS, ids=lambda entry: entry.name)
def test_a_target_costs_what_was_published(entry: catalog.CatalogTarget) -> None:
    assert token_bytes(entry.shape) == entry.kv_bytes_2_byte_tp1


@pytest.mark.parametrize("entry", DRAFTS, ids=lambda entry: entry.name)
def test_a_draft_costs_what_was_published(entry: catalog.CatalogDraft) -> None:
    assert token_bytes(entry.draft.shape) == entry.kv_bytes_2_byte_tp1


def test_a_geometry_is_there_exactly_where_its_layers_are() -> None:
    for shape in [entry.shape for entry in TARGETS] + [entry.draft.shape for entry in DRAFTS]:
        assert (shape.full is not None) == (FULL in shape.layers)
        assert (shape.swa is not None) == (shape.sliding_window_size is not None) == (SWA in shape.layers)
        assert shape.index is None or all(shape.layers[position] == FULL for position in shape.index.layers)


def test_the_architecture_tables_know_every_target() -> None:
    assert {entry.architecture for entry in TARGETS} <= KNOWN


def test_index_rows() -> None:
    indexed = {entry.name: entry.shape.index for entry in TARGETS if entry.shape.index}
    assert indexed == {
        "DeepSeek-V3.2": Index(128, tuple(range(61))),
        "GLM-5": Index(128, tuple(range(78))),
        "GLM-5.1": Index(128, tuple(range(78))),
        "GLM-5.2": Index(128, (0, 1, 2, *range(6, 78, 4))),
        "MiniMax-M3": Index(128, tuple(range(3, 60)), stores_values=True),
    }


def test_windows_are_counted_as_sglang_counts_them() -> None:
    windows = {entry.name: entry.shape.sliding_window_size for entry in TARGETS}
    assert windows["gpt-oss-20b"] == 127
    assert windows["MiMo-V2-Flash"] == 128
    assert windows["Gemma-4-31B"] == 1023
    assert windows["Llama-4-Scout-17B-16E"] == 8192
    assert windows["Inkling"] == 511
    assert windows["Mistral-7B-v0.1"] == 4096
    assert windows["Llama-3.1-8B"] is None


def test_window_pools() -> None:
    full_length = {entry.name for entry in TARGETS if SWA in entry.shape.layers and not entry.window_pools}
    families = {re.split(r"[-(]", name)[0].strip() for name in full_length}
    assert families == {"Gemma", "Mistral", "Command", "Cohere2 class defaults"}
    assert not any(name.startswith("Gemma-4") for name in full_length)


EXCERPT_OF = {
    "Gemma-4-26B-A4B": "google--gemma-4-26B-A4B",
    "GLM-5.2": "zai-org--GLM-5.2",
    "DeepSeek-V3": "deepseek-ai--DeepSeek-V3",
    "DeepSeek-V3.2": "deepseek-ai--DeepSeek-V3.2",
    "Kimi-K2.5": "moonshotai--Kimi-K2.5",
    "Kimi-K3": "moonshotai--Kimi-K3",
    "Llama-3.1-8B": "meta-llama--Meta-Llama-3.1-8B",
    "Llama-3.1-70B": "meta-llama--Meta-Llama-3.1-70B",
    "Llama-4-Scout-17B-16E": "meta-llama--Llama-4-Scout-17B-16E-Instruct",
    "MiMo-7B": "XiaomiMiMo--MiMo-7B-Base",
    "MiMo-V2-Flash": "XiaomiMiMo--MiMo-V2-Flash",
    "MiniMax-M2.5": "MiniMaxAI--MiniMax-M2.5",
    "Mixtral-8x7B": "mistralai--Mixtral-8x7B-v0.1",
    "Qwen3-0.6B": "Qwen--Qwen3-0.6B",
    "Qwen3-8B": "Qwen--Qwen3-8B",
    "Qwen3-30B-A3B": "Qwen--Qwen3-30B-A3B",
    "Qwen3-235B-A22B": "Qwen--Qwen3-235B-A22B",
    "Qwen3.5-27B": "Qwen--Qwen3.5-27B",
    "Qwen3.5-397B-A17B": "Qwen--Qwen3.5-397B-A17B",
    "Step-3.7-Flash": "stepfun-ai--Step-3.7-Flash",
    "gpt-oss-20b": "openai--gpt-oss-20b",
    "gpt-oss-120b": "openai--gpt-oss-120b",
}
"""Catalog name -> published excerpt of the same model."""


@pytest.mark.parametrize("name", EXCERPT_OF)
def test_the_catalog_agrees_with_the_published_config(name: str) -> None:
    config = json.loads((CONFIGS / f"{EXCERPT_OF[name]}.json").read_text(encoding="utf-8"))
    entry, shape = catalog.target(name), shape_from_config(config)
    dtype = shape.model_dtype if "dtype" not in entry.confidence else entry.shape.model_dtype
    assert entry.shape == replace(shape, model_dtype=dtype)
    assert entry.window_pools == runs_with_window_pools(config)


MISSING = {
    "DeepSeek-V4-Flash": "layers",
    "DeepSeek-V4-Pro": "layers",
    "GLM-4.6": "num_hidden_layers",
    "Command-A": "num_hidden_layers",
    "Step-3.5-Flash": "layer_types",
    "LongCat-Flash (class defaults)": "num_hidden_layers",
}


def test_the_six_without_a_price() -> None:
    assert {entry.name: entry.missing for entry in catalog.unpriced()} == MISSING


@pytest.mark.parametrize("name", MISSING)
def test_a_target_without_a_price_is_refused_by_name(name: str) -> None:
    with pytest.raises(Refused) as refused:
        catalog.target(name)
    refusal = refused.value.refusal
    assert (refusal.kind, refusal.field) == ("unsupported", f"{name}.{MISSING[name]}")
    assert refusal.advice


def test_a_draft_without_a_geometry_is_refused_by_name() -> None:
    for entry in catalog.unpriced_drafts():
        with pytest.raises(Refused, match=re.escape(f"{entry.name}.{entry.missing}")):
            catalog.draft_record(entry.name)


def test_an_unknown_name_is_refused_with_near_names() -> None:
    with pytest.raises(Refused, match="Qwen3-8B"):
        catalog.target("Qwen3-8b")
    with pytest.raises(Refused, match="no name is near it"):
        catalog.target("?????")
    with pytest.raises(Refused, match=re.escape("did you mean Qwen3-8B, Qwen3-4B, Qwen3-32B?")):
        catalog.target("Qwen3-8b")
    with pytest.raises(Refused, match="z-lab/Kimi-K2.5-DFlash"):
        catalog.draft_record("Kimi-K2.5-DFlash")


def test_the_algorithm_of_each_kind() -> None:
    assert {entry.kind: entry.speculative_algorithm for entry in DRAFTS} == {
        "EAGLE": EAGLE,
        "EAGLE3": EAGLE,
        "P-EAGLE": EAGLE,
        "MTP": EAGLE,
        "MULTI_LAYER_MTP": MTP,
        "DFLASH": DFLASH,
        "DOMINO": DFLASH,
        "DFLASH2": DFLASH,
        "DSPARK": DSPARK,
    }
    assert {pair.speculative_algorithm for pair in PAIRS} == {EAGLE, MTP, STANDALONE, DFLASH, DSPARK}


def test_inkling_runs_eight_banded_runners_at_full_rows() -> None:
    (pair,) = [pair for pair in PAIRS if pair.speculative_algorithm == MTP]
    assert (pair.target.name, pair.swa_full_tokens_ratio) == ("Inkling", Fraction(1, 10))
    assert (pair.draft.shape.layers, pair.draft.shape.swa) == ((SWA,) * 8, Heads(16, 128, 128))
    assert (pair.draft.num_steps, pair.draft.num_draft_tokens, pair.draft.swa_at_full_rows) == (8, 9, True)


def test_a_runner_a_step_and_the_anchor() -> None:
    draft = catalog.draft_record("Inkling MTP (built in)").draft
    assert (draft.num_steps, draft.num_draft_tokens, draft.swa_at_full_rows) == (8, 9, True)


def test_the_dtype_is_the_source_s_where_it_names_one() -> None:
    assert catalog.target("Llama-2-7B").shape.model_dtype == "fp16"
    assert catalog.draft_record("SpecForge llama3-8B-eagle3").draft.shape.model_dtype == "fp16"


def test_a_standalone_draft_is_a_target_in_small() -> None:
    (pair,) = [pair for pair in catalog.pairs() if pair.target.name == "Qwen3-32B" and pair.draft_name == "Qwen3-0.6B"]
    assert pair.draft.shape == catalog.target("Qwen3-0.6B").shape != pair.target.shape


def test_draft_tokens_follow_the_block() -> None:
    assert catalog.draft_record("z-lab/Qwen3-8B-DFlash-b16").draft.num_draft_tokens == 16
    assert catalog.draft_record("SpecForge qwen3-8b-dspark").draft.num_draft_tokens == 8
    assert catalog.draft_record("SpecForge qwen3-8b-eagle3").draft.num_draft_tokens == 1


def test_two_pairs_keep_an_fp8_target_beside_a_bf16_draft() -> None:
    mixed = {pair.target.name: pair for pair in PAIRS if pair.draft.kv_cache_dtype}
    assert {name: (pair.kv_cache_dtype, pair.draft.kv_cache_dtype) for name, pair in mixed.items()} == {
        "GLM-5.2": ("fp8_e4m3", "bf16"),
        "Llama-3.1-8B": ("fp8_e4m3", "bf16"),
    }
    assert all(pair.kv_cache_dtype == "auto" for pair in PAIRS if not pair.draft.kv_cache_dtype)


def published_target_bytes(pair: catalog.CatalogPair, ranks: int) -> Fraction:
    """The figure of `rows`: window layers times the ratio, and for GLM-5.2 sparse rows with an index on all layers."""
    sparse_row = {"auto": 1152, "fp8_e4m3": 656}[pair.kv_cache_dtype]
    if pair.target.name == "GLM-5.2":
        return Fraction(78 * (sparse_row + 132))
    ratio = pair.swa_full_tokens_ratio if pair.target.window_pools else Fraction(1)
    return token_bytes(pair.target.shape, 2 if pair.kv_cache_dtype == "auto" else 1, ranks, ratio)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.target.name} + {pair.draft_name}")
def test_a_pair_costs_what_was_published(pair: catalog.CatalogPair) -> None:
    assert [row.tp_size for row in pair.rows] == [1, 2, 4, 8]
    for row in pair.rows:
        assert abs(published_target_bytes(pair, row.tp_size) - row.target_bytes) <= Fraction(1, 2)
        assert token_bytes(pair.draft.shape, ranks=row.tp_size) == row.draft_bytes
        assert row.total_bytes == row.target_bytes + row.draft_bytes


def test_every_entry_has_a_known_source() -> None:
    listed = [entry.sources for entry in TARGETS] + [entry.sources for entry in DRAFTS]
    assert all(listed)
    used = {source.split(":")[0].split()[0] for sources in listed for source in sources}
    assert used == set(catalog.read("sources")["sources"])


def test_every_entry_says_how_sure_it_is() -> None:
    assert all(entry.confidence["default"] for entry in TARGETS)
    assert all(entry.confidence["default"] for entry in DRAFTS)


@pytest.mark.parametrize("name", ["targets", "drafts"])
def test_a_dtype_that_no_source_names_is_on_record_and_priced_at_two_bytes(name: str) -> None:
    silent = [entry for entry in catalog.read(name)[name] if "dtype" not in entry]
    assert silent
    assert all(entry["confidence"]["dtype"].startswith("null") for entry in silent)
    assert catalog.UNKNOWN_DTYPE == "bf16"


class Watched(dict[str, Any]):
    """A JSON object that remembers which keys were read."""

    def __init__(self, content: dict[str, Any], read: set[str]) -> None:
        super().__init__(content)
        self.read = read

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)


def keys_of(entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        yield from entry


@pytest.mark.parametrize(
    ("name", "load"), [("targets", catalog.targets), ("drafts", catalog.drafts), ("pairs", catalog.pairs)]
)
def test_every_key_of_the_data_is_used(name: str, load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[str] = set()
    original = catalog.read

    def watched_read(file: str) -> dict[str, Any]:
        content = original(file)
        if file == name:
            content[name] = [Watched(entry, read) for entry in content[name]]
        return content

    monkeypatch.setattr(catalog, "read", watched_read)
    load()
    assert set(keys_of(original(name)[name])) <= read


def test_the_data_is_one_model_a_line() -> None:
    for name in ("targets", "drafts", "pairs"):
        text = (Path(catalog.__file__).parent / f"{name}.json").read_text(encoding="utf-8")
        assert text.count('\n{"') == sum(len(section) for section in json.loads(text).values())
