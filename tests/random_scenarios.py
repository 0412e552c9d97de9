"""Valid scenarios of a pool kind by the hundred thousand: a random generator in place of Hypothesis, which draws some
hundred a second. Budgets lie on and around page boundaries, or anywhere up to numbers of 80 bits."""

import math
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

from impl.batched_scenarios import row_of
from spec.layers import ALL_WINDOW_POOL, CAPPED_POOL, HYBRID_POOL, MLA_POOL, WINDOW_POOLS, pool_kind
from spec.model import (
    DFLASH,
    DSPARK,
    EAGLE,
    FULL,
    MTP,
    STANDALONE,
    SWA,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Latent,
    Scenario,
)

DTYPES = ("bf16", "fp8_e4m3", "fp8_e5m2", "mxfp8")
NARROW_DTYPES = ("fp4_mx_block16", "nvfp4")
"""Not beside window pools."""
RATIOS = ("1", "0.8", "0.5", "0.333", "0.1", "0.0625", "0.999", "0.07")
FAR = (2**53, 2**63, 2**64, 2**80)
"""Budgets near these go to the limits of float64, of 64 bits, and beyond."""


def heads(random: Random) -> Heads:
    """K and V heads that every dtype can store: one width, in blocks of 32."""
    width = 32 * random.randrange(1, 9)
    return Heads(2 ** random.randrange(5), width, width)


def shape(random: Random, kinds: tuple[str, ...], layers: int, window: int | None, full: Heads | Latent | None):
    """A shape with every kind of layer there is."""
    chosen = list(kinds) + [random.choice(kinds) for _ in range(max(0, layers - len(kinds)))]
    random.shuffle(chosen)
    swa = heads(random) if SWA in kinds else None
    return AttentionShape(tuple(chosen), full if FULL in kinds else None, swa, sliding_window_size=window)


def draft_of(random: Random, target: AttentionShape, narrow: bool) -> Draft:
    """The target's geometry, or a draft of its own."""
    own = random.random() < 0.6 or target.full is None
    geometry = heads(random) if own else target.full
    dtypes = (None, *DTYPES, *(NARROW_DTYPES if narrow else ()))
    return Draft(
        AttentionShape((FULL,) * random.randrange(1, 6), geometry),
        kv_cache_dtype=random.choice(dtypes),
        num_steps=random.randrange(1, 6),
        topk=random.choice((1, 1, 4)),
        num_draft_tokens=random.randrange(1, 17),
        geometry_resolved=random.random() < 0.8,
    )


def random_scenario(random: Random, kind: str) -> Scenario:
    """One scenario of a kind."""
    windowed, pp_size = kind in WINDOW_POOLS, random.choice((1, 1, 1, 2, 3))
    kinds = {HYBRID_POOL: (FULL, SWA), CAPPED_POOL: (FULL, SWA), ALL_WINDOW_POOL: (SWA,)}.get(kind, (FULL,))
    geometry = Latent(128 * random.randrange(1, 5), 64) if kind == MLA_POOL else heads(random)
    window = random.choice((1, 31, 64, 127, 128, 4096)) if windowed else None
    target = shape(random, kinds, random.randrange(pp_size, 3 + 2 * pp_size), window, geometry)
    dcp, dp = random.choice((1, 1, 2)) if not windowed else 1, random.choice((1, 1, 2))
    narrow = not windowed
    algorithm = random.choice((None, EAGLE, MTP, STANDALONE, DFLASH, DSPARK))
    scenario = Scenario(
        target,
        (1,) * pp_size,
        draft_of(random, target, narrow) if algorithm else None,
        algorithm,
        deployment=Deployment(
            random.choice((1, 2, 4)) * dcp * dp, dp, dcp, pp_size, draft_on_every_stage=random.random() < 0.3
        ),
        page_size=random.choice((1, 2, 7, 16, 64, 256)),
        kv_cache_dtype=random.choice((*DTYPES, *(NARROW_DTYPES if narrow else ()))),
        swa_full_tokens_ratio=Fraction(random.choice(RATIOS)),
        context_len=random.choice((1, 2, 4096, 4096, 131072, 131072)),
        max_total_tokens=random.choice((None, None, random.randrange(1, 5000))),
        user_max_running_requests=random.choice((None, 1, 33)) if kind != CAPPED_POOL else random.randrange(1, 40),
        chunked_prefill_size=random.choice((64, 2048)),
        disable_radix_cache=kind == CAPPED_POOL,
        disable_overlap_schedule=random.random() < 0.3,
    )
    return replace(scenario, budget=budget_of(random, scenario))


def budget_of(random: Random, scenario: Scenario) -> tuple[int, ...]:
    """On or a byte beside so many pages on each stage, near a limit of an arithmetic, or anywhere."""
    way = random.random()
    if way < 0.2:
        return tuple(random.randrange(1, 2 ** random.randrange(4, 48)) for _ in scenario.budget)
    if way < 0.3:
        return tuple(random.choice(FAR) + random.randrange(-1, 2) for _ in scenario.budget)
    entries: Any = row_of(scenario).entries
    fixed = entries["fixed_swa_rows"]
    ratio = scenario.swa_full_tokens_ratio if pool_kind(scenario) == HYBRID_POOL else Fraction(0)
    prices = zip(entries["full"], entries["swa"], entries["draft"], strict=True)
    pages = random.randrange(1, 400) * scenario.page_size
    return tuple(
        max(1, fixed * swa + math.ceil(pages * (full + draft + ratio * swa)) + random.randrange(-1, 2))
        for full, swa, draft in prices
    )
