"""Spec and configurator on the same realistic scenarios in one run; ratios go into `extra_info`. Nothing is asserted
about time: `python -m tests.benchmarks.ratios` prints both ratios."""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from spec.model import PoolSizes
from tests.benchmarks.ratios import REALISTIC, seconds_per_call, ways

NAMES = list(REALISTIC)


def record(benchmark: BenchmarkFixture, name: str, way: str) -> None:
    """Times one way, and the spec beside it for the ratio."""
    three = ways(REALISTIC[name])
    benchmark.group = name
    spec_seconds = min(seconds_per_call(three.spec, 20) for _ in range(5))
    answer = benchmark.pedantic(getattr(three, way), rounds=20, iterations=100)  # type: ignore[no-untyped-call]
    assert isinstance(answer, PoolSizes) and answer == three.spec()
    if benchmark.stats is not None:
        benchmark.extra_info["spec_seconds"] = spec_seconds
        benchmark.extra_info["times_faster_than_spec"] = spec_seconds / benchmark.stats.stats.min


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
