"""A Hugging Face `config.json`, as a dict -> the speculative draft it describes: how deep, and what a layer stores.

Upstream: `model_runner_components/layer_setup.py: _compute_model_num_layers`,
`model_runner_components/spec_aux_hidden_state.py`, `configs/model_config.py: _config_draft_model`.
"""

from dataclasses import replace

from spec.architectures import LOCAL_LAYER_IDS, ONE_MTP_LAYER, SLIDING_MTP, SPARSE_GQA, stored_window
from spec.config_fields import Config, count, first_count, listed_layers, optional_count, section
from spec.model import ALGORITHMS, DFLASH_FAMILY, EAGLE, FULL, MTP, SWA, AttentionShape, Draft, Index, refuse
from spec.shapes import (
    MAX_LAYERS,
    architecture_of,
    index_head_dim,
    num_layers_of,
    shape_from_config,
    shape_of_layers,
    text_of,
)

MTP_DEPTH_FIELDS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
"""Spellings of the built-in MTP depth, layers, first one above 0 wins: DeepSeek, Qwen3.5, MiniMax."""


def check_switches(algorithm: str, **switches: object) -> None:
    """Refuse an unknown algorithm, and a number of steps, branches or tokens that is no positive integer."""
    if algorithm not in ALGORITHMS:
        raise refuse("invalid_input", "speculative_algorithm", algorithm, f"choose one of {', '.join(ALGORITHMS)}")
    for name in switches:
        count(switches, name)
    if count(switches, "num_steps") > MAX_LAYERS:
        raise refuse("invalid_input", "num_steps", switches["num_steps"], f"no draft takes over {MAX_LAYERS} steps")


def mtp_depth(config: Config) -> int | None:
    """The built-in MTP layers a target's config declares, in any spelling; 0 means none. Inkling: `mtp_config`."""
    outside = section(config, "mtp_config") or {}
    depth = optional_count(outside, "n_layers", at_least=0)
    return depth or first_count(text_of(config), MTP_DEPTH_FIELDS, at_least=0)


def runs_built_in_mtp(config: Config, algorithm: str) -> bool:
    """Whether SGLang runs the checkpoint's MTP layers instead of the whole model: as the draft of a multi-layer run,
    of a class it always rewrites, or of any config with `num_nextn_predict_layers` above 0."""
    if algorithm in DFLASH_FAMILY:
        return False
    declared = optional_count(text_of(config), "num_nextn_predict_layers", at_least=0)
    return algorithm == MTP or architecture_of(config) in ONE_MTP_LAYER or bool(declared)


def draft_depth(config: Config, algorithm: str, *, num_steps: int = 1) -> int:
    """Layers of a draft with a config of its own. MTP: one a step, each in a runner of its own. EAGLE, STANDALONE:
    `num_nextn_predict_layers` above 0, else all its layers. DFLASH, DSPARK: all its layers. The one draft that counts
    stages instead, DeepSeek-V4's MoE DSPARK, has pools of its own and is refused by name."""
    check_switches(algorithm, num_steps=num_steps)
    if algorithm == MTP:
        return num_steps
    if not runs_built_in_mtp(config, algorithm):
        return num_layers_of(text_of(config))
    return built_in_depth(config)


def built_in_depth(config: Config) -> int:
    """Layers of one runner of the target's own MTP. Refuses a config that declares none."""
    if architecture_of(config) in ONE_MTP_LAYER:
        return 1
    depth = mtp_depth(config)
    if not depth or depth > MAX_LAYERS:
        raise refuse("invalid_input", "num_nextn_predict_layers", depth, "the config declares no MTP layers")
    return depth


def banded_depths(config: Config, depth: int) -> frozenset[int]:
    """The MTP depths of Inkling that slide, all at full capacity. `configs/inkling.py`."""
    outside = section(config, "mtp_config") or {}
    text = text_of(config)
    for part, field in ((outside, "local_layer_ids"), (text, "mtp_local_layer_ids")):
        if part.get(field):
            return listed_layers(part, field, max(depth, mtp_depth(config) or 0), first=0)
    return frozenset()


def mtp_shape(config: Config, depth: int) -> AttentionShape:
    """`depth` layers of the target's own MTP: full layers of the target's geometry, each with an index where the
    target has any; sliding in MiMo-V2 and Step; in Inkling those depths that the config bands."""
    architecture, text = architecture_of(config), text_of(config)
    if architecture in SPARSE_GQA:
        raise refuse("unsupported", "architectures", architecture, "SGLang has no MTP class for it")
    banded = banded_depths(config, depth) if architecture in LOCAL_LAYER_IDS else frozenset()
    slides = architecture in SLIDING_MTP
    kinds = tuple(SWA if slides or position in banded else FULL for position in range(depth))
    head_dim = index_head_dim(architecture, text)
    index = None if head_dim is None else Index(head_dim, tuple(range(depth)))
    shape = shape_of_layers(architecture, config, kinds, index)
    extent = banded_extent(config) if banded and SWA in kinds else None
    return shape if extent is None else replace(shape, sliding_window_size=stored_window(architecture, extent))


def banded_extent(config: Config) -> int | None:
    """The window of Inkling's banded MTP depths, tokens; None where they keep the trunk's."""
    outside = section(config, "mtp_config") or {}
    return optional_count(outside, "local_extent") or optional_count(text_of(config), "mtp_local_extent")


def draft_from_config(
    config: Config,
    algorithm: str,
    *,
    num_steps: int = 1,
    topk: int = 1,
    num_draft_tokens: int = 1,
    kv_cache_dtype: str | None = None,
    attention_backend: str | None = None,
) -> Draft:
    """The draft a `config.json` of its own describes, run under `algorithm` with the operator's switches."""
    check_switches(algorithm, num_steps=num_steps, topk=topk, num_draft_tokens=num_draft_tokens)
    if runs_built_in_mtp(config, algorithm):
        shape = mtp_shape(config, draft_depth(config, algorithm, num_steps=num_steps))
    else:
        shape = shape_from_config(config)
    return Draft(
        shape=shape,
        kv_cache_dtype=kv_cache_dtype,
        attention_backend=attention_backend,
        num_steps=num_steps,
        topk=topk,
        num_draft_tokens=num_draft_tokens,
        swa_at_full_rows=architecture_of(config) in LOCAL_LAYER_IDS and SWA in shape.layers,
    )


def mtp_draft_from_target_config(
    config: Config,
    algorithm: str = EAGLE,
    *,
    num_steps: int = 1,
    topk: int = 1,
    num_draft_tokens: int = 1,
    kv_cache_dtype: str | None = None,
    attention_backend: str | None = None,
) -> Draft:
    """The draft of a run without a draft path: the target's own MTP layers, as many as its config declares (EAGLE) or
    one a step (MTP)."""
    if algorithm not in (EAGLE, MTP):
        raise refuse("unsupported", "speculative_algorithm", algorithm, "built-in MTP layers run under EAGLE or MTP")
    check_switches(algorithm, num_steps=num_steps, topk=topk, num_draft_tokens=num_draft_tokens)
    depth = built_in_depth(config)
    shape = mtp_shape(config, num_steps if algorithm == MTP else depth)
    return Draft(
        shape=shape,
        kv_cache_dtype=kv_cache_dtype,
        attention_backend=attention_backend,
        num_steps=num_steps,
        topk=topk,
        num_draft_tokens=num_draft_tokens,
        swa_at_full_rows=architecture_of(config) in LOCAL_LAYER_IDS and SWA in shape.layers,
    )
