"""Pools as real tensors: shapes, dtypes and bytes by hand, each storage once."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from impl import torch_pools
from impl.torch_pools import Pool, allocated_bytes, build_pools, pool_bytes, storage_bytes
from spec import catalog
from spec.layers import POOL_KINDS, pool_kind
from spec.model import (
    DFLASH,
    DSPARK,
    EAGLE,
    FROZEN_KV_MTP,
    FULL,
    LINEAR,
    MTP,
    STANDALONE,
    SWA,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Index,
    Scenario,
)
from spec.pools import size_pools
from spec.units import GiB
from tests.torch_scenarios import (
    ALL_WINDOW,
    BF16,
    CAPPED,
    DEVICES,
    E4M3,
    E5M2,
    E8M0,
    EVEN,
    FP4X2,
    FP16,
    FP32,
    HEADS,
    HYBRID,
    LATENT,
    SPARSE,
    SQUARE,
    U8,
    accounted_bytes,
    described,
    draft_bytes,
    drafted,
    fp8,
    one_layer,
    rows,
)


def plain(dtype):
    """K and V of HEADS in 12 rows."""
    return {"k_buffer": ((12, 2, 64), dtype), "v_buffer": ((12, 2, 32), dtype)}


def fp4(scale_shape):
    """K and V of two heads of 64 in 12 rows, two elements an item, and their scales."""
    data, scale = ((12, 2, 32), FP4X2), (scale_shape, U8)
    return {"k_buffer": data, "v_buffer": data, "k_scale_buffer": scale, "v_scale_buffer": scale}


SCALES = {"k_scale_buffer": ((12, 2, 2), E8M0), "v_scale_buffer": ((12, 2, 1), E8M0)}
WORKSPACE = {"dq_k_buffer": ((12, 2, 64), E4M3), "dq_v_buffer": ((12, 2, 64), E4M3)}
PACKED_LATENT = {"kv_buffer": ((12, 1, 288), FP4X2), "kv_scale_buffer": ((12, 36), U8)}

ROW_FORMATS = [
    (one_layer(HEADS), "bf16", "fa3", "MHATokenToKVPool", plain(BF16), 384),
    (one_layer(HEADS), "auto", "fa3", "MHATokenToKVPool", plain(BF16), 384),
    (one_layer(HEADS, model_dtype="fp16"), "auto", "fa3", "MHATokenToKVPool", plain(FP16), 384),
    (one_layer(HEADS, model_dtype="fp32"), "auto", "fa3", "MHATokenToKVPool", plain(FP32), 768),
    (one_layer(HEADS, kv_checkpoint_dtype="fp8_e4m3"), "auto", "fa3", "MHATokenToKVPool", plain(E4M3), 192),
    (one_layer(HEADS), "fp8_e4m3", "fa3", "MHATokenToKVPool", plain(E4M3), 192),
    (one_layer(HEADS), "fp8_e5m2", "fa3", "MHATokenToKVPool", plain(E5M2), 192),
    (one_layer(HEADS), "mxfp8", "fa3", "MHATokenToKVPoolMXFP8", plain(E4M3) | SCALES, 192 + 6),
    (SQUARE, "fp4_mx_block16", "fa3", "MHATokenToKVPoolFP4", fp4((12, 8)), 2 * 64 + 2 * 8),
    (SQUARE, "nvfp4", "flashinfer", "NVFP4KVCacheMethod", fp4((12, 2, 4)) | WORKSPACE, 2 * 64 + 2 * 8 + 256),
    (one_layer(LATENT), "bf16", "fa3", "MLATokenToKVPool", {"kv_buffer": ((12, 1, 576), BF16)}, 1152),
    (one_layer(LATENT), "fp8_e4m3", "fa3", "MLATokenToKVPool", {"kv_buffer": ((12, 1, 576), E4M3)}, 576),
    (one_layer(LATENT), "mxfp8", "fa3", "MLATokenToKVPool", {"kv_buffer": ((12, 1, 576), E4M3)}, 576),
    (one_layer(LATENT), "fp4_mx_block16", "fa3", "MLATokenToKVPoolFP4", PACKED_LATENT, 288 + 36),
    (one_layer(LATENT), "nvfp4", "fa3", "MLATokenToKVPoolFP4", PACKED_LATENT, 288 + 36),
    (one_layer(LATENT, **SPARSE), "fp8_e4m3", "fa3", "DSATokenToKVPool", {"kv_buffer": ((12, 1, 656), U8)}, 656),
    (one_layer(LATENT, **SPARSE), "bf16", "fa3", "MLATokenToKVPool", {"kv_buffer": ((12, 1, 576), BF16)}, 1152),
    (one_layer(LATENT, **SPARSE), "fp8_e5m2", "fa3", "MLATokenToKVPool", {"kv_buffer": ((12, 1, 576), E5M2)}, 576),
    (one_layer(LATENT, **SPARSE), "fp8_e4m3", "trtllm", "MLATokenToKVPool", {"kv_buffer": ((12, 1, 576), E4M3)}, 576),
    (one_layer(LATENT, **SPARSE), "fp8_e4m3", "tilelang", "MLATokenToKVPool", {"kv_buffer": ((12, 1, 576), E4M3)}, 576),
]
"""Each line of the design's table: model, KV dtype, backend -> upstream class, buffers of 12 rows, bytes of a row."""


@DEVICES
@pytest.mark.parametrize(("shape", "dtype", "backend", "pool_class", "buffers", "row_bytes"), ROW_FORMATS)
def test_a_row_of_every_format(shape, dtype, backend, pool_class, buffers, row_bytes, device):
    """One layer, 8 rows and a page of 4: 12 rows of every buffer."""
    scenario = fp8(shape, kv_cache_dtype=dtype, attention_backend=backend)
    pool, *index = build_pools(scenario, rows(8), 0, device)
    assert (pool.owner, pool.name, pool.rows, pool.pool_class.name) == ("target", "full", 12, pool_class)
    assert described([pool])["target full"] == {name: [buffer] for name, buffer in buffers.items()}
    assert {tensor.device.type for tensor in pool.tensors} == {device}
    assert storage_bytes(pool.tensors) == 12 * row_bytes
    assert allocated_bytes(scenario, rows(8), device) == (12 * row_bytes + (12 * 132 if index else 0),)
    assert [pool.pool_class.name for pool in index] == (["IndexKeyCache"] if shape.index else [])


@pytest.mark.parametrize(
    ("index", "model_dtype", "pool_class", "buffers", "index_bytes"),
    [
        (Index(16, (1,)), "bf16", "MHATokenToKOnlyPool", {"k_buffer": [((12, 1, 16), BF16)]}, 32),
        (Index(16, (0, 1)), "fp32", "MHATokenToKOnlyPool", {"k_buffer": [((12, 1, 16), FP32)] * 2}, 128),
        (
            Index(16, (1,), stores_values=True),
            "bf16",
            "MHATokenToKVPool",
            {"k_buffer": [((12, 1, 16), BF16)], "v_buffer": [((12, 1, 16), BF16)]},
            64,
        ),
    ],
)
def test_the_index_beside_heads(index, model_dtype, pool_class, buffers, index_bytes):
    """One head in the model dtype, K and maybe V, on the layers that own one."""
    shape = AttentionShape((FULL, FULL), HEADS, index=index, model_dtype=model_dtype)
    pools = build_pools(fp8(shape), rows(8), 0)
    assert pools[1].pool_class.name == pool_class
    assert described(pools)["target index"] == buffers
    assert pool_bytes(pools) == {"target full": 12 * 2 * 192, "target index": 12 * index_bytes}


def test_the_index_beside_latents_lives_on_the_layers_that_own_one():
    """Two of three layers: 132 bytes a row each."""
    shape = AttentionShape((FULL,) * 3, LATENT, index=Index(128, (0, 2)))
    pools = build_pools(fp8(shape), rows(8), 0)
    assert described(pools)["target index"] == {"index_k_with_scale_buffer": [((12, 1, 132), U8)] * 2}
    assert pool_bytes(pools) == {"target full": 3 * 12 * 656, "target index": 2 * 12 * 132}


def test_every_pool_kind():
    """Default, MLA, hybrid, all-window and capped, on pages of 4."""
    cases = {
        "default": (fp8(AttentionShape((FULL, LINEAR, FULL), HEADS)), rows(8), {"target full": 2 * 12 * 192}),
        "mla": (fp8(AttentionShape((FULL, LINEAR), LATENT)), rows(8), {"target full": 12 * 576}),
        "hybrid": (fp8(HYBRID), rows(16, 8), {"target full": 20 * 12, "target swa": 2 * 12 * 16}),
        "allswa": (fp8(ALL_WINDOW), rows(0, 8), {"target swa": 2 * 12 * 16}),
        "capped": (fp8(HYBRID, **CAPPED), rows(4, 24), {"target full": 8 * 12, "target swa": 2 * 28 * 16}),
    }
    assert tuple(cases) == POOL_KINDS
    for kind, (scenario, sizes, expected) in cases.items():
        assert pool_kind(scenario) == kind
        assert pool_bytes(build_pools(scenario, sizes, 0)) == expected
        assert allocated_bytes(scenario, sizes) == accounted_bytes(scenario, sizes)


@pytest.mark.parametrize("shape", [EVEN, replace(EVEN, layers=(SWA,) * 3, full=None)])
def test_a_window_model_at_full_length_has_one_pool(shape):
    """Without window pools SWA layers are stored in full rows."""
    pools = build_pools(fp8(shape, window_pools=False), rows(8), 0)
    assert pool_bytes(pools) == {"target full": 3 * 12 * 12}


def test_heads_are_split_over_attention_ranks():
    """8 heads on 4 of 8 ranks under DP attention: 2 a rank; ranks that outnumber heads keep one; latents are whole."""
    deployment = Deployment(tp_size=8, attn_dp_size=2)
    for heads, held in ((8, 2), (4, 1), (2, 1)):
        (pool,) = build_pools(fp8(one_layer(Heads(heads, 16, 16)), deployment=deployment), rows(8), 0)
        assert [tuple(tensor.shape) for tensor in pool.tensors] == [(12, held, 16)] * 2
    assert allocated_bytes(fp8(one_layer(LATENT), deployment=deployment), rows(8)) == (12 * 576,)


def test_dcp_splits_target_rows_and_replicates_index_and_draft():
    """Four attention ranks, two of them DCP: heads over 2, draft heads over 4, 12 rows here and 24 of what is kept."""
    deployment = Deployment(tp_size=4, attn_dcp_size=2)
    draft = Draft(one_layer(Heads(8, 2, 2)))
    drafted = {"deployment": deployment, "draft": draft, "speculative_algorithm": EAGLE}
    pools = build_pools(fp8(one_layer(Heads(8, 2, 2)), **drafted), rows(8), 0)
    assert [tuple(pool.tensors[0].shape) for pool in pools] == [(12, 4, 2), (24, 2, 2)]
    sparse = fp8(one_layer(LATENT, **SPARSE), **drafted)
    assert pool_bytes(build_pools(sparse, rows(8), 0)) == {
        "target full": 12 * 656,
        "target index": 24 * 132,
        "draft full": 24 * 2 * 4,
    }


def test_stages_hold_their_own_layers():
    """Five layers on three stages: 1, 2 and 2; the draft on the last, or on every stage."""
    shape, draft = AttentionShape((FULL,) * 5, HEADS), Draft(one_layer(HEADS))
    scenario = fp8(shape, deployment=Deployment(pp_size=3), draft=draft, speculative_algorithm=EAGLE)
    page = 12 * 192
    assert allocated_bytes(scenario, rows(8)) == (page, 2 * page, 3 * page)
    everywhere = replace(scenario, deployment=Deployment(pp_size=3, draft_on_every_stage=True))
    assert allocated_bytes(everywhere, rows(8)) == (2 * page, 3 * page, 3 * page)


def test_a_stage_without_kv_layers_allocates_nothing():
    """Linear layers have no rows, so neither a spare page nor a workspace."""
    shape = AttentionShape((LINEAR, FULL), Heads(2, 64, 64))
    scenario = fp8(shape, kv_cache_dtype="nvfp4", deployment=Deployment(pp_size=2))
    assert build_pools(scenario, rows(8), 0) == ()
    assert allocated_bytes(scenario, rows(8)) == (0, 12 * 400)


def test_draft_rows_beside_a_window_target():
    """16 full rows and 8 SWA rows: SWA layers follow the SWA rows, except in the DFLASH family and at full capacity."""
    follows = {"draft full": 20 * 12, "draft swa": 2 * 12 * 16}
    full_rows = {"draft full": 20 * 12, "draft swa": 2 * 20 * 16}
    for algorithm, expected in ((EAGLE, follows), (STANDALONE, follows), (DFLASH, full_rows), (DSPARK, full_rows)):
        assert draft_bytes(drafted(algorithm), rows(16, 8)) == expected
    assert draft_bytes(drafted(EAGLE, swa_at_full_rows=True), rows(16, 8)) == full_rows
    assert draft_bytes(drafted(EAGLE, target=ALL_WINDOW), rows(0, 8)) == {
        "draft full": 12 * 12,
        "draft swa": 2 * 12 * 16,
    }


def test_a_windowed_dflash_draft_beside_a_default_target_has_one_pool():
    """A row for each target token, and one workspace."""
    shape = AttentionShape((SWA, FULL), Heads(2, 64, 64), Heads(2, 64, 64), sliding_window_size=4)
    scenario = drafted(DFLASH, target=SQUARE, shape=shape, kv_cache_dtype="nvfp4")
    assert draft_bytes(scenario, rows(8)) == {"draft full": 12 * (2 * 144 + 256)}


def test_each_mtp_runner_has_a_pool_of_its_own():
    """Two nvfp4 layers: one pool and one workspace under EAGLE, two of each under MTP."""
    shape = AttentionShape((FULL, FULL), Heads(2, 64, 64))
    one, several = (drafted(name, target=SQUARE, shape=shape, kv_cache_dtype="nvfp4") for name in (EAGLE, MTP))
    assert draft_bytes(one, rows(8)) == {"draft full": 12 * (2 * 144 + 256)}
    assert draft_bytes(several, rows(8)) == {f"draft runner {runner} full": 12 * 400 for runner in (0, 1)}
    windowed = drafted(MTP)
    assert draft_bytes(windowed, rows(16, 8)) == {
        "draft runner 0 swa": 12 * 16,
        "draft runner 1 full": 20 * 12,
        "draft runner 2 swa": 12 * 16,
    }


def test_an_mtp_runner_owns_its_index():
    """A sparse draft of two runners: latents and an index each, in the draft's rows."""
    shape = AttentionShape((FULL, FULL), LATENT, index=Index(128, (0, 1)))
    expected = {}
    for runner in (0, 1):
        expected |= {f"draft runner {runner} full": 12 * 656, f"draft runner {runner} index": 12 * 132}
    assert draft_bytes(drafted(MTP, target=shape, shape=shape), rows(8)) == expected


def test_a_frozen_kv_draft_has_a_dummy_pool():
    """64 rows and a page in every layer, whatever is sold."""
    scenario = drafted(FROZEN_KV_MTP)
    for sizes in (rows(16, 8), rows(0)):
        assert draft_bytes(scenario, sizes) == {"draft full": 68 * 12, "draft swa": 2 * 68 * 16}
        assert allocated_bytes(scenario, sizes) == accounted_bytes(scenario, sizes)


def test_a_frozen_kv_draft_in_nvfp4_has_a_workspace():
    """The dummy pool is a pool like any other: 68 rows of 144 bytes, and of the workspace's 256."""
    scenario = drafted(FROZEN_KV_MTP, target=SQUARE, shape=SQUARE, kv_cache_dtype="nvfp4")
    assert draft_bytes(scenario, rows(8)) == {"draft full": 68 * (144 + 256)}


def test_the_index_of_a_draft_beside_a_window_target_follows_the_full_rows():
    """A sparse EAGLE layer is a full layer: 20 rows of latents and of the index where the SWA pool has 12."""
    scenario = drafted(EAGLE, shape=one_layer(LATENT, **SPARSE))
    assert draft_bytes(scenario, rows(16, 8)) == {"draft full": 20 * 656, "draft index": 20 * 132}


def test_the_draft_dtype_is_the_one_after_loading():
    """`auto` asks the draft's checkpoint, which is known by then; fa4 makes a DFLASH draft keep its compute dtype."""
    quantized = one_layer(HEADS, kv_checkpoint_dtype="fp8_e5m2")
    eagle = drafted(EAGLE, target=one_layer(HEADS), shape=quantized, kv_cache_dtype="auto")
    (_, pool) = build_pools(eagle, rows(8), 0)
    assert described([pool])["draft full"]["k_buffer"] == [((12, 2, 64), E5M2)]
    dflash = drafted(DFLASH, target=one_layer(HEADS), shape=quantized, kv_cache_dtype="auto", attention_backend="fa4")
    (_, pool) = build_pools(dflash, rows(8), 0)
    assert described([pool])["draft full"]["k_buffer"] == [((12, 2, 64), BF16)]


def test_a_draft_that_is_not_in_use_has_no_pools():
    """The plain path, the draft worker itself, and a draft without layers."""
    scenario = drafted(EAGLE)
    without = replace(scenario, draft=Draft(AttentionShape((), None)))
    for idle in (replace(scenario, speculative_algorithm=None), replace(scenario, is_draft_worker=True), without):
        assert {pool.owner for pool in build_pools(idle, rows(16, 8), 0)} == {"target"}


@DEVICES
def test_a_storage_counts_once(device):
    """Views of any kind and repeated tensors add nothing; equal, empty and different tensors are told apart."""
    tensor, other = (torch.empty((6, 4), dtype=BF16, device=device) for _ in range(2))
    views = [tensor[2:], tensor.view(U8), tensor.T, tensor[:0], *tensor.unbind(0)]
    assert storage_bytes([tensor]) == storage_bytes([tensor, tensor]) == storage_bytes([tensor, *views]) == 48
    assert storage_bytes(views) == storage_bytes(tensor[row] for row in range(6)) == 48
    assert storage_bytes([*views, other[1:]]) == storage_bytes([tensor, other]) == 96
    assert storage_bytes([torch.empty((0, 4), device=device), tensor]) == 48
    assert storage_bytes([]) == 0


@DEVICES
def test_tensors_that_live_only_while_they_are_counted_are_all_counted(device):
    """Memory that is given back may be handed out at the same address: twenty tensors are still twenty."""
    assert storage_bytes(torch.empty((3,), dtype=U8, device=device) for _ in range(20)) == 60


@DEVICES
def test_a_workspace_is_shared_by_the_layers_of_a_pool(device):
    """Three nvfp4 layers: three times 144 bytes a row, and once 256."""
    scenario = fp8(AttentionShape((FULL,) * 3, Heads(2, 64, 64)), kv_cache_dtype="nvfp4")
    (pool,) = build_pools(scenario, rows(8), 0, device)
    assert [len(tensors) for tensors in pool.buffers.values()] == [3, 3, 3, 3, 1, 1]
    assert storage_bytes(pool.tensors) == storage_bytes(pool.tensors * 2) == 12 * (3 * 144 + 256)


@DEVICES
def test_a_buffer_that_two_pools_share_is_allocated_once(device):
    """Each pool shows it, the memory holds it once."""
    (pool,) = build_pools(fp8(one_layer(HEADS)), rows(8), 0, device)
    guest = Pool("draft", "full", pool.pool_class, pool.rows, {"k_buffer": pool.buffers["k_buffer"]})
    assert pool_bytes([pool, guest]) == {"target full": 12 * 192, "draft full": 12 * 128}
    assert storage_bytes(pool.tensors + guest.tensors) == 12 * 192


def test_80_gib_on_meta_take_no_memory():
    """Qwen3-8B in bf16: 36 layers, 8 heads of 128, 147,456 bytes a token; 582,528 tokens in pages of 64. The process
    grows by less than a GiB (Linux counts its peak in KiB)."""
    scenario = Scenario(catalog.target("Qwen3-8B").shape, (80 * GiB,), page_size=64)
    sizes = size_pools(scenario)
    resource = pytest.importorskip("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (pool,) = build_pools(scenario, sizes, 0)
    shapes = [{tuple(tensor.shape) for tensor in tensors} for tensors in pool.buffers.values()]
    assert sizes.max_total_num_tokens == 582_528
    assert shapes == [{(582_592, 8, 128)}] * 2 and len(pool.tensors) == 72
    assert allocated_bytes(scenario, sizes) == (582_592 * 147_456,)
    assert 0 < 582_592 * 147_456 - 80 * GiB <= 64 * 147_456
    assert {tensor.untyped_storage().data_ptr() for tensor in pool.tensors} == {0}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20


def test_cpu_pools_are_really_there():
    """Every byte of a hybrid target and its draft is written and read back; three readings of their number agree."""
    scenario = drafted(EAGLE)
    tensors = [tensor for pool in build_pools(scenario, rows(16, 8), 0, "cpu") for tensor in pool.tensors]
    written = sum(int(tensor.view(U8).fill_(1).sum()) for tensor in tensors)
    items = sum(tensor.nelement() * tensor.element_size() for tensor in tensors)
    storages = sum(tensor.untyped_storage().nbytes() for tensor in tensors)
    assert written == items == storages == 2 * (20 * 12 + 2 * 12 * 16)
    assert allocated_bytes(scenario, rows(16, 8), "cpu") == (written,)


def test_it_is_a_derivation_of_its_own():
    """It asks neither the prices nor the accounting."""
    tree = ast.parse(Path(torch_pools.__file__).read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported <= {"collections.abc", "dataclasses", "torch", "spec.dtypes", "spec.layers", "spec.model"}
