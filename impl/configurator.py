"""The optimized scalar implementation: closed forms over integers, behind SGLang's entry-point names.

Every kind of pool reduces to two integers per pipeline stage, what is paid beforehand and what a page costs, both in
1/q bytes where r = p/q is the ratio of a hybrid pool and q is 1 elsewhere:

    pages = (A * q - paid_beforehand) // page_cost        N = pages * P

Letters: A available bytes of the stage; F bytes of one full row over the full layers the stage holds; S of one SWA row
over its SWA layers, those of the draft that follow SWA rows included; D of all draft rows per full row (all-window:
per SWA row); r `swa_full_tokens_ratio`; P `page_size`; N tokens sold, in rows per rank.

Build a configurator once (`create_memory_pool_configurator`) and ask it for many budgets; `impl/optimized.py` builds
one per question.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn

from impl.configurator_prices import (
    FULL_ROW_ALGORITHMS,
    compute_swa_request_cap,
    count_kinds,
    dflash_draft_cell_size_per_token,
    index_bytes,
    kinds_by_stage,
    row_bytes,
    target_dtype,
    workspace_bytes,
)
from impl.configurator_screen import check_available_bytes, screened_kinds
from spec.layers import ALL_WINDOW_POOL, CAPPED_POOL, DEFAULT_POOL, HYBRID_POOL
from spec.model import FROZEN_KV_MTP, Draft, PoolSizes, Scenario, refuse
from spec.validity import check_scenario


class MemoryPoolConfigurator:
    """Turns the bytes of every pipeline stage into pool sizes, for one scenario. Subclasses say what a row costs.

    N is the fewest pages any stage can hold, times P; a stage where nothing costs anything sets no N. Then the user
    cap, then every pool, then admission and the request limits, once.
    """

    __slots__ = (
        "_cap",
        "_context_len",
        "_dcp",
        "_draft",
        "_draft_bytes",
        "_full_row_bytes",
        "_index_row_bytes",
        "_kinds",
        "_min_swa_rows",
        "_page_size",
        "_request_limit",
        "_scenario",
        "_stage_costs",
        "_stage_kinds",
        "_swa_row_bytes",
        "_units_per_byte",
        "_workspace_bytes",
    )

    no_room_kind = "no_page_fits"
    no_room_advice = "raise mem_fraction_static, or lower page_size"
    has_window_pools = True
    _layer_bytes = staticmethod(row_bytes)
    """One row of one target layer, index row aside. This and the next two are methods so that `impl/faults/` can get
    them wrong."""
    _layer_index_bytes = staticmethod(index_bytes)
    """One index row of one target layer that owns an index."""
    _own_draft_bytes = staticmethod(dflash_draft_cell_size_per_token)
    """(bytes per full row, bytes per SWA row) of a draft of resolved geometry."""

    def __init__(self, scenario: Scenario, full_layers: int, swa_layers: int) -> None:
        """Folds a valid scenario, whose target has that many full and SWA layers, into integers."""
        target, deployment = scenario.target, scenario.deployment
        self._scenario = scenario
        self._dcp = dcp = deployment.attn_dcp_size
        self._page_size = page_size = scenario.page_size
        self._context_len = scenario.context_len
        self._cap = scenario.max_total_tokens
        requests = scenario.user_max_running_requests
        self._request_limit = None if requests is None else requests // deployment.attn_dp_size or 1
        self._min_swa_rows = (target.sliding_window_size or 0) + 2 * page_size if self.has_window_pools else 0

        index = target.index
        attn_tp_size = deployment.tp_size // deployment.attn_dp_size
        ranks, dtype, backend = attn_tp_size // dcp, target_dtype(scenario), scenario.attention_backend
        self._full_row_bytes = self._layer_bytes(target.full, index is not None, ranks, dtype, backend)
        self._swa_row_bytes = self._layer_bytes(target.swa, False, ranks, dtype, backend)
        self._index_row_bytes = self._layer_index_bytes(target, index) * dcp if index is not None else 0
        self._workspace_bytes = 0
        if dtype == "nvfp4":
            self._workspace_bytes = workspace_bytes(target.full if full_layers else target.swa, ranks)
        kinds = self._kinds = (full_layers, swa_layers, 0 if index is None else len(index.layers))
        pp_size = deployment.pp_size
        self._stage_kinds = (kinds,) if pp_size == 1 else kinds_by_stage(target, pp_size)

        self._draft: Draft | None = None
        self._draft_bytes: tuple[int, int] | None = None
        algorithm = scenario.speculative_algorithm
        if algorithm is not None and algorithm != FROZEN_KV_MTP and not scenario.is_draft_worker:
            self._draft = draft = scenario.draft
            if draft is not None and draft.geometry_resolved:
                follows_swa = algorithm not in FULL_ROW_ALGORITHMS and not draft.swa_at_full_rows
                self._draft_bytes = self._own_draft_bytes(scenario, draft, attn_tp_size, follows_swa)
        self._set_pool_terms()
        cost = self._stage_cost
        self._stage_costs = (cost(0),) if pp_size == 1 else tuple([cost(stage) for stage in range(pp_size)])

    # What the kinds differ in.

    def _set_pool_terms(self) -> None:
        """Sets what only one kind needs before its stages are priced."""
        self._units_per_byte = 1

    def _target_row_bytes(self, kinds: tuple[int, int, int]) -> tuple[int, int]:
        """(F, the target's part of S) of so many (full layers, SWA layers, layers with an index), in bytes."""
        return kinds[0] * self._full_row_bytes, kinds[1] * self._swa_row_bytes

    def _layer_ratio_bytes(self, stage: int, draft_layers: int) -> int:
        """D of a draft whose geometry is not resolved: each of its layers as one full layer of the target."""
        return draft_layers * self._full_row_bytes

    def _paid_and_page_cost(self, full: int, swa: int, draft: int) -> tuple[int, int]:
        """(bytes paid before any page is sold, bytes of one page), from F, S and D, in units of 1/q byte."""
        raise NotImplementedError

    def _pool_rows(self, rows: int, below_cap: bool) -> tuple[int, int]:
        """(full rows, SWA rows) from the agreed N; `below_cap` where a user cap binds."""
        raise NotImplementedError

    # What they share.

    def draft_cell_size_per_token(self, stage: int) -> tuple[int, int]:
        """(D, the draft's part of S) on one rank of `stage`, in bytes: the only way any kind learns what a draft
        costs. Nothing where no draft lives, its own geometry where resolved, the layer ratio where not."""
        draft = self._draft
        deployment = self._scenario.deployment
        if draft is None or not (stage == deployment.pp_size - 1 or deployment.draft_on_every_stage):
            return 0, 0
        return self._draft_bytes or (self._layer_ratio_bytes(stage, len(draft.shape.layers)), 0)

    def stage_row_bytes(self, stage: int) -> tuple[int, int, int]:
        """F, S and D of one rank of a stage, in bytes; what of the draft follows SWA rows is part of S."""
        full, swa = self._target_row_bytes(self._stage_kinds[stage])
        draft, draft_swa = self.draft_cell_size_per_token(stage)
        return full, swa + draft_swa, draft

    def _stage_cost(self, stage: int) -> tuple[int, int]:
        """What `_paid_and_page_cost` says of one stage, draft included."""
        return self._paid_and_page_cost(*self.stage_row_bytes(stage))

    def calculate_pool_sizes(self, available_bytes: tuple[int, ...], page_size: int) -> PoolSizes:
        """Bytes of each pipeline stage to tokens, in rows per rank.

        Raises `Refused`: `invalid_input`, `no_memory_left`, `no_page_fits` (capped: `swa_pool_leaves_no_room`),
        `cap_too_small`, `window_pool_too_small`, `no_running_request`, `no_request_length`."""
        if page_size != self._page_size or type(page_size) is not int:
            return self._at_page_size(page_size).calculate_pool_sizes(available_bytes, page_size)
        costs, units = self._stage_costs, self._units_per_byte
        if type(available_bytes) is not tuple or len(available_bytes) != len(costs):
            check_available_bytes(available_bytes, len(costs))
        for available in available_bytes:
            if type(available) is not int or available <= 0:
                check_available_bytes(available_bytes, len(costs))
        fewest = None
        for stage, (paid, page_cost) in enumerate(costs):
            available = available_bytes[stage]
            if page_cost:
                pages = (available * units - paid) // page_cost
                if pages < 1:
                    self._refuse_stage(stage, available)
                if fewest is None or pages < fewest:
                    fewest = pages
            elif paid > available:
                self._refuse_stage(stage, available)
        assert fewest is not None, "a valid target has a layer that costs"
        rows = fewest * page_size
        cap = self._cap
        if cap is None or cap >= rows:
            return self._finished_sizes(rows, False)
        return self._finished_sizes(self._aligned_cap(cap), True)

    def calculate_pool_sizes_from_max_tokens(self, tokens: int, page_size: int) -> PoolSizes:
        """Every pool from `tokens` rows per rank, whatever the bytes.

        Raises `Refused`: `invalid_input`, `cap_too_small`, `window_pool_too_small`, `no_running_request`,
        `no_request_length`."""
        if page_size != self._page_size or type(page_size) is not int:
            return self._at_page_size(page_size).calculate_pool_sizes_from_max_tokens(tokens, page_size)
        if type(tokens) is not int or tokens < 1:
            raise refuse("invalid_input", "tokens", tokens, "give an integer of at least 1", needed=1)
        return self._finished_sizes(self._aligned_cap(tokens), True)

    def _finished_sizes(self, rows: int, below_cap: bool) -> PoolSizes:
        """Every pool from the agreed N, refused when it admits no request or leaves none a length."""
        full_rows, swa_rows = self._pool_rows(rows, below_cap)
        if swa_rows < self._min_swa_rows:
            raise refuse(
                "window_pool_too_small",
                "swa_max_total_num_tokens",
                swa_rows,
                "raise swa_full_tokens_ratio, the token cap, or mem_fraction_static",
                needed=self._min_swa_rows,
                available=swa_rows,
            )
        context_len = self._context_len
        requests = self._request_limit
        if requests is None:
            requests = rows * 512 // context_len
            requests = 2048 if requests < 2048 else 4096 if requests > 4096 else requests
        if rows < 2 * requests:
            requests = rows // 2
            if not requests:
                advice = "sell at least two rows"
                raise refuse("no_running_request", "max_total_num_tokens", rows, advice, needed=2, available=rows)
        logical = rows * self._dcp
        length = context_len if context_len < logical else logical
        if length < 2:
            raise refuse("no_request_length", "context_len", context_len, needed=2, available=length)
        return PoolSizes(rows, full_rows, swa_rows, requests, length - 1)

    def _aligned_cap(self, cap: int) -> int:
        """A cap in whole pages; refuses `cap_too_small` below one."""
        if cap < self._page_size:
            raise refuse(
                "cap_too_small",
                "max_total_tokens",
                cap,
                "raise max_total_tokens to at least a page",
                needed=self._page_size,
                available=cap,
            )
        return cap - cap % self._page_size

    def _at_page_size(self, page_size: int) -> "MemoryPoolConfigurator":
        """The configurator of the same scenario at another page size."""
        return create_memory_pool_configurator(replace(self._scenario, page_size=page_size))

    def _refuse_stage(self, stage: int, available: int) -> NoReturn:
        """Says that a stage cannot pay what is due beforehand and one page, rounded up to a byte."""
        paid, page_cost = self._stage_costs[stage]
        raise refuse(
            self.no_room_kind,
            f"available_bytes[{stage}]",
            available,
            self.no_room_advice,
            needed=-(-(paid + page_cost) // self._units_per_byte),
            available=available,
        )


class DefaultPoolConfigurator(MemoryPoolConfigurator):
    """MHA, GQA and MLA, every KV layer at full length: `N = A // ((F + D) * P) * P`.

    F = full layers x row + SWA layers x row + index layers x index row x `attn_dcp_size` + one nvfp4 workspace.
    """

    __slots__ = ()
    has_window_pools = False

    def _target_row_bytes(self, kinds: tuple[int, int, int]) -> tuple[int, int]:
        """(F, 0) of so many layers, the workspace once if there are any."""
        full_layers, swa_layers, index_layers = kinds
        layers = full_layers * self._full_row_bytes + swa_layers * self._swa_row_bytes
        return layers + index_layers * self._index_row_bytes + (self._workspace_bytes if layers else 0), 0

    def _layer_ratio_bytes(self, stage: int, draft_layers: int) -> int:
        """`ceil(F * dcp * draft_layers / L)`, F and L of this stage, or of the model where the stage has no L."""
        kinds = self._stage_kinds[stage]
        if not kinds[0] + kinds[1]:
            kinds = self._kinds
        return -(-self._target_row_bytes(kinds)[0] * self._dcp * draft_layers // (kinds[0] + kinds[1]))

    def _paid_and_page_cost(self, full: int, swa: int, draft: int) -> tuple[int, int]:
        """A page costs (F + D) * P."""
        return 0, (full + draft) * self._page_size

    def _pool_rows(self, rows: int, below_cap: bool) -> tuple[int, int]:
        """All rows are full rows."""
        return rows, 0


class HybridSWAPoolConfigurator(MemoryPoolConfigurator):
    """Full and SWA layers, r = p/q SWA rows a full row: `N = A*q // (((F + D)*q + p*S) * P) * P`, SWA rows
    `p*N // (q*P) * P`.

    F = full layers x full row; S = SWA layers x SWA row, and those of the draft that follow.
    """

    __slots__ = ("_ratio_numerator",)

    def _set_pool_terms(self) -> None:
        """Takes the ratio apart: p, and q units a byte."""
        ratio = self._scenario.swa_full_tokens_ratio
        self._ratio_numerator = ratio.numerator
        self._units_per_byte = ratio.denominator

    def _paid_and_page_cost(self, full: int, swa: int, draft: int) -> tuple[int, int]:
        """A page costs ((F + D)*q + p*S) * P units of 1/q byte."""
        return 0, ((full + draft) * self._units_per_byte + self._ratio_numerator * swa) * self._page_size

    def _pool_rows(self, rows: int, below_cap: bool) -> tuple[int, int]:
        """SWA rows are r times the full rows, in whole pages."""
        swa_rows = rows * self._ratio_numerator // self._units_per_byte
        return rows, swa_rows - swa_rows % self._page_size


class AllSWAPoolConfigurator(MemoryPoolConfigurator):
    """Only SWA layers: `N = A // ((S + D) * P) * P` SWA rows, no full rows; r plays no part.

    S = SWA layers x SWA row, and those of the draft that follow; every draft row goes with an SWA row.
    """

    __slots__ = ()

    def _layer_ratio_bytes(self, stage: int, draft_layers: int) -> int:
        """D of a draft whose geometry is not resolved: each of its layers as one SWA layer of the target."""
        return draft_layers * self._swa_row_bytes

    def _paid_and_page_cost(self, full: int, swa: int, draft: int) -> tuple[int, int]:
        """A page costs (S + D) * P."""
        return 0, (swa + draft) * self._page_size

    def _pool_rows(self, rows: int, below_cap: bool) -> tuple[int, int]:
        """All rows are SWA rows."""
        return 0, rows


class SWARequestCapPoolConfigurator(HybridSWAPoolConfigurator):
    """Full and SWA layers, the SWA rows fixed by the most requests: `N = (A - swa*S) // ((F + D) * P) * P`.

    F, S and D as in the hybrid pool; `swa` see `compute_swa_request_cap`.
    """

    __slots__ = ("_swa_rows",)
    no_room_kind = "swa_pool_leaves_no_room"
    no_room_advice = "lower user_max_running_requests or raise mem_fraction_static"

    def _set_pool_terms(self) -> None:
        """Fixes the SWA rows."""
        self._units_per_byte = 1
        self._swa_rows = compute_swa_request_cap(self._scenario, self._request_limit or 1)

    def _paid_and_page_cost(self, full: int, swa: int, draft: int) -> tuple[int, int]:
        """The SWA pool is paid first; then a page costs (F + D) * P."""
        return self._swa_rows * swa, (full + draft) * self._page_size

    def _pool_rows(self, rows: int, below_cap: bool) -> tuple[int, int]:
        """The fixed SWA rows, no more than the full rows a binding user cap leaves."""
        swa_rows = self._swa_rows
        return rows, rows if below_cap and rows < swa_rows else swa_rows


PoolConfigurators = Mapping[str, type[MemoryPoolConfigurator]]
POOL_CONFIGURATORS: PoolConfigurators = {
    DEFAULT_POOL: DefaultPoolConfigurator,
    HYBRID_POOL: HybridSWAPoolConfigurator,
    ALL_WINDOW_POOL: AllSWAPoolConfigurator,
    CAPPED_POOL: SWARequestCapPoolConfigurator,
}
"""The class of each pool kind; MLA pools are sized as default ones."""


def create_memory_pool_configurator(
    scenario: Scenario, configurators: PoolConfigurators = POOL_CONFIGURATORS
) -> MemoryPoolConfigurator:
    """The configurator of the scenario's pool kind. Raises `Refused` (`invalid_input`, `unsupported`) where the
    scenario is not valid."""
    target = scenario.target
    kinds = screened_kinds(scenario)
    if kinds is None:
        check_scenario(scenario)
        kinds = count_kinds(target)
    full_layers, swa_layers = kinds
    if not swa_layers or not scenario.window_pools:
        return configurators[DEFAULT_POOL](scenario, full_layers, swa_layers)
    if not full_layers:
        return configurators[ALL_WINDOW_POOL](scenario, full_layers, swa_layers)
    if scenario.disable_radix_cache and scenario.user_max_running_requests is not None:
        chunk = scenario.chunked_prefill_size
        if scenario.is_decode_role or (chunk is not None and chunk > 0):
            return configurators[CAPPED_POOL](scenario, full_layers, swa_layers)
    return configurators[HYBRID_POOL](scenario, full_layers, swa_layers)
