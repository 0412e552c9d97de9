"""The mutants are what they say: every kind of change is made, nothing else, and all is undone."""

import importlib
import sys
import tomllib
from types import ModuleType

import pytest

from spec import READING_ORDER
from tests import mutants
from tests.mutant_battery import Question
from tests.mutants import EQUIVALENT, SAMPLE, TARGETS, is_answered, is_sampled, survivors_of
from tests.mutation import Mutant, mutants_of

SOURCE = '''
CONSTANT = 7


def price(full_rows, swa_rows, head_dim, v_head_dim=2):
    """Not mutated: 3 < 4."""
    total: int = full_rows * head_dim + 5
    if total > 10 and not swa_rows:
        total -= 1
    return max(total // 2, 3 if v_head_dim in (1, 2) else 4)


class Pool:
    def rows(self):
        return [row for row in self.pages if row]
'''


def module_of(source: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module with this source."""
    module = ModuleType("scratch")
    module.__file__ = "scratch.py"
    exec(compile(source, "scratch.py", "exec"), vars(module))
    monkeypatch.setattr("inspect.getsource", lambda _: source)
    return module


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> dict[str, Mutant]:
    """The mutants of SOURCE by what is changed."""
    return {mutant.change: mutant for mutant in mutants_of(module_of(SOURCE, monkeypatch))}


CHANGES = {
    "operator": ("full_rows * head_dim + 5 -> full_rows * head_dim - 5", (8, 1, 3), 14, 9),
    "constant": ("5 -> 6", (8, 1, 3), 14, 15),
    "comparison": ("total > 10 -> total >= 10", (5, 0, 1), 5, 4),
    "sibling name": ("head_dim -> v_head_dim", (8, 1, 3), 14, 10),
    "dropped term": ("full_rows * head_dim + 5 -> full_rows * head_dim", (8, 1, 3), 14, 12),
    "dropped factor": ("full_rows * head_dim -> full_rows", (8, 1, 3), 14, 6),
    "dropped max": ("max(total // 2, 3 if v_head_dim in (1, 2) else 4) -> total // 2", (0, 1, 3), 3, 2),
    "min for max": ("max -> min", (8, 1, 3), 14, 3),
    "rounding": ("total // 2 -> -(-total // 2)", (8, 1, 3), 14, 15),
    "condition": ("if total > 10 and (not swa_rows) -> if not", (9, 1, 3), 16, 15),
    "dropped clause": ("total > 10 and (not swa_rows) -> total > 10", (9, 1, 3), 16, 15),
    "negation": ("not swa_rows -> swa_rows", (9, 1, 3), 16, 15),
    "other branch": ("3 if v_head_dim in (1, 2) else 4 -> 4", (0, 1, 3), 3, 4),
    "membership": ("v_head_dim in (1, 2) -> v_head_dim not in (1, 2)", (0, 1, 3), 3, 4),
    "assignment": ("total -= 1 -> total += 1", (9, 0, 3), 15, 16),
}
"""Kind of change -> how it is told, arguments, the answer without and with it."""


@pytest.mark.parametrize("kind", CHANGES)
def test_a_mutant_runs_in_place_and_is_undone(kind: str, scratch: dict[str, Mutant]) -> None:
    change, arguments, right, wrong = CHANGES[kind]
    mutant = scratch[change]
    assert mutant.key == f"scratch:price: {change}"
    with mutant.in_place():
        assert mutant.target(*arguments) == wrong
    assert mutant.target(*arguments) == right


def test_methods_are_mutated_too(scratch: dict[str, Mutant]) -> None:
    assert scratch["for row in self.pages if row -> all"].function == "Pool.rows"


def test_docstrings_defaults_and_module_level_stay(scratch: dict[str, Mutant]) -> None:
    """Nor is any mutant the function itself."""
    assert not any("3 < 4" in change or "7" in change or change.startswith("int") for change in scratch)
    assert all(mutant.code != mutant.target.__code__ for mutant in scratch.values())


def test_a_key_does_not_hang_on_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    here, below = (mutants_of(module_of(text, monkeypatch)) for text in (SOURCE, "\n\nOTHER = 1\n" + SOURCE))
    keys = [mutant.key for mutant in here]
    monkeypatch.setattr("inspect.getsource", lambda _: "\n\nOTHER = 1\n" + SOURCE)
    assert [mutant.key for mutant in below] == keys
    assert len(keys) == len(set(keys))


def test_what_answers_otherwise_raises_or_runs_for_ever_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "SECONDS", 0.05)

    def forever() -> None:
        while True:
            pass

    assert is_answered(Question(lambda: 1, (), 1))
    assert not is_answered(Question(lambda: 2, (), 1))
    assert not is_answered(Question(lambda: pytest.fail("no"), (), None))
    assert not is_answered(Question(sys.exit, (0,), None))
    assert not is_answered(Question(forever, (), None))


def test_only_those_that_answer_everything_rightly_survive(scratch: dict[str, Mutant]) -> None:
    price = next(iter(scratch.values())).target
    questions = [Question(price, arguments, right) for _, arguments, right, _ in CHANGES.values()]
    alive = survivors_of([scratch[change] for change, *_ in CHANGES.values()], questions)
    assert alive == []
    assert survivors_of([scratch["5 -> 6"]], questions[:0]) == ["scratch:price: 5 -> 6"]


def test_every_entry_has_a_reason_and_names_a_mutant_that_exists() -> None:
    """And no mutant is listed twice."""
    entries = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["equivalent"]
    listed = [key for entry in entries for key in entry["mutants"]]
    assert len(listed) == len(set(listed)) and all(entry["reason"].strip() for entry in entries)
    mutated = {module for target in TARGETS for module in target.modules}
    modules = {key.split(":")[0] for key in listed}
    assert modules <= mutated
    existing = {mutant.key for name in modules for mutant in mutants_of(importlib.import_module(name))}
    assert set(listed) - existing == set()


def test_the_sample_is_one_in_eight() -> None:
    keys = [Mutant("module", "function", f"{number} -> {number + 1}", *([None] * 3)) for number in range(4000)]
    assert 0.8 < sum(map(is_sampled, keys)) * SAMPLE / len(keys) < 1.2


def test_what_prices_sizes_counts_and_judges_is_mutated() -> None:
    """All of spec/ with functions that derive something, and what the configurator and the tensors are made of. The
    start-up has its own proof: `make model` takes every guard away in turn, and a law breaks. What explains is words
    about numbers of the others: `test_explain.py` works every equation out again."""
    mutated = {module for target in TARGETS for module in target.modules}
    apart = ("spec.startup", "spec.laws.startup", "spec.explain", "spec.__main__")
    not_mutated = {name for name in READING_ORDER if name not in mutated and not name.startswith(apart)}
    assert not_mutated == {"spec.catalog.records", "spec.laws"}
    assert {name for name in mutated if name.startswith("impl.")} == {
        "impl.configurator",
        "impl.configurator_prices",
        "impl.resolve",
        "impl.torch_pools",
    }
