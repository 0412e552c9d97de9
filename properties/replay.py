"""`--kv-replay FILE`: one case judged, and every number on the way to the answer printed."""

from collections.abc import Iterator
from dataclasses import fields
from fractions import Fraction

import pytest

from properties.case_files import RecordedCase, as_json
from properties.cells import cell_if_any
from properties.context import Context, can_be_asked
from properties.judge import UnlistedAnswer, Unsupported, listed_answer, told, verdict
from properties.show import answer_text, figure, paste_able, row_text, table
from properties.side_by_side import side_by_side
from spec.laws import BY_ID
from spec.laws.base import HOLDS, SIZE_FIELDS, Answer, Broken, Law
from spec.model import PoolSizes, Refusal, Scenario
from spec.pools import size_pools
from spec.terms import BudgetTerms, ModelTerms, StageTerms, budget_terms, stage_parts

NO_ROWS = PoolSizes(0, 0, 0, 0, 0)
"""What a refusal allocates: a row has its bytes all the same."""


def number(value: object) -> str:
    """A figure, a refusal by its kind, `-` for none."""
    if value is None:
        return "-"
    if isinstance(value, Refusal):
        return f"refused: {value.kind}"
    return f"{value.numerator:,}" if isinstance(value, Fraction) and value.denominator == 1 else figure(value)


def named(record: object) -> list[list[str]]:
    """Name and value of every field of a record."""
    return [[field.name, number(getattr(record, field.name))] for field in fields(record)]  # type: ignore[arg-type]


def model_rows(models: tuple[ModelTerms, ...]) -> str:
    """Dtype and heads per rank of target and draft."""
    names = [field.name for field in fields(ModelTerms)]
    return table(names, [[number(getattr(model, name)) for name in names] for model in models])


def stage_columns(stages: tuple[StageTerms, ...]) -> str:
    """A column a stage: its layers, A, F, S, D, the bytes per token, and the rows they give."""
    columns = [
        [("layers", ", ".join(f"{count} {kind}" for kind, count in stage.layers if count) or "none")]
        + [(name, value) for name, value in named(stage) if name not in ("stage", "layers")]
        for stage in stages
    ]
    rows = [[row[0][0], *(value for _, value in row)] for row in zip(*columns, strict=True)]
    return table(["", *(f"stage {stage.stage}" for stage in stages)], rows)


def part_rows(scenario: Scenario, sizes: PoolSizes, stage: int) -> str:
    """Bytes of a row by part, rows, and bytes allocated, pool by pool."""
    header = ["part", "buffers", "bytes a row", "rows", "bytes sold", "bytes spare"]
    rows = [
        [f"{part.owner} {part.pool} {part.name}"]
        + [number(value) for value in (part.buffers, part.row_bytes, part.rows, part.sold_bytes, part.spare_bytes)]
        for part in stage_parts(scenario, sizes, stage)
    ]
    return table(header, rows)


def terms_sections(terms: BudgetTerms) -> Iterator[tuple[str, str]]:
    """How the spec comes to its answer."""
    yield f"models ({terms.pool_kind} pool)", model_rows(terms.models)
    yield "one rank of each stage", stage_columns(terms.stages)
    yield "agreed by all ranks", table(["", "rows"], named(terms.agreed))


def answer_rows(answers: dict[str, Answer | str]) -> str:
    """Answers side by side; one that is no size is told below."""
    sizes = {who: answer for who, answer in answers.items() if isinstance(answer, PoolSizes)}
    rows = [[name, *(number(getattr(answer, name)) for answer in sizes.values())] for name in SIZE_FIELDS]
    others = [row_text(who, answer_text(answer)) for who, answer in answers.items() if who not in sizes]
    return "\n".join([table(["", *sizes], rows), *others] if sizes else others)


def bytes_line(stage: int, taken: int, terms: BudgetTerms) -> str:
    """What is taken of what there is on one rank of a stage."""
    available = terms.stages[stage].available_bytes
    beyond = f"OVER by {taken - available:,}" if taken > available else f"{available - taken:,} left"
    return f"stage {stage}: {taken:,} of {available:,} bytes, {beyond}"


def allocated_sections(
    scenario: Scenario, answer: Answer | str, context: Context, terms: BudgetTerms
) -> Iterator[tuple[str, str]]:
    """What the implementation's answer allocates by the spec's accounting, and by its own pools where it builds any."""
    sizes = answer if isinstance(answer, PoolSizes) else NO_ROWS
    for stage in range(len(terms.stages)):
        taken = sum(part.sold_bytes for part in stage_parts(scenario, sizes, stage))
        line = bytes_line(stage, taken, terms) if sizes is not NO_ROWS else f"stage {stage}: nothing is sold"
        yield f"allocated for the implementation's answer, {line}", part_rows(scenario, sizes, stage)
    if sizes is not NO_ROWS and hasattr(context.implementation, "allocated_bytes"):
        yield "allocated by its own pools, spare rows included", own_pools_text(scenario, sizes, context)


def own_pools_text(scenario: Scenario, sizes: PoolSizes, context: Context) -> str:
    """Bytes of the pools the implementation builds, on one rank of each stage."""
    try:
        taken = told(context.implementation, "allocated_bytes", scenario, sizes)
    except (UnlistedAnswer, Unsupported) as said:
        return row_text("said", str(said))
    return "\n".join(row_text(f"stage {stage}", f"{stage_bytes:,}") for stage, stage_bytes in enumerate(taken))


def answered(context: Context, scenario: Scenario) -> Answer | str:
    """The implementation's answer, or what it said in place of one."""
    try:
        return listed_answer(context.implementation, scenario)
    except (UnlistedAnswer, Unsupported) as said:
        return str(said)


def judged(law: Law, context: Context, scenario: Scenario) -> tuple[str, str]:
    """The verdict on the case in one word, and what is off."""
    try:
        outcome, _ = verdict(law, context.implementation, scenario)
    except Unsupported as reason:
        return "not supported", str(reason)
    if not isinstance(outcome, Broken):
        return outcome.value, ""
    where = f" ({outcome.where})" if outcome.where else ""
    return "BROKEN", f"{outcome.term}: expected {figure(outcome.expected)}, got {figure(outcome.got)}{where}"


def sections(case: RecordedCase, context: Context) -> Iterator[tuple[str, str]]:
    """Everything but the verdict: a title and its text."""
    scenario = case.scenario
    yield "scenario", row_text("", paste_able(scenario)).lstrip()
    terms, answer = budget_terms(scenario), answered(context, scenario)
    if isinstance(terms, BudgetTerms):
        yield from terms_sections(terms)
        yield "side by side", side_by_side(context.implementation, scenario, terms)
    changed = case.answer is not None and as_json(Answer, case.answer) != as_json(Answer, answer)
    recorded = {"in the file": case.answer} if case.answer is not None and changed else {}
    yield "answers", answer_rows({context.implementation.name: answer, "the spec": size_pools(scenario), **recorded})
    if isinstance(terms, BudgetTerms):
        yield from allocated_sections(scenario, answer, context, terms)


def claims(law: Law, cell: str) -> bool:
    """Whether a law is asked of a case in a cell, "" for none."""
    return law.claims(cell) if cell else law.id == "E1"


def replay(case: RecordedCase, context: Context, *, laws_are_given: bool) -> int:
    """Print the case and judge it: by `--kv-law` where it is given, else by the law in the file, else by all; by those
    of them that claim its cell. What is not valid has no cell: E1 asks that it is refused. Exit code 1 where a law is
    broken, 0 where one holds, 5 where none judges it."""
    print("\n".join(context.header()[:1]))
    for title, text in sections(case, context):
        print(f"\n{title}\n{text}")
    laws = context.laws if laws_are_given or case.law is None else (BY_ID[case.law],)
    cell = str(cell_if_any(case.scenario) or "")
    asked = [law for law in laws if can_be_asked(context.implementation, law) and claims(law, cell)]
    verdicts = {law: judged(law, context, case.scenario) for law in asked}
    print("\nverdict")
    for law, (word, why) in verdicts.items():
        print(row_text(f"{law.id} {word}", f"{law.sentence}" + (f"\n{why}" if why else "")))
    words = {word for word, _ in verdicts.values()}
    if "BROKEN" in words:
        return int(pytest.ExitCode.TESTS_FAILED)
    return int(pytest.ExitCode.OK if HOLDS.value in words else pytest.ExitCode.NO_TESTS_COLLECTED)
