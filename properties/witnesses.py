"""The faults of released SGLang, each with the smallest scenario that shows it, its witness.

`impl/sglang/faults.toml` says in words what a run cannot: the cause, the function, who can reach it. Files of known
failures take a fault's `reason`, `link` and `date` from there. What a release does with the witnesses is measured.
"""

import tomllib
from dataclasses import dataclass, fields
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import impl
from impl import Exemption, Implementation
from properties.case_files import WrongCase, scenario_from_text
from properties.cell_names import WrongPattern, cells_of
from properties.cells import cell_of
from properties.judge import UnlistedAnswer, Unsupported, listed_answer, verdict
from properties.pairs import built_bytes
from properties.show import figure
from spec.budget import available_bytes
from spec.laws import BY_ID
from spec.laws.base import Answer, Broken
from spec.model import PoolSizes, Refusal, Refused, Scenario
from spec.pools import size_pools
from spec.validity import check_scenario

FAULTS = Path(impl.__file__).parent / "sglang" / "faults.toml"
"""The faults, in the order in which they are told."""

BROKEN, HOLDS, NOT_ASKED = "broken", "holds", "not asked"


class WrongFault(ValueError):
    """An entry of the file that cannot be read."""


@dataclass(frozen=True)
class Fault:
    """One fault. `laws` (globs) and `cells` are the verdicts that it can break where it is, `pairs` the cells in which
    real pairs show it and no other; `witness` breaks `law`. `function` is where in the release (below `srt/`), `reach`
    who meets it, `link` "" where nobody reported it."""

    id: str
    title: str
    reason: str
    function: str
    reach: str
    link: str
    date: date
    laws: tuple[str, ...]
    cells: frozenset[str]
    pairs: frozenset[str]
    law: str
    witness: Scenario

    @property
    def cell(self) -> str:
        """The cell of its witness."""
        return str(cell_of(self.witness))

    def explains(self, law_id: str, cell: str) -> bool:
        """Whether it can break this verdict."""
        return cell in self.cells and any(fnmatchcase(law_id, glob) for glob in self.laws)


@dataclass(frozen=True)
class WitnessFigures:
    """What one implementation does with one witness. `said` is the term that is off and how, or why the witness cannot
    be asked; `built_bytes` and `available_bytes` are those of the stage where most is missing, spare rows aside."""

    fault: str
    verdict: str
    said: str
    answer: str = ""
    spec_answer: str = ""
    built_bytes: int | None = None
    available_bytes: int | None = None


def faults(path: Path = FAULTS) -> tuple[Fault, ...]:
    """Every fault of the file. Raises WrongFault with the entry and what is wrong with it."""
    tables: dict[str, dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["fault"]
    return tuple(fault_of(name, table) for name, table in tables.items())


def fault_of(name: str, table: dict[str, Any]) -> Fault:
    """One entry."""
    wanted = {field.name for field in fields(Fault)} - {"id"}
    if (given := table.keys() | {"link"}) != wanted:
        raise WrongFault(f"{name}: {', '.join(sorted(given ^ wanted))} is missing, or nobody reads it")
    try:
        witness = scenario_from_text(table["witness"])
        check_scenario(witness)
        cells, pairs = cells_of(table["cells"]), cells_of(table["pairs"])
    except (WrongCase, WrongPattern, Refused) as error:
        raise WrongFault(f"{name}: {error}") from error
    words = {key: " ".join(table.get(key, "").split()) for key in ("title", "reason", "function", "reach", "link")}
    fault = Fault(
        id=name,
        date=table["date"],
        laws=tuple(table["laws"]),
        cells=cells,
        pairs=pairs,
        law=table["law"],
        witness=witness,
        **words,
    )
    if not fault.explains(fault.law, fault.cell):
        raise WrongFault(f"{name}: its laws and cells leave out {fault.law} in {fault.cell}, which its witness breaks")
    return fault


def is_exempt(implementation: Implementation, law_id: str, cell: str) -> str | None:
    """Why a verdict is not asked of the implementation, None where it is."""
    exemptions: tuple[Exemption, ...] = getattr(implementation, "exemptions", tuple)()
    return next((entry.reason for entry in exemptions if entry.covers(law_id, cell)), None)


def witness_figures(implementation: Implementation, fault: Fault) -> WitnessFigures:
    """One witness judged by its law, with the answers and the bytes of the pools built for it."""
    law, scenario = BY_ID[fault.law], fault.witness
    reason = is_exempt(implementation, law.id, fault.cell)
    if reason is not None:
        return WitnessFigures(fault.id, NOT_ASKED, reason)
    try:
        outcome, _ = verdict(law, implementation, scenario)
    except Unsupported as unsupported:
        return WitnessFigures(fault.id, NOT_ASKED, str(unsupported))
    try:
        answer = listed_answer(implementation, scenario)
        told = rows_text(answer)
    except UnlistedAnswer as error:
        answer, told = None, str(error)
    built, available = worst_stage(implementation, scenario, answer) if isinstance(answer, PoolSizes) else (None, None)
    return WitnessFigures(
        fault=fault.id,
        verdict=BROKEN if isinstance(outcome, Broken) else HOLDS,
        said=broken_text(outcome) if isinstance(outcome, Broken) else outcome.value,
        answer=told,
        spec_answer=rows_text(size_pools(scenario)),
        built_bytes=built,
        available_bytes=available,
    )


def rows_text(answer: Answer) -> str:
    """What is sold, in rows per rank, or what is refused."""
    if isinstance(answer, Refusal):
        return f"refused: {answer.kind}"
    full, swa = answer.full_max_total_num_tokens, answer.swa_max_total_num_tokens
    return f"{full:,} tokens" if not swa else f"{swa:,} SWA rows" if not full else f"{full:,} tokens, {swa:,} SWA rows"


def broken_text(broken: Broken) -> str:
    """The term that is off, what was expected of it and what was got."""
    where = f" ({broken.where})" if broken.where else ""
    return f"{broken.term}: expected {figure(broken.expected)}, got {figure(broken.got)}{where}"


def worst_stage(implementation: Implementation, scenario: Scenario, sizes: PoolSizes) -> tuple[int | None, int | None]:
    """(bytes built, bytes there) on the stage where most is missing; no bytes built where the pools cannot be."""
    available = available_bytes(scenario)
    built = built_bytes(implementation, scenario, sizes)
    if built is None:
        return None, min(available)
    return max(zip(built, available, strict=True), key=lambda stage: stage[0] - stage[1])
