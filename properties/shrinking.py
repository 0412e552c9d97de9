"""The smallest scenario that shows what a finding shows: the corpus is drawn again and shrunk by Hypothesis, and then
the bytes are cut, which a draw of whole GiB cannot be."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from fractions import Fraction
from math import ceil
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import HypothesisException
from hypothesis.strategies import SearchStrategy

from impl import Implementation
from properties.any_number import ANY_SCENARIOS, is_asked
from properties.cells import Cell, cell_of
from properties.corpus import cell_seed, no_constants_of_ours
from properties.judge import Finding, Unsupported, verdict
from properties.strategies import SCENARIOS
from spec.budget import available_bytes
from spec.capped import capped_swa_rows
from spec.laws.base import Broken, is_valid, with_draft_shape
from spec.layers import CAPPED_POOL, pool_kind
from spec.model import AttentionShape, Refused, Scenario, active_draft
from spec.pools import bytes_per_token, stage_row_bytes

MORE_DRAWS = 300
"""Scenarios drawn where those of the corpus do not show it: the finding is a real model."""
CUTS = (1000, 10, 2)
"""Divisors to cut bytes by, the boldest first."""

FEW_PAGES = range(1, 7)

Breaks = Callable[[Scenario], Broken | None]


class Shown(Exception):
    """Raised for a scenario that shows what is looked for, so that Hypothesis shrinks it."""


def smallest(finding: Finding, implementation: Implementation, draws: int, run_seed: int) -> Finding:
    """The finding on the smallest scenario that breaks the same law in the same term, in a corpus of `draws` draws; as
    it is where there is none, or where the implementation answers one question in two ways."""

    def breaks(scenario: Scenario) -> Broken | None:
        try:
            outcome, _ = verdict(finding.law, implementation, scenario)
        except Unsupported:
            return None
        return outcome if isinstance(outcome, Broken) and outcome.term == finding.broken.term else None

    any_number = is_asked(finding.law.id, implementation)
    shrunk = (
        shrunk_draw(finding.cell, breaks, draws, run_seed)
        or shrunk_draw(finding.cell, breaks, MORE_DRAWS, run_seed)
        or (any_number and shrunk_draw(finding.cell, breaks, draws, run_seed, ANY_SCENARIOS))
        or finding.scenario
    )
    scenario = at_defaults(reduced(shrunk, breaks), breaks)
    broken = breaks(scenario)
    return finding if broken is None else replace(finding, scenario=scenario, broken=broken)


LEFT_OUT = (
    "window_pools",
    "chunked_prefill_size",
    "swa_eviction_interval",
    "swa_full_tokens_ratio",
    "context_len",
    "attention_backend",
)
"""Fields that are left out of a case where their default shows it too."""


def at_defaults(scenario: Scenario, breaks: Breaks) -> Scenario:
    """The scenario with each of these fields at its default, as long as it breaks and stays in its cell: what a case
    does not name does not matter."""
    defaults: dict[str, Any] = {field.name: field.default for field in fields(Scenario)}
    for name in LEFT_OUT:
        plain = replace(scenario, **{name: defaults[name]})
        if plain != scenario and is_valid(plain) and cell_of(plain) == cell_of(scenario) and breaks(plain) is not None:
            scenario = plain
    return scenario


def shrunk_draw(
    cell: Cell,
    breaks: Breaks,
    draws: int,
    run_seed: int,
    strategies: Mapping[Cell, SearchStrategy[Scenario]] = SCENARIOS,
) -> Scenario | None:
    """The smallest scenario of a cell that breaks, found among the very draws its corpus of this size consists of."""
    shown: list[Scenario] = []

    @seed(cell_seed(cell, run_seed))
    @settings(
        max_examples=draws,
        phases=(Phase.generate, Phase.shrink),
        database=None,
        deadline=None,
        suppress_health_check=tuple(HealthCheck),
        print_blob=False,
    )
    @given(strategies[cell])
    def hunt(scenario: Scenario) -> None:
        if breaks(scenario) is not None:
            shown.append(scenario)
            raise Shown

    try:
        with no_constants_of_ours():
            hunt()
    except Shown:
        return shown[-1]
    except HypothesisException:
        pass
    return None


def on_fewer_stages(scenario: Scenario) -> Iterator[Scenario]:
    """The scenario on two stages."""
    deployment, budget = scenario.deployment, scenario.budget
    if deployment.pp_size > 2 and isinstance(budget, tuple):
        yield replace(scenario, deployment=replace(deployment, pp_size=2), budget=budget[:2])


def in_plain_windows(scenario: Scenario) -> Iterator[Scenario]:
    """The scenario with an SWA row a full row and windows of a token, both or one, under its own cap or a smaller."""
    target = scenario.target
    square = replace(scenario, swa_full_tokens_ratio=Fraction(1))
    if (target.sliding_window_size or 1) == 1:
        plain = [square]
    else:
        of_a_token = replace(target, sliding_window_size=1)
        plain = [replace(square, target=of_a_token), square, replace(scenario, target=of_a_token)]
    for changed in plain:
        if changed != scenario:
            yield changed
            yield from under_a_smaller_cap(changed)


def under_a_smaller_cap(scenario: Scenario) -> Iterator[Scenario]:
    """The scenario without a user cap, or with one of a few pages, or of a token more."""
    cap = scenario.max_total_tokens
    if cap is not None:
        yield replace(scenario, max_total_tokens=None)
        smaller = [pages * scenario.page_size + more for pages in FEW_PAGES for more in (0, 1)]
        yield from (replace(scenario, max_total_tokens=tokens) for tokens in smaller if tokens < cap)


def on_a_few_pages(scenario: Scenario) -> Iterator[Scenario]:
    """The scenario on the bytes of a few pages, just so or with almost a page more."""
    budget = scenario.budget
    if not isinstance(budget, tuple):
        return
    kind, page_size = pool_kind(scenario), scenario.page_size
    rows = [stage_row_bytes(scenario, stage) for stage in range(len(budget))]
    cells = [bytes_per_token(kind, stage_rows, scenario.swa_full_tokens_ratio) for stage_rows in rows]
    fixed = capped_swa_rows(scenario) if kind == CAPPED_POOL else 0
    for pages in FEW_PAGES:
        for more in (0, page_size - Fraction(1, 2)):
            prices = [ceil((pages * page_size + more) * cell) for cell in cells]
            fewer = tuple(max(1, price + fixed * row.swa) for price, row in zip(prices, rows, strict=True))
            if max(fewer) < max(budget):
                yield replace(scenario, budget=fewer)


def cut_bytes(scenario: Scenario) -> Iterator[Scenario]:
    """The scenario on the bytes that its memory figures come to, or on fewer bytes: on all stages, then on one."""
    budget = scenario.budget
    if not isinstance(budget, tuple):
        with suppress(Refused):
            yield replace(scenario, budget=available_bytes(scenario))
        return
    for cut in CUTS:
        yield replace(scenario, budget=tuple(max(1, available // cut) for available in budget))
    for stage, available in enumerate(budget):
        for cut in CUTS:
            yield replace(scenario, budget=(*budget[:stage], max(1, available // cut), *budget[stage + 1 :]))


def on_smaller_pages(scenario: Scenario) -> Iterator[Scenario]:
    """The scenario in pages of one token, of a few, of half as many, on as many bytes and on as many pages."""
    page_size, budget = scenario.page_size, scenario.budget
    for smaller in (1, 2, 3, page_size // 2):
        if smaller < page_size and isinstance(budget, tuple):
            paged = replace(scenario, page_size=smaller)
            yield paged
            yield replace(paged, budget=tuple(max(1, available * smaller // page_size) for available in budget))


def with_fewer_layers(scenario: Scenario) -> Iterator[Scenario]:
    """The scenario with a layer less, of the target or of the draft, which keeps one."""
    for position in range(len(scenario.target.layers)):
        yield replace(scenario, target=without_layer(scenario.target, position))
    draft = active_draft(scenario)
    if draft is not None and len(draft.shape.layers) > 1:
        for position in range(len(draft.shape.layers)):
            yield with_draft_shape(scenario, draft, without_layer(draft.shape, position))


def without_layer(shape: AttentionShape, position: int) -> AttentionShape:
    """The shape with a layer less, and the index it may own."""
    index = shape.index and replace(
        shape.index, layers=tuple(owner - (owner > position) for owner in shape.index.layers if owner != position)
    )
    return replace(shape, layers=shape.layers[:position] + shape.layers[position + 1 :], index=index)


STEPS = (
    on_smaller_pages,
    on_fewer_stages,
    with_fewer_layers,
    in_plain_windows,
    under_a_smaller_cap,
    on_a_few_pages,
    cut_bytes,
)
"""Ways to make a scenario smaller, the boldest first."""


def reduced(scenario: Scenario, breaks: Breaks) -> Scenario:
    """The scenario made smaller step by step as long as it breaks and stays in its cell."""
    cell = cell_of(scenario)
    for step in STEPS:
        for smaller in step(scenario):
            if smaller != scenario and is_valid(smaller) and cell_of(smaller) == cell and breaks(smaller) is not None:
                return reduced(smaller, breaks)
    return scenario
