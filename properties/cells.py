"""Cells: the places in which a law gives a verdict of its own.

A cell is `POOL-DRAFT[_same|_own]-DEPLOYMENT-same|other`, the last part the draft's dtype beside the target's:
`hybrid-dflash_own-dp-same`, `default-none-tp-same`. There are 357: window pools run without DCP, and without a draft
there is only `-same`.
"""

from dataclasses import dataclass
from itertools import product

from spec.cell import pool_geometry
from spec.dtypes import draft_kv_dtype, target_kv_dtype
from spec.laws.base import is_valid
from spec.layers import ALL_WINDOW_POOL, POOL_KINDS, WINDOW_POOLS, pool_kind
from spec.model import DFLASH, DSPARK, EAGLE, FROZEN_KV_MTP, MTP, STANDALONE, Deployment, Draft, Scenario, active_draft

DRAFTS = {"eagle": EAGLE, "mtp": MTP, "standalone": STANDALONE, "dflash": DFLASH, "dspark": DSPARK}
"""Draft categories and the algorithm each is."""
DEPLOYMENTS = ("tp", "dp", "dcp", "pp")


@dataclass(frozen=True)
class Cell:
    """One combination of categories. `draft` is "none" or a key of DRAFTS; `geometry` is "", "same" or "own"."""

    pool: str
    draft: str
    geometry: str
    deployment: str
    draft_dtype: str

    def __str__(self) -> str:
        draft = f"{self.draft}_{self.geometry}" if self.geometry else self.draft
        return f"{self.pool}-{draft}-{self.deployment}-{self.draft_dtype}"


def cells_of_pool(pool: str) -> list[Cell]:
    """Every cell of one pool kind, without a draft first."""
    deployments = [name for name in DEPLOYMENTS if not (name == "dcp" and pool in WINDOW_POOLS)]
    without = [Cell(pool, "none", "", deployment, "same") for deployment in deployments]
    drafted = product(DRAFTS, ("same", "own"), deployments, ("same", "other"))
    return without + [Cell(pool, *categories) for categories in drafted]


CELLS = tuple(cell for pool in POOL_KINDS for cell in cells_of_pool(pool))
"""All of them, in the order they are judged."""


def deployment_category(deployment: Deployment) -> str:
    """The part of a cell's name that tells how ranks are used; the rarest use wins."""
    if deployment.pp_size > 1:
        return "pp"
    if deployment.attn_dcp_size > 1:
        return "dcp"
    return "dp" if deployment.attn_dp_size > 1 else "tp"


def geometry_category(scenario: Scenario, draft: Draft) -> str:
    """`same` when the draft's layers are shaped as the target's full layers (all-window: as its SWA layers), index
    included; else `own`."""
    target = scenario.target
    wanted = target.swa if pool_kind(scenario) == ALL_WINDOW_POOL else pool_geometry(target)
    geometries = {draft.shape.full, draft.shape.swa} - {None}
    same_index = (target.index is None) == (draft.shape.index is None)
    return "same" if geometries == {wanted} and same_index else "own"


def cell_if_any(scenario: Scenario) -> Cell | None:
    """The cell of a scenario, None where it is not valid."""
    return cell_of(scenario) if is_valid(scenario) else None


def cell_of(scenario: Scenario) -> Cell:
    """The cell a valid scenario belongs to. A frozen-KV MTP draft has no row: it is none."""
    pool, deployment = pool_kind(scenario), deployment_category(scenario.deployment)
    draft = active_draft(scenario)
    if draft is None or scenario.speculative_algorithm == FROZEN_KV_MTP:
        return Cell(pool, "none", "", deployment, "same")
    name = next(name for name, algorithm in DRAFTS.items() if algorithm == scenario.speculative_algorithm)
    dtype = "same" if draft_kv_dtype(scenario, draft) == target_kv_dtype(scenario) else "other"
    return Cell(pool, name, geometry_category(scenario, draft), deployment, dtype)
