"""What a law is: a sentence, the cells it claims, and one predicate over an answer.

A predicate gets a `Case`: the scenario, the implementation's answer, and a way to ask the same implementation about a
changed scenario (half of the laws compare two answers). It returns `HOLDS`, `NOT_JUDGED` where its premise is not
met, or `Broken` with the term that is off.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase

from spec.budget import available_bytes
from spec.draft import draft_price
from spec.dtypes import draft_kv_dtype
from spec.layers import CAPPED_POOL, pool_kind
from spec.model import PoolSizes, Refusal, Scenario, active_draft
from spec.pools import capped_swa_rows, stage_row_bytes
from spec.units import align_down

Answer = PoolSizes | Refusal
Ask = Callable[[Scenario], Answer]

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
class Case:
    """One judgement's input. `implementation` is the name of who answered."""

    scenario: Scenario
    answer: Answer
    ask: Ask
    implementation: str = ""


@dataclass(frozen=True)
class Law:
    """One law: a stable id, its name, the sentence, globs of the cells it claims, the predicate.

    judges_reference: False where the spec cannot be judged because it is the yardstick.
    """

    id: str
    name: str
    sentence: str
    cells: tuple[str, ...]
    predicate: Callable[[Case], Verdict]
    judges_reference: bool = True

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


def capped_premise(scenario: Scenario) -> bool:
    """No user cap below the fixed SWA rows: there a cap takes SWA rows away as N grows."""
    if pool_kind(scenario) != CAPPED_POOL or scenario.max_total_tokens is None:
        return True
    return align_down(scenario.max_total_tokens, scenario.page_size) >= capped_swa_rows(scenario)


def stages(scenario: Scenario) -> range:
    """The pipeline stages."""
    return range(scenario.deployment.pp_size)


def with_budget(scenario: Scenario, stage_bytes: tuple[int, ...]) -> Scenario:
    """The same scenario with so many bytes on each stage."""
    return replace(scenario, budget=stage_bytes)


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
