"""Every model class the reference knows, family by family: how it names its layers, and what it stores for one.

A class that is in no table is refused, never guessed. Drafts stand beside targets: an MTP class is its target's
class under another name.

Upstream: `configs/model_config.py: is_hybrid_swa_model, get_hybrid_layer_ids`, the `EntryClass` of `models/*.py`.
"""

from spec.model import LINEAR, SWA, refuse

FULL_LENGTH = frozenset(
    {
        "LlamaForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen3ForCausalLM",
        "Qwen3MoeForCausalLM",
        "Qwen3VLForConditionalGeneration",
        "MiMoForCausalLM",
        "MiniMaxM2ForCausalLM",
        "Glm4MoeForCausalLM",
    }
)
"""MHA or GQA, every layer full unless `layer_types` or `use_sliding_window` says otherwise. `models/llama.py`, ..."""

EVERY_LAYER_WINDOW = frozenset({"MistralForCausalLM", "MixtralForCausalLM", "Phi3ForCausalLM"})
"""One `sliding_window` holds on every layer, null for none. Transformers `MistralConfig`, `Phi3Config`."""

PERIODS = {
    "Gemma2ForCausalLM": (SWA, "sliding_window_pattern", 2),
    "Gemma3ForCausalLM": (SWA, "sliding_window_pattern", 6),
    "Gemma3ForConditionalGeneration": (SWA, "sliding_window_pattern", 6),
    "Gemma3nForConditionalGeneration": (SWA, "sliding_window_pattern", 5),
    "Cohere2ForCausalLM": (SWA, "sliding_window_pattern", 4),
    "Llama4ForConditionalGeneration": (SWA, None, 4),
    "Qwen3NextForCausalLM": (LINEAR, "full_attention_interval", None),
    "Qwen3_5ForCausalLM": (LINEAR, "full_attention_interval", None),
    "Qwen3_5MoeForCausalLM": (LINEAR, "full_attention_interval", None),
    "Qwen3_5ForConditionalGeneration": (LINEAR, "full_attention_interval", None),
    "Qwen3_5MoeForConditionalGeneration": (LINEAR, "full_attention_interval", None),
}
"""Every n-th layer is full: the kind of the others, the field that names n, and the class's own n where the field
may be absent. Transformers class defaults; Llama 4 and Qwen: `get_hybrid_layer_ids`, `configs/qwen3_next.py`."""

LISTED = frozenset(
    {
        "GptOssForCausalLM",
        "Gemma4ForCausalLM",
        "Gemma4ForConditionalGeneration",
        "Step3p5ForCausalLM",
        "Step3p7ForConditionalGeneration",
        "Step3p7FlashForCausalLM",
    }
)
"""`layer_types` names every layer and may not be absent. `get_hybrid_layer_ids`; the last is a curated spelling."""

ZERO_ONE_PATTERN = frozenset({"MiMoV2ForCausalLM", "MiMoV2FlashForCausalLM"})
"""`hybrid_layer_pattern`: 1 for a sliding layer, 0 for a full one. `get_hybrid_layer_ids`."""

LOCAL_LAYER_IDS = frozenset({"InklingForConditionalGeneration"})
"""`local_layer_ids`: the 0-based positions of the sliding layers. `configs/inkling.py`."""

LINEAR_LISTS = frozenset({"KimiLinearForCausalLM", "KimiK3LinearForCausalLM", "KimiK3ForConditionalGeneration"})
"""`linear_attn_config`: 1-based lists of linear and full layers. `configs/kimi_linear.py`."""

SPARSE_GQA = frozenset(
    {"MiniMaxM3ForCausalLM", "MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration"}
)
"""GQA whose `sparse_attention_config` adds index rows. `is_minimax_sparse`; the first is a curated spelling."""

MLA = LINEAR_LISTS | {
    "DeepseekV2ForCausalLM",
    "DeepseekV3ForCausalLM",
    "DeepseekV32ForCausalLM",
    "GlmMoeDsaForCausalLM",
    "Glm4MoeLiteForCausalLM",
    "KimiK25ForConditionalGeneration",
    "MistralLarge3ForCausalLM",
    "Eagle3DeepseekV2ForCausalLM",
    "MistralLarge3ForCausalLMEagle",
}
"""A latent row a layer: `kv_lora_rank` and `qk_rope_head_dim`. `model_config.py: _derive_model_shapes`."""

GLOBAL_FULL_LAYERS = frozenset({"Gemma4ForCausalLM", "Gemma4ForConditionalGeneration"})
"""The base fields describe the sliding layers, `global_*` the full ones. `utils/hf_transformers/config.py`."""

EAGLE_DRAFTS = frozenset(
    {"LlamaForCausalLMEagle", "LlamaForCausalLMEagle3", "Qwen2ForCausalLMEagle", "MistralForCausalLMEagle"}
)
"""EAGLE, EAGLE-3 and P-EAGLE drafts, all full MHA or GQA layers. `models/llama_eagle3.py` and its neighbours."""

DFLASH_DRAFTS = frozenset(
    {"DFlashDraftModel", "DFlash2DraftModel", "DFlash2BeamDraftModel", "MiniMaxDFlash2DraftModel"}
)
"""DFLASH, DOMINO and DFLASH2: full layers, or those `layer_types` names. `models/dflash.py`."""

DSPARK_DRAFTS = frozenset(
    {"DSparkDraftModel", "Qwen3DSparkModel", "LingDSparkModel", "Lfm2DSparkDraftModel", "DSparkMiniMaxDraftModel"}
)
"""DSPARK; one that gives a `kv_lora_rank` is MLA. `models/dspark.py`, `models/dspark_minimax.py`, `lfm2_dspark.py`."""

MTP_CLASSES = {
    "MiMoMTP": "MiMoForCausalLM",
    "MiMoV2MTP": "MiMoV2ForCausalLM",
    "Step3p5MTP": "Step3p5ForCausalLM",
    "InklingForConditionalGenerationMTP": "InklingForConditionalGeneration",
    "DeepseekV3ForCausalLMNextN": "DeepseekV3ForCausalLM",
    "GlmMoeDsaForCausalLMNextN": "GlmMoeDsaForCausalLM",
    "Glm4MoeForCausalLMNextN": "Glm4MoeForCausalLM",
    "Glm4MoeLiteForCausalLMNextN": "Glm4MoeLiteForCausalLM",
    "Qwen3MoeForCausalLMMTP": "Qwen3MoeForCausalLM",
    "Qwen3NextForCausalLMMTP": "Qwen3NextForCausalLM",
    "Qwen3_5ForCausalLMMTP": "Qwen3_5ForCausalLM",
}
"""An MTP class and the target class whose config it reads. `model_config.py: _config_draft_model`."""

SLIDING_MTP = ZERO_ONE_PATTERN | {"Step3p5ForCausalLM", "Step3p7ForConditionalGeneration", "Step3p7FlashForCausalLM"}
"""Targets whose MTP layers slide; those of every other target are full. `get_hybrid_layer_ids`."""

ONE_MTP_LAYER = (
    SLIDING_MTP
    | LOCAL_LAYER_IDS
    | {"Qwen3NextForCausalLM", "Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"}
    | {"Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration"}
)
"""Targets whose MTP runner holds one layer whatever depth the config names. `layer_setup.py`, `_config_draft_model`."""

WINDOW_POOLS = LISTED | ZERO_ONE_PATTERN | LOCAL_LAYER_IDS | {"Llama4ForConditionalGeneration"}
"""Targets that get window pools; any other window model stores every layer at full length. `is_hybrid_swa_model`."""

WINDOW_COUNTS_ITSELF = (
    LOCAL_LAYER_IDS
    | DFLASH_DRAFTS
    | DSPARK_DRAFTS
    | {
        "GptOssForCausalLM",
        "Gemma2ForCausalLM",
        "Gemma3ForCausalLM",
        "Gemma3ForConditionalGeneration",
        "Gemma3nForConditionalGeneration",
        "Gemma4ForCausalLM",
        "Gemma4ForConditionalGeneration",
    }
)
"""The published window counts the current token, SGLang's `sliding_window_size` does not: one less.
`get_attention_sliding_window_size` of each model file; the models not listed take the published number."""

DTYPE_SPELLINGS = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
}
"""How configs spell a dtype, with or without a leading `torch.`. `_STR_DTYPE_TO_TORCH_DTYPE`."""

UNSUPPORTED = {
    "DeepseekV4ForCausalLM": "compressed attention keeps rows in pools of its own",
    "DeepseekV4ForCausalLMNextN": "compressed attention keeps rows in pools of its own",
    "DeepseekV4ForCausalLMDSpark": "compressed attention keeps rows in pools of its own",
    "LongcatFlashForCausalLM": "num_layers counts blocks of two attentions each",
    "LongcatFlashForCausalLMNextN": "num_layers counts blocks of two attentions each",
}
"""Known classes whose rows these formulas do not describe, and why."""

KNOWN = (
    FULL_LENGTH
    | EVERY_LAYER_WINDOW
    | frozenset(PERIODS)
    | LISTED
    | ZERO_ONE_PATTERN
    | LOCAL_LAYER_IDS
    | SPARSE_GQA
    | MLA
    | EAGLE_DRAFTS
    | DFLASH_DRAFTS
    | DSPARK_DRAFTS
)
"""Every class a shape can be derived for, MTP classes under their target's name."""


def known_architecture(name: object) -> str:
    """The table name of a model class: itself, or the target of an MTP class. Refuses a class in no table."""
    if not isinstance(name, str):
        raise refuse("invalid_input", "architectures", name, "give the model class as a string")
    if name in UNSUPPORTED:
        raise refuse("unsupported", "architectures", name, UNSUPPORTED[name])
    target = MTP_CLASSES.get(name, name)
    if target not in KNOWN:
        raise refuse("unsupported", "architectures", name, "known classes are listed in spec/architectures.py")
    return target


def stored_window(architecture: str, published: int) -> int:
    """SGLang's `sliding_window_size` for the window a config publishes, in tokens. Refuses a window of nothing."""
    window = published - 1 if architecture in WINDOW_COUNTS_ITSELF else published
    if window < 1:
        raise refuse("invalid_input", "sliding_window", published, "a window reaches at least one token back")
    return window
