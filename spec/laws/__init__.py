"""Every law once: id, name, sentence, the cells it claims, the predicate. Ids are stable; the sentence of a law is the
docstring of its test in `properties/`.

Letters in the sentences: A available bytes of a stage; F, S, D bytes of one full row over all full layers a rank
holds, of one SWA row over all its SWA layers, of all draft rows per full row (all-window: per SWA row); r the ratio,
P the page, N the tokens sold, cell the bytes per token of the pool kind. An engine that sizes in float is judged as
`floats.py` says.
"""

from spec.laws.allocation import price_equals_allocation
from spec.laws.answers import (
    advice_starts,
    agrees_with_the_spec,
    nothing_non_positive_leaves_sizing,
    refuses_exactly_when_the_spec_does,
)
from spec.laws.base import ANY_DRAFT_CELLS, Law
from spec.laws.budget import (
    fits_the_budget,
    more_memory_never_buys_less,
    sells_whole_pages,
    wastes_less_than_a_page,
)
from spec.laws.caps import a_cap_is_honoured
from spec.laws.draft import (
    a_draft_only_shrinks_the_budget,
    exact_when_the_draft_matches_the_target,
    the_draft_is_priced_by_its_own_geometry,
    zero_draft_layers_cost_nothing,
)
from spec.laws.ranks import a_rank_holds_its_heads, every_rank_agrees, replication_is_paid_for
from spec.laws.resolve import (
    a_draft_worker_prices_no_draft,
    an_unresolved_draft_falls_back_to_the_layer_ratio,
    an_unresolved_dtype_is_never_priced_below_the_truth,
    only_the_algorithm_in_use_is_priced,
)
from spec.laws.scale import bytes_scale_out, layers_are_a_sum, nothing_that_costs_helps, sizing_inverts_pricing
from spec.laws.windows import (
    a_started_window_pool_admits_a_request,
    an_all_window_model_ignores_the_ratio,
    full_rows_come_with_their_draft_rows,
)

ALL_CELLS = ("*",)

LAWS = (
    Law(
        "B1",
        "fits the budget",
        "All pools of every rank, draft included, spare rows aside, never exceed its bytes.",
        ALL_CELLS,
        fits_the_budget,
    ),
    Law(
        "B2",
        "wastes less than a page",
        "Where no user cap binds, (N + P) * cell > A on at least one rank (capped: after the SWA pool is paid), and a "
        "hybrid SWA pool has r*N - P < swa <= r*N on every rank.",
        ALL_CELLS,
        wastes_less_than_a_page,
    ),
    Law(
        "B3",
        "sizing inverts pricing",
        "Default, mla, all-window, capped: sizing the bytes of a size gives it back. Hybrid: sizing ceil(N * "
        "cell) on each rank gives N, one byte less gives N - P where P * cell >= 1 on every rank, and sizing "
        "the allocated bytes never gives more.",
        ALL_CELLS,
        sizing_inverts_pricing,
    ),
    Law(
        "B4",
        "whole pages",
        "Every pool is whole pages, on the profile path and after a user cap.",
        ALL_CELLS,
        sells_whole_pages,
    ),
    Law(
        "B5",
        "more memory never buys less",
        "More memory never buys fewer tokens, and never turns a start into a refusal (capped: where no user cap is "
        "below the fixed SWA rows).",
        ALL_CELLS,
        more_memory_never_buys_less,
    ),
    Law(
        "B6",
        "nothing that costs helps",
        "Within one kind, one layer-to-stage map and one count of SWA rows (capped), more heads, wider heads, "
        "more layers, more bytes a row, a deeper draft, more replication never raise rows per rank.",
        ALL_CELLS,
        nothing_that_costs_helps,
    ),
    Law(
        "B7",
        "bytes scale out",
        "Budget and every row cost times k sells the same tokens.",
        ALL_CELLS,
        bytes_scale_out,
    ),
    Law(
        "B8",
        "layers are a sum",
        "Within a rank and a pool, order and grouping of layers do not matter; a pool-wide workspace counts once.",
        ALL_CELLS,
        layers_are_a_sum,
    ),
    Law(
        "D1",
        "zero draft layers cost nothing",
        "A draft of no layers gives exactly the plain answer (capped: at the same SWA rows).",
        ANY_DRAFT_CELLS,
        zero_draft_layers_cost_nothing,
    ),
    Law(
        "D2",
        "exact when the draft matches the target",
        "Layer ratio and own geometry agree when each draft layer's bytes per row equal each target layer's on this "
        "rank, all target layers alike and every draft layer on those rows.",
        ("*_same-*-same",),
        exact_when_the_draft_matches_the_target,
    ),
    Law(
        "D3",
        "a draft only shrinks the budget",
        "Rows of no pool rise (capped: at the same SWA rows), and on the rank that sets N the target loses less than "
        "the draft's bytes and a page; or the draft turns the start into a refusal.",
        ANY_DRAFT_CELLS,
        a_draft_only_shrinks_the_budget,
    ),
    Law(
        "D4",
        "the draft is priced by its own geometry",
        "Swapping target or draft fields that leave bytes per row unchanged changes no size; changing the draft's "
        "bytes moves only the draft's term.",
        ANY_DRAFT_CELLS,
        the_draft_is_priced_by_its_own_geometry,
    ),
    Law(
        "D5",
        "an unresolved draft falls back",
        "A draft whose geometry is not resolved falls back to the layer ratio, says so once, and start-up goes on.",
        ANY_DRAFT_CELLS,
        an_unresolved_draft_falls_back_to_the_layer_ratio,
        needs="resolve_draft",
    ),
    Law(
        "D6",
        "an unresolved dtype is safe",
        "A draft dtype that is not resolved is never priced below the truth.",
        ANY_DRAFT_CELLS,
        an_unresolved_dtype_is_never_priced_below_the_truth,
        needs="resolve_draft",
    ),
    Law(
        "D7",
        "only the algorithm in use is priced",
        "The plain path ignores every draft field, draft tokens included.",
        ALL_CELLS,
        only_the_algorithm_in_use_is_priced,
    ),
    Law(
        "D8",
        "a draft worker prices no draft",
        "The draft worker of every algorithm ignores every draft field, draft tokens included.",
        ALL_CELLS,
        a_draft_worker_prices_no_draft,
    ),
    Law(
        "R1",
        "a rank holds its heads",
        "Heads per rank are never zero, replicated when ranks outnumber heads, none lost; full, SWA and draft each.",
        ALL_CELLS,
        a_rank_holds_its_heads,
    ),
    Law(
        "R2",
        "every rank agrees",
        "Every rank agrees on the rows, and the agreed number fits on each.",
        ALL_CELLS,
        every_rank_agrees,
    ),
    Law(
        "R3",
        "replication is paid for",
        "A row kept on every DCP rank costs that many rows per target row.",
        ("*-dcp-*",),
        replication_is_paid_for,
    ),
    Law(
        "W1",
        "an all-window model ignores the ratio",
        "Without a full pool the ratio changes no size.",
        ("allswa-*",),
        an_all_window_model_ignores_the_ratio,
    ),
    Law(
        "W2",
        "a window pool admits a request",
        "A started window pool, after a user cap too, admits a request.",
        ("hybrid-*", "allswa-*", "capped-*"),
        a_started_window_pool_admits_a_request,
    ),
    Law(
        "W3",
        "full rows come with draft rows",
        "Full rows are sold only with their draft rows; where no user cap binds, less than P * (F + D) is "
        "left on the rank that sets N.",
        ("capped-*",),
        full_rows_come_with_their_draft_rows,
    ),
    Law(
        "C1",
        "a cap is honoured",
        "The answer is the smaller of cap and uncapped, aligned; not binding, a cap changes nothing; the same "
        "cap twice changes nothing; more cap never buys less; and it still fits.",
        ALL_CELLS,
        a_cap_is_honoured,
        needs="size_pools_from_max_tokens",
    ),
    Law(
        "A1",
        "price equals allocation",
        "Bytes per row equal the slope of the really allocated tensors; the intercept is the spare rows, nothing else.",
        ALL_CELLS,
        price_equals_allocation,
        needs="allocated_bytes",
    ),
    Law(
        "E1",
        "refuses when the spec does",
        "An implementation refuses exactly when the spec does, with a listed kind that names what is short; a cap "
        "refusal names the cap.",
        ALL_CELLS,
        refuses_exactly_when_the_spec_does,
    ),
    Law(
        "E2",
        "nothing non-positive leaves sizing",
        "Tokens, each pool that has layers, running requests and request length are above zero.",
        ALL_CELLS,
        nothing_non_positive_leaves_sizing,
    ),
    Law(
        "E3",
        "advice starts",
        "A refusal for want of memory advises the smallest mem_fraction_static below 1 that starts, or says that none "
        "does.",
        ALL_CELLS,
        advice_starts,
    ),
    Law(
        "Q1",
        "agreement",
        "The implementation equals the spec, field by field.",
        ALL_CELLS,
        agrees_with_the_spec,
        judges_reference=False,
    ),
)
"""In the order of the table in README.md."""

BY_ID = {law.id: law for law in LAWS}
