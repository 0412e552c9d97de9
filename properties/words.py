"""A scenario in an operator's words: the models as layers and heads, the rest as the flags of a server."""

from collections import Counter
from dataclasses import fields

from spec.model import SWA, AttentionShape, Deployment, Heads, Index, Latent, MemoryFigures, Scenario, active_draft

DEPLOYMENT_FLAGS = {
    "tp_size": "--tp-size",
    "attn_dp_size": "--dp-size",
    "attn_dcp_size": "--dcp-size",
    "pp_size": "--pp-size",
}
FLAGS = {
    "page_size": "--page-size",
    "kv_cache_dtype": "--kv-cache-dtype",
    "attention_backend": "--attention-backend",
    "swa_full_tokens_ratio": "--swa-full-tokens-ratio",
    "context_len": "--context-length",
    "max_total_tokens": "--max-total-tokens",
    "user_max_running_requests": "--max-running-requests",
    "chunked_prefill_size": "--chunked-prefill-size",
    "decode_extra_slots": "--disaggregation-decode-extra-slots",
}
"""Fields with a value, and the flag that gives it."""
SWITCHES = {
    "disable_radix_cache": "--disable-radix-cache",
    "disable_overlap_schedule": "--disable-overlap-schedule",
    "is_decode_role": "--disaggregation-mode decode",
}
"""Fields that are on or off."""
DRAFT_FLAGS = {
    "kv_cache_dtype": "--speculative-draft-kv-cache-dtype",
    "attention_backend": "--speculative-draft-attention-backend",
    "num_steps": "--speculative-num-steps",
    "topk": "--speculative-eagle-topk",
    "num_draft_tokens": "--speculative-num-draft-tokens",
}


def geometry_text(geometry: Heads | Latent) -> str:
    """What a layer keeps of a token."""
    if isinstance(geometry, Latent):
        return f"latents of {geometry.kv_lora_rank:,} + {geometry.qk_rope_head_dim:,}"
    heads = "1 KV head" if geometry.num_kv_heads == 1 else f"{geometry.num_kv_heads:,} KV heads"
    widths = geometry.head_dim, geometry.v_head_dim
    return f"{heads} of {' + '.join(f'{width:,}' for width in widths)}"


def index_text(index: Index) -> str:
    """The index some layers own."""
    return f"an index of {index.head_dim:,} on {len(index.layers):,} of them"


def shape_text(shape: AttentionShape) -> str:
    """`36 full layers of 8 KV heads of 128 + 128, bf16`."""
    parts = []
    geometries = {"full": shape.full, "swa": shape.swa, "linear": None}
    for kind, count in Counter(shape.layers).items():
        layers = f"{count:,} {kind} layer{'' if count == 1 else 's'}"
        geometry = geometries[kind]
        parts.append(layers if geometry is None else f"{layers} of {geometry_text(geometry)}")
    if shape.index is not None:
        parts.append(index_text(shape.index))
    if shape.sliding_window_size is not None:
        parts.append(f"window {shape.sliding_window_size:,}")
    checkpoint = [] if shape.kv_checkpoint_dtype is None else [f"KV quantized to {shape.kv_checkpoint_dtype}"]
    return ", ".join([*(parts or ["no layers"]), shape.model_dtype, *checkpoint])


def given_flags(record: object, flags: dict[str, str]) -> list[str]:
    """The flags of a record's fields that are not at their default."""
    defaults = {field.name: field.default for field in fields(record)}  # type: ignore[arg-type]
    values = {name: getattr(record, name) for name in flags}
    return [f"{flags[name]} {value}" for name, value in values.items() if value != defaults[name]]


def deployment_flags(deployment: Deployment) -> list[str]:
    """How the ranks are used."""
    more = ["--enable-dp-attention"] if deployment.attn_dp_size > 1 else []
    every = ["(a draft on every stage)"] if deployment.draft_on_every_stage else []
    return [*given_flags(deployment, DEPLOYMENT_FLAGS), *more, *every]


def flags_text(scenario: Scenario) -> str:
    """The environment and the flags of a server that are not at their default."""
    algorithm = scenario.speculative_algorithm
    draft = active_draft(scenario)
    interval = scenario.swa_eviction_interval
    return " ".join(
        [
            *([] if interval == 1 else [f"SGLANG_SWA_EVICTION_INTERVAL={interval}"]),
            *deployment_flags(scenario.deployment),
            *given_flags(scenario, FLAGS),
            *(flag for name, flag in SWITCHES.items() if getattr(scenario, name)),
            *(["(window layers at full length)"] * (SWA in scenario.target.layers and not scenario.window_pools)),
            *([] if algorithm is None else [f"--speculative-algorithm {algorithm}"]),
            *([] if draft is None else given_flags(draft, DRAFT_FLAGS)),
        ]
    )


def budget_text(scenario: Scenario) -> str:
    """The bytes of a rank of each stage, or the readings they follow from."""
    budget = scenario.budget
    if not isinstance(budget, MemoryFigures):
        stages = " + ".join(f"{stage:,}" for stage in budget)
        return f"{stages} B a rank" + (" of each stage" if len(budget) > 1 else "")
    before, after = (
        min(min(stage) for stage in readings) for readings in (budget.free_before_load, budget.free_after_all_weights)
    )
    fraction = float(budget.mem_fraction_static)
    return f"{after:,} B free of {before:,} B before loading, --mem-fraction-static {fraction:g}"


def scenario_words(scenario: Scenario) -> str:
    """The models and the flags, a line each."""
    draft = active_draft(scenario)
    lines = [f"target {shape_text(scenario.target)}"]
    if draft is not None:
        notes = ", window layers at full rows" * draft.swa_at_full_rows
        notes += ", geometry not readable" * (not draft.geometry_resolved)
        lines.append(f"draft {shape_text(draft.shape)}{notes}")
    flags = flags_text(scenario)
    return "\n".join([*lines, *([flags] if flags else [])])
