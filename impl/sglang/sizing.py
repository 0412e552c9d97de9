"""Bytes to sizes as a release's start-up does it, stage by stage, and what it says when it refuses.

Called: the configurator, the profile of available bytes, the request limit. Reproduced, because the original needs
process groups or a model: the smallest of the user cap and the ranks (`_apply_token_constraints`), the two assertions
on requests (`managers/tp_worker.py`).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from impl.sglang.records import WORLD_GROUP, Records, parallel_widths
from spec.layers import WINDOW_POOLS, pool_kind
from spec.model import MemoryFigures, PoolSizes, Refusal, Refused, Scenario, active_draft, refuse
from spec.units import GiB

REFUSALS = (
    ("leaves no room for the full", RuntimeError, "swa_pool_leaves_no_room", "available_bytes"),
    ("cannot hold even one request", ValueError, "window_pool_too_small", "swa_max_total_num_tokens"),
    ("leave no GPU memory for the KV cache", ValueError, "no_memory_left", "available_bytes"),
    ("state cache is too small to serve", RuntimeError, "no_running_request", "max_total_num_tokens"),
    ("must have at least one SWA layer", AssertionError, "unsupported", "target.layers"),
    ("Not enough memory", RuntimeError, "no_page_fits", "available_bytes"),
)
"""What a release says, the exception it raises, and the kind and field of the refusal that is."""


def refusal_of(error: Exception, value: object, *, cap: int | None) -> Refused | None:
    """The refusal a release's exception is, None for any other exception. A size of nothing has one message whatever
    caused it: on the path of a token number (`cap`) it is the cap that is too small."""
    for words, kind_of_error, kind, field in REFUSALS:
        if type(error) is kind_of_error and words in str(error):
            if kind == "no_page_fits" and cap is not None:
                return refuse("cap_too_small", "max_total_tokens", cap, str(error), available=cap)
            return refuse(kind, field, value, str(error), available=value)
    return None


def listed(call: Callable[[], Any], value: object, *, cap: int | None = None) -> Any:
    """What a call returns; its refusal if it raises one; anything else it raises goes on."""
    try:
        return call()
    except (RuntimeError, ValueError, AssertionError) as error:
        refused = refusal_of(error, value, cap=cap)
        if refused is None:
            raise
        raise refused from error


def tokens_of(configs: list[Any], pool: str) -> int:
    """The fewest rows any stage gives a pool, of those that have it: what a request can count on. 0 where none has."""
    return min((rows for config in configs if (rows := getattr(config, pool) or 0)), default=0)


class Sizing:
    """One scenario at a time through one release."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.world = records.world

    def from_bytes(self, scenario: Scenario) -> PoolSizes | Refusal:
        """The profile path."""
        try:
            return self._sized(scenario, None)
        except Refused as refused:
            return refused.refusal

    def from_tokens(self, scenario: Scenario, tokens: int) -> PoolSizes | Refusal:
        """The constraint path."""
        try:
            return self._sized(scenario, tokens)
        except Refused as refused:
            return refused.refusal

    def _sized(self, scenario: Scenario, tokens: int | None) -> PoolSizes:
        """Every stage by itself, then the smallest, then every stage again where that is less than its own."""
        records, pages = self.records, scenario.page_size
        self.world.envs.SGLANG_SWA_EVICTION_INTERVAL.set(scenario.swa_eviction_interval)
        records.set(scenario)
        leaves = records.leaves(scenario)
        draft = active_draft(scenario)
        held = []
        for stage in range(scenario.deployment.pp_size):
            self.world.enter(leaves, parallel_widths(scenario, stage))
            records.stage(scenario, stage)
            if draft is not None:
                records.hand_over_draft_bytes(records.resolved_draft_bytes(scenario, draft)[0])
            available = self.available(scenario, stage) if tokens is None else 0
            create = self.world.configurators.create_memory_pool_configurator
            configurator = listed(partial(create, records.x), scenario.target.layers)
            config = None
            if tokens is None:
                config = listed(partial(configurator.calculate_pool_sizes, available, pages), available)
            held.append((configurator, config))
        return self._finished(scenario, self._agreed(scenario, held, tokens))

    def available(self, scenario: Scenario, stage: int) -> int:
        """Bytes of one stage: as given, or by the release's own profile of the readings, whose minimum it takes over
        every rank of every stage. A profile that leaves nothing raises; given bytes of nothing are refused alike."""
        budget = scenario.budget
        if not isinstance(budget, MemoryFigures):
            if budget[stage] <= 0:
                raise refuse("no_memory_left", f"available_bytes[{stage}]", budget[stage], available=budget[stage])
            return budget[stage]
        before = min(min(readings) for readings in budget.free_before_load) / GiB
        after = min(min(readings) for readings in budget.free_after_all_weights) / GiB
        self.world.start_up_module.get_available_gpu_memory = lambda *_, **__: after
        self.world.start_up_module.get_world_group = lambda: WORLD_GROUP
        linear = self.records.x.mambaish_config
        self.records.x.update(mambaish_config=None, mem_fraction_static=float(budget.mem_fraction_static))
        try:
            return int(listed(lambda: self.records.x._profile_available_bytes(before), after))
        finally:
            self.records.x.update(mambaish_config=linear)

    def _agreed(self, scenario: Scenario, held: list[Any], tokens: int | None) -> tuple[int, int, int]:
        """The configuration of the stages: the user cap first, then the smallest, then each stage that could hold more
        once more from that number. Stages may differ in the rows of a pool (one without full layers is sized as an
        all-window model); the fewest of each pool are reported."""
        cap = scenario.max_total_tokens if tokens is None else tokens
        if tokens is None:
            tokens = min(config.max_total_num_tokens for _, config in held)
            if cap is not None:
                tokens = min(tokens, cap)
        agreed = []
        for configurator, config in held:
            if config is None or config.max_total_num_tokens != tokens:
                again = partial(configurator.calculate_pool_sizes_from_max_tokens, tokens, scenario.page_size)
                config = listed(again, tokens, cap=cap)
            agreed.append(config)
        return (
            tokens_of(agreed, "max_total_num_tokens"),
            tokens_of(agreed, "full_max_total_num_tokens"),
            tokens_of(agreed, "swa_max_total_num_tokens"),
        )

    def _finished(self, scenario: Scenario, agreed: tuple[int, int, int]) -> PoolSizes:
        """Request limits: the number by the release's own method, the two assertions as `tp_worker.py` states them."""
        rows, full, swa = agreed
        requests = listed(lambda: self.records.resolve_max_num_reqs(rows), rows)
        if requests <= 0:
            raise refuse("no_running_request", "max_total_num_tokens", rows, "max_running_request is zero")
        window_kind = pool_kind(scenario) in WINDOW_POOLS
        logical = (full or swa) if window_kind else rows
        if self.world.release.has_dcp_sizing:
            logical *= scenario.deployment.attn_dcp_size
        length = min(scenario.context_len - 1, logical - 1)
        if length <= 0:
            raise refuse("no_request_length", "context_len", scenario.context_len, "Memory pool size is too small")
        return PoolSizes(
            max_total_num_tokens=rows,
            full_max_total_num_tokens=full if window_kind else rows,
            swa_max_total_num_tokens=swa if window_kind else 0,
            max_running_requests=requests,
            max_req_len=length,
        )
