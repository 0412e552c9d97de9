"""Small worlds to explore protocols in: round numbers, every algorithm, one to four ranks, optional steps or none."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product

from spec.model import (
    DFLASH,
    DFLASH_FAMILY,
    FROZEN_KV_MTP,
    FULL,
    MTP,
    STANDALONE,
    SWA,
    AttentionShape,
    Draft,
    Heads,
    Scenario,
)
from spec.startup.protocols import Protocol
from spec.startup.world import Rank, World
from spec.units import GiB

LAYER = Heads(num_kv_heads=8, head_dim=128, v_head_dim=128)
"""4 KiB a row in bf16."""
TARGET_SHAPE = AttentionShape((FULL,) * 4, LAYER)
"""16 KiB a token: 65536 tokens a GiB."""
WINDOW_SHAPE = AttentionShape((SWA, FULL) * 4, LAYER, LAYER, sliding_window_size=128)
"""The same full layers and as many SWA layers; beside it a draft may have SWA layers too."""

ROOMY, SCARCE, SCARCER, SCARCEST = (Rank(memory * GiB) for memory in (24, 22, 20, 18))
"""Ranks with different free memory."""
ENCODING = Rank(24 * GiB, reserved_bytes=2 * GiB)
"""A rank that keeps 2 GiB for itself."""
STATIC = Fraction(3, 4)
"""`mem_fraction_static`: of 24 GiB, 18 hold weights and pools."""

RANKS = (
    (ROOMY,),
    (ROOMY, ROOMY),
    (ROOMY, SCARCE),
    (ROOMY, ENCODING),
    (ROOMY, ROOMY, SCARCE),
    (ROOMY, SCARCE, SCARCER),
    (ROOMY, ROOMY, ROOMY, ROOMY),
    (ROOMY, ROOMY, SCARCE, SCARCE),
    (ROOMY, SCARCE, SCARCER, ENCODING),
    (ROOMY, SCARCE, SCARCER, SCARCEST),
)
"""One to four ranks: all alike, some alike, all different, one with a reserve of its own."""


def draft_of(algorithm: str | None) -> Draft | None:
    """A draft for each algorithm: two one-layer runners, a deep small model, one layer, or two layers."""
    if algorithm is None:
        return None
    if algorithm == MTP:
        return Draft(AttentionShape((SWA, FULL), LAYER, LAYER), num_steps=2, num_draft_tokens=3)
    layers = {STANDALONE: 6, FROZEN_KV_MTP: 1}.get(algorithm, 2)
    return Draft(AttentionShape((FULL,) * layers, LAYER), num_draft_tokens=8 if algorithm in DFLASH_FAMILY else 1)


def small_world(protocol: Protocol, ranks: tuple[Rank, ...], *, captures: bool = True, releases: bool = True) -> World:
    """A world of 18 to 24 GiB ranks, three quarters of them static: 6 GiB of target weights, 1 GiB a draft runner
    (STANDALONE 2), loaders that leave half a GiB or nothing, graphs of a quarter GiB or none."""
    algorithm = protocol.algorithm
    draft = draft_of(algorithm)
    scenario = Scenario(
        target=WINDOW_SHAPE if algorithm in (MTP, DFLASH) else TARGET_SHAPE,
        budget=(0,),
        draft=draft,
        speculative_algorithm=algorithm,
        page_size=16,
    )
    runners = 0 if draft is None else 2 if algorithm == MTP else 1
    return World(
        protocol=protocol,
        scenario=scenario,
        ranks=ranks,
        mem_fraction_static=STATIC,
        target_weight_bytes=6 * GiB,
        draft_weight_bytes=(2 * GiB if algorithm == STANDALONE else GiB,) * runners,
        loader_bytes=GiB // 2 if releases else 0,
        captures=captures,
        graph_bytes=GiB // 4,
    )


def small_worlds(protocol: Protocol, *, most_ranks: int = 4) -> Iterator[World]:
    """Every small world of a protocol: the ranks, and every subset of the optional steps."""
    for ranks in RANKS:
        if len(ranks) <= most_ranks:
            for captures, releases in product((True, False), repeat=2):
                yield small_world(protocol, ranks, captures=captures, releases=releases)


def capped_world(protocol: Protocol, ranks: tuple[Rank, ...]) -> World:
    """A small world whose pools take a page of memory: whatever is allocated twice fits."""
    world = small_world(protocol, ranks)
    return replace(world, scenario=replace(world.scenario, max_total_tokens=world.scenario.page_size))
