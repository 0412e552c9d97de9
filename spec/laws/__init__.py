"""Every law once: id, name, sentence, the cells it claims, the predicate. Ids are stable; the sentence of a law is the
docstring of its test in `properties/`.

Letters in the sentences: A available bytes of a stage; F, S, D bytes of one full row over all full layers a rank
holds, of one SWA row over all its SWA layers, of all draft rows per full row (all-window: per SWA row); r the ratio,
P the page, N the tokens sold, cell the bytes per token of the pool kind.
"""

from spec.laws.answers import agrees_with_the_spec, nothing_non_positive_leaves_sizing
from spec.laws.base import ANY_DRAFT_CELLS, Law
from spec.laws.budget import (
    fits_the_budget,
    more_memory_never_buys_less,
    sells_whole_pages,
    wastes_less_than_a_page,
)
from spec.laws.draft import (
    a_draft_only_shrinks_the_budget,
    exact_when_the_draft_matches_the_target,
    the_draft_is_priced_by_its_own_geometry,
    zero_draft_layers_cost_nothing,
)
from spec.laws.ranks import a_rank_holds_its_heads
from spec.laws.windows import an_all_window_model_ignores_the_ratio

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
        "R1",
        "a rank holds its heads",
        "Heads per rank are never zero, replicated when ranks outnumber heads, none lost; full, SWA and draft each.",
        ALL_CELLS,
        a_rank_holds_its_heads,
    ),
    Law(
        "W1",
        "an all-window model ignores the ratio",
        "Without a full pool the ratio changes no size.",
        ("allswa-*",),
        an_all_window_model_ignores_the_ratio,
    ),
    Law(
        "E2",
        "nothing non-positive leaves sizing",
        "Tokens, each pool that has layers, running requests and request length are above zero.",
        ALL_CELLS,
        nothing_non_positive_leaves_sizing,
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
