"""Storage widths against torch, and the KV dtype a draft resolves."""

from dataclasses import replace

import pytest
import torch

from spec.dtypes import STORAGE_BITS, draft_kv_dtype, target_kv_dtype
from spec.model import DFLASH, EAGLE, AttentionShape, Draft, Scenario

TORCH_DTYPES = {
    "bf16": (torch.bfloat16, 1),
    "fp16": (torch.float16, 1),
    "fp32": (torch.float32, 1),
    "fp8_e4m3": (torch.float8_e4m3fn, 1),
    "fp8_e5m2": (torch.float8_e5m2, 1),
    "mxfp8": (torch.float8_e4m3fn, 1),
    "fp4_mx_block16": (torch.float4_e2m1fn_x2, 2),
    "nvfp4": (torch.float4_e2m1fn_x2, 2),
}
"""The torch dtype of each storage dtype, and how many values one of its items holds."""


@pytest.mark.parametrize("name", STORAGE_BITS)
def test_widths_are_those_of_torch(name):
    """Bits of one value."""
    dtype, values = TORCH_DTYPES[name]
    assert STORAGE_BITS[name] * values == 8 * torch.empty(0, dtype=dtype).element_size()


def shape(model_dtype="bf16", checkpoint=None):
    """A shape of which only the dtypes matter."""
    return AttentionShape((), None, model_dtype=model_dtype, kv_checkpoint_dtype=checkpoint)


def scenario(asked="auto", target=None, **changes):
    """A scenario of which only the dtypes matter."""
    return Scenario(target or shape(), (), kv_cache_dtype=asked, speculative_algorithm=DFLASH, **changes)


def test_auto_is_what_the_checkpoint_asks_for():
    """The target's weights are loaded when it is sized."""
    assert target_kv_dtype(scenario(target=shape("fp16"))) == "fp16"
    assert target_kv_dtype(scenario(target=shape("bf16", "fp8_e4m3"))) == "fp8_e4m3"
    assert target_kv_dtype(scenario("fp8_e5m2", shape("bf16", "fp8_e4m3"))) == "fp8_e5m2"


def test_a_draft_without_its_model_is_never_priced_narrower_than_the_truth():
    """`auto` before the draft's weights are loaded is the model dtype; afterwards its checkpoint's."""
    draft = Draft(shape("bf16", "fp8_e4m3"))
    assert draft_kv_dtype(scenario(), draft) == "bf16"
    assert draft_kv_dtype(scenario(), draft, model_is_loaded=True) == "fp8_e4m3"


def test_auto_on_the_server_means_the_drafts_own_checkpoint():
    """Not the target's."""
    quantized_target = scenario(target=shape("bf16", "fp8_e4m3"))
    assert draft_kv_dtype(quantized_target, Draft(shape("fp16")), model_is_loaded=True) == "fp16"


def test_an_explicit_draft_dtype_wins_over_the_servers():
    """`--speculative-draft-kv-cache-dtype`."""
    assert draft_kv_dtype(scenario("fp8_e4m3"), Draft(shape(), kv_cache_dtype="bf16")) == "bf16"
    assert draft_kv_dtype(scenario("fp8_e4m3"), Draft(shape())) == "fp8_e4m3"


@pytest.mark.parametrize(
    ("algorithm", "target_backend", "draft_backend", "expected"),
    [
        (DFLASH, "flashinfer", "fa4", "bf16"),
        (DFLASH, "fa4", None, "bf16"),
        (DFLASH, "fa4", "flashinfer", "fp8_e4m3"),
        (DFLASH, "flashinfer", None, "fp8_e4m3"),
        (EAGLE, "fa4", "fa4", "fp8_e4m3"),
    ],
)
def test_a_backend_that_needs_one_dtype_overrides_even_an_explicit_choice(
    algorithm, target_backend, draft_backend, expected
):
    """For the DFLASH family only, and by the backend the draft will really run."""
    asked = replace(scenario("fp8_e4m3", attention_backend=target_backend), speculative_algorithm=algorithm)
    draft = Draft(shape(), kv_cache_dtype="fp8_e4m3", attention_backend=draft_backend)
    assert draft_kv_dtype(asked, draft) == expected
