"""`config.json` -> geometry: 24 published excerpts against shapes checked by eye, every spelling, every refusal."""

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec.architectures import KNOWN, MTP_CLASSES, UNSUPPORTED, known_architecture
from spec.draft_shapes import draft_depth, draft_from_config, mtp_draft_from_target_config
from spec.model import (
    ALGORITHMS,
    DFLASH,
    DSPARK,
    EAGLE,
    FROZEN_KV_MTP,
    FULL,
    LINEAR,
    MTP,
    STANDALONE,
    SWA,
    Heads,
    Index,
    Latent,
    Refused,
)
from spec.shapes import runs_with_window_pools, shape_from_config

CONFIGS = Path(__file__).parent / "data" / "configs"
EXCERPTS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(CONFIGS.glob("*.json"))}
MLA_512_64 = Latent(kv_lora_rank=512, qk_rope_head_dim=64)


@dataclass(frozen=True)
class Expected:
    """What a person read in the excerpt."""

    layers: tuple[str, ...]
    full: Heads | Latent
    swa: Heads | None = None
    window: int | None = None
    index: Index | None = None
    dtype: str = "bf16"
    window_pools: bool = False


EXPECTED = {
    "MiniMaxAI--MiniMax-M2.5": Expected((FULL,) * 62, Heads(8, 128, 128), dtype="fp16"),
    "Qwen--Qwen3-0.6B": Expected((FULL,) * 28, Heads(8, 128, 128)),
    "Qwen--Qwen3-235B-A22B": Expected((FULL,) * 94, Heads(4, 128, 128)),
    "Qwen--Qwen3-30B-A3B": Expected((FULL,) * 48, Heads(4, 128, 128)),
    "Qwen--Qwen3-8B": Expected((FULL,) * 36, Heads(8, 128, 128)),
    "Qwen--Qwen3-VL-8B-Instruct": Expected((FULL,) * 36, Heads(8, 128, 128)),
    "Qwen--Qwen3.5-27B": Expected((LINEAR, LINEAR, LINEAR, FULL) * 16, Heads(4, 256, 256)),
    "Qwen--Qwen3.5-397B-A17B": Expected((LINEAR, LINEAR, LINEAR, FULL) * 15, Heads(2, 256, 256)),
    "XiaomiMiMo--MiMo-7B-Base": Expected((FULL,) * 36, Heads(8, 128, 128)),
    "XiaomiMiMo--MiMo-V2-Flash": Expected(
        (FULL, *(SWA,) * 4, FULL, *((SWA,) * 5 + (FULL,)) * 7),
        Heads(4, 192, 128),
        Heads(8, 192, 128),
        window=128,
        window_pools=True,
    ),
    "deepseek-ai--DeepSeek-V3.2": Expected((FULL,) * 61, MLA_512_64, index=Index(128, tuple(range(61)))),
    "deepseek-ai--DeepSeek-V3": Expected((FULL,) * 61, MLA_512_64),
    "google--gemma-4-26B-A4B": Expected(
        ((SWA,) * 5 + (FULL,)) * 5, Heads(2, 512, 512), Heads(8, 256, 256), window=1023, window_pools=True
    ),
    "meta-llama--Llama-4-Scout-17B-16E-Instruct": Expected(
        (SWA, SWA, SWA, FULL) * 12, Heads(8, 128, 128), Heads(8, 128, 128), window=8192, window_pools=True
    ),
    "meta-llama--Meta-Llama-3.1-70B": Expected((FULL,) * 80, Heads(8, 128, 128)),
    "meta-llama--Meta-Llama-3.1-8B": Expected((FULL,) * 32, Heads(8, 128, 128)),
    "mistralai--Mixtral-8x7B-v0.1": Expected((FULL,) * 32, Heads(8, 128, 128)),
    "moonshotai--Kimi-K2.5": Expected((FULL,) * 61, MLA_512_64),
    "moonshotai--Kimi-K3": Expected((LINEAR, LINEAR, LINEAR, FULL) * 23 + (FULL,), MLA_512_64),
    "nvidia--Llama-3.1-70B-Instruct-FP8": Expected((FULL,) * 80, Heads(8, 128, 128)),
    "openai--gpt-oss-120b": Expected(
        (SWA, FULL) * 18, Heads(8, 64, 64), Heads(8, 64, 64), window=127, window_pools=True
    ),
    "openai--gpt-oss-20b": Expected(
        (SWA, FULL) * 12, Heads(8, 64, 64), Heads(8, 64, 64), window=127, window_pools=True
    ),
    "stepfun-ai--Step-3.7-Flash": Expected(
        (FULL, SWA, SWA, SWA) * 11 + (FULL,), Heads(8, 128, 128), Heads(8, 128, 128), window=512, window_pools=True
    ),
    "zai-org--GLM-5.2": Expected((FULL,) * 78, MLA_512_64, index=Index(128, (0, 1, 2, *range(6, 78, 4)))),
}


def test_every_excerpt_is_checked() -> None:
    assert set(EXPECTED) == set(EXCERPTS)


@pytest.mark.parametrize("name", EXPECTED)
def test_an_excerpt_has_the_shape_that_was_read_in_it(name: str) -> None:
    expected, shape = EXPECTED[name], shape_from_config(EXCERPTS[name])
    assert shape.layers == expected.layers
    assert (shape.full, shape.swa) == (expected.full, expected.swa)
    assert shape.sliding_window_size == expected.window
    assert shape.index == expected.index
    assert (shape.model_dtype, shape.kv_checkpoint_dtype) == (expected.dtype, None)
    assert runs_with_window_pools(EXCERPTS[name]) == expected.window_pools


def llama(**changes: object) -> dict[str, Any]:
    """A small MHA config; `...` takes a field away."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "hidden_size": 512,
        "torch_dtype": "bfloat16",
    }
    return {field: value for field, value in (config | changes).items() if value is not ...}


def model(architecture: str, **changes: object) -> dict[str, Any]:
    """The small config under another class."""
    return llama(architectures=[architecture], **changes)


def mla(architecture: str, **changes: object) -> dict[str, Any]:
    """A small MLA config."""
    return model(architecture, **{"kv_lora_rank": 512, "qk_rope_head_dim": 64} | changes)


def full_heads(config: Mapping[str, Any]) -> Heads | Latent | None:
    return shape_from_config(config).full


@pytest.mark.parametrize("head_dim", [..., None])
def test_head_dim_is_hidden_size_over_heads_when_not_given(head_dim: object) -> None:
    assert full_heads(llama(head_dim=head_dim)) == Heads(2, 64, 64)


def test_an_explicit_head_dim_wins() -> None:
    assert full_heads(llama(head_dim=96)) == Heads(2, 96, 96)


@pytest.mark.parametrize(("v_head_dim", "stored"), [(..., 96), (None, 96), (80, 80)])
def test_v_head_dim_is_head_dim_when_not_given(v_head_dim: object, stored: int) -> None:
    assert full_heads(llama(head_dim=96, v_head_dim=v_head_dim)) == Heads(2, 96, stored)


@pytest.mark.parametrize(("spelling", "heads"), [({}, 8), ({"num_attention_groups": 4}, 4)])
def test_kv_heads_have_two_spellings_and_default_to_all_heads(spelling: dict[str, int], heads: int) -> None:
    assert full_heads(llama(num_key_value_heads=..., **spelling)) == Heads(heads, 64, 64)


@pytest.mark.parametrize("nested_class", [True, False])
def test_the_text_part_may_be_nested_with_its_class(nested_class: bool) -> None:
    text = llama() if nested_class else llama(architectures=...)
    outer = {"text_config": text} if nested_class else {"text_config": text, "architectures": ["LlamaForCausalLM"]}
    assert shape_from_config(outer) == shape_from_config(llama())


DTYPES = [
    ({"torch_dtype": "bfloat16"}, "bf16"),
    ({"torch_dtype": "torch.bfloat16"}, "bf16"),
    ({"torch_dtype": "float16"}, "fp16"),
    ({"torch_dtype": "half"}, "fp16"),
    ({"torch_dtype": None, "dtype": "bfloat16"}, "bf16"),
    ({"torch_dtype": "float16", "dtype": "bfloat16"}, "bf16"),
    ({"torch_dtype": "float32"}, "fp16"),
    ({"torch_dtype": ...}, "fp16"),
    ({"torch_dtype": ..., "model_type": "gemma3_text"}, "bf16"),
    ({"torch_dtype": "float32", "model_type": "gemma3_text"}, "bf16"),
]


@pytest.mark.parametrize(("fields", "dtype"), DTYPES)
def test_the_compute_dtype_is_the_checkpoint_s_and_never_float32(fields: dict[str, object], dtype: str) -> None:
    assert shape_from_config(llama(**fields)).model_dtype == dtype


def test_the_text_part_inherits_the_dtype_of_the_whole() -> None:
    outer = {"architectures": ["LlamaForCausalLM"], "dtype": "bfloat16", "text_config": llama(torch_dtype=...)}
    assert shape_from_config(outer).model_dtype == "bf16"


def test_mxfp4_gpt_oss_computes_in_bf16() -> None:
    plain = model("GptOssForCausalLM", layer_types=["full_attention"] * 4, torch_dtype=...)
    assert shape_from_config(plain).model_dtype == "fp16"
    assert shape_from_config(plain | {"quantization_config": {"quant_method": "mxfp4"}}).model_dtype == "bf16"


FP8_SCHEME = {"type": "float", "num_bits": 8, "strategy": "tensor", "symmetric": True, "dynamic": False}
QUANTIZATIONS = [
    (None, None),
    ({"quant_method": "fp8", "fmt": "e4m3"}, None),
    ({"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}, "fp8_e4m3"),
    ({"quant_method": "modelopt", "quantization": {"kv_cache_quant_algo": "fp8"}}, "fp8_e4m3"),
    ({"quant_method": "modelopt", "kv_cache_quant_algo": "NVFP4"}, None),
    ({"quant_method": "modelopt", "kv_cache_scheme": {"type": "float", "num_bits": 8, "dynamic": False}}, "fp8_e4m3"),
    ({"quant_method": "compressed-tensors", "kv_cache_scheme": FP8_SCHEME}, "fp8_e4m3"),
    ({"quant_method": "compressed-tensors", "kv_cache_scheme": FP8_SCHEME | {"dynamic": True}}, None),
    ({"quant_method": "compressed-tensors", "kv_cache_scheme": FP8_SCHEME | {"strategy": "channel"}}, None),
    ({"quant_method": "compressed-tensors", "kv_cache_scheme": FP8_SCHEME | {"num_bits": 4}}, None),
    ({"quant_method": "compressed-tensors", "kv_cache_scheme": None}, None),
]


@pytest.mark.parametrize(("quantization", "dtype"), QUANTIZATIONS)
def test_only_a_quantized_kv_cache_makes_a_kv_checkpoint_dtype(quantization: object, dtype: str | None) -> None:
    assert shape_from_config(llama(quantization_config=quantization)).kv_checkpoint_dtype == dtype
    assert shape_from_config({"text_config": llama(quantization_config=quantization)}).kv_checkpoint_dtype == dtype


LAYER_SPELLINGS = [
    (model("Gemma2ForCausalLM", sliding_window=64), (SWA, FULL, SWA, FULL), 63),
    (model("Gemma3ForCausalLM", sliding_window=64, num_hidden_layers=7), (SWA,) * 5 + (FULL, SWA), 63),
    (model("Gemma3ForCausalLM", sliding_window=64, sliding_window_pattern=2), (SWA, FULL, SWA, FULL), 63),
    (model("Gemma3nForConditionalGeneration", sliding_window=64, num_hidden_layers=5), (SWA,) * 4 + (FULL,), 63),
    (model("Cohere2ForCausalLM", sliding_window=64), (SWA, SWA, SWA, FULL), 64),
    (model("Llama4ForConditionalGeneration", attention_chunk_size=64), (SWA, SWA, SWA, FULL), 64),
    (model("MistralForCausalLM", sliding_window=64), (SWA,) * 4, 64),
    (model("MistralForCausalLM", sliding_window=None), (FULL,) * 4, None),
    (model("MistralForCausalLM", sliding_window=64, use_sliding_window=False), (FULL,) * 4, None),
    (model("Qwen2ForCausalLM", sliding_window=64, use_sliding_window=False, max_window_layers=2), (FULL,) * 4, None),
    (
        model("Qwen2ForCausalLM", sliding_window=64, use_sliding_window=True, max_window_layers=3),
        (FULL,) * 3 + (SWA,),
        64,
    ),
    (model("Qwen3NextForCausalLM", full_attention_interval=2), (LINEAR, FULL, LINEAR, FULL), None),
    (
        model("GptOssForCausalLM", sliding_window=64, layer_types=["sliding_attention", "full_attention"] * 2),
        (SWA, FULL, SWA, FULL),
        63,
    ),
    (
        model("Step3p5ForCausalLM", sliding_window=64, layer_types=["full_attention"] * 4 + ["sliding_attention"] * 3),
        (FULL,) * 4,
        None,
    ),
    (
        model("MiMoV2ForCausalLM", sliding_window_size=64, sliding_window=32, hybrid_layer_pattern=[0, 1, 1, 0]),
        (FULL, SWA, SWA, FULL),
        64,
    ),
    (
        model("InklingForConditionalGeneration", sliding_window_size=64, local_layer_ids=[2, 0]),
        (SWA, FULL, SWA, FULL),
        63,
    ),
    (
        mla("KimiLinearForCausalLM", linear_attn_config={"kda_layers": [1, 2, 4], "full_attn_layers": [3]}),
        (LINEAR, LINEAR, FULL, LINEAR),
        None,
    ),
]


@pytest.mark.parametrize(("config", "layers", "window"), LAYER_SPELLINGS)
def test_every_spelling_of_the_layer_kinds(config: dict[str, Any], layers: tuple[str, ...], window: int | None) -> None:
    shape = shape_from_config(config)
    assert (shape.layers, shape.sliding_window_size) == (layers, window)
    assert (shape.full is not None, shape.swa is not None) == (FULL in layers, SWA in layers)


def test_sliding_layers_may_have_heads_and_dims_of_their_own() -> None:
    config = model("MiMoV2ForCausalLM", sliding_window=64, hybrid_layer_pattern=[0, 1, 1, 0], v_head_dim=32)
    own = {"swa_num_key_value_heads": 4, "swa_head_dim": 48}
    shape = shape_from_config(config | own)
    assert (shape.full, shape.swa) == (Heads(2, 64, 32), Heads(4, 48, 48))
    assert shape_from_config(config | own | {"swa_v_head_dim": 16}).swa == Heads(4, 48, 16)


def test_step_gives_its_sliding_layers_a_group_count() -> None:
    types = ["full_attention", "sliding_attention"] * 2
    other = {"num_attention_groups": 4}
    config = model("Step3p5ForCausalLM", sliding_window=64, layer_types=types, attention_other_setting=other)
    assert shape_from_config(config).swa == Heads(4, 64, 64)


@pytest.mark.parametrize(("global_heads", "stored"), [(..., 2), (None, 2), (1, 1)])
@pytest.mark.parametrize("k_eq_v", [True, False])
def test_gemma_4_base_fields_are_the_sliding_layers(global_heads: object, stored: int, k_eq_v: bool) -> None:
    types = ["sliding_attention"] * 3 + ["full_attention"]
    fields = {"sliding_window": 64, "layer_types": types, "global_head_dim": 128, "attention_k_eq_v": k_eq_v}
    shape = shape_from_config(model("Gemma4ForCausalLM", num_global_key_value_heads=global_heads, **fields))
    assert (shape.full, shape.swa) == (Heads(stored, 128, 128), Heads(2, 64, 64))


def test_layers_that_share_kv_are_all_stored() -> None:
    plain = model("Gemma3nForConditionalGeneration", sliding_window=64)
    assert shape_from_config(plain | {"num_kv_shared_layers": 2}) == shape_from_config(plain)


INDEX_OWNERS = [
    ({}, (0, 1, 2, 3)),
    ({"indexer_types": ["full", "shared", "shared", "full"]}, (0, 3)),
    ({"indexer_types": None, "index_topk_pattern": "FSFS"}, (0, 2)),
    ({"index_topk_pattern": ["F", "F", "S", "S"]}, (0, 1)),
    ({"index_topk_freq": 2}, (0, 1, 3)),
    ({"index_topk_freq": 2, "index_skip_topk_offset": 1}, (0, 2)),
    ({"indexer_types": ["full"] + ["shared"] * 3, "index_topk_freq": 2}, (0,)),
]


@pytest.mark.parametrize(("fields", "owners"), INDEX_OWNERS)
def test_sparse_mla_layers_own_an_index_or_share_one(fields: dict[str, object], owners: tuple[int, ...]) -> None:
    config = mla("GlmMoeDsaForCausalLM", index_head_dim=128, index_topk=64, **fields)
    assert shape_from_config(config).index == Index(128, owners)


def test_an_mla_model_without_an_indexer_has_no_index() -> None:
    assert shape_from_config(mla("DeepseekV3ForCausalLM")).index is None


SPARSE = {"sparse_attention_freq": [0, 1, 1, 1], "sparse_index_dim": 128}


@pytest.mark.parametrize(("flags", "values"), [(..., True), ([0, 0, 0, 0], True), ([0, 1, 1, 1], False)])
def test_minimax_sparse_layers_index_keys_and_values(flags: object, values: bool) -> None:
    sparse = SPARSE if flags is ... else SPARSE | {"sparse_disable_index_value": flags}
    shape = shape_from_config(model("MiniMaxM3SparseForCausalLM", sparse_attention_config=sparse))
    assert shape.index == Index(128, (1, 2, 3), stores_values=values)
    assert shape.full == Heads(2, 64, 64)


@pytest.mark.parametrize(
    ("name", "pools"),
    [
        ("Gemma2ForCausalLM", False),
        ("Gemma3ForConditionalGeneration", False),
        ("Gemma3nForConditionalGeneration", False),
        ("Cohere2ForCausalLM", False),
        ("MistralForCausalLM", False),
        ("LlamaForCausalLM", False),
        ("GptOssForCausalLM", True),
        ("Gemma4ForConditionalGeneration", True),
        ("Llama4ForConditionalGeneration", True),
        ("MiMoV2ForCausalLM", True),
        ("Step3p5ForCausalLM", True),
        ("InklingForConditionalGeneration", True),
    ],
)
def test_some_classes_run_with_window_pools(name: str, pools: bool) -> None:
    assert runs_with_window_pools(model(name)) is pools


REFUSED = [
    ([], "invalid_input", "config", []),
    (llama(architectures=...), "invalid_input", "architectures", None),
    (llama(architectures="LlamaForCausalLM"), "invalid_input", "architectures", "LlamaForCausalLM"),
    (llama(architectures=[7]), "invalid_input", "architectures", 7),
    (model("MysteryForCausalLM"), "unsupported", "architectures", "MysteryForCausalLM"),
    (model("DeepseekV4ForCausalLM"), "unsupported", "architectures", "DeepseekV4ForCausalLM"),
    (model("LongcatFlashForCausalLM"), "unsupported", "architectures", "LongcatFlashForCausalLM"),
    (llama(text_config=3), "invalid_input", "text_config", 3),
    (llama(num_hidden_layers=...), "invalid_input", "num_hidden_layers", None),
    (llama(num_hidden_layers="4"), "invalid_input", "num_hidden_layers", "4"),
    (llama(num_hidden_layers=True), "invalid_input", "num_hidden_layers", True),
    (llama(num_hidden_layers=4.0), "invalid_input", "num_hidden_layers", 4.0),
    (llama(num_hidden_layers=0), "invalid_input", "num_hidden_layers", 0),
    (llama(num_hidden_layers=10**12), "invalid_input", "num_hidden_layers", 10**12),
    (llama(num_key_value_heads=-1), "invalid_input", "num_key_value_heads", -1),
    (llama(num_attention_heads=0), "invalid_input", "num_attention_heads", 0),
    (llama(hidden_size=...), "invalid_input", "hidden_size", None),
    (llama(hidden_size=513), "invalid_input", "hidden_size", 513),
    (llama(head_dim=0), "invalid_input", "head_dim", 0),
    (llama(v_head_dim=[64]), "invalid_input", "v_head_dim", [64]),
    (llama(torch_dtype="int8"), "unsupported", "torch_dtype", "int8"),
    (llama(torch_dtype=16), "unsupported", "torch_dtype", 16),
    (llama(quantization_config="fp8"), "invalid_input", "quantization_config", "fp8"),
    (llama(layer_types=["full_attention"] * 3), "invalid_input", "layer_types", ["full_attention"] * 3),
    (llama(layer_types=["mamba"] * 4), "unsupported", "layer_types", "mamba"),
    (llama(layer_types=[["full_attention"]] * 4), "unsupported", "layer_types", ["full_attention"]),
    (llama(layer_types="full"), "invalid_input", "layer_types", "full"),
    (llama(use_sliding_window="yes"), "invalid_input", "use_sliding_window", "yes"),
    (llama(use_sliding_window=True), "invalid_input", "max_window_layers", None),
    (model("GptOssForCausalLM"), "invalid_input", "layer_types", None),
    (model("Gemma3ForCausalLM"), "invalid_input", "sliding_window", None),
    (model("Gemma3ForCausalLM", sliding_window=1), "invalid_input", "sliding_window", 1),
    (model("Gemma3ForCausalLM", sliding_window_pattern=0), "invalid_input", "sliding_window_pattern", 0),
    (model("Llama4ForConditionalGeneration"), "invalid_input", "attention_chunk_size", None),
    (model("Qwen3NextForCausalLM"), "invalid_input", "full_attention_interval", None),
    (model("MiMoV2ForCausalLM"), "invalid_input", "hybrid_layer_pattern", None),
    (model("MiMoV2ForCausalLM", hybrid_layer_pattern=[0, 1, 2, 0]), "invalid_input", "hybrid_layer_pattern", 2),
    (model("InklingForConditionalGeneration"), "invalid_input", "local_layer_ids", None),
    (model("InklingForConditionalGeneration", local_layer_ids=[4]), "invalid_input", "local_layer_ids", 4),
    (model("InklingForConditionalGeneration", local_layer_ids=[1, 1]), "invalid_input", "local_layer_ids", 1),
    (mla("KimiLinearForCausalLM"), "invalid_input", "linear_attn_config", None),
    (
        mla("KimiLinearForCausalLM", linear_attn_config={"kda_layers": [1], "full_attn_layers": [1, 2]}),
        "invalid_input",
        "linear_attn_config",
        {"kda_layers": [1], "full_attn_layers": [1, 2]},
    ),
    (mla("DeepseekV3ForCausalLM", kv_lora_rank=...), "invalid_input", "kv_lora_rank", None),
    (mla("DeepseekV3ForCausalLM", qk_rope_head_dim=-64), "invalid_input", "qk_rope_head_dim", -64),
    (mla("DeepseekV32ForCausalLM", index_topk=64), "invalid_input", "index_head_dim", None),
    (
        mla("DeepseekV32ForCausalLM", index_head_dim=128, indexer_types=["half"] * 4),
        "unsupported",
        "indexer_types",
        "half",
    ),
    (
        mla("DeepseekV3ForCausalLM", layer_types=["sliding_attention"] * 3 + ["full_attention"]),
        "unsupported",
        "layer_types",
        "sliding_attention",
    ),
    (model("Gemma4ForCausalLM", layer_types=["full_attention"] * 4), "invalid_input", "global_head_dim", None),
    (model("MiniMaxM3SparseForCausalLM"), "invalid_input", "sparse_attention_config", None),
    (
        model("MiniMaxM3SparseForCausalLM", sparse_attention_config={"sparse_index_dim": 128}),
        "invalid_input",
        "sparse_attention_freq",
        None,
    ),
    (
        model(
            "MiniMaxM3SparseForCausalLM",
            sparse_attention_config=SPARSE | {"sparse_disable_index_value": [0, 1, 0, 0]},
        ),
        "unsupported",
        "sparse_disable_index_value",
        SPARSE | {"sparse_disable_index_value": [0, 1, 0, 0]},
    ),
]


@pytest.mark.parametrize(("config", "kind", "field", "value"), REFUSED)
def test_a_refusal_names_the_field_and_its_value(config: Any, kind: str, field: str, value: object) -> None:
    with pytest.raises(Refused) as refused:
        shape_from_config(config)
    refusal = refused.value.refusal
    assert (refusal.kind, refusal.field, refusal.value) == (kind, field, value)
    assert refusal.advice


def test_the_tables_do_not_contradict_each_other() -> None:
    assert not KNOWN & set(UNSUPPORTED)
    assert set(MTP_CLASSES.values()) <= KNOWN
    assert all(known_architecture(name) == target for name, target in MTP_CLASSES.items())


# Drafts


@pytest.mark.parametrize("algorithm", [EAGLE, STANDALONE])
@pytest.mark.parametrize(("next_layers", "depth"), [(..., 4), (None, 4), (0, 4), (1, 1), (3, 3)])
def test_eagle_and_standalone_take_the_next_n_layers_or_all(algorithm: str, next_layers: object, depth: int) -> None:
    config = model("MiMoForCausalLM", num_nextn_predict_layers=next_layers)
    assert draft_depth(config, algorithm) == depth
    assert draft_from_config(config, algorithm).shape.layers == (FULL,) * depth


@pytest.mark.parametrize("algorithm", [DFLASH, DSPARK])
def test_dflash_and_dspark_take_their_own_layers(algorithm: str) -> None:
    config = model("DFlashDraftModel", num_nextn_predict_layers=1)
    assert draft_depth(config, algorithm) == 4
    assert draft_from_config(config, algorithm).shape.full == Heads(2, 64, 64)


def test_mtp_runs_one_layer_a_step() -> None:
    config = mla("DeepseekV3ForCausalLM", num_nextn_predict_layers=1)
    assert draft_depth(config, MTP, num_steps=3) == 3
    assert draft_from_config(config, MTP, num_steps=3).shape.layers == (FULL,) * 3


@pytest.mark.parametrize("name", ["LlamaForCausalLMEagle3", "Qwen2ForCausalLMEagle", "MistralForCausalLMEagle"])
def test_an_eagle_draft_is_a_small_dense_model(name: str) -> None:
    draft = draft_from_config(model(name, num_hidden_layers=1), EAGLE, num_steps=3, topk=2, num_draft_tokens=5)
    assert draft.shape.layers == (FULL,)
    assert (draft.num_steps, draft.topk, draft.num_draft_tokens) == (3, 2, 5)
    assert (draft.kv_cache_dtype, draft.attention_backend, draft.swa_at_full_rows) == (None, None, False)


def test_an_mla_eagle_draft_with_no_next_n_layers_keeps_its_own() -> None:
    draft = draft_from_config(mla("Eagle3DeepseekV2ForCausalLM", num_nextn_predict_layers=0), EAGLE)
    assert (draft.shape.layers, draft.shape.full) == ((FULL,) * 4, MLA_512_64)


def test_a_dflash_draft_may_slide_and_a_dspark_draft_may_be_mla() -> None:
    types = ["sliding_attention"] * 3 + ["full_attention"]
    windowed = draft_from_config(model("DFlash2DraftModel", layer_types=types, sliding_window=2048), DFLASH)
    assert (windowed.shape.layers, windowed.shape.sliding_window_size) == ((SWA, SWA, SWA, FULL), 2047)
    assert draft_from_config(mla("DSparkDraftModel"), DSPARK).shape.full == MLA_512_64
    assert draft_from_config(model("DSparkDraftModel"), DSPARK).shape.full == Heads(2, 64, 64)


BUILT_IN = [
    (mla("DeepseekV3ForCausalLM", num_nextn_predict_layers=1), 1),
    (model("MiniMaxM2ForCausalLM", num_mtp_modules=3), 3),
    (model("Glm4MoeForCausalLM", num_nextn_predict_layers=0, mtp_num_hidden_layers=2), 2),
    (model("Qwen3_5ForCausalLM", mtp_num_hidden_layers=1), 1),
    (model("Qwen3NextForCausalLM"), 1),
]


@pytest.mark.parametrize(("config", "depth"), BUILT_IN)
def test_built_in_mtp_layers_are_full_target_layers(config: dict[str, Any], depth: int) -> None:
    shape = mtp_draft_from_target_config(config).shape
    assert shape.layers == (FULL,) * depth
    assert shape.full == (MLA_512_64 if "kv_lora_rank" in config else Heads(2, 64, 64))


def test_built_in_mtp_layers_of_the_excerpts() -> None:
    def layers(name: str, algorithm: str = EAGLE, num_steps: int = 1) -> tuple[str, ...]:
        return mtp_draft_from_target_config(EXCERPTS[name], algorithm, num_steps=num_steps).shape.layers

    assert layers("XiaomiMiMo--MiMo-7B-Base") == (FULL,)
    assert layers("Qwen--Qwen3.5-27B") == (FULL,)
    assert layers("XiaomiMiMo--MiMo-V2-Flash") == (SWA,)
    assert layers("XiaomiMiMo--MiMo-V2-Flash", MTP, 3) == (SWA,) * 3
    assert layers("stepfun-ai--Step-3.7-Flash", MTP, 3) == (SWA,) * 3


def test_a_built_in_mtp_layer_always_owns_an_index() -> None:
    config = EXCERPTS["zai-org--GLM-5.2"]
    assert mtp_draft_from_target_config(config).shape.index == Index(128, (0,))
    assert mtp_draft_from_target_config(config, MTP, num_steps=2).shape.index == Index(128, (0, 1))


def test_inkling_bands_some_depths_at_full_rows() -> None:
    trunk = model(
        "InklingForConditionalGeneration", sliding_window_size=64, local_layer_ids=[0], swa_num_key_value_heads=4
    )
    mtp_config = {"n_layers": 4, "local_layer_ids": [0, 2], "local_extent": 32}
    draft = mtp_draft_from_target_config({**trunk, "mtp_config": mtp_config}, MTP, num_steps=3)
    assert (draft.shape.layers, draft.shape.sliding_window_size) == ((SWA, FULL, SWA), 31)
    assert (draft.shape.swa, draft.swa_at_full_rows) == (Heads(4, 64, 64), True)
    inner = draft_from_config({**trunk, "num_nextn_predict_layers": 2, "mtp_local_layer_ids": [1]}, MTP, num_steps=2)
    assert (inner.shape.layers, inner.shape.sliding_window_size) == ((FULL, SWA), 63)
    full = mtp_draft_from_target_config({**trunk, "num_nextn_predict_layers": 2}, MTP, num_steps=2)
    assert (full.shape.layers, full.swa_at_full_rows) == ((FULL, FULL), False)


DRAFT_REFUSED: list[tuple[Callable[[], object], str, str, object]] = [
    (lambda: draft_from_config(llama(), "MEDUSA"), "invalid_input", "speculative_algorithm", "MEDUSA"),
    (lambda: draft_from_config(llama(), EAGLE, topk=0), "invalid_input", "topk", 0),
    (lambda: draft_from_config(llama(), MTP, num_steps=10**9), "invalid_input", "num_steps", 10**9),
    (lambda: draft_depth(llama(), EAGLE, num_steps=0), "invalid_input", "num_steps", 0),
    (lambda: mtp_draft_from_target_config(llama()), "invalid_input", "num_nextn_predict_layers", None),
    (
        lambda: mtp_draft_from_target_config(llama(), FROZEN_KV_MTP),
        "unsupported",
        "speculative_algorithm",
        FROZEN_KV_MTP,
    ),
    (
        lambda: mtp_draft_from_target_config(model("MiniMaxM3ForCausalLM", num_mtp_modules=7)),
        "unsupported",
        "architectures",
        "MiniMaxM3ForCausalLM",
    ),
    (
        lambda: draft_from_config(model("DeepseekV4ForCausalLMDSpark"), DSPARK),
        "unsupported",
        "architectures",
        "DeepseekV4ForCausalLMDSpark",
    ),
]


@pytest.mark.parametrize(("derive", "kind", "field", "value"), DRAFT_REFUSED)
def test_a_draft_refusal_names_the_field_and_its_value(
    derive: Callable[[], object], kind: str, field: str, value: object
) -> None:
    with pytest.raises(Refused) as refused:
        derive()
    refusal = refused.value.refusal
    assert (refusal.kind, refusal.field, refusal.value) == (kind, field, value)


# Any JSON


def derive_everything(config: Any) -> None:
    """Call every entry point; only `Refused` may come out of one."""
    derivations: list[Callable[[], object]] = [
        lambda: shape_from_config(config),
        lambda: runs_with_window_pools(config),
        lambda: mtp_draft_from_target_config(config, EAGLE),
        lambda: mtp_draft_from_target_config(config, MTP, num_steps=2),
        *(lambda algorithm=algorithm: draft_from_config(config, algorithm) for algorithm in ALGORITHMS),
    ]
    for derivation in derivations:
        try:
            derivation()
        except Refused as refused:
            assert refused.refusal.field


FIELDS = sorted(
    {field for excerpt in EXCERPTS.values() for part in (excerpt, excerpt.get("text_config", {})) for field in part}
) + [
    "sliding_window_pattern",
    "local_layer_ids",
    "mtp_config",
    "sparse_attention_config",
    "index_topk_freq",
    "index_topk_pattern",
    "kv_cache_scheme",
    "num_mtp_modules",
]
ARCHITECTURES = sorted(KNOWN | set(MTP_CLASSES) | set(UNSUPPORTED))
SCALARS = st.none() | st.booleans() | st.integers() | st.integers(0, 8) | st.floats() | st.text(max_size=8)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
)
FLAT_CONFIG = st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=12)
NAMED_CONFIG = st.builds(
    lambda config, name: config | {"architectures": [name]}, FLAT_CONFIG, st.sampled_from(ARCHITECTURES)
)


@settings(max_examples=300, deadline=None)
@given(JSON | FLAT_CONFIG | NAMED_CONFIG | st.builds(lambda text: {"text_config": text}, NAMED_CONFIG))
def test_any_json_is_priced_or_refused(config: Any) -> None:
    derive_everything(config)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(EXCERPTS)), st.sampled_from(ARCHITECTURES), st.data())
def test_a_damaged_excerpt_is_priced_or_refused(name: str, architecture: str, data: st.DataObject) -> None:
    config = copy.deepcopy(EXCERPTS[name])
    part = data.draw(st.sampled_from([config, config.get("text_config", config)]))
    field = data.draw(st.sampled_from(sorted(part)))
    damage = data.draw(st.sampled_from(["remove", "replace", "truncate", "rename"]))
    if damage == "remove":
        del part[field]
    elif damage == "replace":
        part[field] = data.draw(JSON)
    elif damage == "truncate":
        for later in [key for key in sorted(part) if key > field]:
            del part[later]
    else:
        config["architectures"] = [architecture]
    derive_everything(config)


@pytest.mark.parametrize("name", EXCERPTS)
def test_deriving_leaves_the_config_as_it_was(name: str) -> None:
    config = copy.deepcopy(EXCERPTS[name])
    derive_everything(config)
    assert config == EXCERPTS[name]
