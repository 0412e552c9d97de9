"""A Hugging Face `config.json`, as a dict -> the KV geometry of the model (`draft_shapes.py`: of a draft).

Nothing is guessed: a class or field this file does not know raises `Refused` and names it (`unsupported`), as does a
field that is missing, ill-typed or not positive (`invalid_input`). Deriving only reads, so the config stays as it is.
Upstream: `configs/model_config.py: _derive_model_shapes, get_hybrid_layer_ids, _config_draft_model`.
"""

from spec.architectures import (
    DSPARK_DRAFTS,
    DTYPE_SPELLINGS,
    EVERY_LAYER_WINDOW,
    GLOBAL_FULL_LAYERS,
    LINEAR_LISTS,
    LISTED,
    LOCAL_LAYER_IDS,
    MLA,
    PERIODS,
    SPARSE_GQA,
    WINDOW_POOLS,
    ZERO_ONE_PATTERN,
    known_architecture,
    stored_window,
)
from spec.config_fields import (
    Config,
    as_config,
    count,
    first_count,
    listed_layers,
    optional_count,
    per_layer,
    section,
    sequence,
    zero_one_layers,
)
from spec.model import FULL, LINEAR, SWA, AttentionShape, Heads, Index, Latent, refuse

MAX_LAYERS = 4096
"""More layers, or draft steps, than any model has: a larger number is a typing error."""

LAYER_TYPES = {"full_attention": FULL, "sliding_attention": SWA, "chunked_attention": SWA, "linear_attention": LINEAR}
"""The names in `layer_types`. Chunked layers live in the window pool. Transformers `ALLOWED_LAYER_TYPES`."""

WINDOW_FIELDS = ("sliding_window_size", "sliding_window")
"""Spellings of the window, tokens, first one given wins. `model_config.py: _get_sliding_window_size`."""

KV_HEADS_FIELDS = ("num_key_value_heads", "num_attention_groups")
"""Spellings of the KV heads; without one every attention head has its own. `get_total_num_kv_heads`."""


def text_of(config: Config) -> Config:
    """The language model's part: a nested `text_config`, else the config itself."""
    outer = as_config(config)
    return section(outer, "text_config") or outer


def architecture_of(config: Config) -> str:
    """The model class, under its table name: the first of `architectures`, which may be nested with the text."""
    text = text_of(config)
    names = sequence(config, "architectures") or sequence(text, "architectures")
    if not names:
        raise refuse("invalid_input", "architectures", config.get("architectures"), "the config must name its class")
    return known_architecture(names[0])


def num_layers_of(text: Config) -> int:
    """`num_hidden_layers`, linear layers included."""
    num_layers = count(text, "num_hidden_layers")
    if num_layers > MAX_LAYERS:
        raise refuse("invalid_input", "num_hidden_layers", num_layers, f"no model has over {MAX_LAYERS} layers")
    return num_layers


def model_dtype(config: Config, architecture: str) -> str:
    """What the model computes in under `--dtype auto`: the checkpoint's dtype, but fp16 (Gemma: bf16) where that is
    float32 or not given, and bf16 for an mxfp4 gpt-oss. `_get_and_verify_dtype`, `model_overrides/gpt_oss.py`."""
    text = text_of(config)
    quantization = section(config, "quantization_config") or {}
    if architecture == "GptOssForCausalLM" and quantization.get("quant_method") == "mxfp4":
        return "bf16"
    spellings = [part.get(field) for part in (text, config) for field in ("dtype", "torch_dtype")]
    spelled = next((value for value in spellings if value is not None), "float32")
    name = DTYPE_SPELLINGS.get(spelled.removeprefix("torch.")) if isinstance(spelled, str) else None
    if name is None:
        raise refuse("unsupported", "torch_dtype", spelled, f"known dtypes are {', '.join(DTYPE_SPELLINGS)}")
    if name != "fp32":
        return name
    return "bf16" if str(text.get("model_type")).startswith("gemma") else "fp16"


def kv_checkpoint_dtype(config: Config) -> str | None:
    """`fp8_e4m3` where the checkpoint says its *KV cache* is fp8, else None: fp8 weights say nothing of the KV cache.
    A dynamic, asymmetric or per-channel scheme keeps the model dtype. `kv_cache_quant_algo` of `layers/quantization`.
    """
    quantization = section(config, "quantization_config") or section(text_of(config), "quantization_config") or {}
    scheme = section(quantization, "kv_cache_scheme")
    if scheme is not None:
        is_fp8 = scheme.get("type") == "float" and type(scheme.get("num_bits")) is int and scheme["num_bits"] == 8
        is_static = not scheme.get("dynamic") and scheme.get("symmetric", True) is True
        is_per_tensor = scheme.get("strategy", "tensor") == "tensor"
        return "fp8_e4m3" if is_fp8 and is_static and is_per_tensor else None
    exported = section(quantization, "quantization") or quantization
    algorithm = exported.get("kv_cache_quant_algo")
    return "fp8_e4m3" if isinstance(algorithm, str) and algorithm.upper() == "FP8" else None


def one_in(period: int, num_layers: int, other: str) -> tuple[str, ...]:
    """Every `period`-th layer is full, the rest is `other`."""
    return tuple(other if position % period else FULL for position in range(1, num_layers + 1))


def marked(positions: frozenset[int], num_layers: int, kind: str) -> tuple[str, ...]:
    """The layers at `positions` are of `kind`, the rest is full."""
    return tuple(kind if position in positions else FULL for position in range(num_layers))


def named_kinds(names: list[object]) -> tuple[str, ...]:
    """The kinds `layer_types` names."""
    for name in names:
        if not isinstance(name, str) or name not in LAYER_TYPES:
            raise refuse("unsupported", "layer_types", name, f"known types are {', '.join(LAYER_TYPES)}")
    return tuple(LAYER_TYPES[str(name)] for name in names)


def linear_layers(text: Config, num_layers: int) -> frozenset[int]:
    """Kimi's linear layers. Its two 1-based lists must share out all layers. `configs/kimi_linear.py`."""
    lists = section(text, "linear_attn_config")
    if lists is None:
        raise refuse("invalid_input", "linear_attn_config", None, "the config must give it")
    linear = listed_layers(lists, "kda_layers", num_layers, first=1)
    full = listed_layers(lists, "full_attn_layers", num_layers, first=1)
    if linear & full or len(linear | full) != num_layers:
        raise refuse("invalid_input", "linear_attn_config", lists, f"share out all {num_layers} layers, each once")
    return linear


def use_sliding_window(text: Config) -> bool | None:
    """The switch of Qwen, MiMo and some drafts; None where the config has none."""
    value = text.get("use_sliding_window")
    if value is not None and not isinstance(value, bool):
        raise refuse("invalid_input", "use_sliding_window", value, "give true or false")
    return value


def layer_kinds(architecture: str, text: Config) -> tuple[str, ...]:
    """The kind of every layer, however the config spells it: a list, a 0/1 pattern, positions, a period, one window
    on every layer, or nothing at all."""
    num_layers = num_layers_of(text)
    names = per_layer(text, "layer_types", num_layers)
    if names is not None:
        return named_kinds(names)
    if architecture in LISTED:
        raise refuse("invalid_input", "layer_types", None, "the config must give it")
    if architecture in ZERO_ONE_PATTERN:
        sliding = zero_one_layers(text, "hybrid_layer_pattern", num_layers)
        if sliding is None:
            raise refuse("invalid_input", "hybrid_layer_pattern", None, "the config must give it")
        return marked(sliding, num_layers, SWA)
    if architecture in LOCAL_LAYER_IDS:
        return marked(listed_layers(text, "local_layer_ids", num_layers, first=0), num_layers, SWA)
    if architecture in LINEAR_LISTS:
        return marked(linear_layers(text, num_layers), num_layers, LINEAR)
    if architecture in PERIODS:
        other, field, period = PERIODS[architecture]
        given = None if field is None else optional_count(text, field)
        return one_in(given or period or count(text, str(field)), num_layers, other)
    if (
        architecture in EVERY_LAYER_WINDOW
        and first_count(text, WINDOW_FIELDS)
        and use_sliding_window(text) is not False
    ):
        return (SWA,) * num_layers
    if use_sliding_window(text):
        first_sliding = optional_count(text, "max_window_layers", at_least=0)
        if first_sliding is None:
            raise refuse("invalid_input", "max_window_layers", None, "use_sliding_window needs it")
        return marked(frozenset(range(first_sliding, num_layers)), num_layers, SWA)
    return (FULL,) * num_layers


def window_of(architecture: str, text: Config) -> int:
    """`sliding_window_size` as SGLang stores it, tokens. Llama 4: its chunk. `resolve_sliding_window_size`."""
    if architecture == "Llama4ForConditionalGeneration":
        return count(text, "attention_chunk_size")
    window = first_count(text, WINDOW_FIELDS)
    if window is None:
        raise refuse("invalid_input", "sliding_window", None, "sliding layers need a window")
    return stored_window(architecture, window)


def base_heads(text: Config) -> Heads:
    """The base fields: KV heads (absent: one per attention head), `head_dim` (absent: hidden size shared out over the
    attention heads) and `v_head_dim` (absent: `head_dim`)."""
    num_kv_heads = first_count(text, KV_HEADS_FIELDS) or count(text, "num_attention_heads")
    head_dim = optional_count(text, "head_dim")
    if head_dim is None:
        hidden_size, num_heads = count(text, "hidden_size"), count(text, "num_attention_heads")
        if hidden_size % num_heads:
            raise refuse("invalid_input", "hidden_size", hidden_size, "must be a multiple of num_attention_heads")
        head_dim = hidden_size // num_heads
    return Heads(num_kv_heads, head_dim, optional_count(text, "v_head_dim") or head_dim)


def full_geometry(architecture: str, text: Config) -> Heads | Latent:
    """What a full layer stores: a latent under MLA; the base heads; in Gemma 4 the global heads, K and V alike."""
    is_mla_draft = architecture in DSPARK_DRAFTS and text.get("kv_lora_rank") is not None
    if architecture in MLA or is_mla_draft:
        return Latent(count(text, "kv_lora_rank"), count(text, "qk_rope_head_dim"))
    base = base_heads(text)
    if architecture in GLOBAL_FULL_LAYERS:
        head_dim = count(text, "global_head_dim")
        return Heads(optional_count(text, "num_global_key_value_heads") or base.num_kv_heads, head_dim, head_dim)
    return base


def swa_geometry(architecture: str, text: Config) -> Heads:
    """What a sliding layer stores: the `swa_*` fields, each missing one as the full layers have it; `swa_v_head_dim`
    as `swa_head_dim`. Gemma 4: the base fields. Step: its own group count. `get_swa_num_kv_heads`."""
    base = base_heads(text)
    if architecture in GLOBAL_FULL_LAYERS:
        return base
    other = section(text, "attention_other_setting") or {}
    num_kv_heads = optional_count(text, "swa_num_key_value_heads") or optional_count(other, "num_attention_groups")
    head_dim = optional_count(text, "swa_head_dim") or base.head_dim
    return Heads(num_kv_heads or base.num_kv_heads, head_dim, optional_count(text, "swa_v_head_dim") or head_dim)


def owns_index(text: Config, num_layers: int) -> tuple[bool, ...]:
    """Whether each layer of a sparse MLA model computes its own top-k, and so stores index rows: by name, by letter
    (`S` shares), or one in `index_topk_freq` after the first layers. `model_config.py: dsa_layer_skips_topk`."""
    names = per_layer(text, "indexer_types", num_layers)
    if names is None:
        letters = text.get("index_topk_pattern")
        spelled_out = {"index_topk_pattern": list(letters) if isinstance(letters, str) else letters}
        names = per_layer(spelled_out, "index_topk_pattern", num_layers)
    if names is not None:
        for name in names:
            if name not in ("full", "shared", "F", "S"):
                raise refuse("unsupported", "indexer_types", name, "known are full and shared, in a pattern F and S")
        return tuple(name in ("full", "F") for name in names)
    period = optional_count(text, "index_topk_freq") or 1
    offset = optional_count(text, "index_skip_topk_offset") or 2
    return tuple(max(position - offset + 1, 0) % period == 0 for position in range(num_layers))


def index_head_dim(architecture: str, text: Config) -> int | None:
    """Width of a sparse MLA indexer's row; None where there is no indexer. `is_deepseek_dsa`."""
    if architecture not in MLA or (text.get("index_head_dim") is None and text.get("index_topk") is None):
        return None
    return count(text, "index_head_dim")


def sparse_gqa_index(config: Config, num_layers: int) -> Index:
    """The index rows of MiniMax sparse attention: K on every sparse layer, and V unless the config switches it off.
    Upstream `get_minimax_sparse_attention_config`, `get_minimax_sparse_disable_value_layer_ids`."""
    sparse = section(text_of(config), "sparse_attention_config") or section(config, "sparse_attention_config")
    if not sparse:
        raise refuse("invalid_input", "sparse_attention_config", sparse, "the config must give it")
    layers = zero_one_layers(sparse, "sparse_attention_freq", num_layers)
    if layers is None:
        raise refuse("invalid_input", "sparse_attention_freq", None, "the config must give it")
    without_values = layers & (zero_one_layers(sparse, "sparse_disable_index_value", num_layers) or frozenset())
    if without_values and without_values != layers:
        raise refuse(
            "unsupported", "sparse_disable_index_value", sparse, "all sparse layers store values, or none does"
        )
    return Index(count(sparse, "sparse_index_dim"), tuple(sorted(layers)), stores_values=not without_values)


def index_of(architecture: str, config: Config, kinds: tuple[str, ...]) -> Index | None:
    """The index of a model with these layers, None for plain attention."""
    if architecture in SPARSE_GQA:
        return sparse_gqa_index(config, len(kinds))
    head_dim = index_head_dim(architecture, text_of(config))
    if head_dim is None:
        return None
    owns = owns_index(text_of(config), len(kinds))
    return Index(head_dim, tuple(position for position, kind in enumerate(kinds) if kind == FULL and owns[position]))


def shape_of_layers(architecture: str, config: Config, kinds: tuple[str, ...], index: Index | None) -> AttentionShape:
    """The shape of a model with these layers; only the geometry those layers need is asked of the config."""
    text = text_of(config)
    full = full_geometry(architecture, text) if FULL in kinds else None
    if isinstance(full, Latent) and SWA in kinds:
        raise refuse("unsupported", "layer_types", "sliding_attention", "no pool holds latents beside sliding layers")
    return AttentionShape(
        layers=kinds,
        full=full,
        swa=swa_geometry(architecture, text) if SWA in kinds else None,
        index=index,
        sliding_window_size=window_of(architecture, text) if SWA in kinds else None,
        model_dtype=model_dtype(config, architecture),
        kv_checkpoint_dtype=kv_checkpoint_dtype(config),
    )


def shape_from_config(config: Config) -> AttentionShape:
    """The KV geometry of the model a `config.json` describes. Refuses what it does not know, naming the field."""
    architecture = architecture_of(config)
    kinds = layer_kinds(architecture, text_of(config))
    return shape_of_layers(architecture, config, kinds, index_of(architecture, config, kinds))


def runs_with_window_pools(config: Config) -> bool:
    """Whether SGLang gives this class window pools. Gemma 2 and 3, Cohere2, Mistral and the rest store every layer at
    full length, sliding or not. `model_config.py: is_hybrid_swa_model`."""
    return architecture_of(config) in WINDOW_POOLS
