"""One implementation in a process of its own, asked line by line: the part of a capacity diff that runs its code.

    python -m properties.observed NAME [FOLDER]

The first line it prints says who answers. Then each line it reads, `{"ask": "answer", "scenario": {...}}`, is answered
by a line: what is sold (`answer`), what a row costs (`prices`), or the calls that led there (`calls`). An adapter that
cannot go on answers `{"drift": ...}`.
"""

import json
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TextIO

import pytest

import impl
import spec
from impl import Implementation, WrongAdapter
from properties.case_files import as_json, from_json
from properties.judge import UnlistedAnswer, Unsupported, listed_answer
from properties.options import loaded
from properties.prices import difference, hybrid_prices, token_price
from spec.laws.base import Answer
from spec.layers import HYBRID_POOL, pool_kind
from spec.model import Scenario, active_draft

Prices = list[dict[str, str | None]]
"""By stage: the bytes of one row of each term, as a fraction; None where no row is sold at any price."""


def answered(implementation: Implementation, scenario: Scenario) -> dict[str, Any]:
    """What an implementation says of a scenario: sizes, a refusal, `raised` or `unsupported`."""
    try:
        said: dict[str, Any] = as_json(Answer, listed_answer(implementation, scenario))
        return said
    except Unsupported as reason:
        return {"unsupported": str(reason)}
    except UnlistedAnswer as error:
        return {"raised": str(error)}


def row_prices(implementation: Implementation, scenario: Scenario, stage: int) -> dict[str, Fraction | None]:
    """Bytes charged for a row, by pool: a hybrid pool has two."""
    if pool_kind(scenario) != HYBRID_POOL:
        return {"row": token_price(implementation, scenario, stage)}
    full, swa = hybrid_prices(implementation, scenario, stage)
    return {"full row": full, "SWA row": swa}


def stage_prices(implementation: Implementation, scenario: Scenario, stage: int) -> dict[str, str | None]:
    """The target's rows, priced without speculation, and what the draft adds to them."""
    whole = row_prices(implementation, scenario, stage)
    if active_draft(scenario) is None:
        return {f"target {name}": text_of(price) for name, price in whole.items()}
    target = row_prices(implementation, replace(scenario, speculative_algorithm=None), stage)
    added = {name: difference(price, target[name]) for name, price in whole.items()}
    return {
        f"{owner} {name}": text_of(price)
        for owner, prices in (("target", target), ("draft", added))
        for name, price in prices.items()
    }


def text_of(price: Fraction | None) -> str | None:
    """A price as JSON has it."""
    return None if price is None else str(price)


def prices_of(implementation: Implementation, scenario: Scenario) -> Prices:
    """What each stage charges for a row."""
    return [stage_prices(implementation, scenario, stage) for stage in range(scenario.deployment.pp_size)]


def source_folders(implementation: Implementation, folder: str | None) -> tuple[str, ...]:
    """Where the code of an implementation lies."""
    own = getattr(implementation, "path", None) or folder
    if own is not None:
        return (os.path.join(os.path.abspath(own), ""),)
    return tuple(os.path.join(os.path.dirname(os.path.abspath(str(package.__file__))), "") for package in (impl, spec))


def is_number(value: object) -> bool:
    """Whether what a function returned can be compared between two processes: numbers, alone or in a row."""
    if isinstance(value, tuple | list):
        return bool(value) and all(map(is_number, value))
    return isinstance(value, int | float | Fraction) and not isinstance(value, bool)


def fingerprint(code: CodeType) -> int:
    """The same for two functions that do the same in the same words, wherever they stand."""
    constants = [value for value in code.co_consts if not isinstance(value, CodeType)]
    return zlib.crc32(code.co_code + repr((constants, code.co_names)).encode())


@contextmanager
def recorded(folders: tuple[str, ...]) -> Iterator[list[list[Any]]]:
    """Every call of a function in these folders that returns numbers, in the order in which they return: name,
    place, fingerprint, value."""
    calls: list[list[Any]] = []

    def watch(frame: FrameType, event: str, value: object) -> None:
        code = frame.f_code
        is_named = code.co_filename.startswith(folders) and not code.co_name.startswith("<")
        if event == "return" and is_named and is_number(value):
            calls.append([code.co_qualname, code.co_filename, code.co_firstlineno, fingerprint(code), str(value)])

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def calls_of(implementation: Implementation, scenario: Scenario, folders: tuple[str, ...]) -> list[list[Any]]:
    """The calls by which an implementation comes to its answer."""
    with recorded(folders) as calls:
        answered(implementation, scenario)
    return calls


def found(name: str, folder: str | None) -> Implementation:
    """The implementation of that name, from that folder if one is given. Raises `pytest.UsageError`, too where Python
    finds the module elsewhere: a diff of one and the same code would say that nothing moved."""
    if folder is None or name == "sglang":
        return loaded(name, folder)
    folder = os.path.abspath(folder)
    sys.path.insert(0, folder)
    implementation = loaded(name, None)
    file = Path(str(sys.modules[name.partition(":")[0]].__file__)).resolve()
    if not file.is_relative_to(Path(folder).resolve()):
        raise pytest.UsageError(f"{name!r} is asked for in {folder!r}, but comes from {file}")
    return implementation


def replies(name: str, folder: str | None, questions: TextIO) -> Iterator[dict[str, Any]]:
    """Who answers, then the answer to each question."""
    implementation = found(name, folder)
    yield {"name": implementation.name, "version": implementation.version}
    folders = source_folders(implementation, folder)
    for line in questions:
        question = json.loads(line)
        scenario = from_json(Scenario, question["scenario"])
        if question["ask"] == "answer":
            yield {"said": answered(implementation, scenario)}
        elif question["ask"] == "prices":
            yield {"said": prices_of(implementation, scenario)}
        else:
            yield {"said": calls_of(implementation, scenario, folders)}


def main(name: str, folder: str | None = None) -> None:
    """Answer until there are no more questions. What an engine prints goes to stderr."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        for reply in replies(name, folder, sys.stdin):
            print(json.dumps(reply), file=out, flush=True)
    except (WrongAdapter, pytest.UsageError) as error:
        print(json.dumps({"drift": str(error)}), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
