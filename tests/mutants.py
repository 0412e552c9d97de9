"""Mutants of the configurator, the tensors and the spec, and what kills them: `python -m tests.mutants`.

    python -m tests.mutants                      all of them, a few minutes
    python -m tests.mutants --sample             one in eight, told by their keys, as CI does
    python -m tests.mutants spec.pools spec.cell some modules

Each runs in memory until it answers a question of `tests/mutant_battery.py` otherwise than it should. Those that never
do are listed with the reason in `tests/equivalent_mutants.toml`, or fail the run; so do entries of that file that name
no mutant, or one that is killed.
"""

import argparse
import gc
import importlib
import multiprocessing
import os
import resource
import signal
import sys
import time
import tomllib
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from spec.laws import BY_ID, LAWS
from tests import mutant_battery as battery
from tests.mutant_battery import Question
from tests.mutation import Mutant, mutants_of

EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
SAMPLE = 8
"""One mutant in so many is in the sample."""
SECONDS = 10
"""A question that takes longer is answered wrongly: the mutant runs for ever."""
MOST_BYTES = 6 * 2**30
"""Memory of a worker; a question that needs more is answered wrongly."""
RECENT = 24
"""Questions that killed last are asked first."""


def laws_of(module: str) -> list[str]:
    """The laws whose predicates are in a module of `spec/laws/`, or all of them where it has none."""
    own = [law.id for law in LAWS if law.predicate.__module__ == f"spec.laws.{module}"]
    return own or [law.id for law in LAWS]


LAW_TESTS = (
    "test_laws",
    "test_law_clauses",
    "test_law_probes",
    "test_law_premises",
    "test_draft_law_premises",
    "test_answer_law_premises",
)


@dataclass(frozen=True)
class Target:
    """Modules whose mutants are asked the same questions."""

    modules: tuple[str, ...]
    questions: Callable[[], list[Question]]


TARGETS = (
    Target(
        ("impl.configurator", "impl.configurator_prices", "impl.resolve"),
        lambda: [
            *battery.configurator_questions(),
            *battery.resolve_questions(),
            *battery.suite_questions(
                "test_configurator",
                "test_configurator_refusals",
                "test_resolve",
                "test_bad_input",
                "test_rare_geometries",
            ),
        ],
    ),
    Target(
        ("impl.torch_pools",),
        lambda: [
            *battery.storage_questions(battery.built, battery.accounted),
            *battery.suite_questions("test_torch_pools", "test_rare_geometries"),
        ],
    ),
    Target(
        ("spec.accounting",),
        lambda: (
            battery.storage_questions(battery.accounted, battery.built)
            + battery.suite_questions("test_pools", "test_torch_pools", "test_rare_geometries")
        ),
    ),
    Target(
        (
            "spec.units",
            "spec.model",
            "spec.dtypes",
            "spec.layers",
            "spec.cell",
            "spec.draft",
            "spec.budget",
            "spec.capped",
            "spec.pools",
        ),
        lambda: (
            battery.spec_questions()
            + battery.suite_questions(
                "test_pools",
                "test_capped",
                "test_dtypes",
                "test_cases",
                "test_advice",
                "test_laws",
                "test_law_clauses",
                "test_bad_input",
                "test_rare_geometries",
            )
        ),
    ),
    Target(("spec.advice",), lambda: battery.law_questions([BY_ID["E1"]]) + battery.suite_questions("test_advice")),
    Target(
        ("spec.validity",),
        lambda: [
            *battery.validity_questions(),
            *battery.suite_questions("test_bad_input", "test_configurator_refusals", "test_rare_geometries"),
        ],
    ),
    Target(
        ("spec.config_fields", "spec.shapes", "spec.draft_shapes", "spec.architectures", "spec.catalog"),
        lambda: battery.suite_questions(
            "test_shapes",
            "test_draft_shapes",
            "test_shape_refusals",
            "test_shape_excerpts",
            "test_any_config",
            "test_catalog",
        ),
    ),
    Target(("spec.terms",), lambda: battery.suite_questions("test_terms")),
    *(
        Target(
            (f"spec.laws.{module}",),
            lambda module=module: [
                *battery.law_questions([BY_ID[law_id] for law_id in laws_of(module)]),
                *battery.suite_questions(*LAW_TESTS, *(["test_floats"] if module == "floats" else [])),
            ],
        )
        for module in (
            "base",
            "floats",
            "budget",
            "scale",
            "draft",
            "resolve",
            "ranks",
            "windows",
            "caps",
            "allocation",
            "answers",
        )
    ),
)


class TooLong(BaseException):
    """A question is not answered in time. No `Exception`, so that nothing that is asked takes it for an answer."""


@contextmanager
def in_time() -> Iterator[None]:
    """Ends what runs too long; again every second, where the first call ends in code that hides exceptions."""

    def end(*_: Any) -> None:
        raise TooLong

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, SECONDS, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def is_answered(question: Question) -> bool:
    """Whether a question is answered rightly, and in time."""
    try:
        with in_time():
            return question.answered()
    except KeyboardInterrupt:
        raise
    except BaseException:  # a test that fails, leaves the process or runs for ever
        return False


def killer(questions: Sequence[Question], recent: list[int]) -> int | None:
    """The first question answered wrongly, those that killed lately first; None when there is none."""
    for number in recent:
        if not is_answered(questions[number]):
            recent.remove(number)
            recent.insert(0, number)
            return number
    for number, question in enumerate(questions):
        if not is_answered(question):
            recent.insert(0, number)
            del recent[RECENT:]
            return number
    return None


def survivors_of(mutants: Sequence[Mutant], questions: Sequence[Question]) -> list[str]:
    """The keys of the mutants that answer every question rightly."""
    recent: list[int] = []
    alive = []
    for mutant in mutants:
        with mutant.in_place():
            if killer(questions, recent) is None:
                alive.append(mutant.key)
    return alive


JOB: tuple[list[Mutant], list[Question]] = ([], [])
"""What the forked workers share: mutants and questions cannot be sent to them."""


def share(number: int) -> list[str]:
    """The survivors among every n-th mutant. One may grow without end, which must not take the machine with it; and
    Hypothesis, which looks on at garbage collection, would hide the alarm there."""
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    gc.callbacks.clear()
    mutants, questions = JOB
    return survivors_of(list(islice(mutants, number, None, os.cpu_count() or 1)), questions)


def surviving(mutants: list[Mutant], questions: list[Question]) -> list[str]:
    """The survivors, found by all cores."""
    global JOB
    JOB = (mutants, questions)
    cores = os.cpu_count() or 1
    with multiprocessing.get_context("fork").Pool(cores) as pool:
        return [key for found in pool.map(share, range(cores), chunksize=1) for key in found]


def reasons(file: Path = EQUIVALENT) -> dict[str, str]:
    """Key -> why it is equivalent, of every entry of a file."""
    entries = tomllib.loads(file.read_text(encoding="utf-8")).get("equivalent", [])
    return {key: entry["reason"] for entry in entries for key in entry["mutants"]}


def is_sampled(mutant: Mutant) -> bool:
    """Whether a mutant is in the sample: told by its key, so that moved lines change nothing."""
    return zlib.crc32(mutant.key.encode()) % SAMPLE == 0


def judged(target: Target, modules: Sequence[str], sample: bool, equivalent: dict[str, str]) -> list[str]:
    """What is wrong with the mutants of a target; prints a line a module."""
    questions: list[Question] = []
    wrong = []
    for module in target.modules:
        if modules and module not in modules:
            continue
        began = time.monotonic()
        if not questions:
            questions = target.questions()
            if killer(questions, []) is not None:
                return [f"{module} answers otherwise before anything is changed: the tests fail"]
        prepared = time.monotonic()
        everything = list(mutants_of(importlib.import_module(module)))
        mutants = [mutant for mutant in everything if not sample or is_sampled(mutant)]
        alive = surviving(mutants, questions)
        known = [key for key in alive if key in equivalent]
        survive = len(alive) - len(known)
        print(
            f"{module:<26} {len(mutants):>5} mutants  {len(mutants) - len(alive):>5} killed  "
            f"{len(known):>4} equivalent  {survive:>4} survive  "
            f"{prepared - began:5.0f} s to prepare  {time.monotonic() - prepared:5.0f} s",
            flush=True,
        )
        wrong += [f"survives: {key}" for key in alive if key not in equivalent]
        asked = {mutant.key for mutant in mutants}
        listed = [key for key in equivalent if key.startswith(f"{module}:")]
        wrong += [f"killed, but listed as equivalent: {key}" for key in listed if key in asked and key not in alive]
        wrong += [f"no such mutant: {key}" for key in listed if key not in {mutant.key for mutant in everything}]
    return wrong


def main() -> int:
    """Judges the mutants and says what is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("modules", nargs="*", help="modules to mutate (default: all)")
    parser.add_argument("--sample", action="store_true", help=f"one mutant in {SAMPLE}")
    given = parser.parse_args()
    known = {module for target in TARGETS for module in target.modules}
    if not set(given.modules) <= known:
        parser.error(
            f"not mutated: {', '.join(sorted(set(given.modules) - known))}; there are {', '.join(sorted(known))}"
        )
    equivalent, began = reasons(), time.monotonic()
    wrong = [line for target in TARGETS for line in judged(target, given.modules, given.sample, equivalent)]
    wrong += [f"no such module: {key}" for key in equivalent if key.split(":")[0] not in known]
    print("\n".join(wrong) or f"no mutant survives, in {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
