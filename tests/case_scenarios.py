"""Short ways to write the deployments that the cases of `data/cases.json` describe.

A case describes a deployment of any engine by a few inputs; what it leaves open is filled in so that it plays no part.
"""

from fractions import Fraction

from spec.accounting import sold_bytes
from spec.layers import pool_kind
from spec.model import DFLASH, FULL, SWA, AttentionShape, Draft, Heads, PoolSizes, Scenario
from spec.pools import bytes_per_token, size_pools, stage_row_bytes
from spec.units import GiB

DTYPE_OF_WIDTH = {2: "bf16", 4: "fp32"}
"""A model dtype whose elements have so many bytes; `auto` stores it."""


def layers_of_heads(layers, heads, head_dim, v_head_dim=None, *, width=2):
    """Full layers whose elements have `width` bytes."""
    return AttentionShape(
        (FULL,) * layers, Heads(heads, head_dim, v_head_dim or head_dim), model_dtype=DTYPE_OF_WIDTH[width]
    )


def heads_of_bytes(row_bytes):
    """One head whose K and V rows are `row_bytes` together in bf16: a price without a known geometry."""
    assert row_bytes % 4 == 0
    return Heads(1, row_bytes // 4, row_bytes // 4)


def layers_of_bytes(layers, row_bytes):
    """Full layers of `row_bytes` each."""
    return AttentionShape((FULL,) * layers, heads_of_bytes(row_bytes))


def windowed(full_layers, swa_layers, full, swa=None, *, window=128, width=2):
    """Full layers, then SWA layers. The window plays no part in a price."""
    kinds = (FULL,) * full_layers + (SWA,) * swa_layers
    return AttentionShape(kinds, full, swa or full, sliding_window_size=window, model_dtype=DTYPE_OF_WIDTH[width])


def served(shape, budget=GiB, **changes):
    """A target without a draft on one stage."""
    return Scenario(shape, (budget,), **changes)


def drafted(shape, draft, budget=GiB, algorithm=DFLASH, **changes):
    """A target with a draft on one stage. `draft` is a Draft, or a shape with the defaults of one."""
    draft = draft if isinstance(draft, Draft) else Draft(draft)
    return Scenario(shape, (budget,), draft=draft, speculative_algorithm=algorithm, **changes)


def token_bytes(scenario):
    """Bytes per token of the pools of the only stage."""
    return bytes_per_token(pool_kind(scenario), stage_row_bytes(scenario, 0), scenario.swa_full_tokens_ratio)


def tokens(scenario):
    """Tokens sold."""
    return size_pools(scenario).max_total_num_tokens


def stored_bytes(shape, full_rows, swa_rows=0, **changes):
    """Bytes really allocated for so many rows, spare rows aside."""
    sizes = PoolSizes(full_rows, full_rows, swa_rows, max_running_requests=1, max_req_len=1)
    return sold_bytes(served(shape, **changes), sizes, 0)


def stored_gib(*arguments, **changes):
    """The same in GiB."""
    return Fraction(stored_bytes(*arguments, **changes), GiB)
