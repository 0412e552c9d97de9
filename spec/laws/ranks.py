"""R: what one rank holds."""

from dataclasses import replace

from spec.laws.base import Case, Verdict, same_answers
from spec.model import AttentionShape, Heads, Latent, Scenario


def held_heads(num_kv_heads: int, ranks: int) -> int:
    """The fewest heads per rank that lose none: with one head at least, replicated when ranks outnumber heads."""
    held = 1
    while held * ranks < num_kv_heads:
        held += 1
    return held


def with_heads(geometry: Heads | None, ranks: int, twin_ranks: int) -> Heads | None:
    """The geometry whose heads, split over `twin_ranks`, are those one of `ranks` ranks holds."""
    if geometry is None:
        return None
    return replace(geometry, num_kv_heads=held_heads(geometry.num_kv_heads, ranks) * twin_ranks)


def shape_with_heads(shape: AttentionShape, ranks: int, twin_ranks: int) -> AttentionShape:
    """The shape with full and SWA heads each by their own count."""
    full = shape.full if isinstance(shape.full, Latent) else with_heads(shape.full, ranks, twin_ranks)
    return replace(shape, full=full, swa=with_heads(shape.swa, ranks, twin_ranks))


def one_rank_twin(scenario: Scenario) -> Scenario:
    """The same pools on the fewest ranks: no DP attention, as many attention ranks as DCP needs, and models that have
    just the heads one rank holds."""
    deployment = scenario.deployment
    dcp = deployment.attn_dcp_size
    attention_ranks = deployment.tp_size // deployment.attn_dp_size
    requests = scenario.user_max_running_requests
    draft = scenario.draft
    return replace(
        scenario,
        target=shape_with_heads(scenario.target, attention_ranks // dcp, 1),
        draft=draft and replace(draft, shape=shape_with_heads(draft.shape, attention_ranks, dcp)),
        deployment=replace(deployment, tp_size=dcp, attn_dp_size=1),
        user_max_running_requests=requests and max(1, requests // deployment.attn_dp_size),
    )


def a_rank_holds_its_heads(case: Case) -> Verdict:
    """The answer is that of the twin whose models have just the heads of one rank: an implementation that floors
    heads to zero, replicates too little or too often, or splits over the wrong ranks prices the two differently."""
    twin = one_rank_twin(case.scenario)
    return same_answers(case.ask(twin), case.answer, "the one-rank twin's answer is expected")
