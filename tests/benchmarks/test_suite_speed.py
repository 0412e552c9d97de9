"""The suite itself: the sweep, drawing scenarios, judging them, importing. Nothing is asserted about time."""

import subprocess
import sys
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from impl.optimized import Configurator
from properties.cell_names import BY_NAME
from properties.corpus import corpus_of
from properties.judge import judge_cell
from properties.sweep.kernel import kernel_of
from properties.sweep.machine import CHUNK_BLOCKS, numpy_bits, numpy_columns
from properties.sweep.run import ALL_LAWS, points_of
from spec.laws import BY_ID
from spec.pools import size_pools
from tests.benchmarks.baseline import beside

SPACE = (Path(__file__).parents[1] / "data" / "small_space.toml").read_text(encoding="utf-8")
CELLS = ("default-eagle_own-tp-same", "hybrid-dflash_own-tp-same", "capped-mtp_own-pp-other")
DRAWS = 20


def test_sweep(benchmark: BenchmarkFixture) -> None:
    """As many blocks of hybrid pools as NumPy judges at once, one core each."""
    points, scan = points_of(SPACE), kernel_of().scan
    kind = points.kinds[2]
    repeats = CHUNK_BLOCKS // kind.blocks
    columns = numpy_columns(points, kind, 0)

    def swept() -> int:
        bits = 0
        for _ in range(repeats):
            bits |= scan(kind.number, kind.cells.prices, kind.rows, 0, kind.blocks, 1, points.space.sizes, ALL_LAWS)[0]
        return bits

    assert CHUNK_BLOCKS % kind.blocks == 0 and numpy_bits(*columns) == 0
    assert benchmark.pedantic(swept, rounds=20, warmup_rounds=1) == 0  # type: ignore[no-untyped-call]
    if benchmark.stats is not None:
        benchmark.extra_info["points_a_second"] = CHUNK_BLOCKS * points.budgets / benchmark.stats.stats.min
    beside(benchmark, "NumPy on the same points", lambda: numpy_bits(*columns))


@pytest.mark.parametrize("name", CELLS)
def test_draw_scenarios(benchmark: BenchmarkFixture, name: str) -> None:
    """The corpus of a cell."""
    cell = BY_NAME[name]
    drawn = benchmark.pedantic(corpus_of, (cell, DRAWS, 1), rounds=5)  # type: ignore[no-untyped-call]
    if benchmark.stats is not None:
        benchmark.extra_info["scenarios_a_second"] = len(drawn) / benchmark.stats.stats.min
    beside(benchmark, "the spec sizes them", lambda: [size_pools(scenario) for scenario in drawn])


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("law_id", ["B1", "B6", "D4", "Q1"])
def test_judge(benchmark: BenchmarkFixture, law_id: str, name: str) -> None:
    """One law over the corpus of a cell."""
    cell, configurator = BY_NAME[name], Configurator()
    drawn = corpus_of(cell, DRAWS, 1)
    judged = (BY_ID[law_id], cell, configurator, drawn)
    tally, found = benchmark.pedantic(judge_cell, judged, rounds=5)  # type: ignore[no-untyped-call]
    assert tally.judged and not found
    if benchmark.stats is not None:
        benchmark.extra_info["judgements_a_second"] = tally.judged / benchmark.stats.stats.min
    beside(benchmark, "the spec sizes them", lambda: [size_pools(scenario) for scenario in drawn])


def python(code: str) -> None:
    """A process of its own."""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("module", ["spec.pools", "spec.laws", "impl.configurator", "impl.optimized"])
def test_import(benchmark: BenchmarkFixture, module: str) -> None:
    """A process that imports one module, and no more. `impl.optimized` imports torch."""
    benchmark.pedantic(python, (f"import {module}",), rounds=3)  # type: ignore[no-untyped-call]
    beside(benchmark, "an empty process", lambda: python("pass"))
