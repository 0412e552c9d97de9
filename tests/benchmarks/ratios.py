"""How much faster the configurator is than the spec, on realistic scenarios: `python -m tests.benchmarks.ratios`.

Prints one line a scenario and the two medians. Spec and configurator are timed in turns in one process, best of
several rounds each, so that a busy machine slows both. Times are microseconds a call.
"""

import gc
from collections.abc import Callable
from fractions import Fraction
from statistics import median
from time import perf_counter
from typing import NamedTuple

from impl.configurator import create_memory_pool_configurator
from impl.configurator_prices import stage_budgets
from impl.optimized import Configurator
from spec.model import (
    DFLASH,
    EAGLE,
    FULL,
    MTP,
    SWA,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Index,
    Latent,
    MemoryFigures,
    PoolSizes,
    Refusal,
    Scenario,
)
from spec.pools import size_pools

GIB = 2**30
GQA_8_128 = Heads(num_kv_heads=8, head_dim=128, v_head_dim=128)
GQA_8_64 = Heads(num_kv_heads=8, head_dim=64, v_head_dim=64)
MLA_512_64 = Latent(kv_lora_rank=512, qk_rope_head_dim=64)

QWEN3_8B = AttentionShape(layers=(FULL,) * 36, full=GQA_8_128)
DFLASH_5 = Draft(AttentionShape(layers=(FULL,) * 5, full=GQA_8_128), num_draft_tokens=16)
GPT_OSS_20B = AttentionShape(layers=(SWA, FULL) * 12, full=GQA_8_64, swa=GQA_8_64, sliding_window_size=128)
EAGLE3_1 = Draft(AttentionShape(layers=(FULL,), full=GQA_8_64), num_steps=3, num_draft_tokens=4)
DEEPSEEK_V3 = AttentionShape(layers=(FULL,) * 61, full=MLA_512_64)
MTP_1 = Draft(AttentionShape(layers=(FULL,), full=MLA_512_64), num_steps=1, num_draft_tokens=2)
DEEPSEEK_V32 = AttentionShape(layers=(FULL,) * 61, full=MLA_512_64, index=Index(128, tuple(range(61))))
SPARSE_MTP_3 = Draft(AttentionShape(layers=(FULL,) * 3, full=MLA_512_64, index=Index(128, (0, 1, 2))), num_steps=3)
QWEN3_235B = AttentionShape(layers=(FULL,) * 94, full=Heads(num_kv_heads=4, head_dim=128, v_head_dim=128))
MISTRAL_7B = AttentionShape(layers=(SWA,) * 32, full=None, swa=GQA_8_128, sliding_window_size=4096)
LLAMA_70B = AttentionShape(layers=(FULL,) * 80, full=GQA_8_128)

REALISTIC: dict[str, Scenario] = {
    "qwen3-8b": Scenario(QWEN3_8B, (50 * GIB,), page_size=64, context_len=40960),
    "qwen3-8b dflash": Scenario(QWEN3_8B, (50 * GIB,), DFLASH_5, DFLASH, page_size=64, context_len=40960),
    "qwen3-8b dflash, memory figures": Scenario(
        QWEN3_8B,
        MemoryFigures(((79 * GIB, 78 * GIB),), ((63 * GIB, 62 * GIB),), Fraction("0.87")),
        DFLASH_5,
        DFLASH,
        deployment=Deployment(tp_size=2),
        page_size=64,
        context_len=40960,
    ),
    "gpt-oss-20b hybrid": Scenario(GPT_OSS_20B, (50 * GIB,), page_size=64, context_len=131072),
    "gpt-oss-20b hybrid eagle": Scenario(GPT_OSS_20B, (50 * GIB,), EAGLE3_1, EAGLE, page_size=64, context_len=131072),
    "gpt-oss-20b capped eagle": Scenario(
        GPT_OSS_20B,
        (50 * GIB,),
        EAGLE3_1,
        EAGLE,
        page_size=64,
        context_len=131072,
        user_max_running_requests=64,
        disable_radix_cache=True,
    ),
    "deepseek-v3 mla eagle, dp": Scenario(
        DEEPSEEK_V3,
        (60 * GIB,),
        MTP_1,
        EAGLE,
        deployment=Deployment(tp_size=8, attn_dp_size=8),
        page_size=64,
        context_len=163840,
        kv_cache_dtype="fp8_e4m3",
    ),
    "deepseek-v3 mla, dcp": Scenario(
        DEEPSEEK_V3,
        (60 * GIB,),
        deployment=Deployment(tp_size=8, attn_dcp_size=8),
        page_size=64,
        context_len=163840,
    ),
    "deepseek-v3.2 sparse mtp": Scenario(
        DEEPSEEK_V32,
        (60 * GIB,),
        SPARSE_MTP_3,
        MTP,
        deployment=Deployment(tp_size=8),
        page_size=64,
        context_len=163840,
        kv_cache_dtype="fp8_e4m3",
    ),
    "qwen3-235b, pp": Scenario(
        QWEN3_235B,
        (40 * GIB, 41 * GIB, 41 * GIB, 39 * GIB),
        deployment=Deployment(tp_size=4, pp_size=4),
        page_size=16,
        context_len=40960,
        max_total_tokens=1_000_000,
    ),
    "mistral-7b all-window": Scenario(MISTRAL_7B, (50 * GIB,), page_size=64, context_len=32768),
    "llama-70b eagle, dcp": Scenario(
        LLAMA_70B,
        (60 * GIB,),
        DFLASH_5,
        EAGLE,
        deployment=Deployment(tp_size=8, attn_dcp_size=2),
        page_size=64,
        context_len=131072,
    ),
}
"""Models as they are served: 24 to 94 layers, every pool kind, with and without drafts, tp, dp, dcp and pp."""


class Ways(NamedTuple):
    """Three ways to one answer: the spec, a configurator built for the question, a configurator built before."""

    spec: Callable[[], PoolSizes | Refusal]
    build_and_size: Callable[[], PoolSizes | Refusal]
    size: Callable[[], PoolSizes]


class Times(NamedTuple):
    """Best time of each way, in seconds a call."""

    spec: float
    build_and_size: float
    size: float


def ways(scenario: Scenario) -> Ways:
    """The three ways to size one scenario."""
    built, configurator = create_memory_pool_configurator(scenario), Configurator()
    budgets, page_size = stage_budgets(scenario), scenario.page_size
    return Ways(
        lambda: size_pools(scenario),
        lambda: configurator.size_pools(scenario),
        lambda: built.calculate_pool_sizes(budgets, page_size),
    )


def seconds_per_call(call: Callable[[], object], calls: int) -> float:
    """The mean time of one call of a row of them."""
    start = perf_counter()
    for _ in range(calls):
        call()
    return (perf_counter() - start) / calls


def best_times(scenario: Scenario, rounds: int = 15) -> Times:
    """The best of several rounds, the three ways in turns."""
    three = ways(scenario)
    gc.collect()
    gc.disable()
    try:
        measured = [
            tuple(seconds_per_call(call, calls) for call, calls in zip(three, (40, 400, 800), strict=True))
            for _ in range(rounds)
        ]
    finally:
        gc.enable()
    return Times(*map(min, zip(*measured, strict=True)))


def main() -> None:
    """Prints times, ratios and the two medians."""
    print(f"{'scenario':34}{'spec us':>9}{'build+size':>12}{'size':>8}{'ratio':>8}{'built':>8}")
    building, built = [], []
    for name, scenario in REALISTIC.items():
        times = best_times(scenario)
        building.append(times.spec / times.build_and_size)
        built.append(times.spec / times.size)
        microseconds = [1e6 * seconds for seconds in times]
        print("{:34}{:9.1f}{:12.2f}{:8.2f}".format(name, *microseconds) + f"{building[-1]:8.1f}{built[-1]:8.1f}")
    print(f"median: building and sizing {median(building):.1f}x, sizing on a built configurator {median(built):.1f}x")


if __name__ == "__main__":
    main()
