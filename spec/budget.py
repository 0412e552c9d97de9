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


def stage_available_bytes(memory: MemoryFigures, stage: int) -> int:
    """The available bytes of one pipeline stage: each reading is the smallest of its ranks."""
    return static_bytes(
        min(memory.free_before_load[stage]), min(memory.free_after_all_weights[stage]), memory.mem_fraction_static
    )


def available_bytes(scenario: Scenario) -> tuple[int, ...]:
    """Available bytes for each pipeline stage. Refuses `no_memory_left` where a stage has none."""
    budget = scenario.budget
    stages = range(scenario.deployment.pp_size)
    if isinstance(budget, MemoryFigures):
        stage_bytes = tuple(stage_available_bytes(budget, stage) for stage in stages)
    else:
        stage_bytes = budget
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
