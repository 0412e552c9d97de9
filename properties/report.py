"""The files of `--kv-report DIR`: `report.json` and one for each case that breaks a law; pytest writes `junit.xml`."""

import json
import re
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from properties.case_files import SCHEMA, case_document, scenario_text
from properties.cell_names import BY_NAME
from properties.context import Context
from properties.counterexample import Counterexample, facts_document
from properties.judge import Finding, Unsupported, verdict
from properties.known import Known
from properties.prices import worst_bytes
from properties.smallest import Shown, Term, finding_of, shown
from properties.summary import BROKEN, HOLDS, KNOWN, UNSUPPORTED, Found, Result
from spec.laws import BY_ID, LAWS
from spec.laws.allocation import NOTHING
from spec.laws.base import Broken
from spec.model import PoolSizes
from spec.pools import size_pools

REPORT = "report.json"
CASES = "cases"
"""The folder of the cases, beside it."""
NOT_ASKED = "not asked"
"""The verdict of a law that the run does not ask for, or that the implementation cannot be asked."""


def case_name(finding: Finding) -> str:
    """`B1-default-allocated-bytes-1a2b3c4d`: law, pool kind, term, and a number that is the scenario's own."""
    words = re.sub(r"[^a-z0-9]+", "-", finding.broken.term.lower()).strip("-")
    number = zlib.crc32(scenario_text(finding.scenario).encode())
    return f"{finding.law.id}-{finding.cell.pool}-{words}-{number:08x}"


def case_path(folder: Path, finding: Finding) -> Path:
    """Where the case of a finding is written."""
    return folder / CASES / f"{case_name(finding)}.json"


def worst_stage(case: Shown) -> tuple[int | None, int | None]:
    """(bytes the rows sold take, bytes there are) on the stage where most is missing, by the spec's accounting. A
    refusal takes none: the second is then the least of the stages; None where the spec finds no memory at all."""
    sizes = case.answer if isinstance(case.answer, PoolSizes) else NOTHING
    worst = worst_bytes(case.finding.scenario, sizes)
    if worst is None:
        return None, None
    return None if sizes is NOTHING else worst.allocated, worst.available


def tokens_of(answer: object) -> int | None:
    """Tokens sold, None for a refusal."""
    return answer.max_total_num_tokens if isinstance(answer, PoolSizes) else None


def case_figures(case: Shown) -> dict[str, Any]:
    """What a case says in numbers, and its file."""
    allocated, available = worst_stage(case)
    return {
        "tokens": tokens_of(case.answer),
        "spec_tokens": tokens_of(size_pools(case.finding.scenario)),
        "allocated_bytes": allocated,
        "available_bytes": available,
        "case": f"{CASES}/{case_name(case.finding)}.json",
    }


def pinned_case(entry: Known, context: Context) -> Shown | None:
    """The case of a known failure as the implementation answers it now, None where it is no longer off in that term."""
    law = BY_ID[entry.law]
    try:
        outcome, _ = verdict(law, context.implementation, entry.scenario)
    except Unsupported:
        return None
    if not isinstance(outcome, Broken) or outcome.term != entry.term:
        return None
    return shown(Finding(law, BY_NAME[entry.cell], entry.scenario, outcome), context.implementation)


def cases_of(context: Context, smallest: dict[Term, Shown]) -> dict[tuple[str, str, str], Shown]:
    """The case of each (law id, cell, term) that is off: the smallest of its pool kind, that of its known failure, or
    what was found in the cell itself."""
    pinned: dict[Known | None, Shown | None] = {None: None}
    cases = {}
    for result in context.summary.in_order():
        for found in result.found:
            entry = context.known.expecting(result.law, result.cell, found.term)
            if entry is not None and entry not in pinned:
                pinned[entry] = pinned_case(entry, context)
            case = pinned[entry] or smallest.get((result.law, result.pool, found.term))
            cases[result.law, result.cell, found.term] = case or shown(
                finding_of(result, found), context.implementation
            )
    return cases


def finding_row(result: Result, found: Found, case: Shown, facts: Counterexample | None) -> dict[str, Any]:
    """One term that is off in one cell. The figures are those of its case, which may lie in another cell; so are the
    facts, None of a known failure."""
    cell = BY_NAME[result.cell]
    return {
        "law": result.law,
        "cell": result.cell,
        "pool": cell.pool,
        "draft": cell.draft,
        "geometry": cell.geometry,
        "deployment": cell.deployment,
        "draft_dtype": cell.draft_dtype,
        "term": found.term,
        "verdict": KNOWN if found.fault else BROKEN,
        "fault": found.fault or None,
        **case_figures(case),
        "counterexample": None if facts is None or found.fault else facts_document(facts),
    }


def law_verdict(verdicts: Iterable[str]) -> str:
    """The worst of a law's verdicts."""
    met = set(verdicts)
    return next((verdict for verdict in (BROKEN, UNSUPPORTED, KNOWN, HOLDS) if verdict in met), NOT_ASKED)


def law_rows(context: Context) -> list[dict[str, Any]]:
    """Judgements, refusals and the verdict of every law."""
    results = context.summary.in_order()
    rows = []
    for law in LAWS:
        own = [result for result in results if result.law == law.id]
        judged, refused = sum(result.judged for result in own), sum(result.refused for result in own)
        verdict = law_verdict(result.verdict for result in own)
        rows.append({"id": law.id, "judged": judged, "refused": refused, "verdict": verdict})
    return rows


def verdict_rows(context: Context) -> list[dict[str, Any]]:
    """Every verdict that was asked for, exempt ones too, with the terms that are off."""
    rows: list[dict[str, Any]] = [
        {"law": result.law, "cell": result.cell, "verdict": result.verdict, "terms": result.terms}
        for result in context.summary.in_order()
    ]
    return rows + [
        {"law": law.id, "cell": str(cell), "verdict": "exempt", "terms": [], "reason": exemption.reason}
        for law, cell, exemption in context.exempt()
    ]


def known_rows(context: Context) -> list[dict[str, Any]]:
    """Every known failure, and the cells of this run in which it was met and in which it was not."""
    faults = dict(context.known.faults)
    fixed = {fixed.entry: fixed.said for result in context.summary.results.values() for fixed in result.fixed}
    rows = []
    for number, entry in enumerate(context.known.entries):
        fault = faults[entry.fault]
        met, not_met = context.summary.met(entry)
        rows.append(
            {
                "fault": entry.fault,
                "law": entry.law,
                "term": entry.term,
                "reason": fault.reason,
                "link": fault.link or None,
                "date": fault.date.isoformat(),
                "met": met,
                "not_met": not_met,
                "fixed": fixed.get(number),
            }
        )
    return rows


def report_document(
    context: Context, cases: dict[tuple[str, str, str], Shown], facts: dict[Term, Counterexample]
) -> dict[str, Any]:
    """What `report.json` says of a run."""
    summary = context.summary
    return {
        "schema": SCHEMA,
        "impl": context.identity(),
        "profile": context.profile_name,
        "seed": context.seed,
        "figures": {
            "judgements": summary.judged.total(),
            "scenarios": sum(summary.scenarios.values()),
            "cells": len(summary.scenarios),
            "seconds": round(time.monotonic() - context.started, 1),
        },
        "laws": law_rows(context),
        "findings": [
            finding_row(
                result,
                found,
                cases[result.law, result.cell, found.term],
                facts.get((result.law, result.pool, found.term)),
            )
            for result in summary.in_order()
            for found in result.found
        ],
        "known": known_rows(context),
        "unsupported": dict(summary.unsupported.most_common()),
        "verdicts": verdict_rows(context),
    }


def written(path: Path, document: dict[str, Any]) -> None:
    """One JSON file."""
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_report(context: Context, folder: Path, facts: dict[Term, Counterexample]) -> None:
    """Every file but `junit.xml`."""
    smallest = {term: known.case for term, known in facts.items()}
    cases = cases_of(context, smallest)
    (folder / CASES).mkdir(exist_ok=True)
    for case in set(cases.values()):
        path = case_path(folder, case.finding)
        replay = context.command("--kv-replay", str(path))
        written(path, case_document(case.finding, case.answer, context.identity(), replay))
    written(folder / REPORT, report_document(context, cases, facts))
