"""Failures that are expected of an implementation: a file of faults, and of the verdicts each of them breaks.

    faults = "../faults.toml"           # optional: more [fault.ID] tables, shared by several files; there, keys
                                        # beside the four below are not read

    [fault.eagle-ratio]
    reason = "an EAGLE draft is priced as layers of the target"
    link = "https://..."                # optional
    date = 2026-11-29
    until = 2027-01-31                  # optional: afterwards the run is red until the date is looked at again

    [[known]]
    fault = "eagle-ratio"
    law = "B1"
    term = "allocated bytes"            # the term that is off; another one is a new failure
    cells = ["default-{eagle_own,mtp_own}-*-same"]
    case = '{"target": ...}'            # the smallest scenario that shows it, in one of the cells

The case of an entry is judged first, whatever is drawn: an expected failure cannot flake. Where it holds, the fault is
fixed and the entry is an error. Elsewhere in its cells the term may be off or not.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from properties.case_files import WrongCase, scenario_from_text
from properties.cell_names import WrongPattern, cells_of
from properties.cells import cell_if_any
from spec.laws import BY_ID
from spec.laws.base import Law
from spec.model import Refused, Scenario
from spec.validity import check_scenario

NOTHING_JUDGED = "nothing judged"
"""The term of a law that judged nothing in a cell: never expected, it takes an exemption."""
Day = date
"""The type of `until`, beside a field called `date`."""
FAULT_KEYS = {"reason": str, "link": str, "date": date, "until": date}
FAULT_ID = re.compile(r"[A-Za-z0-9_-]+")


class WrongKnownFile(ValueError):
    """A file of known failures that cannot be read, or an entry that matches nothing: exit code 4."""


@dataclass(frozen=True)
class Fault:
    """Why verdicts are broken: what is wrong, where it is reported ("" where it is not), since when we know, and until
    when it may stay so, None where for good."""

    reason: str
    link: str
    date: date
    until: Day | None = None


@dataclass(frozen=True)
class Known:
    """One law broken in one term by one fault.

    patterns: its cells as written; cells: all that these are, `cell` the one of its scenario among them.
    """

    fault: str
    law: str
    term: str
    patterns: tuple[str, ...]
    cells: frozenset[str]
    cell: str
    scenario: Scenario


@dataclass(frozen=True)
class KnownFailures:
    """One file. `shared` is the file of more faults that it names, "" for none; `faults` are the faults of both, those
    of the shared file first, `own` the ids of its own."""

    path: Path | None = None
    shared: str = ""
    faults: tuple[tuple[str, Fault], ...] = ()
    own: frozenset[str] = frozenset()
    entries: tuple[Known, ...] = ()

    def expired(self, today: date) -> list[tuple[str, Fault]]:
        """The faults whose date is past and that an entry is still of, with their ids."""
        used = {entry.fault for entry in self.entries}
        return [(name, fault) for name, fault in self.faults if name in used and fault.until and fault.until < today]

    def pinned(self, law_id: str, cell: str) -> list[Known]:
        """The entries whose case is judged by this law in this cell."""
        return [entry for entry in self.entries if entry.law == law_id and entry.cell == cell]

    def expecting(self, law_id: str, cell: str, term: str) -> Known | None:
        """The entry that expects this term to be off there: the one with its case in this cell, else the first."""
        found = [entry for entry in self.entries if (entry.law, entry.term) == (law_id, term) and cell in entry.cells]
        return next((entry for entry in found if entry.cell == cell), found[0] if found else None)


def taken(
    table: dict[str, Any], where: str, kinds: Mapping[str, type], optional: Collection[str] = ()
) -> dict[str, Any]:
    """The values of a table, of the right types. Raises WrongKnownFile with the key and the value."""
    for key, value in table.items():
        if key not in kinds:
            raise WrongKnownFile(f"{where}: nobody reads {key!r} = {value!r}")
        if type(value) is not kinds[key] or value in ("", []):
            raise WrongKnownFile(f"{where}: {key} = {value!r}, {kinds[key].__name__} expected")
    for key in kinds:
        if key not in table and key not in optional:
            raise WrongKnownFile(f"{where}: {key} is missing")
    return table


def fault_of(table: dict[str, Any], where: str) -> Fault:
    """One `[fault.ID]` table."""
    given = taken(table, where, FAULT_KEYS, optional=("link", "until"))
    return Fault(" ".join(given["reason"].split()), given.get("link", ""), given["date"], given.get("until"))


def scenario_in(text: str, where: str) -> Scenario:
    """The valid scenario of an entry."""
    try:
        scenario = scenario_from_text(text)
        check_scenario(scenario)
    except (WrongCase, Refused) as error:
        raise WrongKnownFile(f"{where}: case: {error}") from error
    return scenario


def entry_of(table: dict[str, Any], where: str, askable: Callable[[Law], Collection[str]]) -> Known:
    """One `[[known]]` table. `askable` are the cells in which the implementation is asked for a law."""
    kinds = {"fault": str, "law": str, "term": str, "cells": list, "case": str}
    given = taken(table, where, kinds)
    if given["law"] not in BY_ID:
        raise WrongKnownFile(f"{where}: law = {given['law']!r}, one of {', '.join(BY_ID)} expected")
    where = f"{where} of {given['fault']}, {given['law']}"
    if given["term"] == NOTHING_JUDGED:
        raise WrongKnownFile(f"{where}: term = {NOTHING_JUDGED!r} cannot be expected, it takes an exemption")
    if not all(isinstance(pattern, str) for pattern in given["cells"]):
        raise WrongKnownFile(f"{where}: cells = {given['cells']!r}, a list of patterns expected")
    try:
        cells = cells_of(given["cells"], askable(BY_ID[given["law"]]))
    except WrongPattern as error:
        raise WrongKnownFile(f"{where}: cells: {error} in which {given['law']} is judged") from error
    scenario = scenario_in(given["case"], where)
    cell = str(cell_if_any(scenario))
    if cell not in cells:
        raise WrongKnownFile(f"{where}: case: its cell is {cell}, which is none of the entry's cells")
    return Known(given["fault"], given["law"], given["term"], tuple(given["cells"]), cells, cell, scenario)


def toml(path: Path) -> dict[str, Any]:
    """What a file holds."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise WrongKnownFile(f"{path} cannot be read: {error}") from error


def shared_faults(path: Path) -> dict[str, Fault]:
    """The faults of a file that several files of known failures name; what else it says of a fault is its own."""
    tables = fault_tables(toml(path).get("fault", {}), path)
    return {
        name: fault_of({key: table[key] for key in FAULT_KEYS if key in table}, f"{path}: fault.{name}")
        for name, table in tables.items()
    }


def fault_tables(tables: Any, path: Path) -> dict[str, dict[str, Any]]:
    """What a file has under `fault`, tables all of it."""
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise WrongKnownFile(f"{path}: fault = {tables!r}, tables [fault.ID] expected")
    return tables


def own_faults(tables: Any, path: Path) -> dict[str, Fault]:
    """The `[fault.ID]` tables of a file."""
    for name in fault_tables(tables, path):
        if not FAULT_ID.fullmatch(name):
            raise WrongKnownFile(f"{path}: fault.{name!r}: letters, digits, - and _ expected")
    return {name: fault_of(table, f"{path}: fault.{name}") for name, table in tables.items()}


def read_known(path: Path, askable: Callable[[Law], Collection[str]]) -> KnownFailures:
    """The known failures of a file. Raises WrongKnownFile for what cannot be read or matches nothing."""
    data = toml(path)
    for key, value in data.items():
        if key not in ("faults", "fault", "known"):
            raise WrongKnownFile(f"{path}: nobody reads {key!r} = {value!r}")
    shared, tables = data.get("faults", ""), data.get("known", [])
    if not isinstance(shared, str) or not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise WrongKnownFile(f"{path}: faults is the name of a file, known a list of tables [[known]]")
    elsewhere = shared_faults(path.parent / shared) if shared else {}
    own = own_faults(data.get("fault", {}), path)
    entries = tuple(entry_of(table, f"{path}: known {number}", askable) for number, table in enumerate(tables, 1))
    used = {entry.fault for entry in entries}
    for name in elsewhere.keys() & own.keys():
        raise WrongKnownFile(f"{path}: fault.{name} is in {shared} too")
    for name in sorted(used - elsewhere.keys() - own.keys()):
        raise WrongKnownFile(f"{path}: fault = {name!r}: there is no [fault.{name}]")
    for name in sorted(own.keys() - used):
        raise WrongKnownFile(f"{path}: fault.{name}: no entry is of this fault")
    return KnownFailures(path, shared, tuple({**elsewhere, **own}.items()), frozenset(own), entries)
