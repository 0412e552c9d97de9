"""Scenarios as columns for `impl/batched.py`, its answers as pools and refusals: `--kv-impl batched`."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from impl.batched import FITS, REFUSALS, Batch, Sized, size_batch, size_batch_from_max_tokens
from impl.configurator import create_memory_pool_configurator
from impl.configurator_prices import compute_swa_request_cap, stage_budgets
from impl.configurator_screen import check_available_bytes
from impl.optimized import Configurator
from spec.advice import advised
from spec.layers import CAPPED_POOL, pool_kind
from spec.model import PoolSizes, Refusal, Refused, Scenario
from spec.validity import check_int


@dataclass(frozen=True)
class Row:
    """One scenario as entries of `Batch`: a number, or one for each stage."""

    kind: str
    stages: int
    entries: dict[str, int | tuple[int, ...]]


def row_of(scenario: Scenario, budgets: tuple[int, ...] | None = None) -> Row:
    """The prices and limits of a scenario, on its own bytes unless others are given. Raises `Refused` where it is not
    valid, or no memory is left."""
    configurator = create_memory_pool_configurator(scenario)
    deployment, kind = scenario.deployment, pool_kind(scenario)
    available_bytes = budgets or stage_budgets(scenario)
    if min(available_bytes) < 1:
        check_available_bytes(available_bytes, deployment.pp_size)
    full, swa, draft = zip(*map(configurator.stage_row_bytes, range(deployment.pp_size)), strict=True)
    requests = scenario.user_max_running_requests
    limit = 0 if requests is None else max(1, requests // deployment.attn_dp_size)
    ratio = scenario.swa_full_tokens_ratio
    return Row(
        kind,
        deployment.pp_size,
        {
            "available_bytes": available_bytes,
            "full": full,
            "swa": swa,
            "draft": draft,
            "page_size": scenario.page_size,
            "ratio_numerator": ratio.numerator,
            "ratio_denominator": ratio.denominator,
            "fixed_swa_rows": compute_swa_request_cap(scenario, limit) if kind == CAPPED_POOL else 0,
            "sliding_window_size": scenario.target.sliding_window_size or 0,
            "max_total_tokens": scenario.max_total_tokens or 0,
            "max_running_requests": limit,
            "context_len": scenario.context_len,
            "attn_dcp_size": deployment.attn_dcp_size,
        },
    )


def batch_of(rows: Sequence[Row]) -> Batch:
    """Rows of one kind and one number of stages as columns."""
    return Batch(**{name: column([row.entries[name] for row in rows]) for name in rows[0].entries})


def column(entries: Sequence[Any]) -> Any:
    """Entries as an array: of 64 bits where they fit, else of Python ints."""
    exact = np.array(entries, dtype=object)
    return exact.astype(np.int64) if exact.max() < 2**63 else exact


def size_scenarios(scenarios: Sequence[Scenario]) -> list[PoolSizes | Refusal]:
    """The profile path of many scenarios, in their order; those of one kind and number of stages go together."""
    answers: dict[int, PoolSizes | Refusal] = {}
    together: dict[tuple[str, int], list[tuple[int, Row]]] = defaultdict(list)
    for number, scenario in enumerate(scenarios):
        try:
            row = row_of(scenario)
            together[row.kind, row.stages].append((number, row))
        except Refused as refused:
            answers[number] = advised(scenario, refused.refusal, Configurator().starts)
    for (kind, _), group in together.items():
        sized = size_batch(kind, batch_of([row for _, row in group]))
        for place, (number, _) in enumerate(group):
            answers[number] = answer_of(sized, place, partial(Configurator().size_pools, scenarios[number]))
    return [answers[number] for number in range(len(scenarios))]


def answer_of(sized: Sized, place: int, alone: Callable[[], PoolSizes | Refusal]) -> PoolSizes | Refusal:
    """One row of what became of a batch. A batch says why a row is refused, and no more: field, value and advice are
    those of the scenario sized alone, where that is refused for the same reason."""
    kind = REFUSALS[int(sized.refusal[place])]
    if kind != FITS:
        refusal = alone()
        return refusal if isinstance(refusal, Refusal) and refusal.kind == kind else Refusal(kind, "", None)
    return PoolSizes(
        int(sized.max_total_num_tokens[place]),
        int(sized.full_max_total_num_tokens[place]),
        int(sized.swa_max_total_num_tokens[place]),
        int(sized.max_running_requests[place]),
        int(sized.max_req_len[place]),
    )


class Batched(Configurator):
    """`--kv-impl batched`: each question a batch of one; the draft, the pools and the start-up are the
    configurator's."""

    name = "batched"

    def size_pools(self, scenario: Scenario) -> PoolSizes | Refusal:
        """Bytes to tokens."""
        return size_scenarios([scenario])[0]

    def size_pools_from_max_tokens(self, scenario: Scenario, tokens: int) -> PoolSizes | Refusal:
        """Tokens to pools, whatever the bytes."""
        try:
            row = row_of(scenario, (1,) * scenario.deployment.pp_size)
            check_int("tokens", tokens, 1)
        except Refused as refused:
            return refused.refusal
        sized = size_batch_from_max_tokens(row.kind, batch_of([row]), column([tokens]))
        return answer_of(sized, 0, partial(Configurator().size_pools_from_max_tokens, scenario, tokens))
