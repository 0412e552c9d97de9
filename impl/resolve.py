"""The draft's bytes per row and its KV dtype, resolved once at start-up, before any draft weight is loaded.

The contract is that of PR 34234: for the algorithm in use only; whatever cannot be resolved gives one warning that
says what and why, no bytes, the layer ratio, and start-up goes on. Only `Refused` means "cannot be resolved": any other
error is a bug and is not swallowed (upstream catches everything, so that a bug looks like an unknown draft).
"""

from collections.abc import Mapping
from dataclasses import replace

from impl.configurator_prices import dflash_draft_cell_size_per_token, draft_storage
from spec.draft_shapes import draft_from_config
from spec.laws.base import DraftResolution
from spec.model import Draft, Refused, Scenario, active_draft, refuse

FALLBACK = "the KV budget falls back to the layer ratio"
"""What every warning ends in."""


def configure_kv_cache_dtype(scenario: Scenario, draft: Draft) -> str:
    """The KV dtype the draft is priced in, without its model: never narrower than the one it gets."""
    before_loading, _, _ = draft_storage(scenario, draft)
    return before_loading


def draft_cell_size(scenario: Scenario, draft: Draft) -> int:
    """Bytes of one row of every draft layer on one rank, DCP aside. Refuses a geometry that cannot be read."""
    if not draft.geometry_resolved:
        raise refuse("unsupported", "draft.shape", "unknown", "its config names no geometry")
    deployment = replace(scenario.deployment, attn_dcp_size=1)
    ranks = deployment.tp_size // deployment.attn_dp_size
    row_bytes, _ = dflash_draft_cell_size_per_token(replace(scenario, deployment=deployment), draft, ranks, False)
    return row_bytes


def resolve_draft(scenario: Scenario) -> DraftResolution | None:
    """The active draft of a scenario, None without one. Never raises for a draft that cannot be resolved."""
    draft = active_draft(scenario)
    if draft is None:
        return None
    dtype = configure_kv_cache_dtype(scenario, draft)
    try:
        return DraftResolution(draft_cell_size(scenario, draft), dtype)
    except Refused as refused:
        return DraftResolution(None, dtype, (warning_of(refused),))


def warning_of(refused: Refused) -> str:
    """What cannot be resolved and why, for start-up to log."""
    return f"cannot resolve the draft's KV bytes per token: {refused}; {FALLBACK}"


def resolve_draft_from_config(
    scenario: Scenario, config: Mapping[str, object]
) -> tuple[Scenario, DraftResolution | None]:
    """The scenario with the draft that a `config.json` describes, and what is resolved of it.

    `scenario.draft` holds the operator's switches and, as its layers, the depth that is counted where the config
    cannot be read; then the draft keeps them, unresolved, and one warning is given.
    """
    switches = active_draft(scenario)
    if switches is None or scenario.speculative_algorithm is None:
        return scenario, None
    try:
        described = draft_from_config(config, scenario.speculative_algorithm, num_steps=switches.num_steps)
    except Refused as refused:
        unresolved = replace(scenario, draft=replace(switches, geometry_resolved=False))
        dtype = configure_kv_cache_dtype(unresolved, switches)
        return unresolved, DraftResolution(None, dtype, (warning_of(refused),))
    resolved = replace(
        scenario,
        draft=replace(switches, shape=described.shape, swa_at_full_rows=described.swa_at_full_rows),
    )
    return resolved, resolve_draft(resolved)
