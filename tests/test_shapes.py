"""`config.json` -> geometry: every spelling of heads, dtypes, layer kinds, indexes and windows."""

from collections.abc import Mapping
from typing import Any

import pytest

from spec.model import FULL, LINEAR, SWA, Heads, Index, Latent
from spec.shapes import runs_with_window_pools, shape_from_config
from tests.configs import SPARSE, llama, mla, model


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


def test_mxfp4_says_nothing_of_another_class() -> None:
    assert shape_from_config(llama(torch_dtype="float16", quantization_config={"quant_method": "mxfp4"})) == (
        shape_from_config(llama(torch_dtype="float16"))
    )


def test_the_first_class_counts() -> None:
    config = llama(architectures=["LlamaForCausalLM", "MysteryForCausalLM"])
    assert shape_from_config(config) == shape_from_config(llama())


def test_a_model_may_have_4096_layers() -> None:
    assert len(shape_from_config(llama(num_hidden_layers=4096)).layers) == 4096


def test_a_window_may_reach_one_token_back() -> None:
    """Gemma 3 counts the token itself, Mistral does not."""
    assert shape_from_config(model("MistralForCausalLM", sliding_window=1)).sliding_window_size == 1
    assert shape_from_config(model("Gemma3ForCausalLM", sliding_window=2)).sliding_window_size == 1


def test_every_layer_may_slide_from_the_first_on() -> None:
    config = model("Qwen2ForCausalLM", sliding_window=64, use_sliding_window=True, max_window_layers=0)
    assert shape_from_config(config).layers == (SWA,) * 4


def test_a_sliding_head_is_as_wide_as_k_of_a_full_one() -> None:
    """Its K where nothing is given, its V as its K: not the V of a full head."""
    config = model(
        "MiMoV2ForCausalLM", hybrid_layer_pattern=[0, 1, 1, 1], sliding_window=64, head_dim=96, v_head_dim=32
    )
    shape = shape_from_config(config)
    assert (shape.full, shape.swa) == (Heads(2, 96, 32), Heads(2, 96, 96))


def test_fields_of_another_class_are_not_looked_at() -> None:
    """A rank beside heads, an index beside heads."""
    stray = llama(kv_lora_rank=512, qk_rope_head_dim=64, index_head_dim=128, index_topk=64)
    assert shape_from_config(stray) == shape_from_config(llama())


def test_linear_layers_are_listed_in_any_order_and_own_no_index() -> None:
    lists = {"kda_layers": [4, 2, 1], "full_attn_layers": [3]}
    config = mla("KimiLinearForCausalLM", linear_attn_config=lists, index_head_dim=128)
    shape = shape_from_config(config)
    assert shape.layers == (LINEAR, LINEAR, FULL, LINEAR)
    assert shape.index == Index(128, (2,))


@pytest.mark.parametrize("nested", [True, False])
def test_sparse_attention_may_be_configured_inside_or_outside_of_the_text(nested: bool) -> None:
    sparse = {"sparse_attention_config": SPARSE}
    text = model("MiniMaxM3SparseForCausalLM", **(sparse if nested else {}))
    outer = {"text_config": text, **({} if nested else sparse)}
    assert shape_from_config(outer).index == Index(128, (1, 2, 3), stores_values=True)


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
    ({"quant_method": "compressed-tensors", "kv_cache_scheme": FP8_SCHEME | {"num_bits": 8.0}}, None),
    ({"quant_method": "compressed-tensors", "kv_cache_scheme": FP8_SCHEME | {"type": "int"}}, None),
    ({"quant_method": "compressed-tensors", "kv_cache_scheme": FP8_SCHEME | {"symmetric": False}}, None),
    ({"quant_method": "compressed-tensors", "kv_cache_scheme": None}, None),
]


@pytest.mark.parametrize(("quantization", "dtype"), QUANTIZATIONS)
def test_only_a_quantized_kv_cache_makes_a_kv_checkpoint_dtype(quantization: object, dtype: str | None) -> None:
    assert shape_from_config(llama(quantization_config=quantization)).kv_checkpoint_dtype == dtype
    assert shape_from_config({"text_config": llama(quantization_config=quantization)}).kv_checkpoint_dtype == dtype
    outer = {"text_config": llama(), "quantization_config": quantization}
    assert shape_from_config(outer).kv_checkpoint_dtype == dtype


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
