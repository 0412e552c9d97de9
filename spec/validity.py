"""What a scenario must satisfy before any formula runs. Each check raises `Refused` with the field and the value.

`invalid_input`: a type, number, name or combination that means nothing. `unsupported`: it means something no pool
stores. Types come first, so that whatever a field holds is refused by name. What is not in use is not looked at: the
fields of an idle draft, the window of a model without a window pool.
"""

from fractions import Fraction

from spec.dtypes import (
    ATTENTION_BACKENDS,
    FP4_BLOCK,
    FP4_DTYPES,
    KV_CACHE_DTYPES,
    MODEL_DTYPES,
    MXFP8_BLOCK,
    SPARSE_BLOCK,
    STORAGE_BITS,
    draft_backend,
    draft_kv_dtype,
    target_kv_dtype,
)
from spec.layers import (
    WINDOW_POOLS,
    attn_tp_size,
    draft_head_ranks,
    pool_kind,
    target_head_ranks,
)
from spec.model import (
    ALGORITHMS,
    DFLASH_FAMILY,
    FROZEN_KV_MTP,
    FULL,
    LAYER_KINDS,
    LINEAR,
    SWA,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Index,
    Latent,
    MemoryFigures,
    Scenario,
    active_draft,
    refuse,
)


def check_int(field: str, value: object, at_least: int) -> None:
    """Refuse anything but an integer of at least `at_least` (True and 2.0 are not integers here)."""
    if type(value) is not int or value < at_least:
        raise refuse("invalid_input", field, value, f"give an integer of at least {at_least}", needed=at_least)


def check_flag(field: str, value: object) -> None:
    """Refuse anything but True and False: the text "false" is no switch."""
    if type(value) is not bool:
        raise refuse("invalid_input", field, value, "give True or False")


def check_tuple(field: str, value: object) -> None:
    """Refuse anything but a tuple: what is asked twice must answer the same."""
    if not isinstance(value, tuple):
        raise refuse("invalid_input", field, value, "give a tuple")


def check_record(field: str, value: object, record: type) -> None:
    """Refuse anything but a record of this type (`spec/model.py`)."""
    if not isinstance(value, record):
        raise refuse("invalid_input", field, value, f"give one record of type {record.__name__}")


def check_member(field: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse a name that is not on the list."""
    if not isinstance(value, str) or value not in allowed:
        raise refuse("invalid_input", field, value, f"choose one of {', '.join(allowed)}")


def check_cap(field: str, tokens: int | None) -> None:
    """A cap is a positive number of rows per rank, or none."""
    if tokens is not None:
        check_int(field, tokens, 1)


def check_divides(field: str, value: int, divisor: int, divisor_name: str) -> None:
    """Refuse a count that does not divide evenly."""
    if value % divisor:
        raise refuse("invalid_input", field, value, f"must be a multiple of {divisor_name}", needed=divisor)


def check_deployment(deployment: Deployment) -> None:
    """Ranks are positive and factor: tp into attention replicas, each replica into DCP groups."""
    check_record("deployment", deployment, Deployment)
    for name in ("tp_size", "attn_dp_size", "attn_dcp_size", "pp_size"):
        check_int(f"deployment.{name}", getattr(deployment, name), 1)
    check_divides("deployment.tp_size", deployment.tp_size, deployment.attn_dp_size, "attn_dp_size")
    check_divides("attn_tp_size", attn_tp_size(deployment), deployment.attn_dcp_size, "attn_dcp_size")
    check_flag("deployment.draft_on_every_stage", deployment.draft_on_every_stage)


def check_flags(scenario: Scenario) -> None:
    """Switches are on or off."""
    for name in (
        "is_draft_worker",
        "window_pools",
        "disable_radix_cache",
        "disable_overlap_schedule",
        "is_decode_role",
    ):
        check_flag(name, getattr(scenario, name))


def check_geometry(name: str, geometry: Heads | Latent) -> None:
    """Heads and dims are positive."""
    if isinstance(geometry, Heads):
        check_int(f"{name}.num_kv_heads", geometry.num_kv_heads, 1)
        check_int(f"{name}.head_dim", geometry.head_dim, 1)
        check_int(f"{name}.v_head_dim", geometry.v_head_dim, 1)
    elif isinstance(geometry, Latent):
        check_int(f"{name}.kv_lora_rank", geometry.kv_lora_rank, 1)
        check_int(f"{name}.qk_rope_head_dim", geometry.qk_rope_head_dim, 0)
    else:
        raise refuse("invalid_input", name, geometry, "give Heads or Latent")


def check_index(name: str, shape: AttentionShape) -> None:
    """An index belongs to full layers; a DSA index scales whole blocks of its row and of the latent."""
    if shape.index is None:
        return
    check_record(f"{name}.index", shape.index, Index)
    check_int(f"{name}.index.head_dim", shape.index.head_dim, 1)
    check_flag(f"{name}.index.stores_values", shape.index.stores_values)
    check_tuple(f"{name}.index.layers", shape.index.layers)
    for position in shape.index.layers:
        check_int(f"{name}.index.layers", position, 0)
        if position >= len(shape.layers) or shape.layers[position] != FULL:
            raise refuse("invalid_input", f"{name}.index.layers", position, "name positions of full layers")
    if len(set(shape.index.layers)) != len(shape.index.layers):
        raise refuse("invalid_input", f"{name}.index.layers", shape.index.layers, "name each layer once")
    if SWA in shape.layers:
        raise refuse("unsupported", f"{name}.index", shape.index, "no index beside sliding-window layers")
    if isinstance(shape.full, Latent) and shape.index.head_dim % SPARSE_BLOCK:
        raise refuse(
            "unsupported", f"{name}.index.head_dim", shape.index.head_dim, f"must be a multiple of {SPARSE_BLOCK}"
        )


def check_layers(name: str, shape: AttentionShape) -> None:
    """A tuple with the kind of every layer."""
    check_tuple(f"{name}.layers", shape.layers)
    for kind in shape.layers:
        check_member(f"{name}.layers", kind, LAYER_KINDS)


def check_shape(name: str, shape: AttentionShape, *, has_swa_pool: bool) -> None:
    """Every kind of layer in the list has its geometry, and the dtypes are known."""
    for kind, geometry in ((FULL, shape.full), (SWA, shape.swa)):
        if kind in shape.layers and geometry is None:
            raise refuse("invalid_input", f"{name}.{kind}", None, f"a model with {kind} layers needs their geometry")
        if geometry is not None:
            check_geometry(f"{name}.{kind}", geometry)
    if isinstance(shape.swa, Latent) or (isinstance(shape.full, Latent) and SWA in shape.layers):
        raise refuse("unsupported", f"{name}.layers", shape.layers, "no MLA with sliding-window layers")
    check_index(name, shape)
    check_member(f"{name}.model_dtype", shape.model_dtype, MODEL_DTYPES)
    if shape.kv_checkpoint_dtype is not None:
        check_member(f"{name}.kv_checkpoint_dtype", shape.kv_checkpoint_dtype, tuple(STORAGE_BITS))
    if has_swa_pool:
        check_int(f"{name}.sliding_window_size", shape.sliding_window_size, 1)


def check_heads_split(name: str, shape: AttentionShape, ranks: int) -> None:
    """KV heads and ranks: one divides the other, for each kind of layer the model has."""
    for kind, geometry in ((FULL, shape.full), (SWA, shape.swa)):
        if kind not in shape.layers or not isinstance(geometry, Heads):
            continue
        heads = geometry.num_kv_heads
        if heads % ranks and ranks % heads:
            raise refuse(
                "invalid_input", f"{name}.{kind}.num_kv_heads", heads, "heads and ranks must divide", needed=ranks
            )


def check_heads_blocks(name: str, geometry: Heads, dtype: str, backend: str, *, has_index: bool) -> None:
    """Block formats scale whole blocks of a head: mxfp8 32 elements of K and of V, fp4 16, with V as wide as K.
    nvfp4 on heads is specified for the flashinfer backend, with linear scales."""
    if dtype == "mxfp8":
        for field in ("head_dim", "v_head_dim"):
            if getattr(geometry, field) % MXFP8_BLOCK:
                raise refuse("unsupported", f"{name}.{field}", getattr(geometry, field), "mxfp8 scales blocks of 32")
    if dtype in FP4_DTYPES:
        if geometry.v_head_dim != geometry.head_dim:
            raise refuse("unsupported", f"{name}.v_head_dim", geometry.v_head_dim, f"{dtype} needs head_dim")
        if geometry.head_dim % FP4_BLOCK:
            raise refuse("unsupported", f"{name}.head_dim", geometry.head_dim, f"{dtype} scales blocks of {FP4_BLOCK}")
    if has_index and (dtype == "mxfp8" or dtype in FP4_DTYPES):
        raise refuse("unsupported", f"{name} kv_cache_dtype", dtype, "no block scales beside an index")
    if dtype == "nvfp4" and backend != "flashinfer":
        raise refuse("unsupported", f"{name} attention_backend", backend, "nvfp4 on heads needs flashinfer")


def check_latent_blocks(name: str, geometry: Latent, dtype: str, *, is_sparse: bool) -> None:
    """fp4 latents scale whole blocks of 16; sparse rows exist in bf16, fp16, fp32 and fp8, scaled by blocks of 128."""
    elements = geometry.kv_lora_rank + geometry.qk_rope_head_dim
    if is_sparse and (dtype in FP4_DTYPES or dtype == "mxfp8"):
        raise refuse("unsupported", f"{name} kv_cache_dtype", dtype, "sparse MLA rows are bf16 or fp8")
    if is_sparse and dtype == "fp8_e4m3" and geometry.kv_lora_rank % SPARSE_BLOCK:
        raise refuse(
            "unsupported", f"{name}.full.kv_lora_rank", geometry.kv_lora_rank, f"must be a multiple of {SPARSE_BLOCK}"
        )
    if dtype in FP4_DTYPES and elements % FP4_BLOCK:
        raise refuse("unsupported", f"{name}.full.kv_lora_rank", geometry.kv_lora_rank, f"{dtype} scales blocks of 16")


def check_blocks(name: str, shape: AttentionShape, dtype: str, backend: str) -> None:
    """The storage dtype fits every geometry the model stores."""
    for kind, geometry in ((FULL, shape.full), (SWA, shape.swa)):
        if kind not in shape.layers:
            continue
        if isinstance(geometry, Heads):
            check_heads_blocks(f"{name}.{kind}", geometry, dtype, backend, has_index=shape.index is not None)
        elif isinstance(geometry, Latent):  # pragma: no branch (a layer without geometry is refused before)
            check_latent_blocks(name, geometry, dtype, is_sparse=shape.index is not None)


def check_target(scenario: Scenario) -> None:
    """The target has KV layers, and its pools can store them."""
    shape, deployment = scenario.target, scenario.deployment
    check_record("target", shape, AttentionShape)
    check_layers("target", shape)
    has_window_pools = pool_kind(scenario) in WINDOW_POOLS
    check_shape("target", shape, has_swa_pool=has_window_pools)
    if all(kind == LINEAR for kind in shape.layers):
        raise refuse("invalid_input", "target.layers", shape.layers, "a target without KV layers has no KV budget")
    if deployment.pp_size > len(shape.layers):
        raise refuse("invalid_input", "deployment.pp_size", deployment.pp_size, "more stages than layers")
    if not has_window_pools and {FULL, SWA} <= set(shape.layers) and shape.full != shape.swa:
        raise refuse("unsupported", "window_pools", False, "one full-length pool, two row geometries")
    check_member("kv_cache_dtype", scenario.kv_cache_dtype, KV_CACHE_DTYPES)
    check_member("attention_backend", scenario.attention_backend, ATTENTION_BACKENDS)
    check_heads_split("target", shape, target_head_ranks(deployment))
    check_blocks("target", shape, target_kv_dtype(scenario), scenario.attention_backend)


def check_window_pools(scenario: Scenario) -> None:
    """Window pools have a ratio, run without DCP, and have no FP4 layout."""
    ratio = scenario.swa_full_tokens_ratio
    if not isinstance(ratio, (Fraction, int)) or isinstance(ratio, bool) or not 0 < ratio <= 1:
        raise refuse("invalid_input", "swa_full_tokens_ratio", ratio, "give a Fraction above 0 and at most 1")
    if pool_kind(scenario) not in WINDOW_POOLS:
        return
    if scenario.deployment.attn_dcp_size > 1:
        raise refuse(
            "unsupported",
            "deployment.attn_dcp_size",
            scenario.deployment.attn_dcp_size,
            "window models run without DCP",
        )
    if target_kv_dtype(scenario) in FP4_DTYPES:
        raise refuse("unsupported", "kv_cache_dtype", target_kv_dtype(scenario), "no FP4 beside window pools")


def check_draft(scenario: Scenario, draft: Draft) -> None:
    """The draft in use has a shape its pools can store, and rows to follow."""
    check_record("draft", draft, Draft)
    check_record("draft.shape", draft.shape, AttentionShape)
    check_layers("draft", draft.shape)
    check_shape("draft", draft.shape, has_swa_pool=False)
    if draft.kv_cache_dtype is not None:
        check_member("draft.kv_cache_dtype", draft.kv_cache_dtype, KV_CACHE_DTYPES)
    if draft.attention_backend is not None:
        check_member("draft.attention_backend", draft.attention_backend, ATTENTION_BACKENDS)
    for name in ("num_steps", "topk", "num_draft_tokens"):
        check_int(f"draft.{name}", getattr(draft, name), 1)
    for name in ("swa_at_full_rows", "geometry_resolved"):
        check_flag(f"draft.{name}", getattr(draft, name))
    check_heads_split("draft", draft.shape, draft_head_ranks(scenario.deployment))
    backend = draft_backend(scenario, draft)
    # Before its weights are read it is priced in this dtype, or in its compute dtype, which every pool stores.
    dtype = draft_kv_dtype(scenario, draft, model_is_loaded=True)
    check_blocks("draft", draft.shape, dtype, backend)
    if pool_kind(scenario) in WINDOW_POOLS and dtype in FP4_DTYPES:
        raise refuse("unsupported", "draft.kv_cache_dtype", dtype, "no FP4 beside window pools")
    follows = scenario.speculative_algorithm not in (*DFLASH_FAMILY, FROZEN_KV_MTP)
    if SWA in draft.shape.layers and pool_kind(scenario) not in WINDOW_POOLS and follows:
        raise refuse("unsupported", "draft.shape.layers", draft.shape.layers, "no SWA rows to follow here")
    geometries = {draft.shape.full, draft.shape.swa} - {None}
    if pool_kind(scenario) not in WINDOW_POOLS and SWA in draft.shape.layers and len(geometries) > 1:
        raise refuse("unsupported", "draft.shape.layers", draft.shape.layers, "one pool, two row geometries")


def check_speculation(scenario: Scenario) -> None:
    """The algorithm is known; the one in use has a draft."""
    algorithm = scenario.speculative_algorithm
    if algorithm is None:
        return
    check_member("speculative_algorithm", algorithm, ALGORITHMS)
    draft = active_draft(scenario)
    if draft is not None:
        check_draft(scenario, draft)
    elif not scenario.is_draft_worker:
        raise refuse("invalid_input", "draft", None, f"{algorithm} needs a draft")


def check_memory_figures(memory: MemoryFigures, pp_size: int) -> None:
    """One tuple of readings per stage, one reading per rank, and a fraction strictly between 0 and 1."""
    fraction = memory.mem_fraction_static
    if not isinstance(fraction, Fraction) or not 0 < fraction < 1:
        raise refuse("invalid_input", "mem_fraction_static", fraction, "give a Fraction above 0 and below 1")
    for name in ("free_before_load", "free_after_all_weights"):
        stages = getattr(memory, name)
        check_tuple(name, stages)
        if len(stages) != pp_size:
            raise refuse("invalid_input", name, stages, "give the readings of every stage", needed=pp_size)
        for readings in stages:
            check_tuple(name, readings)
            if not readings:
                raise refuse("invalid_input", name, stages, "give at least one reading a stage")
            for reading in readings:
                check_int(name, reading, 0)


def check_budget(scenario: Scenario) -> None:
    """One number of bytes per stage. Zero or fewer is no nonsense but `no_memory_left`, said where it is used."""
    pp_size = scenario.deployment.pp_size
    if isinstance(scenario.budget, MemoryFigures):
        check_memory_figures(scenario.budget, pp_size)
        return
    if not isinstance(scenario.budget, tuple) or len(scenario.budget) != pp_size:
        raise refuse(
            "invalid_input", "budget", scenario.budget, "give a tuple of bytes, one number a stage", needed=pp_size
        )
    for stage_bytes in scenario.budget:
        if type(stage_bytes) is not int:
            raise refuse("invalid_input", "budget", stage_bytes, "bytes are integers")


def check_requests(scenario: Scenario) -> None:
    """Pages, context, caps and the numbers the capped pool is sized from."""
    check_int("page_size", scenario.page_size, 1)
    check_int("context_len", scenario.context_len, 1)
    check_cap("max_total_tokens", scenario.max_total_tokens)
    check_cap("user_max_running_requests", scenario.user_max_running_requests)
    check_int("decode_extra_slots", scenario.decode_extra_slots, 0)
    check_int("swa_eviction_interval", scenario.swa_eviction_interval, 0)
    if scenario.chunked_prefill_size is not None and type(scenario.chunked_prefill_size) is not int:
        raise refuse("invalid_input", "chunked_prefill_size", scenario.chunked_prefill_size, "an integer, or None")


def check_scenario(scenario: Scenario) -> None:
    """Everything a formula relies on. Raises `Refused`; returns nothing when the scenario is valid."""
    check_deployment(scenario.deployment)
    check_flags(scenario)
    check_requests(scenario)
    check_target(scenario)
    check_window_pools(scenario)
    check_speculation(scenario)
    check_budget(scenario)
