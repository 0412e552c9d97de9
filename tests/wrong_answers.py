"""Wrong implementations, the least each, and the law and the term that must catch it."""

from dataclasses import replace
from fractions import Fraction

from impl.resolve import resolve_draft
from impl.torch_pools import allocated_bytes
from spec.accounting import sold_bytes, spare_bytes
from spec.laws.base import DraftResolution
from spec.model import (
    DFLASH,
    FULL,
    SWA,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Latent,
    MemoryFigures,
    PoolSizes,
    Refusal,
    Scenario,
    active_draft,
)
from spec.pools import size_pools
from spec.units import align_up

TARGET = AttentionShape((FULL,) * 4, Heads(4, 16, 8))
DRAFT = Draft(AttentionShape((FULL,) * 2, Heads(8, 16, 16)))
MATCHING = Draft(AttentionShape((FULL,) * 2, Heads(4, 16, 8)))
WINDOWED = AttentionShape((SWA, FULL) * 2, Heads(4, 16, 8), Heads(2, 16, 16), sliding_window_size=4)
ALL_WINDOW = AttentionShape((SWA,) * 3, None, Heads(4, 16, 8), sliding_window_size=4)

DEFAULT = Scenario(TARGET, (1_000_003,), draft=DRAFT, speculative_algorithm=DFLASH, page_size=4)
SCENARIOS = {
    "default": DEFAULT,
    "mla": replace(DEFAULT, target=AttentionShape((FULL,) * 3, Latent(32, 16))),
    "hybrid": replace(DEFAULT, target=WINDOWED),
    "allswa": replace(DEFAULT, target=ALL_WINDOW),
    "capped": replace(
        DEFAULT, target=WINDOWED, user_max_running_requests=2, disable_radix_cache=True, chunked_prefill_size=8
    ),
}
"""One drafted scenario of each pool kind. None of its budgets is a whole number of pages."""


def moved(rows):
    """An implementation that sells so many rows more than the spec in every pool that has any."""

    def size(scenario):
        answer = size_pools(scenario)
        if isinstance(answer, Refusal):
            return answer
        full, swa = answer.full_max_total_num_tokens, answer.swa_max_total_num_tokens
        return replace(
            answer,
            max_total_num_tokens=answer.max_total_num_tokens + rows,
            full_max_total_num_tokens=full + rows if full else 0,
            swa_max_total_num_tokens=swa + rows if swa else 0,
        )

    return size


def halved_ratio(scenario):
    """Sells half the SWA rows a hybrid pool should have."""
    answer = size_pools(scenario)
    return replace(answer, swa_max_total_num_tokens=answer.swa_max_total_num_tokens // 8 * 4)


def forgetful(scenario):
    """Sells less the more memory there is, as if a byte count overflowed."""
    budget = tuple(available % 1_000_004 for available in scenario.budget)
    return size_pools(replace(scenario, budget=budget))


def refuses_more(scenario):
    """Refuses budgets it has not seen."""
    if scenario.budget != (1_000_003,):
        return Refusal("no_page_fits", "available_bytes[0]", scenario.budget[0])
    return size_pools(scenario)


def charges_empty_drafts(scenario):
    """A draft of no layers is charged as one of one layer."""
    draft = active_draft(scenario)
    if draft is not None and not draft.shape.layers:
        scenario = replace(scenario, draft=replace(draft, shape=replace(draft.shape, layers=(FULL,))))
    return size_pools(scenario)


def ratio_priced(scenario):
    """Every draft is priced by the layer ratio."""
    draft = active_draft(scenario)
    return size_pools(scenario if draft is None else replace(scenario, draft=replace(draft, geometry_resolved=False)))


def unpriced_when_unresolved(scenario):
    """A draft whose geometry is not resolved is not priced at all."""
    draft = active_draft(scenario)
    if draft is not None and not draft.geometry_resolved:
        return size_pools(replace(scenario, speculative_algorithm=None, draft=None))
    return size_pools(scenario)


def draft_pays(scenario):
    """A draft brings bytes instead of taking them."""
    if active_draft(scenario) is None:
        return size_pools(scenario)
    more = tuple(available * 2 for available in scenario.budget)
    return size_pools(replace(scenario, speculative_algorithm=None, budget=more))


def draft_takes_all(scenario):
    """A draft takes five sixths of the bytes, whatever it costs."""
    if active_draft(scenario) is None:
        return size_pools(scenario)
    return size_pools(replace(scenario, budget=tuple(available // 6 for available in scenario.budget)))


def starts_only_with_a_draft(scenario):
    """Refuses the plain path."""
    if active_draft(scenario) is None:
        return Refusal("no_page_fits", "available_bytes[0]", scenario.budget)
    return size_pools(scenario)


def priced_by_head_dim(scenario):
    """A draft's V rows are taken to be as wide as its K rows."""
    draft = active_draft(scenario)
    if draft is None or draft.shape.full is None:
        return size_pools(scenario)
    full = replace(draft.shape.full, v_head_dim=draft.shape.full.head_dim)
    return size_pools(replace(scenario, draft=replace(draft, shape=replace(draft.shape, full=full))))


def whole_heads(scenario):
    """Every rank is taken to hold all KV heads."""
    return size_pools(replace(scenario, deployment=Deployment()))


def applies_the_ratio(scenario):
    """Takes the ratio off an all-window pool, too."""
    budget = tuple(int(available * scenario.swa_full_tokens_ratio) for available in scenario.budget)
    return size_pools(replace(scenario, budget=budget))


def one_request_less(scenario):
    """One running request less than the spec."""
    answer = size_pools(scenario)
    return replace(answer, max_running_requests=answer.max_running_requests - 1)


def without(field):
    """An implementation that leaves one size at zero."""
    return lambda scenario: replace(size_pools(scenario), **{field: 0})


def generous(scenario):
    """Sizes as if there were a byte more."""
    return size_pools(replace(scenario, budget=tuple(available + 1 for available in scenario.budget)))


def heads_bring_memory(scenario):
    """The more heads the target has, the more bytes it believes to have."""
    geometry = scenario.target.full or scenario.target.swa
    heads = getattr(geometry, "num_kv_heads", 0) + getattr(geometry, "kv_lora_rank", 0)
    return size_pools(replace(scenario, budget=tuple(available * heads**3 for available in scenario.budget)))


def keeps_a_reserve(scenario):
    """Takes a flat 100000 bytes off first."""
    return size_pools(replace(scenario, budget=tuple(available - 100_000 for available in scenario.budget)))


def first_layer_stands_for_all(scenario):
    """Every layer is taken to be of the first one's kind."""
    layers = scenario.target.layers
    return size_pools(replace(scenario, target=replace(scenario.target, layers=layers[:1] * len(layers))))


def drops_the_draft(scenario):
    """No draft is priced."""
    return size_pools(replace(scenario, draft=None, speculative_algorithm=None))


def prices_left_overs(scenario):
    """A draft is priced whether or not an algorithm uses it."""
    if scenario.draft is None:
        return size_pools(scenario)
    return size_pools(replace(scenario, speculative_algorithm=DFLASH, is_draft_worker=False))


def prices_for_draft_workers(scenario):
    """A draft worker pays for its draft a second time."""
    return size_pools(replace(scenario, is_draft_worker=False))


def first_stage_speaks_for_all(scenario):
    """Only the first stage's memory is looked at."""
    return size_pools(replace(scenario, budget=scenario.budget[:1] * len(scenario.budget)))


def keeps_a_percent_of_all(scenario):
    """Takes a hundredth of all stages' bytes off each stage."""
    reserve = sum(scenario.budget) // 100
    return size_pools(replace(scenario, budget=tuple(available - reserve for available in scenario.budget)))


def sells_less_from_afar(scenario):
    """A page less where the stages' memory is within a factor of a thousand."""
    near = max(scenario.budget) < 1000 * min(scenario.budget)
    return moved(-4)(scenario) if near else size_pools(scenario)


def forgets_replication(scenario):
    """Under DCP the draft is taken to be sharded like the target."""
    deployment = scenario.deployment
    undivided = replace(deployment, tp_size=deployment.tp_size // deployment.attn_dcp_size, attn_dcp_size=1)
    return size_pools(replace(scenario, deployment=undivided))


def bare_window(scenario):
    """Leaves a window pool the window and one page."""
    window = scenario.target.sliding_window_size + scenario.page_size
    return replace(size_pools(scenario), swa_max_total_num_tokens=window)


def ignores_caps(scenario):
    """Sells what the bytes buy, whatever the user says."""
    return size_pools(replace(scenario, max_total_tokens=None))


def reads_caps_as_pages_more(scenario):
    """A cap is exceeded by a page."""
    cap = scenario.max_total_tokens
    return size_pools(replace(scenario, max_total_tokens=cap and cap + scenario.page_size))


def shrinks_under_any_cap(scenario):
    """A cap that does not bind takes a page all the same."""
    answer = size_pools(scenario)
    return answer if scenario.max_total_tokens is None or isinstance(answer, Refusal) else moved(-4)(scenario)


def resolves_nothing_and_is_silent(scenario):
    """The fallback without a word."""
    resolution = resolve_draft(scenario)
    return resolution and replace(resolution, warnings=())


def resolves_everything(scenario):
    """Bytes for a geometry nobody could read."""
    return DraftResolution(4096, "bf16")


def always_warns(scenario):
    """A warning even where all is resolved."""
    resolution = resolve_draft(scenario)
    return resolution and replace(resolution, warnings=("something may be wrong",))


def resolves_narrow(scenario):
    """A dtype narrower than the checkpoint's."""
    resolution = resolve_draft(scenario)
    return resolution and replace(resolution, dtype="nvfp4")


def without_spare_rows(scenario, sizes):
    """Pools that hold just what is sold."""
    return tuple(sold_bytes(scenario, sizes, stage) for stage in range(scenario.deployment.pp_size))


def without_the_draft(scenario, sizes):
    """The spare rows of all pools, and no draft row that is sold."""
    plain = replace(scenario, speculative_algorithm=None)
    return tuple(
        sold_bytes(plain, sizes, stage) + spare_bytes(scenario, sizes, stage)
        for stage in range(scenario.deployment.pp_size)
    )


def in_huge_pages(scenario, sizes):
    """Pools of more than a page are rounded up to a megabyte and a byte."""
    allocated = allocated_bytes(scenario, sizes)
    if sizes.max_total_num_tokens <= scenario.page_size:
        return allocated
    return tuple(align_up(stage_bytes, 2**20 + 1) for stage_bytes in allocated)


def refuses_always(scenario):
    """Never starts."""
    return Refusal("no_page_fits", "available_bytes[0]", 0)


def never_refuses(scenario):
    """Sells a page where none fits."""
    answer = size_pools(scenario)
    return PoolSizes(4, 4, 0, 1, 1) if isinstance(answer, Refusal) else answer


def refuses_with(**changes):
    """An implementation whose refusals differ in some fields."""

    def size(scenario):
        answer = size_pools(scenario)
        return replace(answer, **changes) if isinstance(answer, Refusal) else answer

    return size


NARROW_V = replace(DEFAULT, draft=Draft(AttentionShape((FULL,) * 2, Heads(8, 16, 8))))
SPLIT = replace(DEFAULT, deployment=Deployment(tp_size=2))

STAGES = replace(DEFAULT, deployment=Deployment(pp_size=2), budget=(1_000_003, 60_003))
DCP = replace(
    DEFAULT,
    draft=Draft(AttentionShape((FULL,) * 2, Heads(1, 16, 16))),
    deployment=Deployment(tp_size=2, attn_dcp_size=2),
)
STARVED = replace(
    DEFAULT, budget=MemoryFigures(((1_000_000,),), ((110_000,),), Fraction("0.889")), max_total_tokens=None
)
"""Refused as it stands; starts at 0.898 and not before."""
NEVER = replace(DEFAULT, budget=MemoryFigures(((1_000_000,),), ((100,),), Fraction("0.5")))
"""Refused at every fraction."""
CAPPED_BELOW_A_PAGE = replace(DEFAULT, max_total_tokens=3)

WRONG = [
    *(("B1", scenario, {"size": moved(4)}, "allocated bytes") for scenario in SCENARIOS.values()),
    *(("B2", scenario, {"size": moved(-4)}, "max_total_num_tokens") for scenario in SCENARIOS.values()),
    ("B2", SCENARIOS["hybrid"], {"size": halved_ratio}, "swa_max_total_num_tokens"),
    *(("B4", scenario, {"size": moved(1)}, "max_total_num_tokens") for scenario in SCENARIOS.values()),
    *(("B5", scenario, {"size": forgetful}, "refusal") for scenario in SCENARIOS.values()),
    ("B5", DEFAULT, {"size": refuses_more}, "refusal"),
    *(("D1", scenario, {"size": charges_empty_drafts}, "max_total_num_tokens") for scenario in SCENARIOS.values()),
    ("D2", replace(DEFAULT, draft=MATCHING), {"size": unpriced_when_unresolved}, "max_total_num_tokens"),
    *(("D3", scenario, {"size": draft_pays}, "max_total_num_tokens") for scenario in SCENARIOS.values()),
    ("D3", DEFAULT, {"size": draft_takes_all}, "target bytes"),
    ("D3", SCENARIOS["hybrid"], {"size": draft_takes_all}, "target bytes"),
    ("D3", DEFAULT, {"size": starts_only_with_a_draft}, "refusal"),
    ("D4", DEFAULT, {"size": ratio_priced}, "draft term"),
    ("D4", SCENARIOS["mla"], {"size": ratio_priced}, "draft term"),
    ("D4", SCENARIOS["hybrid"], {"size": ratio_priced}, "draft term"),
    ("D4", SCENARIOS["allswa"], {"size": ratio_priced}, "draft term"),
    ("D4", SCENARIOS["capped"], {"size": ratio_priced}, "draft term"),
    ("D4", NARROW_V, {"size": priced_by_head_dim}, "max_total_num_tokens"),
    ("R1", SPLIT, {"size": whole_heads}, "max_total_num_tokens"),
    ("W1", SCENARIOS["allswa"], {"size": applies_the_ratio}, "max_total_num_tokens"),
    *(("E2", DEFAULT, {"size": without(field)}, field) for field in ("max_total_num_tokens", "max_running_requests")),
    ("E2", DEFAULT, {"size": without("full_max_total_num_tokens")}, "full_max_total_num_tokens"),
    ("E2", SCENARIOS["hybrid"], {"size": without("swa_max_total_num_tokens")}, "swa_max_total_num_tokens"),
    ("E2", DEFAULT, {"size": without("max_req_len")}, "max_req_len"),
    *(("Q1", scenario, {"size": one_request_less}, "max_running_requests") for scenario in SCENARIOS.values()),
    ("Q1", DEFAULT, {"size": lambda scenario: Refusal("no_page_fits", "available_bytes[0]", 0)}, "refusal"),
    *(
        ("B3", SCENARIOS[pool], {"size": moved(-4)}, "max_total_num_tokens")
        for pool in ("default", "mla", "hybrid", "allswa")
    ),
    ("B3", SCENARIOS["capped"], {"size": keeps_a_reserve}, "max_total_num_tokens"),
    ("B3", SCENARIOS["hybrid"], {"size": generous}, "max_total_num_tokens"),
    *(("B6", scenario, {"size": heads_bring_memory}, "max_total_num_tokens") for scenario in SCENARIOS.values()),
    *(("B7", scenario, {"size": keeps_a_reserve}, "max_total_num_tokens") for scenario in SCENARIOS.values()),
    ("B8", SCENARIOS["hybrid"], {"size": first_layer_stands_for_all}, "max_total_num_tokens"),
    ("D5", DEFAULT, {"size": unpriced_when_unresolved}, "draft term"),
    ("D5", SCENARIOS["capped"], {"size": unpriced_when_unresolved}, "draft term"),
    ("D5", DEFAULT, {"resolve": resolves_nothing_and_is_silent}, "warnings"),
    ("D5", DEFAULT, {"resolve": always_warns}, "warnings"),
    ("D5", DEFAULT, {"resolve": resolves_everything}, "draft bytes per row"),
    ("D5", DEFAULT, {"resolve": lambda scenario: None}, "draft bytes per row"),
    ("D6", DEFAULT, {"resolve": resolves_narrow}, "draft dtype"),
    ("D6", DEFAULT, {"size": drops_the_draft}, "allocated bytes"),
    ("D7", DEFAULT, {"size": prices_left_overs}, "refusal"),
    ("D7", SCENARIOS["capped"], {"size": prices_left_overs}, "refusal"),
    ("D8", DEFAULT, {"size": prices_for_draft_workers}, "refusal"),
    ("D8", SCENARIOS["capped"], {"size": prices_for_draft_workers}, "refusal"),
    ("R2", STAGES, {"size": first_stage_speaks_for_all}, "priced bytes"),
    ("R2", STAGES, {"size": keeps_a_percent_of_all}, "refusal"),
    ("R2", STAGES, {"size": sells_less_from_afar}, "max_total_num_tokens"),
    ("R3", DCP, {"size": forgets_replication}, "max_total_num_tokens"),
    *(
        ("W2", SCENARIOS[pool], {"size": bare_window}, "swa_max_total_num_tokens")
        for pool in ("hybrid", "allswa", "capped")
    ),
    ("W3", SCENARIOS["capped"], {"size": moved(4)}, "priced bytes"),
    ("W3", SCENARIOS["capped"], {"size": moved(-8)}, "max_total_num_tokens"),
    *(("C1", scenario, {"size": ignores_caps}, "max_total_num_tokens") for scenario in SCENARIOS.values()),
    *(("C1", scenario, {"size": reads_caps_as_pages_more}, "max_total_num_tokens") for scenario in SCENARIOS.values()),
    *(("C1", scenario, {"size": shrinks_under_any_cap}, "max_total_num_tokens") for scenario in SCENARIOS.values()),
    *(("A1", scenario, {"allocate": without_spare_rows}, "spare bytes") for scenario in SCENARIOS.values()),
    ("A1", DEFAULT, {"allocate": without_the_draft}, "bytes per full row"),
    ("A1", SCENARIOS["allswa"], {"allocate": without_the_draft}, "bytes per SWA row"),
    ("A1", DEFAULT, {"allocate": in_huge_pages}, "allocated bytes"),
    ("E1", replace(DEFAULT, budget=(10,)), {"size": never_refuses}, "refusal"),
    ("E1", DEFAULT, {"size": refuses_always}, "refusal"),
    ("E1", STARVED, {"size": refuses_with(kind="unsupported")}, "refusal"),
    ("E1", STARVED, {"size": refuses_with(field="banana")}, "field"),
    ("E1", CAPPED_BELOW_A_PAGE, {"size": refuses_with(value=4)}, "cap"),
    ("E3", STARVED, {"size": refuses_with(advice="lower mem_fraction_static")}, "advice"),
    ("E3", STARVED, {"size": refuses_with(advice="mem_fraction_static 0.897")}, "advice"),
    ("E3", STARVED, {"size": refuses_with(advice="mem_fraction_static 0.899")}, "advice"),
    ("E3", STARVED, {"size": refuses_with(advice="no mem_fraction_static below 1 starts")}, "advice"),
    *(("E3", scenario, {"size": refuses_with(advice="raise it")}, "advice") for scenario in SCENARIOS.values()),
    ("E3", DEFAULT, {"size": refuses_with(kind="unsupported")}, "refusal"),
    ("E3", NEVER, {"size": refuses_with(advice="mem_fraction_static 0.999")}, "advice"),
]
