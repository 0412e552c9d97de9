"""Who is asked in a capacity diff: an implementation in a process of its own, or a file of saved answers."""

import json
import os
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import pytest

import impl.faults
from impl import REGISTRY
from properties.case_files import SCHEMA, WrongCase, as_json, from_json, parsed
from properties.observed import Prices
from spec.laws.base import Answer
from spec.model import Scenario

ROOT = Path(__file__).parents[1]
RELEASES = ROOT / ".venv-sglang" / "releases"
"""Where `make` unpacks releases: a folder each, which holds `sglang/`."""
SGLANG_PYTHON = ROOT / ".venv-sglang" / "bin" / "python"
"""The interpreter that can import them, where `make` has made it."""
VERSION = re.compile(r"\d+\.\d+\.\d+\w*")
LOG_LINES = 20
"""Lines shown of what a process printed before it failed."""


@dataclass(frozen=True)
class NotSupported:
    """The implementation says, with this reason, that it cannot answer."""

    reason: str


@dataclass(frozen=True)
class Raised:
    """The implementation raised, or returned what is no answer."""

    what: str


Said = Answer | NotSupported | Raised


@dataclass(frozen=True)
class Question:
    """One scenario. `name` is that of a real deployment, "" where it is generated."""

    name: str
    scenario: Scenario


@dataclass(frozen=True)
class Identity:
    """Who answers."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True)
class Call:
    """A function that returned a number on the way to an answer: where it is, a fingerprint of its code, and what it
    returned."""

    name: str
    file: str
    line: int
    code: int
    value: str


class Asked(Protocol):
    """Somebody who answers."""

    @property
    def identity(self) -> Identity:
        """Who."""

    def said(self, question: Question) -> Said:
        """The answer to a scenario."""

    def prices(self, question: Question) -> Prices:
        """What it charges for a row, stage by stage."""

    def calls(self, question: Question) -> list[Call]:
        """The calls that led to the answer, none where they cannot be seen."""

    def close(self) -> None:
        """No more questions. May be called again."""


@dataclass(frozen=True)
class Source:
    """An implementation to start: its name as `impl.load` takes it, and the folder it is imported from."""

    name: str
    folder: str | None = None

    @property
    def command(self) -> tuple[str, ...]:
        """The process that answers for it, by SGLang's own interpreter where there is one and SGLang is asked."""
        needs_sglang = self.name == "sglang" and SGLANG_PYTHON.exists()
        python = str(SGLANG_PYTHON) if needs_sglang else sys.executable
        return (python, "-m", "properties.observed", self.name, *([self.folder] if self.folder else []))


def source_of(text: str) -> Source | Path:
    """The implementation, or the file of saved answers, that `--base` or `--head` names: `configurator`, a fault such
    as `NoDraftOnHybrid`, `module:object`, that in a folder (`@FOLDER`), `sglang@0.5.18`, a file. Raises
    `pytest.UsageError`."""
    name, at, folder = text.partition("@")
    known = name in REGISTRY or ":" in name
    if at and known:
        if name == "sglang" and VERSION.fullmatch(folder):
            return released(folder)
        if name in REGISTRY and name != "sglang":
            raise pytest.UsageError(f"{text!r}: {name} is part of this suite and is imported from no other folder")
        if not os.path.isdir(folder):
            raise pytest.UsageError(f"{text!r}: there is no folder {folder!r}")
        return Source(name, os.path.abspath(folder))
    if known:
        return Source(text)
    if any(fault.__name__ == text for fault in impl.faults.FAULTS):
        return Source(f"impl.faults:{text}")
    if Path(text).is_file():
        return Path(text)
    raise pytest.UsageError(
        f"{text!r} is none of {', '.join(REGISTRY)}, nor a fault of impl/faults, module:object, module:object@FOLDER, "
        "sglang@FOLDER, sglang@VERSION or a file of saved answers"
    )


def released(version: str) -> Source:
    """A release that `make` has unpacked."""
    folder = RELEASES / version
    if not (folder / "sglang").is_dir():
        raise pytest.UsageError(
            f"sglang@{version}: {folder.relative_to(ROOT)} holds no sglang/; make diff BASE=sglang@{version} fetches it"
        )
    return Source("sglang", str(folder))


def said_of(data: dict[str, Any]) -> Said:
    """What was said, read again."""
    if "unsupported" in data:
        return NotSupported(data["unsupported"])
    if "raised" in data:
        return Raised(data["raised"])
    answer: Answer = from_json(Answer, data)
    return answer


class Process:
    """An implementation in a process of its own. It starts at once; `identity` waits until it is imported."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self.process = subprocess.Popen(
            source.command,
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
        )
        self._identity: Identity | None = None

    @property
    def identity(self) -> Identity:
        """Who answers."""
        if self._identity is None:
            self._identity = Identity(**self._reply())
        return self._identity

    def said(self, question: Question) -> Said:
        """The answer to a scenario."""
        return said_of(self._ask("answer", question))

    def prices(self, question: Question) -> Prices:
        """What it charges for a row."""
        prices: Prices = self._ask("prices", question)
        return prices

    def calls(self, question: Question) -> list[Call]:
        """The calls that led to the answer."""
        return [Call(*call) for call in self._ask("calls", question)]

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """No more questions, whatever it is at. May be called again."""
        self.process.terminate()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.log):
            if stream is not None:
                stream.close()

    def _ask(self, ask: str, question: Question) -> Any:
        """One question and its answer."""
        assert self.identity and self.process.stdin is not None
        line = json.dumps({"ask": ask, "scenario": as_json(Scenario, question.scenario, full=False)})
        with suppress(BrokenPipeError):
            print(line, file=self.process.stdin, flush=True)
        return self._reply()["said"]

    def _reply(self) -> dict[str, Any]:
        """One line of the process. Raises `pytest.UsageError` where it cannot go on, RuntimeError where it died."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            last = "\n".join(self.log.read().splitlines()[-LOG_LINES:])
            raise RuntimeError(f"the process of {self.source.name} ended with exit code {self.process.wait()}:\n{last}")
        reply: dict[str, Any] = json.loads(line)
        if "drift" in reply:
            raise pytest.UsageError(reply["drift"])
        return reply


def prices_in(row: dict[str, Any]) -> Prices:
    """The prices of a saved answer: for each stage, of each pool a fraction or nothing. Raises ValueError."""
    prices: Prices = row["prices"]
    for stage in prices:
        for price in stage.values():
            if price is not None:
                Fraction(price)
    return prices


class Saved:
    """Answers that were saved: the file's first line says whose, each further one is a scenario and what was said."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            head, *lines = [parsed(line) for line in path.read_text(encoding="utf-8").splitlines()]
            if head.get("schema") != SCHEMA:
                raise WrongCase(f"schema: {head.get('schema')!r} given, {SCHEMA} expected")
            self.identity = Identity(head["name"], head["version"])
            self.rows = {
                Question(row["name"], from_json(Scenario, row["scenario"])): (said_of(row["said"]), prices_in(row))
                for row in lines
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise pytest.UsageError(f"{path} is no file of saved answers: {type(error).__name__}: {error}") from error

    def said(self, question: Question) -> Said:
        """The answer to a scenario."""
        return self._row(question)[0]

    def prices(self, question: Question) -> Prices:
        """What it charged for a row."""
        return self._row(question)[1]

    def calls(self, question: Question) -> list[Call]:
        """Nobody can be asked any more."""
        return []

    def close(self) -> None:
        """Nothing is open."""

    def _row(self, question: Question) -> tuple[Said, Prices]:
        """Both answers."""
        if question not in self.rows:
            raise pytest.UsageError(f"{self.path} does not hold {question!r}: save it again")
        return self.rows[question]


def saved_text(asked: Asked, questions: list[Question], answers: list[tuple[Said, Prices]]) -> str:
    """The file of saved answers of somebody."""
    head = {"schema": SCHEMA, "name": asked.identity.name, "version": asked.identity.version}
    rows = [
        {
            "name": question.name,
            "scenario": as_json(Scenario, question.scenario, full=False),
            "said": said_json(said),
            "prices": prices,
        }
        for question, (said, prices) in zip(questions, answers, strict=True)
    ]
    return "".join(json.dumps(row) + "\n" for row in (head, *rows))


def said_json(said: Said) -> Any:
    """What was said, as the file has it."""
    if isinstance(said, NotSupported):
        return {"unsupported": said.reason}
    return {"raised": said.what} if isinstance(said, Raised) else as_json(Answer, said)
