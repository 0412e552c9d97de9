"""E and Q: what an answer may look like, and that it is the spec's."""

from spec.laws.base import HOLDS, NOT_JUDGED, Broken, Case, Verdict, same_answers
from spec.layers import ALL_WINDOW_POOL, WINDOW_POOLS, pool_kind
from spec.model import Refusal
from spec.pools import size_pools


def nothing_non_positive_leaves_sizing(case: Case) -> Verdict:
    """Each pool that has layers; an all-window model's full pool is 0 by design."""
    scenario, answer = case.scenario, case.answer
    if isinstance(answer, Refusal):
        return NOT_JUDGED
    kind = pool_kind(scenario)
    positive = ["max_total_num_tokens", "max_running_requests", "max_req_len"]
    if kind != ALL_WINDOW_POOL:
        positive.append("full_max_total_num_tokens")
    if kind in WINDOW_POOLS:
        positive.append("swa_max_total_num_tokens")
    for name in positive:
        if getattr(answer, name) <= 0:
            return Broken(name, "above 0", getattr(answer, name))
    return HOLDS


def agrees_with_the_spec(case: Case) -> Verdict:
    """Field by field; refusals by kind."""
    return same_answers(size_pools(case.scenario), case.answer, "the spec's answer is expected")
