"""Storage widths and block scales, and which KV dtype a worker resolves, with and without its model.

Upstream: `mem_cache/kv_cache_dtype.py: configure_kv_cache_dtype`, `mem_cache/memory_pool.py` (pool classes).
"""

from spec.model import DFLASH_FAMILY, AttentionShape, Draft, Scenario

STORAGE_BITS = {
    "bf16": 16,
    "fp16": 16,
    "fp32": 32,
    "fp8_e4m3": 8,
    "fp8_e5m2": 8,
    "mxfp8": 8,
    "fp4_mx_block16": 4,
    "nvfp4": 4,
}
"""Bits of one stored element, scales aside."""

MODEL_DTYPES = ("bf16", "fp16", "fp32")
"""What weights are computed in; a KV pool gets fp16 or fp32 only through `auto`."""

KV_CACHE_DTYPES = ("auto", "bf16", "fp8_e4m3", "fp8_e5m2", "mxfp8", "fp4_mx_block16", "nvfp4")
"""What `--kv-cache-dtype` and `--speculative-draft-kv-cache-dtype` accept."""

FP4_DTYPES = ("fp4_mx_block16", "nvfp4")

MXFP8_BLOCK = 32
"""Elements that share one mxfp8 scale byte, within a head (MXTokenToKVPool)."""
FP4_BLOCK = 16
"""Elements that share one fp4 scale byte (MHATokenToKVPoolFP4, MLATokenToKVPoolFP4)."""
SPARSE_BLOCK = 128
"""Latent elements that share one fp32 scale in a sparse fp8 row, and index elements in an index row."""
SPARSE_SCALE_BYTES = 4
"""One fp32 scale per `SPARSE_BLOCK` (DSATokenToKVPool)."""

ATTENTION_BACKENDS = ("flashinfer", "fa3", "fa4", "triton", "flashmla", "trtllm", "tilelang")
RAW_LATENT_BACKENDS = ("trtllm", "tilelang")
"""Sparse MLA backends that read latents without scales: an fp8 row is then rank + rope bytes."""
COMPUTE_DTYPE_BACKENDS = ("fa4",)
"""Backends that need K and Q in one dtype: a DFLASH-family draft on them stores its compute dtype."""


def asked_kv_dtype(asked: str, shape: AttentionShape, *, model_is_loaded: bool) -> str:
    """The storage dtype a request resolves to. `auto` is what the checkpoint asks for, else the model dtype; before
    the model is loaded nobody knows what the checkpoint asks for, and the model dtype is never narrower."""
    if asked != "auto":
        return asked
    if model_is_loaded and shape.kv_checkpoint_dtype is not None:
        return shape.kv_checkpoint_dtype
    return shape.model_dtype


def target_kv_dtype(scenario: Scenario) -> str:
    """The target's KV dtype. Its weights are loaded before anything is sized."""
    return asked_kv_dtype(scenario.kv_cache_dtype, scenario.target, model_is_loaded=True)


def draft_backend(scenario: Scenario, draft: Draft) -> str:
    """The attention backend the draft will really run: its own, or the target's when unset."""
    return draft.attention_backend or scenario.attention_backend


def draft_kv_dtype(scenario: Scenario, draft: Draft, *, model_is_loaded: bool = False) -> str:
    """The draft's KV dtype: an explicit draft dtype, else the server's, `auto` meaning the draft's own checkpoint;
    then, for the DFLASH family, a backend that needs K and Q in one dtype overrides even an explicit choice.

    Priced before any draft weight is loaded (`model_is_loaded=False`), allocated after.
    """
    asked = draft.kv_cache_dtype or scenario.kv_cache_dtype
    dtype = asked_kv_dtype(asked, draft.shape, model_is_loaded=model_is_loaded)
    overrides = draft_backend(scenario, draft) in COMPUTE_DTYPE_BACKENDS
    if scenario.speculative_algorithm in DFLASH_FAMILY and overrides:
        return draft.shape.model_dtype
    return dtype
