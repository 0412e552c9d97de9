"""SWA rows of the capped pool: the worst case of the most requests that can run at once.

Upstream: `model_executor/pool_configurator.py: compute_swa_request_cap`.
"""

from spec.layers import CAPPED_POOL, pool_kind
from spec.model import Scenario, active_draft
from spec.units import align_down, align_up


def decode_alloc_tokens(scenario: Scenario) -> int:
    """Tokens one running request may have allocated ahead in decode.

    Plain: a page. With speculation and overlap, twice what one step may need; without overlap, once, page by page.
    Upstream: `mem_cache/allocation_sizing.py: get_alloc_len_per_decode`,
    `utils/common.py: spec_decode_alloc_len_per_request`.
    """
    draft = active_draft(scenario)
    page_size = scenario.page_size
    if draft is None:
        return page_size
    if not scenario.disable_overlap_schedule:
        return 2 * overlap_step_tokens(draft.num_steps, draft.topk, draft.num_draft_tokens, page_size)
    return step_tokens(draft.num_steps, draft.topk, draft.num_draft_tokens, page_size)


def overlap_step_tokens(num_steps: int, topk: int, num_draft_tokens: int, page_size: int) -> int:
    """Tokens one speculative step may need under the overlap scheduler. A tree (topk > 1) gives every branch its own
    pages."""
    if topk > 1:
        return max(align_up(page_size - 1 + num_steps, page_size) * topk, num_draft_tokens)
    return max(num_steps, num_draft_tokens)


def step_tokens(num_steps: int, topk: int, num_draft_tokens: int, page_size: int) -> int:
    """Tokens one speculative step may need without overlap."""
    if page_size == 1:
        return max(num_steps * topk, num_draft_tokens)
    if topk == 1:
        return max(align_up(num_steps, page_size), align_up(num_draft_tokens, page_size))
    return max(align_up(num_steps + page_size, page_size) * topk, align_up(num_draft_tokens, page_size))


def swa_rows_per_request(scenario: Scenario) -> int:
    """SWA rows one running request may hold: its window, what was not evicted yet, a page of padding, and what decode
    allocates ahead."""
    draft = active_draft(scenario)
    draft_tokens = 1 if draft is None else draft.num_draft_tokens
    window = scenario.target.sliding_window_size or 0
    evicted_late = max(1, scenario.swa_eviction_interval) * draft_tokens
    return window + evicted_late + scenario.page_size + decode_alloc_tokens(scenario)


def request_limit(scenario: Scenario) -> int:
    """The user's running requests of one attention replica."""
    return max(1, (scenario.user_max_running_requests or 0) // scenario.deployment.attn_dp_size)


def capped_swa_rows(scenario: Scenario) -> int:
    """SWA rows of the capped pool: the worst case of the most requests, and the prefill chunks in flight (decode
    role: the extra slots instead), aligned up. Upstream: `compute_swa_request_cap`."""
    window = scenario.target.sliding_window_size or 0
    page_size = scenario.page_size
    rows = swa_rows_per_request(scenario) * request_limit(scenario)
    if scenario.is_decode_role:
        return align_up(rows + (window + page_size) * scenario.decode_extra_slots, page_size)
    chunks = 1 if scenario.disable_overlap_schedule else 2
    return align_up(rows + chunks * (scenario.chunked_prefill_size or 0) + page_size, page_size)


def cap_keeps_swa_rows(scenario: Scenario) -> bool:
    """Whether the user cap, if any, leaves a capped pool its fixed SWA rows: below them, more memory may lower them."""
    if pool_kind(scenario) != CAPPED_POOL or scenario.max_total_tokens is None:
        return True
    return align_down(scenario.max_total_tokens, scenario.page_size) >= capped_swa_rows(scenario)
