"""The records the budget speaks of: what is served, how it is spread, what is left, what is sold, what is refused.

All are frozen. None computes anything but the answer to "is it active" and "how many": formulas live beside their
names in the other files.
"""

from dataclasses import dataclass
from fractions import Fraction

FULL = "full"
"""A layer that attends to the whole sequence: one KV row a token."""
SWA = "swa"
"""A sliding-window layer: attends to the last `sliding_window_size` tokens."""
LINEAR = "linear"
"""A layer with a recurrent state and no KV row (linear attention, Mamba): it costs nothing here."""
LAYER_KINDS = (FULL, SWA, LINEAR)

EAGLE = "EAGLE"
"""EAGLE, EAGLE-2, EAGLE-3, and MTP without a draft path: one draft runner, all draft layers in one pool."""
MTP = "MTP"
"""Multi-layer EAGLE: `num_steps` runners of one layer each, each with a pool of its own."""
STANDALONE = "STANDALONE"
"""A small model of its own drafts."""
DFLASH = "DFLASH"
"""Block-diffusion draft; DOMINO and DFLASH2 are the same family."""
DSPARK = "DSPARK"
"""The DFLASH family's staged draft."""
FROZEN_KV_MTP = "FROZEN_KV_MTP"
"""MTP that reads the target's rows and writes none: its dummy pool is not priced."""
ALGORITHMS = (EAGLE, MTP, STANDALONE, DFLASH, DSPARK, FROZEN_KV_MTP)
DFLASH_FAMILY = (DFLASH, DSPARK)


@dataclass(frozen=True)
class Heads:
    """MHA or GQA: one K row and one V row per head. Heads are those of the whole model, not of a rank."""

    num_kv_heads: int
    head_dim: int
    v_head_dim: int


@dataclass(frozen=True)
class Latent:
    """MLA: one latent row per token and layer, the same on every rank."""

    kv_lora_rank: int
    qk_rope_head_dim: int


@dataclass(frozen=True)
class Index:
    """The rows a sparse attention's indexer adds, on the layers that own one.

    `layers` are positions in `AttentionShape.layers`. Beside a `Latent` (DSA) a row holds `head_dim` fp8 values and
    one fp32 scale per 128 of them. Beside `Heads` (MiniMax sparse) it holds one unquantized head: K, and V when
    `stores_values`.
    """

    head_dim: int
    layers: tuple[int, ...]
    stores_values: bool = False


@dataclass(frozen=True)
class AttentionShape:
    """The KV geometry of one model, target or draft, before any rank is cut.

    `layers` names the kind of every hidden layer in order; `full` and `swa` are the geometry of a layer of that kind
    and None where there is no such layer. `model_dtype` is the compute dtype (bf16, fp16, fp32);
    `kv_checkpoint_dtype` the KV dtype a quantized checkpoint asks for, None where it asks for none.
    `frozen=True` all the way down: deriving a shape cannot change the config it came from.
    """

    layers: tuple[str, ...]
    full: Heads | Latent | None
    swa: Heads | None = None
    index: Index | None = None
    sliding_window_size: int | None = None
    model_dtype: str = "bf16"
    kv_checkpoint_dtype: str | None = None


@dataclass(frozen=True)
class Draft:
    """A speculative draft as the operator configured it.

    shape: its own geometry; one entry of `shape.layers` per draft layer (MTP: per runner).
    kv_cache_dtype: `--speculative-draft-kv-cache-dtype`, None when not given.
    attention_backend: `--speculative-draft-attention-backend`, None when it inherits the target's.
    num_steps, topk, num_draft_tokens: `--speculative-num-steps`, `-eagle-topk`, `-num-draft-tokens`.
    swa_at_full_rows: its SWA layers are banded at full capacity (Inkling's MTP depths): SWA geometry, full rows.
    geometry_resolved: False when start-up cannot read the draft's geometry and falls back to the layer ratio.
    """

    shape: AttentionShape
    kv_cache_dtype: str | None = None
    attention_backend: str | None = None
    num_steps: int = 1
    topk: int = 1
    num_draft_tokens: int = 1
    swa_at_full_rows: bool = False
    geometry_resolved: bool = True


@dataclass(frozen=True)
class Deployment:
    """The ranks. `tp_size` counts all tensor-parallel ranks of one stage; attention splits heads over fewer.

    attn_dp_size: replicas of attention under DP attention; attn_dcp_size: ranks that split the tokens of one
    sequence (decode context parallel); pp_size: pipeline stages; draft_on_every_stage: where the draft lives.
    """

    tp_size: int = 1
    attn_dp_size: int = 1
    attn_dcp_size: int = 1
    pp_size: int = 1
    draft_on_every_stage: bool = False


@dataclass(frozen=True)
class MemoryFigures:
    """What was measured. One inner tuple per pipeline stage, one reading in bytes per rank of that stage.

    free_before_load: free bytes before any weight; free_after_all_weights: free bytes after the target's *and* the
    draft's weights; mem_fraction_static: the decimal the operator wrote, as a Fraction.
    """

    free_before_load: tuple[tuple[int, ...], ...]
    free_after_all_weights: tuple[tuple[int, ...], ...]
    mem_fraction_static: Fraction


@dataclass(frozen=True)
class Scenario:
    """One question to the budget: this model, this draft, these ranks, these bytes: how many tokens?

    budget: available bytes per pipeline stage, or the memory figures they follow from.
    kv_cache_dtype: `--kv-cache-dtype`. attention_backend: the target's.
    window_pools: a window model runs with window pools (True) or stores every layer at full length (False).
    swa_full_tokens_ratio: SWA rows per full row, the decimal the operator wrote, as a Fraction.
    max_total_tokens: the user cap in rows per rank, None for none.
    speculative_algorithm: one of ALGORITHMS, None for plain decoding; `draft` may be set while it is None, and is
    then ignored. is_draft_worker: True where the draft worker itself sizes; it adds no draft to itself.
    decode_extra_slots: `--disaggregation-decode-extra-slots`; is_decode_role: disaggregated decode.
    swa_eviction_interval: SGLANG_SWA_EVICTION_INTERVAL.
    """

    target: AttentionShape
    budget: tuple[int, ...] | MemoryFigures
    draft: Draft | None = None
    speculative_algorithm: str | None = None
    is_draft_worker: bool = False
    deployment: Deployment = Deployment()
    page_size: int = 1
    kv_cache_dtype: str = "auto"
    attention_backend: str = "flashinfer"
    window_pools: bool = True
    swa_full_tokens_ratio: Fraction = Fraction(4, 5)
    context_len: int = 4096
    max_total_tokens: int | None = None
    user_max_running_requests: int | None = None
    chunked_prefill_size: int | None = 8192
    disable_radix_cache: bool = False
    disable_overlap_schedule: bool = False
    is_decode_role: bool = False
    decode_extra_slots: int = 0
    swa_eviction_interval: int = 1


@dataclass(frozen=True)
class PoolSizes:
    """What is sold, in rows per rank (logical tokens are rows times `attn_dcp_size`).

    max_total_num_tokens: full rows; SWA rows where the model has no full layer.
    full_max_total_num_tokens, swa_max_total_num_tokens: rows of each pool, 0 where the pool does not exist.
    """

    max_total_num_tokens: int
    full_max_total_num_tokens: int
    swa_max_total_num_tokens: int
    max_running_requests: int
    max_req_len: int


REFUSAL_KINDS = (
    "invalid_input",
    "unsupported",
    "no_memory_left",
    "no_page_fits",
    "swa_pool_leaves_no_room",
    "window_pool_too_small",
    "cap_too_small",
    "no_running_request",
    "no_request_length",
)
"""Every way to say no. Anything else an implementation raises is a finding."""


@dataclass(frozen=True)
class Refusal:
    """A listed way to say no: which field, its value, what was needed, what there was, what to change."""

    kind: str
    field: str
    value: object
    needed: object = None
    available: object = None
    advice: str = ""


class Refused(ValueError):
    """Carries a `Refusal` out of a formula that has no answer. The entry points catch it and return the refusal."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal

    def __str__(self) -> str:
        return f"{self.refusal.kind}: {self.refusal.field}={self.refusal.value!r}. {self.refusal.advice}"


def refuse(
    kind: str, field: str, value: object, advice: str = "", *, needed: object = None, available: object = None
) -> Refused:
    """The exception to raise: `raise refuse("unsupported", "kv_cache_dtype", "int4", "choose bf16")`."""
    return Refused(Refusal(kind, field, value, needed, available, advice))


def active_draft(scenario: Scenario) -> Draft | None:
    """The draft this rank pays for: none on the plain path, none inside the draft worker itself."""
    if scenario.speculative_algorithm is None or scenario.is_draft_worker:
        return None
    return scenario.draft
