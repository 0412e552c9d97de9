"""Spec, configurator and batches on the same realistic scenarios in one run; ratios go into `extra_info`. Nothing is
asserted about time: `python -m tests.benchmarks.ratios` prints the ratios of spec and configurator."""

from fractions import Fraction

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from impl.batched import size_batch
from impl.batched_scenarios import batch_of, row_of
from impl.configurator import create_memory_pool_configurator
from spec.layers import POOL_KINDS, pool_kind
from spec.model import PoolSizes
from tests.benchmarks.baseline import beside
from tests.benchmarks.ratios import REALISTIC, ways

NAMES = list(REALISTIC)
AVAILABLE, CELL = Fraction(50 * 2**30), Fraction(147456 * 5 + 98304 * 4, 5)
"""Bytes, and bytes per token at a ratio of 4/5: what the spec divides in the end."""


def record(benchmark: BenchmarkFixture, name: str, way: str) -> None:
    """Times one way, and the spec beside it for the ratio."""
    three = ways(REALISTIC[name])
    benchmark.group = name
    answer = benchmark.pedantic(getattr(three, way), rounds=20, iterations=100)  # type: ignore[no-untyped-call]
    assert isinstance(answer, PoolSizes) and answer == three.spec()
    if way == "spec":
        beside(benchmark, "one division of Fractions", lambda: AVAILABLE // CELL, calls=1000)
    else:
        beside(benchmark, "spec", three.spec, calls=20, rounds=5)


@pytest.mark.parametrize("name", NAMES)
def test_spec(benchmark: BenchmarkFixture, name: str) -> None:
    """The reference itself."""
    record(benchmark, name, "spec")


@pytest.mark.parametrize("name", NAMES)
def test_build_and_size(benchmark: BenchmarkFixture, name: str) -> None:
    """A configurator built for the question."""
    record(benchmark, name, "build_and_size")


@pytest.mark.parametrize("name", NAMES)
def test_size(benchmark: BenchmarkFixture, name: str) -> None:
    """A configurator built before."""
    record(benchmark, name, "size")


ROWS = 10_000
"""Scenarios of a batch."""


@pytest.mark.parametrize("kind", POOL_KINDS)
def test_size_a_batch(benchmark: BenchmarkFixture, kind: str) -> None:
    """Ten thousand budgets of one model as columns, beside a configurator that is asked for each."""
    scenario = next(scenario for scenario in REALISTIC.values() if pool_kind(scenario) == kind)
    row = row_of(scenario)
    batch = batch_of([row] * ROWS)
    available = [bytes_of_row[0] + place for place, bytes_of_row in enumerate(batch.available_bytes.tolist())]
    batch.available_bytes[:, 0] = available
    configurator = create_memory_pool_configurator(scenario)

    def one_by_one() -> list[PoolSizes]:
        return [configurator.calculate_pool_sizes((one,), scenario.page_size) for one in available]

    sized = benchmark.pedantic(size_batch, (kind, batch), rounds=10)  # type: ignore[no-untyped-call]
    assert sized.max_total_num_tokens.tolist() == [answer.max_total_num_tokens for answer in one_by_one()]
    if benchmark.stats is not None:
        benchmark.extra_info["scenarios_per_second"] = ROWS / benchmark.stats.stats.min
    beside(benchmark, "a configurator, one by one", one_by_one)
