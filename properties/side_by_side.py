"""Every number on the way to the answer, the spec's beside the implementation's, which are found by asking."""

from collections.abc import Callable
from typing import Any

from impl import Implementation
from impl.reference import Reference
from properties.counterexample import per
from properties.judge import UnlistedAnswer, Unsupported, told
from properties.prices import on_stage, priced_rows, rows_for, token_price
from properties.show import figure, table
from spec.laws.base import DraftResolution
from spec.model import Scenario, active_draft
from spec.terms import BudgetTerms

NAMES = {"full": "F, bytes of a full row", "swa": "S, bytes of an SWA row", "draft": "D, bytes of the draft a token"}


def stage_numbers(implementation: Implementation, scenario: Scenario, stage: int, available: int) -> dict[str, str]:
    """What one rank of a stage charges and would sell by itself, without a user cap."""
    prices = priced_rows(implementation, scenario, stage)
    numbers = {NAMES[pool]: per(price) for pool, price in prices.items() if pool != "draft" or active_draft(scenario)}
    numbers["cell, bytes a token"] = per(token_price(implementation, scenario, stage))
    alone = rows_for(implementation, on_stage(scenario, stage, available))
    numbers["N of this stage alone"] = "-" if alone is None else f"{alone:,}"
    return numbers


def draft_numbers(implementation: Implementation, scenario: Scenario) -> dict[str, str]:
    """The draft as start-up resolves it; nothing where the implementation does not say."""
    if active_draft(scenario) is None or not hasattr(implementation, "resolve_draft"):
        return {}
    try:
        resolved = told(implementation, "resolve_draft", scenario)
    except (UnlistedAnswer, Unsupported):
        return {}
    if not isinstance(resolved, DraftResolution):
        return {}
    row = "by the layer ratio" if resolved.bytes_per_row is None else figure(resolved.bytes_per_row)
    return {"draft resolved, bytes a row": row, "draft dtype": resolved.dtype, "warnings": str(len(resolved.warnings))}


def beside(name: str, numbers: Callable[[Any], dict[str, str]], implementation: Implementation) -> str:
    """Both sides, a row a number, those that differ marked."""
    spec, other = numbers(Reference()), numbers(implementation)
    rows = [
        [key, spec.get(key, "-"), other.get(key, "-"), "" if spec.get(key) == other.get(key) else "<- differs"]
        for key in dict.fromkeys((*spec, *other))
    ]
    return table([name, "the spec", implementation.name, ""], rows)


def side_by_side(implementation: Implementation, scenario: Scenario, terms: BudgetTerms) -> str:
    """A table a stage, and one of the draft."""
    tables = [
        beside(
            f"stage {one.stage}, {one.available_bytes:,} B",
            lambda who, one=one: stage_numbers(who, scenario, one.stage, one.available_bytes),  # type: ignore[misc]
            implementation,
        )
        for one in terms.stages
    ]
    if draft_numbers(implementation, scenario):
        tables.append(beside("draft", lambda who: draft_numbers(who, scenario), implementation))
    return "\n\n".join(tables)
