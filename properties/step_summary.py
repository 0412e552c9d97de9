"""The report of a run and of a diff as one page for CI, and an annotation for each law that is broken.

    python -m properties summarize DIR --head FOLDER

Reads what `--kv-report DIR` has left of both (`report.json`, `diff.json`, `diff.md`), writes `summary.md` beside it and
appends it to the file of `GITHUB_STEP_SUMMARY`. On GitHub an annotation stands at the line that sizes, or that changed.
"""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from properties.cell_names import cells_text
from properties.findings import markdown_table
from properties.report import REPORT
from properties.show import figure
from properties.verbs import Parser
from spec.laws import BY_ID

MOST_BYTES = 2**20 - 2**10
"""GitHub drops a step summary of more than 1 MiB."""
PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+)( (?P<name>.+))?")
"""`FILE:LINE NAME`, as a counterexample says where it comes from."""


def read(path: Path) -> Any:
    """What a file of the report holds, None where it was not written. Raises `pytest.UsageError` where it cannot be
    read."""
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    except (OSError, ValueError, RecursionError) as error:
        raise pytest.UsageError(f"{path} cannot be read: {error}") from error


def broken_groups(report: dict[str, Any]) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """The findings that nobody expected, by law, pool kind and term."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in report["findings"]:
        if row["verdict"] == "broken":
            groups.setdefault((row["law"], row["pool"], row["term"]), []).append(row)
    return groups


def place_of(row: dict[str, Any]) -> str:
    """`FILE:LINE NAME` of the code that sizes the case, "" where the implementation does not say."""
    return (row.get("counterexample") or {}).get("where") or ""


def law_lines(report: dict[str, Any]) -> list[str]:
    """Who was judged, how much, and a row for each law, pool kind and term that is off."""
    verdicts = [row["verdict"] for row in report["verdicts"]]
    broken = verdicts.count("broken") + verdicts.count("unsupported")
    figures, impl = report["figures"], report["impl"]
    rows = [
        [
            f"{law} {BY_ID[law].name}",
            pool,
            term,
            cells_text(row["cell"] for row in found),
            figure(found[0]["tokens"]),
            figure(found[0]["spec_tokens"]),
            place_of(found[0]) or "-",
        ]
        for (law, pool, term), found in broken_groups(report).items()
    ]
    lines = [
        f"## KV-cache budget of {impl['name']} {impl['version']}",
        f"{figures['judgements']:,} judgements. Verdicts: {verdicts.count('holds'):,} hold, {broken:,} broken, "
        f"{verdicts.count('known'):,} known failures, {verdicts.count('exempt'):,} exempt.",
    ]
    header = ["law", "pool", "term off", "cells", "tokens of the case", "that fit", "where"]
    fixed = [f"- {row['fault']} is fixed: {row['law']}, {row['term']}" for row in report["known"] if row["fixed"]]
    return [*lines, *([markdown_table(header, rows)] if rows else []), *(["\n".join(fixed)] if fixed else [])]


def page(report: dict[str, Any] | None, diff: str | None) -> str:
    """Both, or what is missing; cut where GitHub would drop it."""
    laws = law_lines(report) if report else ["## KV-cache budget", "The laws left no report: the log says why."]
    text = "\n\n".join([*laws, *([diff.strip()] if diff else [])]) + "\n"
    if len(text.encode()) <= MOST_BYTES:
        return text
    kept = text.encode()[:MOST_BYTES].decode(errors="ignore").rpartition("\n")[0]
    left = text.count("\n") - kept.count("\n") - 1
    return f"{kept}\n\nand {left:,} more lines, which are in the report.\n"


def escaped(text: str, more: str = "") -> str:
    """Text as a workflow command takes it; the values of its properties escape `:` and `,` too."""
    for letter in "%\r\n" + more:
        text = text.replace(letter, f"%{ord(letter):02X}")
    return text


def annotation(title: str, message: str, file: str, line: object) -> str:
    """One annotation, at a line where one is known."""
    properties = {"title": title, **({"file": file, "line": str(line)} if file else {})}
    told = ",".join(f"{name}={escaped(value, ':,')}" for name, value in properties.items())
    return f"::error {told}::{escaped(message)}"


def in_workspace(file: str, head: Path) -> str:
    """A file of the checkout as GitHub wants it, relative to the workspace; "" for a file elsewhere."""
    workspace = Path(os.environ.get("GITHUB_WORKSPACE", os.getcwd())).resolve()
    path = (head / file).resolve()
    return str(path.relative_to(workspace)) if path.is_file() and path.is_relative_to(workspace) else ""


def annotations(report: dict[str, Any] | None, diff: dict[str, Any] | None, head: Path) -> list[str]:
    """At most one for each broken law, and one for a diff that is red."""
    found: dict[str, str] = {}
    for (law, pool, term), rows in broken_groups(report).items() if report else ():
        place = PLACE.fullmatch(place_of(rows[0]))
        file, line = (in_workspace(place["file"], head), place["line"]) if place else ("", "")
        message = f"{term} is off in {pool} cells: {cells_text(row['cell'] for row in rows)}. {BY_ID[law].sentence}"
        found.setdefault(law, annotation(f"{law} {BY_ID[law].name}", message, file, line))
    if diff and diff["fails"]:
        function = diff["function"] or {"name": "", "file": "", "line": ""}
        reasons = ", ".join(f"{why} in {count:,}" for why, count in diff["fails"].items())
        where = f"; {function['name']} returns another number" if function["name"] else ""
        message = f"{reasons} of {sum(diff['scenarios'][key] for key in ('real', 'generated')):,} scenarios{where}"
        file = in_workspace(function["file"], head) if function["file"] else ""
        found["diff"] = annotation("capacity", message, file, function["line"])
    return list(found.values())


def main(arguments: Sequence[str]) -> int:
    """The verb; returns the exit code: the runs that were reported have their own."""
    options = Parser("python -m properties summarize", description=__doc__)
    options.add_argument("report", type=Path, metavar="DIR", help="what --kv-report was given")
    options.add_argument("--head", type=Path, metavar="FOLDER", required=True, help="the folder that was judged")
    given = options.parse_args(arguments)
    if not given.report.is_dir():
        options.error(f"{given.report} is no folder of reports")
    try:
        return summarized(given.report, given.head)
    except (pytest.UsageError, OSError) as error:
        options.error(str(error))


def summarized(folder: Path, head: Path) -> int:
    """Writes `summary.md` and the step summary, prints the annotations."""
    report, diff = read(folder / REPORT), read(folder / "diff.json")
    told = folder / "diff.md"
    text = page(report, told.read_text(encoding="utf-8") if told.exists() else None)
    (folder / "summary.md").write_text(text, encoding="utf-8")
    step_summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if step_summary:
        with open(step_summary, "a", encoding="utf-8") as file:
            file.write(text)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        print("\n".join(annotations(report, diff, head)))
    return int(pytest.ExitCode.OK)
