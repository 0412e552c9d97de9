"""What a released SGLang cannot be asked, and that every written reason is given where it holds."""

from dataclasses import replace
from fractions import Fraction

import pytest

from impl.sglang import support
from impl.sglang.releases import LAST, RELEASES
from spec.model import (
    DFLASH,
    DSPARK,
    EAGLE,
    FULL,
    LINEAR,
    MTP,
    STANDALONE,
    SWA,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Index,
    Latent,
    MemoryFigures,
    Scenario,
)

HEADS, LATENT = Heads(2, 8, 8), Latent(16, 8)
PLAIN = Scenario(AttentionShape((FULL,), HEADS), (10_000,))
FIRST = RELEASES["0.5.14"]


def drafted(algorithm: str, shape: AttentionShape | None = None, **changes: object) -> Scenario:
    """The plain scenario with a draft."""
    draft = Draft(shape or PLAIN.target, **changes)  # type: ignore[arg-type]
    return replace(PLAIN, draft=draft, speculative_algorithm=algorithm)


def on_two_stages(scenario: Scenario, *, every: bool) -> Scenario:
    """The same on two pipeline stages."""
    return replace(scenario, budget=(9, 9), deployment=Deployment(pp_size=2, draft_on_every_stage=every))


def aimed_at(target: AttentionShape, **changes: object) -> Scenario:
    """The plain scenario with another target."""
    return replace(PLAIN, target=target, **changes)  # type: ignore[arg-type]


def sparse(full: Heads | Latent, *layers: str) -> AttentionShape:
    """A model with an index."""
    return AttentionShape((FULL, *layers), full, index=Index(8, (0,)))


DCP = Deployment(tp_size=2, attn_dcp_size=2)
BANDED = AttentionShape((SWA,), None, HEADS, sliding_window_size=8)
TWO_GEOMETRIES = AttentionShape((FULL, SWA), HEADS, Heads(1, 8, 8), sliding_window_size=8)
WHOLE = MemoryFigures(((8,),), ((5,),), Fraction(1, 2))

REACHED = {
    "DRAFT_WORKER": [(replace(PLAIN, is_draft_worker=True), LAST)],
    "WHOLE_READINGS": [(replace(PLAIN, budget=WHOLE), LAST)],
    "NO_DCP": [(replace(PLAIN, deployment=DCP), RELEASES["0.5.16"])],
    "NO_HEADS_UNDER_DCP": [(replace(PLAIN, deployment=DCP), RELEASES["0.5.17"])],
    "NO_INDEX_UNDER_DCP": [
        (aimed_at(sparse(LATENT), deployment=DCP), RELEASES["0.5.21"]),
        (aimed_at(sparse(HEADS), deployment=DCP), LAST),
    ],
    "SCALED_TILELANG": [(aimed_at(sparse(LATENT), attention_backend="tilelang"), RELEASES["0.5.21"])],
    "NO_ALGORITHM": [(drafted(DSPARK), RELEASES["0.5.15"])],
    "NO_DTYPE": [(replace(PLAIN, kv_cache_dtype="mxfp8"), RELEASES["0.5.15"])],
    "DRAFT_DTYPE_CHOICES": [(drafted(EAGLE, kv_cache_dtype="mxfp8"), LAST)],
    "NO_DRAFT_DTYPE": [(drafted(EAGLE, kv_cache_dtype="fp8_e5m2"), RELEASES["0.5.17"])],
    "NO_SPARSE_HEADS": [(aimed_at(sparse(HEADS)), FIRST)],
    "SPARSE_HEADS_DIMS": [(aimed_at(sparse(Heads(2, 8, 4))), LAST)],
    "SPARSE_HEADS_LINEAR": [(aimed_at(sparse(HEADS, LINEAR)), LAST)],
    "CHECKPOINT_DTYPE": [
        (aimed_at(replace(PLAIN.target, kv_checkpoint_dtype="fp8_e5m2")), LAST),
        (drafted(EAGLE, replace(PLAIN.target, kv_checkpoint_dtype="fp8_e5m2")), LAST),
    ],
    "DRAFT_STAGE_LAST": [(on_two_stages(drafted(EAGLE), every=True), RELEASES["0.5.19"])],
    "DRAFT_STAGE_EVERY": [(on_two_stages(drafted(EAGLE), every=False), RELEASES["0.5.18"])],
    "LATENT_FAMILY_DRAFT": [(drafted(DFLASH, AttentionShape((FULL,), LATENT)), RELEASES["0.5.18"])],
    "TWO_GEOMETRY_DRAFT": [(drafted(DFLASH, TWO_GEOMETRIES), LAST)],
    "NO_BANDED_DRAFT": [(drafted(MTP, BANDED, swa_at_full_rows=True), RELEASES["0.5.15"])],
    "BANDED_DRAFT": [(drafted(EAGLE, BANDED, swa_at_full_rows=True), LAST)],
    "LINEAR_DRAFT": [(drafted(STANDALONE, AttentionShape((FULL, LINEAR), HEADS)), LAST)],
}
"""A scenario and a release for every written reason."""

REASONS = {
    name: reason
    for name, reason in vars(support).items()
    if name.isupper() and isinstance(reason, str) and " " in reason
}


@pytest.mark.parametrize("name", REACHED)
def test_a_written_reason_is_given(name: str) -> None:
    for scenario, release in REACHED[name]:
        assert support.unsupported(scenario, release) == REASONS[name]


def test_every_written_reason_is_reached() -> None:
    assert REACHED.keys() == REASONS.keys()


@pytest.mark.parametrize(
    ("scenario", "version"),
    [
        (PLAIN, "0.5.14"),
        (replace(PLAIN, deployment=DCP), "0.5.18"),
        (aimed_at(AttentionShape((FULL,), Heads(1, 8, 8)), deployment=DCP), "0.5.17"),
        (aimed_at(AttentionShape((FULL,), LATENT), deployment=DCP), "0.5.17"),
        (aimed_at(sparse(LATENT), deployment=DCP), "0.5.22"),
        (aimed_at(sparse(HEADS)), "0.5.15"),
        (drafted(DSPARK), "0.5.16"),
        (drafted(EAGLE, kv_cache_dtype="fp8_e5m2"), "0.5.18"),
        (replace(drafted(EAGLE, kv_cache_dtype="mxfp8"), kv_cache_dtype="mxfp8"), "0.5.18"),
        (drafted(DFLASH, AttentionShape((FULL,), LATENT)), "0.5.17"),
        (on_two_stages(drafted(EAGLE), every=False), "0.5.19"),
        (on_two_stages(drafted(EAGLE), every=True), "0.5.18"),
        (replace(PLAIN, draft=Draft(BANDED, swa_at_full_rows=True)), "0.5.14"),
    ],
)
def test_what_a_release_has_is_asked(scenario: Scenario, version: str) -> None:
    assert support.unsupported(scenario, RELEASES[version]) is None
