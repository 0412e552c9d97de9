"""What a law is: a sentence, the cells it claims, and one predicate over an answer.

A predicate gets a `Case`: the scenario, the implementation's answer, and a way to ask the same implementation about a
changed scenario (half of the laws compare two answers). It returns `HOLDS`, `NOT_JUDGED` where its premise is not
met, or `Broken` with the term that is off.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any

from spec.budget import available_bytes
from spec.capped import capped_swa_rows
from spec.draft import draft_price
from spec.dtypes import draft_kv_dtype
from spec.layers import CAPPED_POOL, pool_kind
from spec.model import AttentionShape, Draft, PoolSizes, Refusal, Refused, Scenario, active_draft
from spec.pools import bytes_per_token, rows_that_fit, stage_row_bytes
from spec.units import align_down
from spec.validity import check_scenario

Answer = PoolSizes | Refusal
Ask = Callable[[Scenario], Answer]
AskTokens = Callable[[Scenario, int], Answer]
Allocate = Callable[[Scenario, PoolSizes], tuple[int, ...]]

ANY_DRAFT_CELLS = ("*_same-*", "*_own-*")
"""Cells with a draft."""

SIZE_FIELDS = (
    "max_total_num_tokens",
    "full_max_total_num_tokens",
    "swa_max_total_num_tokens",
    "max_running_requests",
    "max_req_len",
)
ROW_FIELDS = SIZE_FIELDS[:3]


AMPLE_BYTES = 2**62
"""A budget no stage can exhaust: it keeps the other stages from setting N."""


class Outcome(Enum):
    """The two ways a law does not complain."""

    HOLDS = "holds"
    NOT_JUDGED = "not judged"


HOLDS = Outcome.HOLDS
NOT_JUDGED = Outcome.NOT_JUDGED


@dataclass(frozen=True)
class Broken:
    """A law does not hold: the term that is off, what was expected of it, what was got, and where it was seen."""

    term: str
    expected: object
    got: object
    where: str = ""


Verdict = Outcome | Broken


@dataclass(frozen=True)
class DraftResolution:
    """What an implementation knows of the draft at start-up, before any of its weights is loaded.

    bytes_per_row: bytes of one row of all its layers on one rank, DCP aside; None where they cannot be resolved.
    dtype: its KV dtype. warnings: what was said about it.
    """

    bytes_per_row: int | None
    dtype: str
    warnings: tuple[str, ...] = ()


Resolve = Callable[[Scenario], DraftResolution | None]


def unable(*_: object) -> Any:
    """What an implementation cannot be asked; a law that needs it names the ability in `Law.needs`."""
    raise NotImplementedError("the implementation does not offer this")


def is_valid(scenario: Scenario) -> bool:
    """Whether the spec would look at this scenario at all."""
    try:
        check_scenario(scenario)
    except Refused:
        return False
    return True


@dataclass(frozen=True)
class Case:
    """One judgement's input: the scenario, the answer, and the same implementation to ask about changed ones.

    ask: bytes to tokens. ask_tokens: the constraint path. resolve_draft: the draft as start-up resolves it, None
    without one. allocated_bytes: bytes it really allocates for given sizes, one number per pipeline stage. can_ask:
    whether it can judge a changed scenario at all. exact: False of an engine that sizes in float (`laws/floats.py`).
    """

    scenario: Scenario
    answer: Answer
    ask: Ask
    ask_tokens: AskTokens = unable
    resolve_draft: Resolve = unable
    allocated_bytes: Allocate = unable
    can_ask: Callable[[Scenario], bool] = is_valid
    exact: bool = True


@dataclass(frozen=True)
class Law:
    """One law: a stable id, its name, the sentence, globs of the cells it claims, the predicate.

    judges_reference: False where the spec cannot be judged because it is the yardstick. needs: the method of an
    implementation without which the law cannot be judged, "" where sizing is enough.
    """

    id: str
    name: str
    sentence: str
    cells: tuple[str, ...]
    predicate: Callable[[Case], Verdict]
    judges_reference: bool = True
    needs: str = ""

    def claims(self, cell: str) -> bool:
        """Whether the law gives a verdict in this cell."""
        return any(fnmatchcase(cell, glob) for glob in self.cells)


def draft_is_resolved(scenario: Scenario) -> bool:
    """Whether the draft in use, if any, is priced by what it will really hold: its geometry is read, and the dtype it
    resolves without its model is the one it has with it."""
    draft = active_draft(scenario)
    if draft is None:
        return True
    return draft.geometry_resolved and (
        draft_kv_dtype(scenario, draft) == draft_kv_dtype(scenario, draft, model_is_loaded=True)
    )


def stages(scenario: Scenario) -> range:
    """The pipeline stages."""
    return range(scenario.deployment.pp_size)


def with_budget(scenario: Scenario, stage_bytes: tuple[int, ...]) -> Scenario:
    """The same scenario with so many bytes on each stage."""
    return replace(scenario, budget=stage_bytes)


def with_draft_shape(scenario: Scenario, draft: Draft, shape: AttentionShape) -> Scenario:
    """The same scenario with another draft geometry."""
    return replace(scenario, draft=replace(draft, shape=shape))


def cap_may_bind(scenario: Scenario, rows: int) -> bool:
    """Whether the user cap, not the bytes, may have set the rows."""
    return scenario.max_total_tokens is not None and rows >= align_down(scenario.max_total_tokens, scenario.page_size)


def setting_stages(scenario: Scenario) -> list[int]:
    """The stages whose bytes set N: those that fit the fewest rows."""
    kind = pool_kind(scenario)
    rows = {}
    for stage, available in enumerate(available_bytes(scenario)):
        row_bytes = stage_row_bytes(scenario, stage)
        cell = bytes_per_token(kind, row_bytes, scenario.swa_full_tokens_ratio)
        paid = capped_swa_rows(scenario) * row_bytes.swa if kind == CAPPED_POOL else 0
        if cell > 0:
            rows[stage] = rows_that_fit(available - paid, cell, scenario.page_size)
    return [stage for stage, held in rows.items() if held == min(rows.values())]


def plain(scenario: Scenario) -> Scenario:
    """The same scenario without speculation, its draft fields left in place."""
    return replace(scenario, speculative_algorithm=None)


def plain_at_same_swa_rows(scenario: Scenario) -> Scenario | None:
    """The plain scenario. Capped kind: with its budget moved so that the SWA pool, whose rows depend on draft tokens,
    leaves as much to the target's full rows as it does with the draft; None where that is not possible."""
    without = plain(scenario)
    if pool_kind(scenario) != CAPPED_POOL:
        return without
    more_rows = capped_swa_rows(scenario) - capped_swa_rows(without)
    stage_bytes = tuple(
        available - more_rows * stage_row_bytes(without, stage).swa
        for stage, available in enumerate(available_bytes(scenario))
    )
    return with_budget(without, stage_bytes) if min(stage_bytes) > 0 else None


def first_difference(expected: Answer, got: Answer, fields: tuple[str, ...] = SIZE_FIELDS) -> Broken | None:
    """The first field in which two answers differ; refusals are compared by kind."""
    if isinstance(expected, Refusal) or isinstance(got, Refusal):
        expected_kind = expected.kind if isinstance(expected, Refusal) else "an answer"
        got_kind = got.kind if isinstance(got, Refusal) else "an answer"
        return None if expected_kind == got_kind else Broken("refusal", expected_kind, got_kind)
    for name in fields:
        if getattr(expected, name) != getattr(got, name):
            return Broken(name, getattr(expected, name), getattr(got, name))
    return None


def same_answers(expected: Answer, got: Answer, where: str, fields: tuple[str, ...] = SIZE_FIELDS) -> Verdict:
    """HOLDS when two answers agree in `fields`, or are refusals of one kind; else what differs first."""
    difference = first_difference(expected, got, fields)
    return HOLDS if difference is None else replace(difference, where=where)


def draft_bytes(scenario: Scenario, stage: int, sizes: PoolSizes) -> int:
    """Bytes the priced draft takes on one rank of `stage` for `sizes`."""
    price = draft_price(scenario, stage)
    return sizes.max_total_num_tokens * price.full + sizes.swa_max_total_num_tokens * price.swa
