"""Faults in what a draft costs."""

from dataclasses import replace

from impl.configurator import DefaultPoolConfigurator, MemoryPoolConfigurator, SWARequestCapPoolConfigurator
from impl.configurator_prices import compute_swa_request_cap, dflash_draft_cell_size_per_token, target_dtype
from impl.faults.base import Fault
from spec.laws.base import DraftResolution
from spec.layers import ALL_WINDOW_POOL, CAPPED_POOL, DEFAULT_POOL, HYBRID_POOL, WINDOW_POOLS
from spec.model import DFLASH, DFLASH_FAMILY, FULL, MTP, SWA, Draft, Scenario

EAGLE_FAMILY_CELLS = "*-eagle_* *-mtp_* *-standalone_*"
"""Drafts outside the DFLASH family."""


def of_layers(draft: Draft, layers: tuple[str, ...]) -> Draft:
    """The draft, taken to have other layers."""
    return replace(draft, shape=replace(draft.shape, layers=layers))


def undivided(scenario: Scenario) -> Scenario:
    """The scenario, taken to run without DCP."""
    return replace(scenario, deployment=replace(scenario.deployment, attn_dcp_size=1))


class LayerRatioForEveryDraft(Fault):
    """Every draft is priced as so many layers of the target, whatever its own geometry.

    SGLang up to 0.5.17, sglang#34234: 5 draft layers of 8 heads beside 32 of 4 in 10 GiB: 141696 rows for 124800.
    """

    caught_by = {"B1": "default-*_own-* mla-*_own-*", "B2": "*_own-*", "D4": "default-*_own-* mla-*_own-*"}
    cells = "default-*_* mla-*_*"
    pools = (DEFAULT_POOL,)

    class _Pool(DefaultPoolConfigurator):
        def draft_cell_size_per_token(self, stage: int) -> tuple[int, int]:
            self._draft_bytes = None
            return super().draft_cell_size_per_token(stage)


class _NoDraft(MemoryPoolConfigurator):
    """A configurator that was never told of drafts."""

    def draft_cell_size_per_token(self, stage: int) -> tuple[int, int]:
        return 0, 0


class NoDraftOnHybrid(Fault):
    """The hybrid pool has no draft term.

    sglang#28219, and 0.5.14 to 0.5.17 beside DFLASH (PR 32508): a one-layer draft beside 18 full and 18 SWA layers in
    20 GiB: 323634 rows for 313944.
    """

    caught_by = {"B1": "hybrid-*_*", "D4": "hybrid-*_*", "R2": "hybrid-*_*"}
    cells = "hybrid-*_*"
    pools = (HYBRID_POOL,)
    _Pool = _NoDraft


class NoDraftOnAllWindow(Fault):
    """The all-window pool has no draft term.

    SGLang 0.5.14 to 0.5.17 beside DFLASH (PR 32508): 36 bytes, a draft layer as dear as the target's: 9 rows for 4.
    """

    caught_by = {"B1": "allswa-*_*", "D4": "allswa-*_*", "R2": "allswa-*_*"}
    cells = "allswa-*_*"
    pools = (ALL_WINDOW_POOL,)
    _Pool = _NoDraft


class NoDraftOnCapped(Fault):
    """The capped pool has no draft term.

    sglang#29622, and beside DFLASH up to 0.5.22: a one-layer draft beside 18 full layers in the 20 GiB that 65536 SWA
    rows leave: 516992 rows for 489792.
    """

    caught_by = {"B1": "capped-*_*", "D4": "capped-*_*", "R2": "capped-*_*", "W3": "capped-*_*"}
    cells = "capped-*_*"
    pools = (CAPPED_POOL,)
    _Pool = _NoDraft


class DraftSplitOverAllRanks(Fault):
    """Draft heads are split over all tensor-parallel ranks, where DP attention leaves each rank more of them.

    sglang#38202, sglang#38811, 0.5.18 to 0.5.21: 16 heads on tp 32 dp 32 are priced as one. Such a draft layer
    beside 16 layers of one head in 1 MiB: 30840 rows for 16384.
    """

    caught_by = {"B1": "*-dp-*", "D4": "*-dp-*", "R1": "*-dp-*", "R2": "*-dp-*"}
    cells = "*-*_*-dp-*"

    class _Pool(MemoryPoolConfigurator):
        @staticmethod
        def _own_draft_bytes(scenario: Scenario, draft: Draft, ranks: int, follows_swa: bool) -> tuple[int, int]:
            return dflash_draft_cell_size_per_token(scenario, draft, scenario.deployment.tp_size, follows_swa)


class NoReplicationOfDrafts(Fault):
    """Under DCP the draft is taken to be sharded like the target; each rank keeps all its rows.

    Released SGLang pays for the DFLASH family only (`pool_configurator.py`): tp 2 dcp 2, 24 bytes, a draft layer as
    dear as the target's: 3 rows for 2.
    """

    caught_by = {"B1": "*-dcp-*", "D4": "*-dcp-*", "R3": "*-dcp-*"}
    cells = "*-*_*-dcp-*"
    pools = (DEFAULT_POOL,)

    class _Pool(DefaultPoolConfigurator):
        @staticmethod
        def _own_draft_bytes(scenario: Scenario, draft: Draft, ranks: int, follows_swa: bool) -> tuple[int, int]:
            return dflash_draft_cell_size_per_token(undivided(scenario), draft, ranks, follows_swa)


class NoReplicationOfEagle(Fault):
    """The same for EAGLE, MTP and STANDALONE drafts only.

    SGLang 0.5.17 to 0.5.23, `pool_configurator.py: DefaultPoolConfigurator`: tp 2 dcp 2, 24 bytes, a draft layer as
    dear as the target's: 3 rows for 2.
    """

    caught_by = {"B1": "*-eagle_*-dcp-*", "D4": "*-mtp_*-dcp-*", "R3": "*-standalone_*-dcp-*"}
    cells = "*-eagle_*-dcp-* *-mtp_*-dcp-* *-standalone_*-dcp-*"
    pools = (DEFAULT_POOL,)

    class _Pool(DefaultPoolConfigurator):
        @staticmethod
        def _own_draft_bytes(scenario: Scenario, draft: Draft, ranks: int, follows_swa: bool) -> tuple[int, int]:
            seen = scenario if scenario.speculative_algorithm in DFLASH_FAMILY else undivided(scenario)
            return dflash_draft_cell_size_per_token(seen, draft, ranks, follows_swa)


class NoReplicationInTheFallback(Fault):
    """The layer ratio counts each draft layer once, where DCP keeps it on every rank.

    SGLang before `draft_num_layers * attn_dcp_size` in its ratio: tp 2 dcp 2, 24 bytes, an unresolved draft of one
    layer: 3 rows for 2.
    """

    caught_by = {"D2": "mla-*_same-dcp-same", "D5": "*-dcp-*", "R2": "*-dcp-*"}
    cells = "*-*_*-dcp-*"
    pools = (DEFAULT_POOL,)

    class _Pool(DefaultPoolConfigurator):
        def _layer_ratio_bytes(self, stage: int, draft_layers: int) -> int:
            return super()._layer_ratio_bytes(stage, draft_layers) // self._dcp


class DraftOnEveryStage(Fault):
    """Every pipeline stage pays for a draft that lives on the last one.

    bytedance-iaas/sglang#730: 30000 and 29000 bytes of layers, 6000 of draft, 8 and 10 GiB: 238592 rows for 286208.
    """

    caught_by = {"B2": "*-pp-*", "B3": "*-pp-*"}
    cells = "*-*_*-pp-*"

    class _Pool(MemoryPoolConfigurator):
        def draft_cell_size_per_token(self, stage: int) -> tuple[int, int]:
            return super().draft_cell_size_per_token(len(self._stage_kinds) - 1)


class DraftOnAnEmptyStageIsFree(Fault):
    """A draft on a stage that holds no KV layer of the target costs nothing.

    SGLang 0.5.17 to 0.5.23, `num_layers > 0` around the draft term: a full and a linear layer on two stages of 12 and
    8 bytes, 4 a row: 3 rows for 2.
    """

    caught_by = {"B1": "*-pp-*", "D4": "*-pp-*", "R2": "*-pp-*"}
    cells = "default-*_*-pp-* mla-*_*-pp-*"
    pools = (DEFAULT_POOL,)

    class _Pool(DefaultPoolConfigurator):
        def draft_cell_size_per_token(self, stage: int) -> tuple[int, int]:
            full, swa, _ = self._stage_kinds[stage]
            return super().draft_cell_size_per_token(stage) if full + swa else (0, 0)


class DepthOfTheWholeModel(Fault):
    """The draft's depth is read from the config of the model it is part of: as many layers as the target has.

    What `num_nextn_predict_layers` is for (`configs/model_config.py`); MTP of DeepSeek-V3 has one layer, not 61. One
    draft layer beside three, all alike, in 96 bytes of 4 a row: 4 rows for 6.
    """

    caught_by = {"B2": "*_*", "B3": "*_*", "D4": "*_*"}
    cells = "*_*"

    class _Pool(MemoryPoolConfigurator):
        @staticmethod
        def _own_draft_bytes(scenario: Scenario, draft: Draft, ranks: int, follows_swa: bool) -> tuple[int, int]:
            deep = of_layers(draft, draft.shape.layers[:1] * len(scenario.target.layers))
            return dflash_draft_cell_size_per_token(scenario, deep, ranks, follows_swa)


class StepsAsLayers(Fault):
    """The steps a draft runs are taken for its layers.

    TensorRT-LLM#15017: 3 steps beside 32 layers are priced as 35 layers, 143360 bytes a token for 135168. In 1 GiB:
    7489 rows for 7943.
    """

    caught_by = {"B2": "*_*", "D4": "*_*"}
    cells = "*-eagle_* *-standalone_* *-dflash_* *-dspark_*"

    class _Pool(MemoryPoolConfigurator):
        @staticmethod
        def _own_draft_bytes(scenario: Scenario, draft: Draft, ranks: int, follows_swa: bool) -> tuple[int, int]:
            deep = of_layers(draft, draft.shape.layers[:1] * draft.num_steps)
            return dflash_draft_cell_size_per_token(scenario, deep, ranks, follows_swa)


class OneRunnerOfSeveral(Fault):
    """Multi-layer EAGLE has a runner and a pool for each step; one is priced.

    After sglang#31588, whose eight depths were not priced at all: one layer and 3 runners in 64 bytes, 4 a row: 8 rows
    for 4.
    """

    caught_by = {"B1": "*-mtp_*", "D4": "*-mtp_*", "R2": "*-mtp_*"}
    cells = "*-mtp_*"

    class _Pool(MemoryPoolConfigurator):
        @staticmethod
        def _own_draft_bytes(scenario: Scenario, draft: Draft, ranks: int, follows_swa: bool) -> tuple[int, int]:
            several = scenario.speculative_algorithm == MTP
            seen = of_layers(draft, draft.shape.layers[:1]) if several else draft
            return dflash_draft_cell_size_per_token(scenario, seen, ranks, follows_swa)


class TargetDtypeForTheDraft(Fault):
    """The draft is priced in the target's KV dtype.

    SGLang 0.5.14 to 0.5.23 beside EAGLE, MTP and STANDALONE: a bf16 draft layer of an fp8 target, 2 bytes a row each
    in fp8, in 24 bytes: 6 rows for 4.
    """

    caught_by = {"B1": "*-other", "B2": "*-other", "D4": "*-other", "D6": "default-*_* mla-*_*"}
    cells = "*_*"

    class _Pool(MemoryPoolConfigurator):
        @staticmethod
        def _own_draft_bytes(scenario: Scenario, draft: Draft, ranks: int, follows_swa: bool) -> tuple[int, int]:
            alike = replace(scenario, attention_backend="flashinfer")
            seen = replace(draft, kv_cache_dtype=target_dtype(scenario), attention_backend=None)
            return dflash_draft_cell_size_per_token(alike, seen, ranks, follows_swa)


class EmptyDraftPriced(Fault):
    """A draft of no layers is priced as one layer.

    A floor of one layer, as upstream has one of one head: one layer and an empty draft in 24 bytes, 4 a row: 3 rows
    for 6.
    """

    caught_by = {"B2": "*_*", "D1": "*_*"}
    cells = "*_*"

    class _Pool(MemoryPoolConfigurator):
        @staticmethod
        def _own_draft_bytes(scenario: Scenario, draft: Draft, ranks: int, follows_swa: bool) -> tuple[int, int]:
            least = (SWA,) if draft.shape.full is None else (FULL,)
            seen = draft if draft.shape.layers else of_layers(draft, least)
            return dflash_draft_cell_size_per_token(scenario, seen, ranks, follows_swa)


class EaglePricedTwice(Fault):
    """An EAGLE draft is priced by the layer ratio, and by the gate for DFLASH drafts once more.

    The two branches of `pool_configurator.py: DefaultPoolConfigurator`, told apart by the algorithm alone: one layer
    each in 24 bytes, 4 a row: 2 rows for 3.
    """

    caught_by = {"B2": EAGLE_FAMILY_CELLS, "B3": EAGLE_FAMILY_CELLS, "D4": EAGLE_FAMILY_CELLS}
    cells = EAGLE_FAMILY_CELLS

    class _Pool(MemoryPoolConfigurator):
        def draft_cell_size_per_token(self, stage: int) -> tuple[int, int]:
            full, swa = super().draft_cell_size_per_token(stage)
            if self._scenario.speculative_algorithm in DFLASH_FAMILY or self._draft is None or not full + swa:
                return full, swa
            return full + self._layer_ratio_bytes(stage, len(self._draft.shape.layers)), swa


class WindowedDraftOnSwaRows(Fault):
    """SWA layers of a DFLASH draft, or of one banded at full capacity, are priced by the SWA rows; they hold a row for
    each full row.

    sglang#31588 has the rings: one full, one SWA and one draft layer, ratio 1/2, 60 bytes, 4 a row: 7 rows for 6.
    """

    caught_by = {"B1": "hybrid-*_own-* capped-*_own-*", "R2": "hybrid-*_own-* capped-*_own-*"}
    cells = "hybrid-*_own-* capped-*_own-*"
    pools = (HYBRID_POOL, CAPPED_POOL)

    class _Pool(MemoryPoolConfigurator):
        @staticmethod
        def _own_draft_bytes(scenario: Scenario, draft: Draft, ranks: int, follows_swa: bool) -> tuple[int, int]:
            return dflash_draft_cell_size_per_token(scenario, draft, ranks, True)


class FreeFallback(Fault):
    """Beside window pools an unresolved draft costs nothing, though the warning says that the layer ratio is used.

    SGLang 0.5.18 to 0.5.23, `pool_configurator.py: _dflash_draft_cell_size` gives 0 for None: one full, one SWA, one
    draft layer, ratio 1, 48 bytes, 4 a row: 6 rows for 4.
    """

    caught_by = {"D2": "hybrid-*_same-*-same", "D5": "hybrid-*_* allswa-*_* capped-*_*", "R2": "hybrid-*_*"}
    cells = "hybrid-*_* allswa-*_* capped-*_*"
    pools = WINDOW_POOLS

    class _Pool(MemoryPoolConfigurator):
        def _layer_ratio_bytes(self, stage: int, draft_layers: int) -> int:
            return 0


class SilentFallback(Fault):
    """A draft that cannot be resolved is priced by the layer ratio without a word.

    SGLang up to 0.5.17 has no resolver that could warn (sglang#34234). An unresolved draft: 0 warnings for 1.
    """

    caught_by = {"D5": "*_*"}
    cells = "*_*"

    def resolve_draft(self, scenario: Scenario) -> DraftResolution | None:
        """What is known, and no warning."""
        resolution = super().resolve_draft(scenario)
        return resolution and replace(resolution, warnings=())


class LeftOverDraftTokens(Fault):
    """Draft tokens count in the SWA rows of the capped pool without any algorithm in use.

    SGLang 0.5.14 to 0.5.23, `compute_swa_request_cap`: `speculative_num_draft_tokens or 1`: a left-over of 8 tokens,
    window 1, one request, chunks of 1, 128 bytes, 4 a row: 3 rows for 25.
    """

    caught_by = {"D7": "capped-*"}
    cells = "capped-*"
    pools = (CAPPED_POOL,)

    class _Pool(SWARequestCapPoolConfigurator):
        def _set_pool_terms(self) -> None:
            super()._set_pool_terms()
            seen = replace(self._scenario, speculative_algorithm=DFLASH, is_draft_worker=False)
            self._swa_rows = compute_swa_request_cap(seen, self._request_limit or 1)
