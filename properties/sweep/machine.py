"""How fast the machine is, and NumPy on it: what the rate of a sweep is to be read beside."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from properties.sweep.formulas import RIGHT, Block, terms
from properties.sweep.kernel import compiled_loop, kernel_of
from properties.sweep.points import KindOfPoints, Points

BANDWIDTH_BYTES = 2**26
"""Bytes that a thread reads again and again; no cache of a core holds them."""
DIVISIONS = 2**22
"""Divisions of a thread in a round."""
CHUNK_BLOCKS = 2**8
"""Blocks whose points NumPy gets as arrays at once: some megabytes a column."""
BYTES_OF_A_POINT = 8 * (len(Block._fields) + 1)
"""Of a block and a budget, which a sweep generates in place of reading them."""
SECONDS = 0.5
"""How long each is measured."""


@dataclass(frozen=True)
class Machine:
    """Of so many threads together: bytes read a second, float64 divisions a second, points a second that NumPy
    judges."""

    threads: int
    bytes_a_second: float
    divisions_a_second: float
    numpy_points_a_second: float

    def text(self, points_a_second: float) -> list[str]:
        """The rate of a sweep beside it."""
        ratio = points_a_second / self.numpy_points_a_second
        return [
            f"sweep     {points_a_second / 1e6:10,.1f} million points a second on {self.threads} threads",
            f"NumPy     {self.numpy_points_a_second / 1e6:10,.1f} million points a second, the same laws on arrays of "
            f"points: {ratio:.1f} times slower",
            f"divisions {self.divisions_a_second / 1e6:10,.1f} million a second: the machine has time for "
            f"{self.divisions_a_second / points_a_second:.1f} a point",
            f"memory    {self.bytes_a_second / 1e9:10,.1f} GB read a second: "
            f"{self.bytes_a_second / 1e6 / BYTES_OF_A_POINT:,.1f} million points a second, had a point to be read",
        ]


def rate(threads: int, work: Callable[[int], float]) -> float:
    """What threads get done in a second; `work` is one round of one thread and says how much it was."""
    for thread in range(threads):
        work(thread)

    def until(thread: int) -> float:
        done, end = 0.0, time.monotonic() + SECONDS
        while time.monotonic() < end:
            done += work(thread)
        return done

    with ThreadPoolExecutor(threads) as pool:
        started = time.monotonic()
        done = sum(pool.map(until, range(threads)))
        return done / (time.monotonic() - started)


@compiled_loop
def read_all(numbers: Any) -> float:
    """Reads an array once."""
    largest = 0.0
    for number in numbers:
        largest = number if number > largest else largest
    return largest


@compiled_loop
def divide(dividend: float, divisor: float, times: int) -> float:
    """So many divisions that do not wait for each other."""
    largest = 0.0
    for number in range(times):
        quotient = (dividend + number) / divisor
        largest = quotient if quotient > largest else largest
    return largest


def bytes_a_second(threads: int) -> float:
    """Of memory, read by all threads, each its own array."""
    arrays = [np.zeros(BANDWIDTH_BYTES // 8) for _ in range(threads)]

    def work(thread: int) -> float:
        read_all(arrays[thread])
        return float(BANDWIDTH_BYTES)

    return rate(threads, work)


def divisions_a_second(threads: int) -> float:
    """Of float64 in vectors."""

    def work(thread: int) -> float:
        divide(1e9 + thread, 3.0, DIVISIONS)
        return float(DIVISIONS)

    return rate(threads, work)


def numpy_columns(points: Points, kind: KindOfPoints, first: int) -> tuple[Block, Any]:
    """(a column for each number of a block, pages) of some blocks: one entry a size, its budgets are side by side."""
    blocks = [kind.block((first + number) % kind.blocks) for number in range(CHUNK_BLOCKS)]
    columns: Any = np.repeat(np.array(blocks), points.space.sizes, axis=0).T
    return Block(*columns), np.tile(np.arange(points.space.sizes, dtype=np.float64), CHUNK_BLOCKS)


def numpy_bits(block: Block, pages: Any) -> int:
    """The laws that a chunk breaks, by NumPy: the formulas and laws as they are, on arrays."""
    plain, right = kernel_of(RIGHT, is_compiled=False), terms(block)
    budgets = plain.budgets(right, block.page, pages)
    judged = plain.judged(block, right, plain.variants(block), pages, budgets)
    return int(np.bitwise_or.reduce([np.bitwise_or.reduce(bits) for bits in judged]))


def numpy_points_a_second(points: Points, threads: int) -> float:
    """Points that NumPy judges, chunk by chunk, of the kind with the most; making its columns is not counted."""
    kind = max(points.kinds, key=lambda entry: entry.blocks)
    chunks = [numpy_columns(points, kind, CHUNK_BLOCKS * thread) for thread in range(threads)]

    def work(thread: int) -> float:
        numpy_bits(*chunks[thread])
        return float(CHUNK_BLOCKS * points.budgets)

    return rate(threads, work)


def measured(points: Points, threads: int) -> Machine:
    """All three, one after the other."""
    return Machine(
        threads, bytes_a_second(threads), divisions_a_second(threads), numpy_points_a_second(points, threads)
    )
