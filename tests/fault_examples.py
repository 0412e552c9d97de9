"""For each fault of `impl/faults/` the scenario whose numbers its docstring gives."""

from fractions import Fraction
from typing import Any

from spec.model import (
    DFLASH,
    EAGLE,
    FULL,
    LINEAR,
    MTP,
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
from spec.units import GiB

TWO, FOUR = Heads(1, 1, 1), Heads(1, 2, 2)
"""One head; rows of 2 and of 4 bytes in fp8."""
BLOCKS_OF_16, BLOCKS_OF_32 = Heads(1, 16, 16), Heads(1, 32, 32)
"""One scale block each for K and V: rows of 18 bytes in fp4 and of 66 in mxfp8."""


def full(heads: Heads | Latent, layers: int = 1) -> AttentionShape:
    """Full layers only."""
    return AttentionShape((FULL,) * layers, heads)


def windowed(heads: Heads, swa: Heads, layers: int = 1, window: int = 1) -> AttentionShape:
    """As many full as SWA layers."""
    return AttentionShape((FULL, SWA) * layers, heads, swa, sliding_window_size=window)


def only_windows(heads: Heads, window: int = 2, layers: int = 1) -> AttentionShape:
    """SWA layers only."""
    return AttentionShape((SWA,) * layers, None, heads, sliding_window_size=window)


def served(target: AttentionShape, *stage_bytes: int, dtype: str = "fp8_e4m3", **fields: Any) -> Scenario:
    """A plain scenario, in fp8 unless said otherwise."""
    return Scenario(target, stage_bytes, kv_cache_dtype=dtype, **fields)


def drafted(
    target: AttentionShape, draft: AttentionShape | Draft, *stage_bytes: int, by: str = DFLASH, **fields: Any
) -> Scenario:
    """The same with a draft."""
    given = draft if isinstance(draft, Draft) else Draft(draft)
    return served(target, *stage_bytes, draft=given, speculative_algorithm=by, **fields)


SPARSE = AttentionShape((FULL,), Latent(512, 64), index=Index(128, (0,)))
CAPPED = {"user_max_running_requests": 1, "disable_radix_cache": True, "chunked_prefill_size": 1}
DCP = {"deployment": Deployment(tp_size=2, attn_dcp_size=2)}
TP = {"deployment": Deployment(tp_size=2)}
PP = {"deployment": Deployment(pp_size=2)}
HALF, WHOLE = {"swa_full_tokens_ratio": Fraction(1, 2)}, {"swa_full_tokens_ratio": Fraction(1)}
UNRESOLVED = Draft(full(FOUR), geometry_resolved=False)

EXAMPLES = {
    "LayerRatioForEveryDraft": drafted(
        full(Heads(4, 128, 128), 32), full(Heads(8, 128, 128), 5), 10 * GiB, dtype="bf16", page_size=64
    ),
    "NoDraftOnHybrid": drafted(
        windowed(Heads(8, 64, 64), Heads(8, 64, 64), 18), full(Heads(8, 64, 64)), 20 * GiB, by=EAGLE, dtype="bf16"
    ),
    "NoDraftOnAllWindow": drafted(only_windows(FOUR), full(FOUR), 36),
    "NoDraftOnCapped": drafted(
        windowed(Heads(8, 64, 64), Heads(8, 64, 64), 18, window=127),
        full(Heads(8, 64, 64)),
        20 * GiB,
        by=EAGLE,
        dtype="bf16",
        page_size=64,
        **{**CAPPED, "user_max_running_requests": 253, "chunked_prefill_size": 8192},
    ),
    "DraftSplitOverAllRanks": drafted(
        full(TWO, 16), full(Heads(16, 1, 1)), 2**20, deployment=Deployment(tp_size=32, attn_dp_size=32)
    ),
    "NoReplicationOfDrafts": drafted(full(FOUR), full(FOUR), 24, **DCP),
    "NoReplicationOfEagle": drafted(full(FOUR), full(FOUR), 24, by=EAGLE, **DCP),
    "NoReplicationInTheFallback": drafted(full(FOUR), UNRESOLVED, 24, **DCP),
    "DraftOnEveryStage": drafted(
        AttentionShape((FULL,) * 30 + (FULL,) * 29 + (LINEAR,), Heads(1, 250, 250)),
        full(Heads(1, 250, 250), 6),
        8 * GiB,
        10 * GiB,
        dtype="bf16",
        page_size=256,
        **PP,
    ),
    "DraftOnAnEmptyStageIsFree": drafted(AttentionShape((FULL, LINEAR), FOUR), full(FOUR), 12, 8, **PP),
    "DepthOfTheWholeModel": drafted(full(FOUR, 3), full(FOUR), 96),
    "StepsAsLayers": drafted(
        full(Heads(8, 128, 128), 32), Draft(full(Heads(8, 128, 128)), num_steps=3), GiB, by=EAGLE, dtype="bf16"
    ),
    "OneRunnerOfSeveral": drafted(full(FOUR), Draft(full(FOUR, 3), num_steps=3), 64, by=MTP),
    "TargetDtypeForTheDraft": drafted(full(TWO), Draft(full(TWO), kv_cache_dtype="bf16"), 24, by=EAGLE),
    "EmptyDraftPriced": drafted(full(FOUR), AttentionShape((), FOUR), 24),
    "EaglePricedTwice": drafted(full(FOUR), full(FOUR), 24, by=EAGLE),
    "WindowedDraftOnSwaRows": drafted(windowed(FOUR, FOUR), only_windows(Heads(1, 3, 1)), 60, **HALF),
    "FreeFallback": drafted(windowed(FOUR, FOUR), UNRESOLVED, 48, **WHOLE),
    "SilentFallback": drafted(full(FOUR), UNRESOLVED, 24),
    "LeftOverDraftTokens": served(windowed(FOUR, FOUR), 128, draft=Draft(full(FOUR), num_draft_tokens=8), **CAPPED),
    "VHeadDimIgnored": served(full(Heads(1, 2, 1)), 12),
    "HeadDimFromHiddenSize": served(full(FOUR), 8),
    "LatentAsKeysAndValues": served(full(Latent(1, 1)), 8),
    "IndexRowMissing": served(SPARSE, 12840, dtype="bf16"),
    "IndexAtTwoBytes": served(SPARSE, 12840, dtype="bf16"),
    "IndexNotReplicated": served(SPARSE, 14160, dtype="bf16", **DCP),
    "ScalesMissing": served(full(BLOCKS_OF_32), 6600, dtype="mxfp8"),
    "ScalesOfKeysOnly": served(full(BLOCKS_OF_32), 6600, dtype="mxfp8"),
    "ScalesOfAllStages": served(full(BLOCKS_OF_32, 2), 6600, 6600, dtype="mxfp8", **PP),
    "Fp4AsOneByte": served(full(BLOCKS_OF_16), 96, dtype="fp4_mx_block16"),
    "Fp4WithAWorkspace": served(full(BLOCKS_OF_16), 100, dtype="fp4_mx_block16"),
    "PricedInTheComputeDtype": served(full(TWO), 8),
    "HeadsNotReplicated": served(full(FOUR), 8, **TP),
    "EveryHeadOnEveryRank": served(full(Heads(2, 1, 1)), 8, **TP),
    "HeadsFlooredToZero": drafted(full(TWO), full(TWO), 8, **TP),
    "HeadsOfFullLayersForSwa": served(windowed(TWO, Heads(2, 1, 1)), 24, **WHOLE),
    "LinearLayersPriced": served(AttentionShape((FULL, LINEAR), TWO), 8),
    "WindowLayersAtFullLength": served(windowed(TWO, TWO), 24, **HALF),
    "AllLayersOnEveryStage": served(full(TWO, 2), 8, 8, **PP),
    "WindowLayersOneTooFar": served(only_windows(TWO, layers=2), 16, 16, **PP),
    "ValuesAllocatedAsWideAsKeys": served(AttentionShape((FULL, LINEAR), Heads(1, 1, 2)), 9),
    "RatioOnAllWindow": served(only_windows(TWO), 8, **HALF),
    "WindowPoolBelowTheFloor": served(only_windows(TWO, window=127), 2 * 192, page_size=64),
    "NoAdmissionCheck": served(only_windows(TWO, window=5), 6),
    "PageRoundedUp": served(full(TWO), 2 * 10718, page_size=16),
    "OneTokenTooMany": served(full(TWO), 8),
    "SparePageSold": served(full(TWO), 8, page_size=2),
    "FloatTruncation": drafted(
        full(Heads(8, 128, 128), 22), Draft(full(FOUR, 3), geometry_resolved=False), 1024092399, dtype="bf16"
    ),
    "CapNotAligned": served(full(TWO), GiB, page_size=128, max_total_tokens=1000),
    "CapRoundedUp": served(full(TWO), GiB, page_size=128, max_total_tokens=1000),
    "CapInBytes": served(
        windowed(Heads(1, 256, 256), Heads(1, 256, 256), 16), GiB, dtype="bf16", max_total_tokens=200, **HALF
    ),
    "SwaRowsOfACapNotAligned": served(windowed(TWO, TWO), GiB, page_size=2, max_total_tokens=7, **CAPPED),
    "LeastBytesLargestCell": served(AttentionShape((FULL,) * 3, TWO), 8, 16, **PP),
    "RequestsFlooredToZero": served(
        full(TWO), 8, user_max_running_requests=1, deployment=Deployment(tp_size=2, attn_dp_size=2)
    ),
    "NegativeTokens": served(full(FOUR), 4, page_size=2),
    "AdviceTheWrongWay": Scenario(
        full(FOUR), MemoryFigures(((1000,),), ((104,),), Fraction(9, 10)), kv_cache_dtype="fp8_e4m3", page_size=2
    ),
}
