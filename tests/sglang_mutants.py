"""Mutants of the budget functions of a released SGLang, in its environment: `python -m tests.sglang_mutants DIR`.

DIR is a folder that holds sglang/. A mutant is killed where a law that holds of the release no longer does: agreement
(Q1) on the gate's scenarios on which the release is right, and on the others the first law of one answer that holds.
Lines of these functions that no scenario runs, of hardware and features the suite does not have, are counted apart; the
rest must be killed, or be listed as equivalent in `tests/equivalent_sglang_mutants.toml`, which says how many of them
survive for each reason, so that its globs hide no other.
"""

import argparse
import importlib
import os
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import FrameType
from typing import Any

from impl import PATH_VARIABLE, load
from properties.cells import CELLS
from properties.judge import UnlistedAnswer, Unsupported, listed_answer, verdict
from spec.laws import BY_ID
from spec.laws.base import HOLDS, Answer
from spec.model import FULL, AttentionShape, Latent, Scenario
from tests.kill_matrix import corpus
from tests.mutant_battery import Question
from tests.mutants import RECENT, is_answered, reasons
from tests.mutation import Mutant, mutants_of

EQUIVALENT = Path(__file__).with_name("equivalent_sglang_mutants.toml")
EVERY = 3
"""Every third scenario of each cell is asked first: a release answers in milliseconds, not microseconds."""

BUDGET = {
    "sglang.srt.model_executor.pool_configurator": (
        "_dflash_draft_cell_size",
        "MemoryPoolConfigurator.validate_swa_pool_size",
        "DefaultPoolConfigurator.*",
        "HybridSWAPoolConfigurator.*",
        "SWARequestCapPoolConfigurator.*",
        "compute_swa_request_cap",
        "create_memory_pool_configurator",
    ),
    "sglang.srt.speculative.dflash_utils": (
        "dflash_draft_cell_size_per_token",
        "scale_kv_cell_size_per_token_for_dflash",
    ),
    "sglang.srt.mem_cache.draft_kv_budget": ("*",),
    "sglang.srt.mem_cache.allocation_sizing": ("get_alloc_len_per_decode",),
    "sglang.srt.mem_cache.kv_cache_dtype": ("configure_kv_cache_dtype",),
    "sglang.srt.mem_cache.kv_cache_configurator": (
        "KVCacheConfigurator._profile_available_bytes",
        "KVCacheConfigurator.resolve_max_num_reqs",
        "calculate_mla_kv_cache_dim",
    ),
    "sglang.srt.utils.common": ("spec_decode_alloc_len_per_request", "ceil_align", "ceil_div"),
}
"""Module -> globs of the functions that turn bytes into tokens."""


RARE = (Scenario(AttentionShape((FULL,), Latent(512, 64)), (2**30,), kv_cache_dtype="nvfp4"),)
"""Scenarios beside the gate's: so wide that another scale block would show."""
JUDGING = ("B1", "B2", "B4", "B5", "B7", "W1", "W3", "C1", "R3")
"""Laws of one answer, asked where agreement does not hold."""


@dataclass(frozen=True)
class Asked:
    """A question, and the lines of the budget functions that run when it is asked, as (file, line)."""

    question: Question
    lines: frozenset[tuple[str, int]]


class Release:
    """The release under test, what it answered before anything was mutated, and the laws that held of it."""

    def __init__(self) -> None:
        self.implementation = load("sglang")
        self.mutants = [
            mutant for module, names in BUDGET.items() for mutant in mutants_of(importlib.import_module(module), names)
        ]
        self.files = {place(mutant)[0] for mutant in self.mutants}

    def answer(self, scenario: Scenario) -> Answer | str:
        """What it says, in words where that is no listed answer."""
        try:
            return listed_answer(self.implementation, scenario)
        except UnlistedAnswer as error:
            return str(error)

    def holds(self, law_id: str, scenario: Scenario) -> bool:
        """Whether a law holds."""
        return verdict(BY_ID[law_id], self.implementation, scenario)[0] is HOLDS

    def still_holds(self, law_id: str, scenario: Scenario, before: Answer | str) -> bool:
        """Whether it answers as before, or otherwise but within the law."""
        return self.answer(scenario) == before or self.holds(law_id, scenario)

    def asked(self, law_ids: Sequence[str], scenario: Scenario) -> Iterator[Asked]:
        """A question for the first of these laws that holds."""
        try:
            held = next((law_id for law_id in law_ids if self.holds(law_id, scenario)), None)
        except (Unsupported, UnlistedAnswer):
            return
        if held:
            question = Question(self.still_holds, (held, scenario, self.answer(scenario)), True)
            yield Asked(question, lines_run(question, self.files))

    def first(self) -> list[Asked]:
        """Agreement, on every third scenario of each cell."""
        cases = [case for cell in CELLS for case in corpus(cell, 0)[::EVERY]]
        return [one for case in (*RARE, *cases) for one in self.asked(("Q1",), case)]

    def rest(self) -> list[Asked]:
        """All other scenarios, and the laws of one answer where there is no agreement."""
        return [
            one
            for cell in CELLS
            for number, case in enumerate(corpus(cell, 0))
            for one in self.asked(JUDGING if number % EVERY == 0 else ("Q1", *JUDGING), case)
        ]


def lines_run(question: Question, files: set[str]) -> frozenset[tuple[str, int]]:
    """The lines of some files that a question runs."""
    seen: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if name not in files:
            return None
        seen.add((name, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        question.answered()
    finally:
        sys.settrace(None)
    return frozenset(seen)


def place(mutant: Mutant) -> tuple[str, int]:
    """The file and line of a mutant."""
    return mutant.target.__code__.co_filename, mutant.line


def survivors(mutants: Sequence[Mutant], asked: Sequence[Asked]) -> list[Mutant]:
    """Those that answer every question that runs their line as before. What killed last is asked first."""
    recent: list[Asked] = []
    alive = []
    for mutant in mutants:
        reaching = [one for one in (*recent, *asked) if place(mutant) in one.lines]
        with mutant.in_place():
            killing = next((one for one in reaching if not is_answered(one.question)), None)
        if killing is None:
            alive.append(mutant)
        else:
            recent = [killing, *(one for one in recent if one is not killing)][:RECENT]
    return alive


def listing(key: str, listed: Iterable[str]) -> list[str]:
    """The listed globs that a mutant is told by."""
    return [glob for glob in listed if fnmatchcase(key, glob)]


def miscounted(alive: Sequence[Mutant], listed: dict[str, str]) -> list[str]:
    """The reasons for which other numbers of mutants survive than the list says; the first glob decides."""
    entries = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["equivalent"]
    found = Counter(listed[globs[0]] for mutant in alive if (globs := listing(mutant.key, listed)))
    return [
        f"{found[entry['reason']]} survive and {entry['survive']} are listed: {entry['reason']}"
        for entry in entries
        if found[entry["reason"]] != entry["survive"]
    ]


def main() -> int:
    """Prints a line a module, then the survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.sglang_mutants")
    parser.add_argument("folder", help="holds sglang/, as a wheel does")
    os.environ[PATH_VARIABLE] = os.path.abspath(parser.parse_args().folder)
    began = time.monotonic()
    listed, release = reasons(EQUIVALENT), Release()
    first = release.first()
    print(
        f"{release.implementation.name} {release.implementation.version}: {len(release.mutants)} mutants, {len(first)} "
        f"questions, prepared in {time.monotonic() - began:.0f} s",
        flush=True,
    )
    alive = survivors(release.mutants, first)
    unlisted = [mutant for mutant in alive if not listing(mutant.key, listed)]
    known = len(alive) - len(unlisted)
    print(
        f"{len(release.mutants) - len(alive)} killed, {known} known not to be, in {time.monotonic() - began:.0f} s",
        flush=True,
    )
    rest = release.rest() if unlisted else []
    if rest:
        print(f"{len(unlisted)} are asked {len(rest)} more, prepared in {time.monotonic() - began:.0f} s", flush=True)
    unlisted = survivors(unlisted, rest)
    run = {line for one in (*first, *rest) for line in one.lines}
    wrong = [f"survives: {mutant.key}" for mutant in unlisted if place(mutant) in run]
    not_run = Counter(f"{mutant.module}:{mutant.function}" for mutant in unlisted if place(mutant) not in run)
    used = {glob for mutant in alive for glob in listing(mutant.key, listed)}
    wrong += [f"names no mutant that survives: {glob}" for glob in listed if glob not in used]
    wrong += miscounted(alive, listed)
    print(f"{not_run.total()} on lines that no scenario runs, in {time.monotonic() - began:.0f} s:")
    print("\n".join(f"  {count:>4}  {function}" for function, count in not_run.items()))
    print("\n".join(wrong) or "no mutant survives")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
