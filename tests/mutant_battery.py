"""What a mutant must answer wrongly to be killed: questions with the answers of another derivation, and the suite's own
tests.

The gate compares the configurator with the spec (law Q1), real tensors with the accounting (A1), and lets every law
judge a right implementation and, in `make faults`, wrong ones. A question of these is asked here of the same corpora.
Answers are prepared once, by the derivation that is not mutated; the advice of a refusal, which spec and configurator
share, is left to the tests.
"""

import contextlib
import io
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import is_hypothesis_test

from impl.configurator import create_memory_pool_configurator
from impl.configurator_prices import stage_budgets
from impl.configurator_screen import screened_kinds
from impl.faults import FAULTS
from impl.optimized import Configurator
from impl.resolve import resolve_draft
from impl.torch_pools import allocated_bytes
from properties.cells import CELLS
from properties.judge import verdict
from spec.accounting import sold_bytes, spare_bytes
from spec.draft import draft_layer_bytes, draft_workspace_bytes
from spec.dtypes import draft_kv_dtype
from spec.laws.allocation import NOTHING
from spec.laws.base import Broken, Law
from spec.model import PoolSizes, Refusal, Refused, Scenario, active_draft
from spec.pools import size_pools_from_max_tokens, sizes_or_refusal
from spec.validity import check_scenario
from tests.kill_matrix import corpus, hunted
from tests.test_configurator_agrees import some_scenario

TESTS = Path(__file__).parent
GATE_SEED = 0
TOKENS = (1, 100, 4096)
"""Numbers of tokens for the constraint path."""
ODD_SCENARIOS = 4000
JUDGED_SCENARIOS = 2000
"""Scenarios on which laws must hold, over the number of laws."""

Answer = PoolSizes | Refusal
Resolution = tuple[int | None, str, int] | None
Stored = Callable[[Scenario, PoolSizes], tuple[tuple[int, int], ...]]


@dataclass(frozen=True)
class Question:
    """A call and what it must return. To raise is another answer."""

    ask: Callable[..., Any]
    arguments: tuple[Any, ...]
    expected: Any

    def answered(self) -> bool:
        """Whether the answer is the expected one."""
        return bool(self.ask(*self.arguments) == self.expected)


def configurator_sizes(scenario: Scenario) -> Answer:
    """The configurator on the profile path, without advice."""
    try:
        configurator = create_memory_pool_configurator(scenario)
        return configurator.calculate_pool_sizes(stage_budgets(scenario), scenario.page_size)
    except Refused as refused:
        return refused.refusal


def configurator_tokens(scenario: Scenario, tokens: int) -> Answer:
    """The configurator on the constraint path."""
    return Configurator().size_pools_from_max_tokens(scenario, tokens)


def resolution(scenario: Scenario) -> Resolution:
    """What start-up knows of the draft: bytes, dtype, how many warnings."""
    known = resolve_draft(scenario)
    return known and (known.bytes_per_row, known.dtype, len(known.warnings))


def spec_resolution(scenario: Scenario) -> Resolution:
    """The same by the spec's prices."""
    draft = active_draft(scenario)
    if draft is None:
        return None
    layers = range(len(draft.shape.layers))
    row_bytes = sum(draft_layer_bytes(scenario, draft, layer) for layer in layers)
    row_bytes += draft_workspace_bytes(scenario, draft)
    dtype = draft_kv_dtype(scenario, draft)
    return (row_bytes, dtype, 0) if draft.geometry_resolved else (None, dtype, 1)


def accounted(scenario: Scenario, sizes: PoolSizes) -> tuple[tuple[int, int], ...]:
    """Sold and spare bytes of a rank of each stage, by the accounting."""
    stages = range(scenario.deployment.pp_size)
    return tuple((sold_bytes(scenario, sizes, stage), spare_bytes(scenario, sizes, stage)) for stage in stages)


def built(scenario: Scenario, sizes: PoolSizes) -> tuple[tuple[int, int], ...]:
    """The same by the tensors: what is built where nothing is sold is spare."""
    spare, everything = allocated_bytes(scenario, NOTHING), allocated_bytes(scenario, sizes)
    return tuple((both - kept, kept) for both, kept in zip(everything, spare, strict=True))


def is_broken(law: Law, implementation: Any, scenario: Scenario) -> bool:
    """Whether a law is broken."""
    return isinstance(verdict(law, implementation, scenario)[0], Broken)


def gate_cases() -> list[tuple[str, Scenario]]:
    """What the gate judges, each with its cell; cells mixed so that what is wrong in one is met early."""
    drawn = [(str(cell), scenario) for cell in CELLS for scenario in corpus(cell, GATE_SEED)]
    random.Random(0).shuffle(drawn)
    return drawn


def gate_scenarios() -> list[Scenario]:
    """The same without their cells."""
    return [scenario for _, scenario in gate_cases()]


def odd_scenarios() -> list[Scenario]:
    """Scenarios of `tests/test_configurator_agrees.py`, valid or not."""
    pick = random.Random(1).choice
    return [some_scenario(pick) for _ in range(ODD_SCENARIOS)]


def configurator_questions() -> list[Question]:
    """Both paths of the configurator, answered by the spec."""
    scenarios = gate_scenarios() + odd_scenarios()
    return [Question(configurator_sizes, (scenario,), sizes_or_refusal(scenario)) for scenario in scenarios] + [
        Question(configurator_tokens, (scenario, tokens), size_pools_from_max_tokens(scenario, tokens))
        for scenario in scenarios[::8]
        for tokens in TOKENS
    ]


def spec_questions() -> list[Question]:
    """Both paths of the spec, answered by the configurator."""
    scenarios = gate_scenarios() + odd_scenarios()
    return [Question(sizes_or_refusal, (scenario,), configurator_sizes(scenario)) for scenario in scenarios] + [
        Question(size_pools_from_max_tokens, (scenario, tokens), configurator_tokens(scenario, tokens))
        for scenario in scenarios[::8]
        for tokens in TOKENS
    ]


def validity_questions() -> list[Question]:
    """What the gate judges is valid; whatever the configurator's screen lets through, too."""
    scenarios = gate_scenarios() + [scenario for scenario in odd_scenarios() if screened_kinds(scenario)]
    return [Question(check_scenario, (scenario,), None) for scenario in scenarios]


def resolve_questions() -> list[Question]:
    """The draft at start-up, by the spec's prices."""
    return [Question(resolution, (scenario,), spec_resolution(scenario)) for scenario in gate_scenarios()]


def storage_questions(stored: Stored, other: Stored) -> list[Question]:
    """Bytes of the answers that are no refusals, by another derivation."""
    answers = [(scenario, sizes_or_refusal(scenario)) for scenario in gate_scenarios()]
    sold = [(scenario, answer) for scenario, answer in answers if isinstance(answer, PoolSizes)]
    return [Question(stored, case, other(*case)) for case in sold]


def law_questions(laws: Sequence[Law]) -> list[Question]:
    """Laws hold for the configurator in the cells they claim, and each breaks where it finds a fault that names it."""
    questions = []
    for fault in FAULTS:
        for law in laws:
            finding = hunted(fault, law, GATE_SEED)[1] if law.id in fault.caught_by else None
            if finding is not None:
                questions.append(Question(is_broken, (law, fault(), finding.scenario), True))
    configurator, cases = Configurator(), gate_cases()
    for law in laws:
        claimed = [scenario for cell, scenario in cases if law.claims(cell)][: JUDGED_SCENARIOS // len(laws)]
        questions += [Question(is_broken, (law, configurator, scenario), False) for scenario in claimed]
    return questions


class Collected:
    """A plugin that keeps what pytest collects."""

    def __init__(self) -> None:
        self.items: list[pytest.Function] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """All tests of the run."""
        self.items = [item for item in session.items if isinstance(item, pytest.Function)]


def suite_questions(*modules: str) -> list[Question]:
    """Every case of the tests of some modules that needs no fixture; generated ones are left out."""
    collected = Collected()
    files = [str(TESTS / f"{module}.py") for module in modules]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *files], plugins=[collected])
    cases = [(item.obj, item.callspec.params if hasattr(item, "callspec") else {}) for item in collected.items]
    return [
        Question(lambda run=run, given=given: run(**given), (), None)
        for item, (run, given) in zip(collected.items, cases, strict=True)
        if set(item.fixturenames) <= {*given, "request"} and not is_hypothesis_test(run)
    ]
