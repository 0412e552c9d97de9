"""Every term of one budget as an equation: in names, in the reader's numbers, and what the formula in `spec/` returns.

`numbers` is Python with the names of `spec/units.py`, `floor`, `min` and `max`, and with separators: the tests work it
out again. `//` rounds down, `/` does not.
"""

from collections.abc import Iterator
from dataclasses import replace

from spec.budget import profiled_bytes
from spec.capped import capped_swa_rows, decode_alloc_tokens, request_limit, swa_rows_per_request
from spec.explain.rows import Equation, draft_terms, model_rows, models, sum_of, target_terms
from spec.explain.setup import Setup
from spec.explain.wording import number_text
from spec.layers import (
    ALL_WINDOW_POOL,
    CAPPED_POOL,
    HYBRID_POOL,
    attn_tp_size,
    draft_head_ranks,
    target_head_ranks,
)
from spec.model import MemoryFigures, Refusal, Scenario, active_draft
from spec.pools import MAX_REQUESTS, MIN_REQUESTS, TOKENS_PER_REQUEST_SCALE
from spec.terms import AgreedTerms, BudgetTerms, StageTerms, budget_terms

ROWS, TOKEN, MEMORY, TOKENS, LIMITS = "One row in one layer", "One token", "Available bytes", "Tokens", "Limits"
SECTIONS = (ROWS, TOKEN, MEMORY, TOKENS, LIMITS)
"""The headings, in the order in which a budget is worked out."""


def rank_equations(scenario: Scenario) -> Iterator[Equation]:
    """Ranks that split the heads, where there is more than one."""
    deployment, draft = scenario.deployment, active_draft(scenario)
    if deployment.tp_size == 1:
        return
    tp, dp, dcp = deployment.tp_size, deployment.attn_dp_size, deployment.attn_dcp_size
    size = attn_tp_size(deployment)
    names = ("ranks of an attention replica", "tp // dp", f"{tp} // {dp}", size, "ranks", "layers.attn_tp_size")
    yield Equation(ROWS, "attn_tp", *names)
    ranks, where = target_head_ranks(deployment), "ranks that split the target's heads"
    yield Equation(
        ROWS, "target ranks", where, "attn_tp // dcp", f"{size} // {dcp}", ranks, "ranks", "layers.target_head_ranks"
    )
    if draft is not None:
        ranks, where = draft_head_ranks(deployment), "ranks that split the draft's heads: DCP does not shard it"
        yield Equation(ROWS, "draft ranks", where, "attn_tp", f"{size}", ranks, "ranks", "layers.draft_head_ranks")


def token_equations(scenario: Scenario, terms: StageTerms, kind: str) -> Iterator[Equation]:
    """F, S, D and the cell of one stage."""
    full, swa = target_terms(scenario, terms.stage)
    draft_full, draft_swa = draft_terms(scenario, terms.stage)
    dcp = scenario.deployment.attn_dcp_size
    letters = []
    if kind != ALL_WINDOW_POOL:
        letters.append("F")
        meaning, source = "one full row over all full layers of a rank", "cell.target_full_row_bytes"
        yield Equation(TOKEN, "F", meaning, *sum_of(full), terms.full_row_bytes, "bytes", source)
    if kind in (HYBRID_POOL, ALL_WINDOW_POOL, CAPPED_POOL):
        letters.append("S" if kind == ALL_WINDOW_POOL else "r * S")
        meaning = "one SWA row over all SWA layers of a rank, the draft's that follow them too"
        both = sum_of(swa + draft_swa)
        yield Equation(TOKEN, "S", meaning, *both, terms.swa_row_bytes, "bytes", "pools.stage_row_bytes")
    if active_draft(scenario) is not None:
        letters.append("D")
        meaning = "all draft rows of one row sold"
        priced = terms.draft_row_bytes
        yield Equation(TOKEN, "D", meaning, *sum_of(draft_full, dcp), priced, "bytes", "draft.exact_draft_price")
    if kind == CAPPED_POOL:
        letters.remove("r * S")
    values = {
        "F": number_text(terms.full_row_bytes),
        "S": number_text(terms.swa_row_bytes),
        "r * S": f"{number_text(scenario.swa_full_tokens_ratio)} * {number_text(terms.swa_row_bytes)}",
        "D": number_text(terms.draft_row_bytes),
    }
    numbers = " + ".join(values[letter] for letter in letters)
    meaning = "bytes per token sold" + (", its SWA rows aside" if kind == CAPPED_POOL else "")
    yield Equation(
        TOKEN, "cell", meaning, " + ".join(letters), numbers, terms.token_bytes, "bytes", "pools.bytes_per_token"
    )


def memory_equations(setup: Setup) -> Iterator[Equation]:
    """A of a rank: measured, or as given."""
    budget = setup.scenario.budget
    if not isinstance(budget, MemoryFigures):
        given = number_text(budget[0])
        yield Equation(
            MEMORY, "A", "available bytes, as given", "available_bytes", given, budget[0], "bytes", "model.Scenario"
        )
        return
    before, after = budget.free_before_load[0][0], budget.free_after_all_weights[0][0]
    weights = [setup.weight_bytes or 0] + ([] if setup.draft_weight_bytes is None else [setup.draft_weight_bytes])
    formula = "gpu - weights" + (" - draft weights" if len(weights) > 1 else "")
    numbers = " - ".join(number_text(count) for count in (before, *weights))
    yield Equation(MEMORY, "free", "free after all weights", formula, numbers, after, "bytes", "budget.least_reading")
    fraction = number_text(budget.mem_fraction_static)
    yield Equation(
        MEMORY,
        "A",
        "available bytes: what is free, less the share that stays out of the static part",
        "floor(free - gpu * (1 - mem_fraction_static))",
        f"floor({number_text(after)} - {number_text(before)} * (1 - {fraction}))",
        profiled_bytes(budget),
        "bytes",
        "budget.static_bytes",
    )


def capped_equations(scenario: Scenario, terms: StageTerms) -> Iterator[Equation]:
    """The SWA rows of a capped pool, paid before any full row. The reader's command line has no decode role."""
    draft, page = active_draft(scenario), scenario.page_size
    window, chunk = scenario.target.sliding_window_size or 0, scenario.chunked_prefill_size or 0
    tokens = 1 if draft is None else draft.num_draft_tokens
    late, ahead = max(1, scenario.swa_eviction_interval), decode_alloc_tokens(scenario)
    each, requests = swa_rows_per_request(scenario), request_limit(scenario)
    yield Equation(
        TOKENS,
        "rows of a request",
        "SWA rows one running request may hold",
        "window + eviction_interval * draft_tokens + P + ahead",
        f"{window} + {late} * {tokens} + {page} + {ahead}",
        each,
        "rows",
        "capped.swa_rows_per_request",
    )
    chunks = 1 if scenario.disable_overlap_schedule else 2
    rows = capped_swa_rows(scenario)
    yield Equation(
        TOKENS,
        "swa",
        "SWA rows of the most requests, and of the prefill in flight",
        "align_up(rows of a request * requests + chunks * chunked_prefill_size + P, P)",
        f"align_up({each} * {requests} + {chunks} * {chunk} + {page}, {page})",
        rows,
        "rows",
        "capped.capped_swa_rows",
    )
    numbers = f"{number_text(rows)} * {number_text(terms.swa_row_bytes)}"
    yield Equation(
        TOKENS, "paid", "bytes of these SWA rows", "swa * S", numbers, terms.paid_bytes, "bytes", "pools.stage_rows"
    )


def stage_equations(scenario: Scenario, terms: StageTerms, kind: str) -> Iterator[Equation]:
    """N of one stage, where it holds anything that costs."""
    page = scenario.page_size
    available = number_text(terms.available_bytes)
    formula, numbers = "align_down(A // cell, P)", available
    if kind == CAPPED_POOL:
        yield from capped_equations(scenario, terms)
        formula, numbers = "align_down((A - paid) // cell, P)", f"({available} - {number_text(terms.paid_bytes)})"
    if terms.rows is not None:
        numbers = f"align_down({numbers} // {number_text(terms.token_bytes)}, {page})"
        meaning = "rows a rank can hold, in whole pages"
        yield Equation(TOKENS, "N", meaning, formula, numbers, terms.rows, "rows", "pools.rows_that_fit")


def agreed_equations(scenario: Scenario, terms: BudgetTerms) -> Iterator[Equation]:
    """What every rank sells: the smallest N, the cap, the SWA rows, the tokens."""
    agreed, page = terms.agreed, scenario.page_size
    held = [stage.rows for stage in terms.stages if stage.rows is not None]
    if len(terms.stages) > 1:
        numbers = f"min([{', '.join(map(number_text, held))}])"
        yield Equation(
            TOKENS,
            "N",
            "the smallest of the stages",
            "min(N of a stage)",
            numbers,
            agreed.rows,
            "rows",
            "pools.agreed_rows",
        )
    if scenario.max_total_tokens is not None:
        numbers = f"align_down(min({number_text(scenario.max_total_tokens)}, {number_text(agreed.rows)}), {page})"
        formula = "align_down(min(max_total_tokens, N), P)"
        yield Equation(
            TOKENS, "N", "after the user cap", formula, numbers, agreed.kept_rows, "rows", "pools.capped_rows"
        )
    if terms.pool_kind == HYBRID_POOL:
        ratio = number_text(scenario.swa_full_tokens_ratio)
        numbers = f"align_down(floor({ratio} * {number_text(agreed.kept_rows)}), {page})"
        yield Equation(
            TOKENS,
            "swa",
            "SWA rows",
            "align_down(floor(r * N), P)",
            numbers,
            agreed.swa_rows,
            "rows",
            "pools.hybrid_swa_rows",
        )
    dcp = scenario.deployment.attn_dcp_size
    if dcp > 1:
        numbers = f"{number_text(agreed.kept_rows)} * {dcp}"
        meaning = "logical tokens: DCP ranks hold different rows"
        yield Equation(
            TOKENS, "tokens", meaning, "N * dcp", numbers, agreed.kept_rows * dcp, "tokens", "model.PoolSizes"
        )


def limit_equations(scenario: Scenario, agreed: AgreedTerms) -> Iterator[Equation]:
    """Admission, running requests, the longest request; what is refused has no equation."""
    rows, page = number_text(agreed.kept_rows), scenario.page_size
    if agreed.admission_floor is not None:
        window = scenario.target.sliding_window_size
        yield Equation(
            LIMITS,
            "floor",
            "SWA rows that admit one request",
            "window + 2 * P",
            f"{window} + 2 * {page}",
            agreed.admission_floor,
            "rows",
            "pools.admission_floor",
        )
    if not isinstance(agreed.running_requests, Refusal):
        if scenario.user_max_running_requests is None:
            scale, context = TOKENS_PER_REQUEST_SCALE, scenario.context_len
            wanted = f"max({MIN_REQUESTS}, min({rows} * {scale} // {context}, {MAX_REQUESTS}))"
            formula = f"min(max({MIN_REQUESTS}, min(N * {scale} // context, {MAX_REQUESTS})), N // 2)"
        else:
            wanted = f"max(1, {scenario.user_max_running_requests} // {scenario.deployment.attn_dp_size})"
            formula = "min(max(1, max_running_requests // dp), N // 2)"
        yield Equation(
            LIMITS,
            "requests",
            "running requests of one replica",
            formula,
            f"min({wanted}, {rows} // 2)",
            agreed.running_requests,
            "requests",
            "pools.running_requests",
        )
    if not isinstance(agreed.request_length, Refusal):
        numbers = f"min({scenario.context_len} - 1, {rows} * {scenario.deployment.attn_dcp_size} - 1)"
        yield Equation(
            LIMITS,
            "length",
            "the longest request",
            "min(context - 1, N * dcp - 1)",
            numbers,
            agreed.request_length,
            "tokens",
            "pools.request_length",
        )


def of_stage(equation: Equation, stage: int, stages: int) -> Equation:
    """The equation with its stage in the meaning, where there are several."""
    return equation if stages == 1 else replace(equation, meaning=f"stage {stage}: {equation.meaning}")


def equations(setup: Setup) -> tuple[Equation, ...]:
    """Every equation of a valid scenario, up to the one that leaves nothing."""
    scenario = setup.scenario
    found = [*rank_equations(scenario)]
    for model in models(scenario):
        found += model_rows(model)
    terms = budget_terms(scenario)
    if isinstance(terms, Refusal):
        return (*found, *memory_equations(setup))
    kind, stages = terms.pool_kind, len(terms.stages)
    for stage in terms.stages:
        found += [of_stage(equation, stage.stage, stages) for equation in token_equations(scenario, stage, kind)]
    found += memory_equations(setup)
    for stage in terms.stages:
        found += [of_stage(equation, stage.stage, stages) for equation in stage_equations(scenario, stage, kind)]
    return (*found, *agreed_equations(scenario, terms), *limit_equations(scenario, terms.agreed))
