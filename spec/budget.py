"""GPU memory to available bytes.

Upstream: `mem_cache/kv_cache_configurator.py: _profile_available_bytes`. SGLang computes it in float GiB; later
releases also take off a multimodal reservation, which is 0 here.
"""

import math
from fractions import Fraction

from spec.model import MemoryFigures, Scenario, refuse


def static_bytes(free_before_load: int, free_after_all_weights: int, mem_fraction_static: Fraction) -> int:
    """What is left for KV: the bytes still free after all weights, less the share of the memory free before loading
    that stays out of the static part. Rounded down; zero or less means nothing is left."""
    return math.floor(free_after_all_weights - free_before_load * (1 - mem_fraction_static))


def least_reading(readings: tuple[tuple[int, ...], ...]) -> int:
    """The smallest reading of all ranks of all stages: every rank goes by it."""
    return min(min(stage) for stage in readings)


def profiled_bytes(memory: MemoryFigures) -> int:
    """The available bytes of every rank, from one set of readings. Each reading is the smallest of all ranks, so the
    two may come from different ones."""
    return static_bytes(
        least_reading(memory.free_before_load),
        least_reading(memory.free_after_all_weights),
        memory.mem_fraction_static,
    )


def available_bytes(scenario: Scenario) -> tuple[int, ...]:
    """Available bytes for each pipeline stage, alike on all where they come from memory figures. Refuses
    `no_memory_left` where a stage has none."""
    budget = scenario.budget
    stages = range(scenario.deployment.pp_size)
    stage_bytes = (profiled_bytes(budget),) * len(stages) if isinstance(budget, MemoryFigures) else budget
    for stage in stages:
        if stage_bytes[stage] <= 0:
            raise refuse(
                "no_memory_left",
                f"available_bytes[{stage}]",
                stage_bytes[stage],
                "raise mem_fraction_static or free memory before the weights are loaded",
                needed=1,
                available=stage_bytes[stage],
            )
    return stage_bytes
