"""Small scenarios and sizes for the tests of pools as real tensors, and what their bytes must be."""

import pytest
import torch

from impl.torch_pools import build_pools, pool_bytes
from spec.accounting import sold_bytes, spare_bytes
from spec.model import FULL, SWA, AttentionShape, Draft, Heads, Index, Latent, PoolSizes, Scenario

BF16, FP16, FP32, U8 = torch.bfloat16, torch.float16, torch.float32, torch.uint8
E4M3, E5M2, E8M0, FP4X2 = torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2
DEVICES = pytest.mark.parametrize("device", ["meta", "cpu"])


def rows(full, swa=0):
    """Sizes of so many rows a rank; without full rows the SWA rows are the tokens."""
    return PoolSizes(full or swa, full, swa, 1, 1)


def accounted_bytes(scenario, sizes):
    """The spec's bytes of each stage, spare rows included."""
    stages = range(scenario.deployment.pp_size)
    return tuple(sold_bytes(scenario, sizes, stage) + spare_bytes(scenario, sizes, stage) for stage in stages)


def described(pools):
    """Pool name -> buffer name -> shapes and dtype of its tensors, of target and draft."""
    return {
        f"{pool.owner} {pool.name}": {
            name: [(tuple(tensor.shape), tensor.dtype) for tensor in tensors] for name, tensors in pool.buffers.items()
        }
        for pool in pools
    }


def fp8(shape, **changes):
    """A scenario whose bytes are its elements, in pages of 4."""
    return Scenario(shape, (1,), **{"kv_cache_dtype": "fp8_e4m3", "page_size": 4, **changes})


HEADS = Heads(2, 64, 32)
LATENT = Latent(512, 64)
SPARSE = {"index": Index(128, (0,))}


def one_layer(geometry, **changes):
    """A model of one full layer."""
    return AttentionShape((FULL,), geometry, **changes)


SQUARE = one_layer(Heads(2, 64, 64))


HYBRID = AttentionShape((SWA, FULL, SWA), Heads(2, 4, 2), Heads(1, 8, 8), sliding_window_size=4)
"""In fp8 a full row is 12 bytes and an SWA row 16 in each of two layers."""
EVEN = AttentionShape((SWA, FULL, SWA), Heads(2, 4, 2), Heads(2, 4, 2), sliding_window_size=4)
ALL_WINDOW = AttentionShape((SWA, SWA), None, Heads(1, 8, 8), sliding_window_size=4)
CAPPED = {"user_max_running_requests": 1, "disable_radix_cache": True}


def drafted(algorithm, target=HYBRID, shape=HYBRID, **draft):
    """A hybrid target with a draft of its own shape."""
    return fp8(target, draft=Draft(shape, **draft), speculative_algorithm=algorithm)


def draft_bytes(scenario, sizes):
    """Bytes of each draft pool."""
    return {
        name: size for name, size in pool_bytes(build_pools(scenario, sizes, 0)).items() if name.startswith("draft")
    }
