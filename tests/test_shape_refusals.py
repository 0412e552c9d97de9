"""`config.json` -> a refusal that names the field and its value."""

from typing import Any

import pytest

from spec.architectures import KNOWN, MTP_CLASSES, UNSUPPORTED, known_architecture
from spec.model import Refused
from spec.shapes import shape_from_config
from tests.configs import SPARSE, llama, mla, model

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
    (model("MiMoV2ForCausalLM", hybrid_layer_pattern=[0, True, 0, 0]), "invalid_input", "hybrid_layer_pattern", True),
    (llama(use_sliding_window=True, max_window_layers=-1), "invalid_input", "max_window_layers", -1),
    (llama(num_hidden_layers=4097), "invalid_input", "num_hidden_layers", 4097),
    (model("MistralForCausalLM", sliding_window=0), "invalid_input", "sliding_window", 0),
    (model("InklingForConditionalGeneration"), "invalid_input", "local_layer_ids", None),
    (model("InklingForConditionalGeneration", local_layer_ids=[True]), "invalid_input", "local_layer_ids", True),
    (model("InklingForConditionalGeneration", local_layer_ids=[-1]), "invalid_input", "local_layer_ids", -1),
    (model("InklingForConditionalGeneration", local_layer_ids=[4]), "invalid_input", "local_layer_ids", 4),
    (model("InklingForConditionalGeneration", local_layer_ids=[1, 1]), "invalid_input", "local_layer_ids", 1),
    (mla("KimiLinearForCausalLM"), "invalid_input", "linear_attn_config", None),
    (
        mla("KimiLinearForCausalLM", linear_attn_config={"kda_layers": [1], "full_attn_layers": [1, 2]}),
        "invalid_input",
        "linear_attn_config",
        {"kda_layers": [1], "full_attn_layers": [1, 2]},
    ),
    *(
        (mla("KimiLinearForCausalLM", linear_attn_config=lists), "invalid_input", field, value)
        for lists, field, value in (
            ({"kda_layers": [1, 2], "full_attn_layers": [2, 3, 4]}, "linear_attn_config", ...),
            ({"kda_layers": [1, 2], "full_attn_layers": [4]}, "linear_attn_config", ...),
            ({"kda_layers": [1, 1], "full_attn_layers": [2, 3, 4]}, "kda_layers", 1),
            ({"kda_layers": [0], "full_attn_layers": [1, 2, 3, 4]}, "kda_layers", 0),
            ({"kda_layers": [5], "full_attn_layers": [1, 2, 3, 4]}, "kda_layers", 5),
        )
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
    assert (refusal.kind, refusal.field) == (kind, field)
    assert refusal.value == (config[field] if value is ... else value)
    assert refusal.advice


def test_the_tables_do_not_contradict_each_other() -> None:
    assert not KNOWN & set(UNSUPPORTED)
    assert set(MTP_CLASSES.values()) <= KNOWN
    assert all(known_architecture(name) == target for name, target in MTP_CLASSES.items())
