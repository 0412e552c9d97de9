"""What a budget's reader does next: what limits it, which knob moves it which way, where memory may run out, what is
odd about it. Every number is the answer to a changed scenario.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from spec.advice import STEPS, at_fraction, smallest_starting_fraction
from spec.capped import request_limit
from spec.draft import draft_price
from spec.dtypes import STORAGE_BITS, draft_kv_dtype, target_kv_dtype
from spec.explain.results import Reserved, limiting_stage
from spec.explain.setup import Setup
from spec.explain.wording import bytes_text, number_text, signed_gib
from spec.layers import CAPPED_POOL, HYBRID_POOL, draft_head_ranks, pool_kind, target_head_ranks
from spec.model import (
    FULL,
    SWA,
    AttentionShape,
    Draft,
    Heads,
    MemoryFigures,
    PoolSizes,
    Refusal,
    Scenario,
    active_draft,
)
from spec.pools import agreed_rows, size_pools, starts
from spec.units import GiB


@dataclass(frozen=True)
class Knob:
    """One setting changed alone. tokens: sold then, None where the start is refused; change: against now, None where
    either is refused."""

    name: str
    before: str
    after: str
    tokens: int | None
    change: int | None
    refusal: str = ""


def total_tokens(scenario: Scenario, sizes: PoolSizes) -> int:
    """Logical tokens of the whole engine: rows of a rank, times the DCP ranks that hold different ones, times the
    replicas."""
    return sizes.max_total_num_tokens * scenario.deployment.attn_dcp_size * scenario.deployment.attn_dp_size


def more_memory(scenario: Scenario) -> tuple[str, str, str, Scenario]:
    """A hundredth more of the memory, or as much as a start needs; or a GiB."""
    budget = scenario.budget
    if isinstance(budget, MemoryFigures):
        fraction = budget.mem_fraction_static
        least = smallest_starting_fraction(scenario, starts) or fraction
        raised = max(least, min(fraction + Fraction(1, 100), Fraction(STEPS - 1, STEPS)))
        changed = replace(scenario, budget=replace(budget, mem_fraction_static=raised))
        return "mem_fraction_static", number_text(fraction), number_text(raised), changed
    raised_bytes = tuple(available + GiB for available in budget)
    return "available_bytes", signed_gib(budget[0]), signed_gib(raised_bytes[0]), replace(scenario, budget=raised_bytes)


def row_knobs(scenario: Scenario) -> Iterator[tuple[str, str, str, Scenario]]:
    """Fewer bytes a row: narrower dtypes, more ranks, no draft."""
    draft, dtype = active_draft(scenario), target_kv_dtype(scenario)
    if STORAGE_BITS[dtype] > 8:
        yield "kv_cache_dtype", dtype, "fp8_e4m3", replace(scenario, kv_cache_dtype="fp8_e4m3")
    if draft is not None:
        narrow = replace(scenario, draft=replace(draft, kv_cache_dtype="fp8_e4m3"))
        if STORAGE_BITS[draft_kv_dtype(scenario, draft)] > STORAGE_BITS[draft_kv_dtype(narrow, narrow.draft or draft)]:
            yield "speculative_draft_kv_cache_dtype", draft_kv_dtype(scenario, draft), "fp8_e4m3", narrow
        yield (
            "speculative_algorithm",
            str(scenario.speculative_algorithm),
            "none",
            replace(scenario, speculative_algorithm=None),
        )
    tp = scenario.deployment.tp_size
    wider = replace(scenario.deployment, tp_size=2 * tp)
    yield "tp, at these free bytes", f"{tp}", f"{2 * tp}", replace(scenario, deployment=wider)


def pool_knobs(scenario: Scenario) -> Iterator[tuple[str, str, str, Scenario]]:
    """The split between the pools, and the user's cap."""
    kind, cap, limit = pool_kind(scenario), scenario.max_total_tokens, scenario.user_max_running_requests
    if kind == HYBRID_POOL:
        ratio = scenario.swa_full_tokens_ratio
        lower = replace(scenario, swa_full_tokens_ratio=ratio / 2)
        yield "swa_full_tokens_ratio", number_text(ratio), number_text(ratio / 2), lower
    if kind == CAPPED_POOL and limit is not None:
        fewer = max(1, limit // 2)
        yield "max_running_requests", f"{limit}", f"{fewer}", replace(scenario, user_max_running_requests=fewer)
    if cap is not None:
        yield "max_total_tokens", f"{cap:,}", "none", replace(scenario, max_total_tokens=None)
    if scenario.page_size > 1:
        yield "page_size", f"{scenario.page_size}", "1", replace(scenario, page_size=1)


def tried(scenario: Scenario, now: int | None, knob: tuple[str, str, str, Scenario]) -> Knob:
    """One knob turned."""
    name, before, after, changed = knob
    answer = size_pools(changed)
    if isinstance(answer, Refusal):
        return Knob(name, before, after, None, None, f"{answer.kind}: {answer.field}={answer.value!r}")
    tokens = total_tokens(changed, answer)
    return Knob(name, before, after, tokens, None if now is None else tokens - now)


def knobs(scenario: Scenario, answer: PoolSizes | Refusal) -> tuple[Knob, ...]:
    """Every knob that fits, tried one at a time, what helps most first."""
    now = total_tokens(scenario, answer) if isinstance(answer, PoolSizes) else None
    turns = [more_memory(scenario), *row_knobs(scenario), *pool_knobs(scenario)]
    found = [tried(scenario, now, turn) for turn in turns]
    return tuple(sorted(found, key=lambda knob: -1 if knob.tokens is None else knob.tokens, reverse=True))


def limits(scenario: Scenario, answer: PoolSizes | Refusal) -> tuple[str, ...]:
    """What sets the tokens, in sentences."""
    if isinstance(answer, Refusal):
        return (f"refused, {answer.kind}: {answer.field} is {answer.value!r}. {answer.advice}",)
    rows, found = agreed_rows(scenario), []
    cap, sold = scenario.max_total_tokens, answer.max_total_num_tokens
    if sold < rows:
        found.append(f"the user cap: max_total_tokens={cap:,} below the {rows:,} rows that fit")
    else:
        stage = limiting_stage(scenario)
        where = f" of stage {stage}" if scenario.deployment.pp_size > 1 else ""
        found.append(f"memory: at the price of a token one page more exceeds the available bytes{where}")
        if cap is not None:
            found.append(f"max_total_tokens={cap:,} does not bind")
    wanted = scenario.user_max_running_requests
    if wanted is not None and answer.max_running_requests == request_limit(scenario):
        found.append(f"running requests: max_running_requests={wanted:,}")
    elif answer.max_running_requests == sold // 2:
        found.append("running requests: half of the rows sold")
    if answer.max_req_len < scenario.context_len - 1:
        found.append(f"request length: the {answer.max_req_len + 1:,} tokens sold, not the context length")
    return tuple(found)


def at_launch(scenario: Scenario) -> str:
    """Out of memory at launch: the static part is too small. More of it helps."""
    words = "At launch, SGLang says that there is not enough memory: the static part holds too little. RAISE it"
    if not isinstance(scenario.budget, MemoryFigures):
        return f"{words} (mem_fraction_static), or free memory before the start."
    fraction, now = smallest_starting_fraction(scenario, starts), scenario.budget.mem_fraction_static
    if fraction is None:
        return f"{words}: no mem_fraction_static below 1 starts; more ranks, a smaller page or fewer bytes a row do."
    least = f"0.{int(fraction * STEPS):03d}"
    verdict = f"{number_text(now)} is {'enough' if fraction <= now else 'too little'}"
    return f"{words}: mem_fraction_static {least} is the smallest that starts, {verdict}."


def at_run_time(setup: Setup, parts: tuple[Reserved, ...]) -> str:
    """Out of memory at run time, or while graphs are captured: what lies outside the static part is too little. Less
    of the static part helps, at the price of tokens."""
    words = "At run time, or while graphs are captured, CUDA is out of memory: what lies outside the static part"
    advice = "LOWER mem_fraction_static, or chunked_prefill_size"
    budget, scenario = setup.scenario.budget, setup.scenario
    if not isinstance(budget, MemoryFigures) or not parts:
        return f"{words} is too little for activations, graphs and spare pages. {advice}."
    spare = max(part.spare_bytes for part in parts)
    outside = setup_outside(budget)
    lowered = at_fraction(scenario, max(1, int(budget.mem_fraction_static * STEPS) - 10))
    fewer, now = size_pools(lowered), size_pools(scenario)
    price = "and then nothing starts"
    if isinstance(fewer, PoolSizes) and isinstance(now, PoolSizes):
        lost = total_tokens(scenario, now) - total_tokens(lowered, fewer)
        price = f"for {lost:,} tokens"
    hundredth = budget.free_before_load[0][0] // 100
    return (
        f"{words} is {signed_gib(outside)}; spare pages take {bytes_text(spare)}, activations and graphs the rest."
        f" {advice}: 0.01 less gives them {signed_gib(hundredth)} {price}."
    )


def setup_outside(budget: MemoryFigures) -> int:
    """Bytes of a rank outside the static part."""
    return int(budget.free_before_load[0][0] * (1 - budget.mem_fraction_static))


def replicated_heads(owner: str, shape: AttentionShape, ranks: int) -> Iterator[str]:
    """A warning for each kind of layer with fewer KV heads than ranks."""
    for kind, geometry in ((FULL, shape.full), (SWA, shape.swa)):
        if kind in shape.layers and isinstance(geometry, Heads) and geometry.num_kv_heads < ranks:
            times = ranks // geometry.num_kv_heads
            yield (
                f"replicated heads: {owner} {kind} layers have {geometry.num_kv_heads} KV heads on {ranks} ranks, so "
                f"each is stored {times} times and a row costs {times} times its share"
            )


def draft_token_bytes(scenario: Scenario) -> Fraction:
    """What the draft adds to one token, on the last stage."""
    price = draft_price(scenario, scenario.deployment.pp_size - 1)
    ratio = scenario.swa_full_tokens_ratio if pool_kind(scenario) == HYBRID_POOL else Fraction(1)
    return price.full + ratio * price.swa


def by_layer_ratio(scenario: Scenario, draft: Draft) -> Scenario:
    """The same with a draft whose geometry nobody read."""
    return replace(scenario, draft=replace(draft, geometry_resolved=False))


def wide_draft(scenario: Scenario) -> Iterator[str]:
    """A warning where the draft costs more than as many layers of the target would."""
    draft = active_draft(scenario)
    if draft is None:
        return
    exact, fallback = draft_token_bytes(scenario), draft_token_bytes(by_layer_ratio(scenario, draft))
    if exact > fallback:
        yield (
            f"draft wider than target: its layers cost {number_text(exact)} bytes a token, as target layers they would "
            f"cost {number_text(fallback)}; an engine that prices drafts by the layer ratio sells too many tokens"
        )


def low_ratio(scenario: Scenario, answer: PoolSizes | Refusal) -> Iterator[str]:
    """A warning where the ratio leaves a window pool that admits no request, and the ratio that would start."""
    if pool_kind(scenario) != HYBRID_POOL or not isinstance(answer, Refusal) or answer.kind != "window_pool_too_small":
        return
    ratios = (Fraction(thousandths, STEPS) for thousandths in range(1, STEPS + 1))
    enough = next((ratio for ratio in ratios if starts(replace(scenario, swa_full_tokens_ratio=ratio))), None)
    advice = "no ratio starts" if enough is None else f"{number_text(enough)} is the smallest that starts"
    yield (
        f"ratio below the admission floor: swa_full_tokens_ratio {number_text(scenario.swa_full_tokens_ratio)} gives "
        f"{answer.available:,} SWA rows, one request needs {answer.needed:,}; {advice}"
    )


def warnings(scenario: Scenario, answer: PoolSizes | Refusal) -> tuple[str, ...]:
    """What is odd about a set-up, whether or not it starts."""
    draft = active_draft(scenario)
    found = [*replicated_heads("target", scenario.target, target_head_ranks(scenario.deployment))]
    if draft is not None:
        found += replicated_heads("draft", draft.shape, draft_head_ranks(scenario.deployment))
        if scenario.deployment.attn_dcp_size > 1:
            times = scenario.deployment.attn_dcp_size
            found.append(f"replicated draft: every DCP rank keeps all draft rows, {times} for each row of the target")
    return (*found, *wide_draft(scenario), *low_ratio(scenario, answer))
