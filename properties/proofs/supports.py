"""What the proofs of sizing leave out, proved on its own: the limits of requests, and the fixed SWA rows."""

from typing import Any
from unittest.mock import patch

import spec.pools
from impl import configurator_prices
from impl.configurator import HybridSWAPoolConfigurator
from properties.proofs.explore import Inputs
from spec import capped
from spec.laws.base import HOLDS, Broken, Verdict
from spec.laws.budget import less_than
from spec.model import EAGLE, FULL, SWA, AttentionShape, Deployment, Draft, Heads, PoolSizes, Refused, Scenario


def limited_scenario(inputs: Inputs) -> Scenario:
    """Any hybrid scenario, as far as its request limits see it."""
    heads = Heads(1, 1, 1)
    return Scenario(
        AttentionShape((FULL, SWA), heads, heads, sliding_window_size=inputs.integer("window", 1)),
        (1,),
        deployment=Deployment(attn_dcp_size=inputs.integer("dcp", 1)),
        page_size=inputs.integer("P", 1),
        context_len=inputs.integer("context_len", 1),
        user_max_running_requests=inputs.integer("requests", 1) if inputs.flag("has_requests") else None,
    )


def finished(implementation: str, scenario: Scenario, rows: Any, full_rows: Any, swa_rows: Any) -> PoolSizes:
    """The pools with their limits. Raises `Refused`."""
    if implementation == "spec":
        return spec.pools.sizes_of(scenario, rows, full_rows, swa_rows)
    configurator = HybridSWAPoolConfigurator.__new__(HybridSWAPoolConfigurator)
    configurator._scenario, configurator._context_len = scenario, scenario.context_len
    configurator._dcp = scenario.deployment.attn_dcp_size
    configurator._request_limit = scenario.user_max_running_requests
    window: Any = scenario.target.sliding_window_size
    configurator._min_swa_rows = window + 2 * scenario.page_size
    with patch.object(HybridSWAPoolConfigurator, "_pool_rows", lambda *_: (full_rows, swa_rows)):
        return configurator._finished_sizes(rows, False)


def limits_follow_the_rows(inputs: Inputs, kind: str, implementation: str) -> Verdict:
    """The pools leave as they came; with no fewer rows in any, what starts still starts, and no limit falls."""
    scenario = limited_scenario(inputs)
    fewer = tuple(inputs.integer(name) for name in ("rows", "full_rows", "swa_rows"))
    more = tuple(rows + inputs.integer(f"more_{at}") for at, rows in enumerate(fewer))
    try:
        before = finished(implementation, scenario, *fewer)
    except Refused:
        return HOLDS
    try:
        after = finished(implementation, scenario, *more)
    except Refused as refused:
        return Broken("refusal", "an answer", refused.refusal.kind)
    kept = before.max_total_num_tokens, before.full_max_total_num_tokens, before.swa_max_total_num_tokens
    if not all(left == right for left, right in zip(kept, fewer, strict=True)):
        return Broken("pools", fewer, kept)
    return less_than(before, after, "with more rows") or HOLDS


def requesting_scenario(inputs: Inputs) -> Scenario:
    """Any capped scenario, as far as its SWA rows see it."""
    heads = Heads(1, 1, 1)
    numbers = [inputs.integer(name, 1) for name in ("num_steps", "topk", "num_draft_tokens")]
    return Scenario(
        AttentionShape((FULL, SWA), heads, heads, sliding_window_size=inputs.integer("window", 1)),
        (1,),
        draft=Draft(AttentionShape((FULL,), heads), None, None, *numbers),
        speculative_algorithm=EAGLE if inputs.flag("speculates") else None,
        page_size=inputs.integer("P", 1),
        user_max_running_requests=inputs.integer("requests", 1),
        chunked_prefill_size=inputs.integer("chunk", 1),
        disable_radix_cache=True,
        disable_overlap_schedule=inputs.flag("no_overlap"),
        is_decode_role=inputs.flag("is_decode_role"),
        decode_extra_slots=inputs.integer("slots"),
        swa_eviction_interval=inputs.integer("interval"),
    )


def fixed_swa_rows_are_whole_pages(inputs: Inputs, kind: str, implementation: str) -> Verdict:
    """The SWA rows of a capped pool are a page at least, and whole pages."""
    scenario = requesting_scenario(inputs)
    if implementation == "spec":
        rows = capped.capped_swa_rows(scenario)
    else:
        rows = configurator_prices.compute_swa_request_cap(scenario, scenario.user_max_running_requests or 1)
    if rows % scenario.page_size != 0:
        return Broken("fixed SWA rows", "whole pages", rows)
    return HOLDS if rows >= scenario.page_size else Broken("fixed SWA rows", "a page", rows)
