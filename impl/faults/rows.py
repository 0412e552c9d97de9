"""Faults in what a row of the target costs."""

from dataclasses import replace

from impl.configurator import (
    DefaultPoolConfigurator,
    HybridSWAPoolConfigurator,
    MemoryPoolConfigurator,
)
from impl.configurator_prices import index_bytes, row_bytes, target_dtype, workspace_bytes
from impl.faults.base import Fault
from impl.torch_pools import allocated_bytes
from spec.dtypes import FP4_DTYPES
from spec.layers import CAPPED_POOL, DEFAULT_POOL, HYBRID_POOL, WINDOW_POOLS
from spec.model import LINEAR, SWA, AttentionShape, Heads, Index, Latent, PoolSizes, Scenario

HEADS_CELLS = "default-* hybrid-* allswa-* capped-*"
"""Cells of models that store heads."""

Geometry = Heads | Latent | None


def bytes_without_scales(geometry: Geometry, is_sparse: bool, ranks: int, dtype: str, backend: str) -> int:
    """One row of one layer, its block scales left out."""
    if dtype == "mxfp8" and isinstance(geometry, Heads):
        return row_bytes(geometry, is_sparse, ranks, "fp8_e4m3", backend)
    if dtype in FP4_DTYPES:
        return row_bytes(geometry, is_sparse, ranks, "fp8_e4m3", backend) // 2
    return row_bytes(geometry, is_sparse, ranks, dtype, backend)


class VHeadDimIgnored(Fault):
    """V is taken to be as wide as K.

    MiMo-V2-Flash stores K 192 and V 128 wide: heads of 2 and 1, one byte an element, 12 bytes: 3 rows for 4.
    """

    caught_by = {"B1": HEADS_CELLS, "B2": HEADS_CELLS, "D4": HEADS_CELLS}
    cells = HEADS_CELLS

    class _Pool(MemoryPoolConfigurator):
        @staticmethod
        def _layer_bytes(geometry: Geometry, is_sparse: bool, ranks: int, dtype: str, backend: str) -> int:
            seen = replace(geometry, v_head_dim=geometry.head_dim) if isinstance(geometry, Heads) else geometry
            return row_bytes(seen, is_sparse, ranks, dtype, backend)


class HeadDimFromHiddenSize(Fault):
    """The width of a head is guessed as the hidden size over the attention heads: half of it, as for Qwen3-0.6B.

    unsloth#4757: 2.1875 GiB for 4.375. A head of 2 and 2, one byte an element, 8 bytes: 4 rows for 2.
    """

    caught_by = {"B1": HEADS_CELLS, "R2": HEADS_CELLS}
    cells = HEADS_CELLS

    class _Pool(MemoryPoolConfigurator):
        @staticmethod
        def _layer_bytes(geometry: Geometry, is_sparse: bool, ranks: int, dtype: str, backend: str) -> int:
            row = row_bytes(geometry, is_sparse, ranks, dtype, backend)
            return -(-row // 2) if isinstance(geometry, Heads) else row


class LatentAsKeysAndValues(Fault):
    """MLA is treated as MHA: a latent for K, and one more for V.

    vllm-ascend#3438: pages of 294912 bytes for 147456. A latent of 1 and 1, one byte an element, 8 bytes: 2 rows for
    4.
    """

    caught_by = {"B2": "mla-*", "B3": "mla-*"}
    cells = "mla-*"
    pools = (DEFAULT_POOL,)

    class _Pool(DefaultPoolConfigurator):
        @staticmethod
        def _layer_bytes(geometry: Geometry, is_sparse: bool, ranks: int, dtype: str, backend: str) -> int:
            return row_bytes(geometry, is_sparse, ranks, dtype, backend) * (2 if isinstance(geometry, Latent) else 1)


class IndexRowMissing(Fault):
    """The sparse indexer's row is not priced.

    A sparse (DSA) model looks like dense MLA in its config but for the index: a latent of 512 and 64 in bf16 and an
    index of 128 in 12840 bytes: 11 rows for 10.
    """

    caught_by = {"B1": "default-* mla-*", "R2": "default-* mla-*"}
    cells = "default-* mla-*"
    pools = (DEFAULT_POOL,)

    class _Pool(DefaultPoolConfigurator):
        @staticmethod
        def _layer_index_bytes(shape: AttentionShape, index: Index) -> int:
            return 0


class IndexAtTwoBytes(Fault):
    """The indexer's row is priced in bf16, 256 bytes; it is stored in fp8 with scales, 132 bytes.

    `DSATokenToKVPool` against a row of the model's dtype: a latent of 512 and 64 in bf16 and an index of 128 in 12840
    bytes: 9 rows for 10.
    """

    caught_by = {"B2": "mla-*", "B3": "mla-*"}
    cells = "mla-*"
    pools = (DEFAULT_POOL,)

    class _Pool(DefaultPoolConfigurator):
        @staticmethod
        def _layer_index_bytes(shape: AttentionShape, index: Index) -> int:
            return 2 * index.head_dim if isinstance(shape.full, Latent) else index_bytes(shape, index)


class IndexNotReplicated(Fault):
    """Under DCP the index is taken to be sharded like the latents; each rank keeps all its rows.

    SGLang up to 0.5.21 (`DefaultPoolConfigurator._compute_cell_size`): a latent of 512 and 64 in bf16 and an index of
    128 on tp 2 dcp 2, 14160 bytes: 11 rows for 10.
    """

    caught_by = {"B1": "mla-*-dcp-*", "R2": "mla-*-dcp-*", "R3": "mla-*-dcp-*"}
    cells = "default-*-dcp-* mla-*-dcp-*"
    pools = (DEFAULT_POOL,)

    class _Pool(DefaultPoolConfigurator):
        def _set_pool_terms(self) -> None:
            super()._set_pool_terms()
            self._index_row_bytes //= self._dcp


class ScalesMissing(Fault):
    """Block scales are not priced.

    SGLang 0.5.18 to 0.5.23 for DFLASH drafts (`dflash_utils.py`): mxfp8 heads of 32 and 32 in 6600 bytes: 103
    rows for 100.
    """

    caught_by = {"B1": "*", "R2": "*"}
    cells = "*"

    class _Pool(MemoryPoolConfigurator):
        _layer_bytes = staticmethod(bytes_without_scales)


class ScalesOfKeysOnly(Fault):
    """Block scales are priced for K and forgotten for V.

    One `kv_scale_buffer` where heads have two (`MHATokenToKVPoolFP4`): mxfp8 heads of 32 and 32 in 6600 bytes: 101
    rows for 100.
    """

    caught_by = {"B1": HEADS_CELLS, "R2": HEADS_CELLS}
    cells = HEADS_CELLS

    class _Pool(MemoryPoolConfigurator):
        @staticmethod
        def _layer_bytes(geometry: Geometry, is_sparse: bool, ranks: int, dtype: str, backend: str) -> int:
            row = row_bytes(geometry, is_sparse, ranks, dtype, backend)
            if not isinstance(geometry, Heads):
                return row
            scales = row - bytes_without_scales(geometry, is_sparse, ranks, dtype, backend)
            return row - scales * geometry.v_head_dim // (geometry.head_dim + geometry.v_head_dim)


class ScalesOfAllStages(Fault):
    """A stage pays for the block scales of every full layer of the model.

    The layers a stage holds against those of the config, in one term of the sum: two full layers on two stages, mxfp8
    heads of 32 and 32, 6600 bytes each: 97 rows for 100.
    """

    caught_by = {"B2": "*-pp-*", "B3": "*-pp-*"}
    cells = "*-pp-*"

    class _Pool(MemoryPoolConfigurator):
        def _target_row_bytes(self, kinds: tuple[int, int, int]) -> tuple[int, int]:
            full, swa = super()._target_row_bytes(kinds)
            scenario, elsewhere = self._scenario, self._kinds[0] - kinds[0]
            plain = bytes_without_scales(
                scenario.target.full,
                scenario.target.index is not None,
                scenario.deployment.tp_size // scenario.deployment.attn_dp_size // self._dcp,
                target_dtype(scenario),
                scenario.attention_backend,
            )
            return full + elsewhere * (self._full_row_bytes - plain), swa


class Fp4AsOneByte(Fault):
    """fp4 is priced at the size of its storage type, a byte an element.

    `element_size` of a packed dtype (`dflash_utils.py`): fp4_mx_block16 heads of 16 and 16 in 96 bytes: 3 rows for 5.
    """

    caught_by = {"B2": "default-* mla-*", "B3": "default-* mla-*"}
    cells = "default-* mla-*"
    pools = (DEFAULT_POOL,)

    class _Pool(DefaultPoolConfigurator):
        @staticmethod
        def _layer_bytes(geometry: Geometry, is_sparse: bool, ranks: int, dtype: str, backend: str) -> int:
            seen = "fp8_e4m3" if dtype in FP4_DTYPES else dtype
            return row_bytes(geometry, is_sparse, ranks, seen, backend)


class Fp4WithAWorkspace(Fault):
    """fp4_mx_block16 is priced with the workspace that only nvfp4 has.

    SGLang 0.5.16 to 0.5.20 (`DefaultPoolConfigurator._compute_cell_size`): heads of 16 and 16 in 100 bytes: 2 rows
    for 5.
    """

    caught_by = {"B2": "default-*", "B3": "default-*"}
    cells = "default-*"
    pools = (DEFAULT_POOL,)

    class _Pool(DefaultPoolConfigurator):
        def _set_pool_terms(self) -> None:
            super()._set_pool_terms()
            target, deployment = self._scenario.target, self._scenario.deployment
            if target_dtype(self._scenario) == "fp4_mx_block16":
                ranks = deployment.tp_size // deployment.attn_dp_size // self._dcp
                self._workspace_bytes = workspace_bytes(target.full or target.swa, ranks)


class PricedInTheComputeDtype(Fault):
    """Rows are priced in the compute dtype, not in the one they are stored in.

    kvcached#387: 4096 bytes a layer and token for 2048. fp8 heads of 1 and 1 in 8 bytes: 2 rows for 4.
    """

    caught_by = {"B1": "*", "B2": "*", "B6": "*"}
    cells = "*"

    class _Pool(MemoryPoolConfigurator):
        @staticmethod
        def _layer_bytes(geometry: Geometry, is_sparse: bool, ranks: int, dtype: str, backend: str) -> int:
            return row_bytes(geometry, is_sparse, ranks, "bf16", backend)


class HeadsNotReplicated(Fault):
    """Where ranks outnumber heads, a rank is priced at its share of a head; it stores a whole one.

    Total bytes over ranks, the price before `max(1, heads // ranks)`: one head of 2 and 2 in fp8 on 2 ranks, 8 bytes:
    4 rows for 2.
    """

    caught_by = {"B1": HEADS_CELLS, "R1": HEADS_CELLS, "R2": HEADS_CELLS}
    cells = HEADS_CELLS

    class _Pool(MemoryPoolConfigurator):
        @staticmethod
        def _layer_bytes(geometry: Geometry, is_sparse: bool, ranks: int, dtype: str, backend: str) -> int:
            if isinstance(geometry, Latent):
                return row_bytes(geometry, is_sparse, ranks, dtype, backend)
            return -(-row_bytes(geometry, is_sparse, 1, dtype, backend) // ranks)


class EveryHeadOnEveryRank(Fault):
    """A rank is priced as if it held all heads.

    transformers#48566: 208384 tokens for 833536 on 4 ranks. 2 heads of 1 and 1 in fp8 on 2 ranks, 8 bytes: 2 rows
    for 4.
    """

    caught_by = {"B2": HEADS_CELLS, "B3": HEADS_CELLS, "R1": HEADS_CELLS}
    cells = HEADS_CELLS

    class _Pool(MemoryPoolConfigurator):
        @staticmethod
        def _layer_bytes(geometry: Geometry, is_sparse: bool, ranks: int, dtype: str, backend: str) -> int:
            return row_bytes(geometry, is_sparse, 1, dtype, backend)


class HeadsFlooredToZero(Fault):
    """Where ranks outnumber heads, a rank is taken to hold none.

    tenstorrent/vllm#50: 0 heads for 1, a pool of no size. One head of 1 and 1 in fp8 on 2 ranks, beside a draft layer
    of the same, 8 bytes: 4 rows for 2.
    """

    caught_by = {"B1": HEADS_CELLS, "R1": HEADS_CELLS}
    cells = HEADS_CELLS

    class _Pool(MemoryPoolConfigurator):
        @staticmethod
        def _layer_bytes(geometry: Geometry, is_sparse: bool, ranks: int, dtype: str, backend: str) -> int:
            if isinstance(geometry, Heads) and geometry.num_kv_heads < ranks:
                return 0
            return row_bytes(geometry, is_sparse, ranks, dtype, backend)


class HeadsOfFullLayersForSwa(Fault):
    """SWA layers are priced with the heads and dims of full layers.

    mesh-llm#1017: 139392 bytes a token for 495616. One head in full and two in SWA layers, dims of 1, fp8, ratio 1, 24
    bytes: 6 rows for 4.
    """

    caught_by = {"B1": "hybrid-* capped-*", "B2": "hybrid-* capped-*"}
    cells = "hybrid-* capped-*"
    pools = (HYBRID_POOL, CAPPED_POOL)

    class _Pool(HybridSWAPoolConfigurator):
        def _target_row_bytes(self, kinds: tuple[int, int, int]) -> tuple[int, int]:
            return super()._target_row_bytes(kinds)[0], kinds[1] * self._full_row_bytes


class LinearLayersPriced(Fault):
    """Layers of linear attention, which hold no rows, are priced as full layers.

    unsloth#4757: 53.25 GiB for 16 where 16 of 64 layers hold rows. One full and one linear layer, dims of 1, fp8, 8
    bytes: 2 rows for 4.
    """

    caught_by = {"B2": "default-* mla-*", "B3": "default-* mla-*"}
    cells = "default-* mla-*"
    pools = (DEFAULT_POOL,)

    class _Pool(DefaultPoolConfigurator):
        def _target_row_bytes(self, kinds: tuple[int, int, int]) -> tuple[int, int]:
            full_layers, swa_layers, index_layers = kinds
            linear_layers = self._scenario.target.layers.count(LINEAR)
            return super()._target_row_bytes((full_layers + linear_layers, swa_layers, index_layers))


class WindowLayersAtFullLength(Fault):
    """SWA layers are priced with a row for each token, whatever the ratio.

    unsloth#4757: 81.375 GiB for 10.40625. A full and an SWA layer, dims of 1, fp8, ratio 1/2, 24 bytes: 6 rows for 8.
    """

    caught_by = {"B2": "hybrid-*", "B3": "hybrid-*"}
    cells = "hybrid-*"
    pools = (HYBRID_POOL,)

    class _Pool(HybridSWAPoolConfigurator):
        def _paid_and_page_cost(self, full: int, swa: int, draft: int) -> tuple[int, int]:
            return super()._paid_and_page_cost(full + swa, 0, draft)


class AllLayersOnEveryStage(Fault):
    """Every pipeline stage pays for all layers of the model.

    vllm#34076: 34720 tokens for 104192 from a stage with 16 of 48 layers. Two layers on two stages, dims of 1, fp8, 8
    bytes each: 2 rows for 4.
    """

    caught_by = {"B2": "*-pp-*", "B3": "*-pp-*"}
    cells = "*-pp-*"

    class _Pool(MemoryPoolConfigurator):
        def _target_row_bytes(self, kinds: tuple[int, int, int]) -> tuple[int, int]:
            return super()._target_row_bytes(self._kinds)


class WindowLayersOneTooFar(Fault):
    """A stage counts the SWA layer that follows its last layer, which is the next stage's.

    SGLang 0.5.14 to 0.5.20, `adjust_hybrid_swa_layer_ids`: two SWA layers on two stages, dims of 1, fp8, 16 bytes
    each: 4 rows for 8.
    """

    caught_by = {"B2": "hybrid-*-pp-* allswa-*-pp-* capped-*-pp-*", "B3": "hybrid-*-pp-* allswa-*-pp-*"}
    cells = "hybrid-*-pp-* allswa-*-pp-* capped-*-pp-*"
    pools = WINDOW_POOLS

    class _Pool(MemoryPoolConfigurator):
        def _set_pool_terms(self) -> None:
            super()._set_pool_terms()
            layers, end, stages = self._scenario.target.layers, 0, []
            even, remainder = divmod(len(layers), len(self._stage_kinds))
            for stage, (full_layers, swa_layers, index_layers) in enumerate(self._stage_kinds):
                end += even + (stage >= len(self._stage_kinds) - remainder)
                stages.append((full_layers, swa_layers + layers[end : end + 1].count(SWA), index_layers))
            self._stage_kinds = tuple(stages)


class ValuesAllocatedAsWideAsKeys(Fault):
    """The pool of a model with linear layers is built with V as wide as K.

    SGLang 0.5.17 to 0.5.23, `_build_hybrid_linear_kv_pool` passes `head_dim` alone: a full layer of 1 and 2 beside a
    linear one, fp8, 3 rows and a spare one: 8 bytes allocated for 12.
    """

    caught_by = {"A1": "default-*"}
    cells = "default-*"

    def allocated_bytes(self, scenario: Scenario, sizes: PoolSizes) -> tuple[int, ...]:
        """The target's V of `head_dim`."""
        target = scenario.target
        if isinstance(target.full, Heads) and LINEAR in target.layers:
            square = replace(target.full, v_head_dim=target.full.head_dim)
            scenario = replace(scenario, target=replace(target, full=square))
        return allocated_bytes(scenario, sizes)
