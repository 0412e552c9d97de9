"""Faults between the price and the answer: rounding, caps, admission, ranks, refusals."""

from dataclasses import replace
from fractions import Fraction

from impl.configurator import (
    AllSWAPoolConfigurator,
    DefaultPoolConfigurator,
    HybridSWAPoolConfigurator,
    MemoryPoolConfigurator,
    SWARequestCapPoolConfigurator,
)
from impl.configurator_prices import ceil_to
from impl.faults.base import Fault
from spec.layers import ALL_WINDOW_POOL, CAPPED_POOL, DEFAULT_POOL, HYBRID_POOL, WINDOW_POOLS
from spec.model import PoolSizes, Refusal, Scenario

WINDOW_CELLS = "hybrid-* allswa-* capped-*"
"""Cells of models with window pools."""


class RatioOnAllWindow(Fault):
    """The ratio is applied to a model that has no full rows to relate SWA rows to.

    The cell of a hybrid pool with F = 0: one SWA layer, dims of 1, fp8, ratio 1/2, 8 bytes: 8 rows for 4.
    """

    caught_by = {"B1": "allswa-*", "R2": "allswa-*", "W1": "allswa-*"}
    cells = "allswa-*"
    pools = (ALL_WINDOW_POOL,)

    class _Pool(AllSWAPoolConfigurator):
        def _paid_and_page_cost(self, full: int, swa: int, draft: int) -> tuple[int, int]:
            ratio = self._scenario.swa_full_tokens_ratio
            self._units_per_byte = ratio.denominator
            return 0, (ratio.numerator * swa + ratio.denominator * draft) * self._page_size


class WindowPoolBelowTheFloor(Fault):
    """A window pool starts that never admits a request: it is only asked for more than a window and a page.

    SGLang's `validate_swa_pool_size`: window 127, page 64, 192 rows leave a request one row: 192 rows for a
    refusal.
    """

    caught_by = {"E1": WINDOW_CELLS, "W2": WINDOW_CELLS}
    cells = WINDOW_CELLS
    pools = WINDOW_POOLS

    class _Pool(MemoryPoolConfigurator):
        def _set_pool_terms(self) -> None:
            super()._set_pool_terms()
            self._min_swa_rows -= self._page_size - 1


class NoAdmissionCheck(Fault):
    """A window pool is never asked whether it admits a request.

    SGLang 0.5.14 to 0.5.23 for all-window models, and for capped pools after a user cap: window 5, one SWA layer, dims
    of 1, fp8, 6 bytes: 3 rows for a refusal.
    """

    caught_by = {"E1": "allswa-* capped-*", "W2": "allswa-* capped-*"}
    cells = "allswa-* capped-*"
    pools = (ALL_WINDOW_POOL, CAPPED_POOL)

    class _Pool(MemoryPoolConfigurator):
        def _set_pool_terms(self) -> None:
            super()._set_pool_terms()
            self._min_swa_rows = 0


class PageRoundedUp(Fault):
    """Tokens are rounded up to a whole page.

    TensorRT-LLM#224: 10718 tokens fit, on pages of 16: 10720 rows for 10704.
    """

    caught_by = {"B1": "*", "R2": "*"}
    cells = "*"

    class _Pool(MemoryPoolConfigurator):
        def calculate_pool_sizes(self, available_bytes: tuple[int, ...], page_size: int) -> PoolSizes:
            lent = [
                (page_size - 1) * page_cost // page_size // self._units_per_byte for _, page_cost in self._stage_costs
            ]
            more = tuple(had + extra for had, extra in zip(available_bytes, lent, strict=True))
            return super().calculate_pool_sizes(more, page_size)


class OneTokenTooMany(Fault):
    """The tokens that fit, and one.

    Row 0 of a pool absorbs padded writes and is allocated beside the rows that are sold: a layer of dims 1, fp8, 8
    bytes: 5 rows for 4.
    """

    caught_by = {"B1": "*", "B4": "*", "C1": "*"}
    cells = "*"

    class _Pool(MemoryPoolConfigurator):
        def _finished_sizes(self, rows: int, below_cap: bool) -> PoolSizes:
            return super()._finished_sizes(rows if below_cap else rows + 1, below_cap)


class SparePageSold(Fault):
    """The page a pool keeps spare is sold.

    `size + page_size` rows are allocated, `size` are sold (`memory_pool.py`): a layer of dims 1, fp8, pages of 2, 8
    bytes: 6 rows for 4.
    """

    caught_by = {"B1": "*", "R2": "*"}
    cells = "*"

    class _Pool(MemoryPoolConfigurator):
        def _finished_sizes(self, rows: int, below_cap: bool) -> PoolSizes:
            return super()._finished_sizes(rows if below_cap else rows + self._page_size, below_cap)


class FloatTruncation(Fault):
    """The layer ratio in floats, cut off: `int(cell * (1 + draft_layers / layers))`.

    SGLang up to 0.5.15; one byte a token short for 11 of 100 models: 22 layers of 4096 bytes and an unresolved draft of
    3 in 1024092399 bytes: 10001 rows for 10000.
    """

    caught_by = {"D2": "default-*_same-*-same mla-*_same-*-same", "D5": "default-*_* mla-*_*"}
    cells = "default-*_* mla-*_*"
    pools = (DEFAULT_POOL,)

    class _Pool(DefaultPoolConfigurator):
        def _layer_ratio_bytes(self, stage: int, draft_layers: int) -> int:
            kinds = self._stage_kinds[stage] if any(self._stage_kinds[stage]) else self._kinds
            cell = self._target_row_bytes(kinds)[0]
            return int(cell * (1 + self._dcp * draft_layers / (kinds[0] + kinds[1]))) - cell


class CapNotAligned(Fault):
    """A user cap is taken as it is, no whole number of pages.

    sglang#22384: 1000 rows for 896 of a cap of 1000 on pages of 128.
    """

    caught_by = {"B4": "*", "C1": "*"}
    cells = "*"

    class _Pool(MemoryPoolConfigurator):
        def _aligned_cap(self, cap: int) -> int:
            super()._aligned_cap(cap)
            return cap


class CapRoundedUp(Fault):
    """A user cap is exceeded by the rest of a page.

    A cap of 1000 on pages of 128, as in sglang#22384, aligned the other way: 1024 rows for 896.
    """

    caught_by = {"C1": "*"}
    cells = "*"

    class _Pool(MemoryPoolConfigurator):
        def _aligned_cap(self, cap: int) -> int:
            return ceil_to(super()._aligned_cap(cap) and cap, self._page_size)


class CapInBytes(Fault):
    """A user cap is turned into bytes, a row in every layer, and back into tokens, which cost less.

    sglang#22389: 266 rows for 200 of a cap of 200 at ratio 1/2.
    """

    caught_by = {"C1": "hybrid-*"}
    cells = "hybrid-*"
    pools = (HYBRID_POOL,)

    class _Pool(HybridSWAPoolConfigurator):
        def _aligned_cap(self, cap: int) -> int:
            full, swa = self._target_row_bytes(self._kinds)
            cell = full + Fraction(self._ratio_numerator, self._units_per_byte) * swa
            return super()._aligned_cap(cap * (full + swa) // cell)


class SwaRowsOfACapNotAligned(Fault):
    """After a user cap the SWA rows of the capped pool are the smaller of cap and SWA rows, no whole number of pages.

    SGLang 0.5.14 to 0.5.23, `calculate_pool_sizes_from_max_tokens`: window 1, pages of 2, a cap of 7: 7 SWA rows for
    6.
    """

    caught_by = {"B4": "capped-*", "C1": "capped-*"}
    cells = "capped-*"
    pools = (CAPPED_POOL,)

    class _Pool(SWARequestCapPoolConfigurator):
        def _pool_rows(self, rows: int, below_cap: bool) -> tuple[int, int]:
            return rows, min(self._swa_rows, self._cap or rows) if below_cap else self._swa_rows


class LeastBytesLargestCell(Fault):
    """The fewest bytes of any stage are divided by the dearest cell of any stage, which may be another's.

    One number for all stages in place of one for each: stages of 1 and 2 layers, dims of 1, fp8, 8 and 16 bytes: 2
    rows for 4.
    """

    caught_by = {"B2": "*-pp-*", "B3": "*-pp-*"}
    cells = "*-pp-*"

    class _Pool(MemoryPoolConfigurator):
        def calculate_pool_sizes(self, available_bytes: tuple[int, ...], page_size: int) -> PoolSizes:
            stages = len(available_bytes)
            self._stage_costs = (max(self._stage_costs, key=lambda cost: cost[::-1]),) * stages
            return super().calculate_pool_sizes((min(available_bytes),) * stages, page_size)


class RequestsFlooredToZero(Fault):
    """Fewer running requests than replicas of attention leave each replica none.

    SGLang 0.5.14 to 0.5.22, `resolve_max_num_reqs`. One request on dp 2: 0 running requests for 1.
    """

    caught_by = {"E2": "*-dp-*", "R1": "*-dp-*"}
    cells = "*-dp-*"

    class _Pool(MemoryPoolConfigurator):
        def _set_pool_terms(self) -> None:
            super()._set_pool_terms()
            requests = self._scenario.user_max_running_requests
            if requests is not None:
                self._request_limit = requests // self._scenario.deployment.attn_dp_size


class NegativeTokens(Fault):
    """What is short is sold as a size below zero.

    Megatron-LM#6675: -2 requests. A layer of 4 bytes a row, pages of 2, 4 bytes: 0 rows for a refusal.
    """

    caught_by = {"E1": "*", "E2": "*"}
    cells = "*"

    class _Pool(MemoryPoolConfigurator):
        def _refuse_stage(self, stage: int, available: int) -> None:  # type: ignore[override]
            """Goes on."""

        def _finished_sizes(self, rows: int, below_cap: bool) -> PoolSizes:
            return PoolSizes(rows, rows, rows, rows, rows) if rows < 1 else super()._finished_sizes(rows, below_cap)


class AdviceTheWrongWay(Fault):
    """Where memory is short, the advice is to lower mem_fraction_static, which leaves less.

    SGLang's message said so once: 4 bytes left for a layer of 4 bytes a row and pages of 2: lower mem_fraction_static
    for raise mem_fraction_static.
    """

    caught_by = {"E3": "*"}
    cells = "*"

    def size_pools(self, scenario: Scenario) -> PoolSizes | Refusal:
        """The refusal, with the advice turned round."""
        answer = super().size_pools(scenario)
        if isinstance(answer, PoolSizes) or "mem_fraction_static" not in answer.advice:
            return answer
        return replace(answer, advice="lower mem_fraction_static")
