"""Pools as real tensors agree with the accounting in every cell, at any size."""

import random
from dataclasses import replace

import pytest

from impl.torch_pools import allocated_bytes, build_pools
from properties.cells import CELLS
from properties.corpus import corpus_of
from spec.accounting import sold_bytes, spare_bytes
from spec.layers import POOL_KINDS, pool_kind
from spec.model import PoolSizes
from spec.pools import size_pools
from tests.torch_scenarios import accounted_bytes, rows

MOST_BYTES = 64 * 2**20
"""What one scenario may allocate on `cpu`, in bytes."""


def more_rows(sizes, extra):
    """The sizes with so many more rows in every pool that has any."""
    grown = {
        name: getattr(sizes, name) + extra
        for name in ("max_total_num_tokens", "full_max_total_num_tokens", "swa_max_total_num_tokens")
        if getattr(sizes, name)
    }
    return replace(sizes, **grown)


@pytest.fixture(scope="module")
def scenarios():
    """Four draws and the catalog's scenarios of every cell."""
    return [scenario for cell in CELLS for scenario in corpus_of(cell, 4, 0)]


def test_agrees_with_the_accounting_in_every_cell(scenarios):
    """At the sizes the budget buys, and at zero rows: the intercept is the spare rows, nothing else."""
    judged = 0
    for scenario in scenarios:
        nothing = allocated_bytes(scenario, rows(0))
        stages = range(scenario.deployment.pp_size)
        assert nothing == tuple(spare_bytes(scenario, rows(0), stage) for stage in stages), scenario
        sizes = size_pools(scenario)
        if isinstance(sizes, PoolSizes):
            judged += 1
            assert allocated_bytes(scenario, sizes) == accounted_bytes(scenario, sizes), scenario
    assert judged > len(scenarios) // 2 > len(CELLS)


def test_one_more_page_adds_the_bytes_of_its_rows(scenarios):
    """The slope: a page in every pool costs what the accounting says a page sells for, spare rows unchanged."""
    for scenario in scenarios:
        sizes = size_pools(scenario)
        if not isinstance(sizes, PoolSizes):
            continue
        grown = more_rows(sizes, scenario.page_size)
        had, has = allocated_bytes(scenario, sizes), allocated_bytes(scenario, grown)
        for stage in range(scenario.deployment.pp_size):
            sold = sold_bytes(scenario, grown, stage) - sold_bytes(scenario, sizes, stage)
            assert has[stage] - had[stage] == sold, scenario


def small_scenario(scenario):
    """The scenario on smaller pages where its spare rows alone are too many."""
    while max(allocated_bytes(scenario, rows(0))) > MOST_BYTES // 4:
        scenario = replace(scenario, page_size=max(1, scenario.page_size // 2))
    return scenario


def small_sizes(scenario, chance):
    """A few pages in each pool the scenario has, as many as fit into `MOST_BYTES`."""
    page_size, kind = scenario.page_size, pool_kind(scenario)
    spare, page = (max(allocated_bytes(scenario, rows(count, count))) for count in (0, page_size))
    most = max(1, min(40, (MOST_BYTES - spare) // max(1, page - spare) - 1))
    full, swa = (chance.randint(1, most) * page_size for _ in range(2))
    if kind == "allswa":
        return rows(0, swa)
    return rows(full, swa if kind in ("hybrid", "capped") else 0)


def test_500_small_scenarios_really_allocated(scenarios):
    """On `cpu`, each below 64 MiB: the bytes of its storages, and of its items, are the accounting's."""
    chance = random.Random(0)
    kinds = set()
    for drawn in chance.sample(scenarios, 500):
        scenario = small_scenario(drawn)
        sizes = small_sizes(scenario, chance)
        kinds.add((pool_kind(scenario), scenario.speculative_algorithm))
        expected = accounted_bytes(scenario, sizes)
        assert max(expected) < MOST_BYTES
        assert allocated_bytes(scenario, sizes, "cpu") == allocated_bytes(scenario, sizes) == expected, scenario
        for stage, stage_bytes in enumerate(expected):
            tensors = [tensor for pool in build_pools(scenario, sizes, stage, "cpu") for tensor in pool.tensors]
            assert {tensor.device.type for tensor in tensors} <= {"cpu"}
            assert sum(tensor.nelement() * tensor.element_size() for tensor in tensors) == stage_bytes
            assert sum(tensor.untyped_storage().nbytes() for tensor in tensors) == stage_bytes
    assert len(kinds) == len(POOL_KINDS) * 6
