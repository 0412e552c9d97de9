"""One shard swept on all cores of this machine: jobs in threads, which run outside the lock of the interpreter."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random

from properties.cells import cell_of
from properties.judge import Finding, verdict
from properties.sweep.axes import space_of
from properties.sweep.formulas import RIGHT, Formulas, terms
from properties.sweep.kernel import Kernel, kernel_of
from properties.sweep.laws import LAWS
from properties.sweep.points import Job, KindOfPoints, Points
from properties.sweep.results import Result
from properties.sweep.swept import implementation_of
from spec.laws import BY_ID
from spec.laws.base import Answer, Broken
from spec.layers import ALL_WINDOW_POOL
from spec.model import PoolSizes
from spec.pools import sizes_or_refusal

ALL_LAWS = (1 << len(LAWS)) - 1
SAMPLES = 100_000
"""Points of a space that the spec is asked about."""
AGREEMENT = "Q1"

Progress = Callable[[Result], None]
"""Is told what has been found so far, after each job."""


class KernelsDiffer(AssertionError):
    """The compiled loop and the same loop in Python disagree about a block."""


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=2)
def points_of(text: str) -> Points:
    """The points of a TOML text, kept for the next shard."""
    return Points(space_of(text))


@dataclass(frozen=True)
class Sweep:
    """A space and the sizing that is judged on it."""

    points: Points
    formulas: Formulas = RIGHT
    is_compiled: bool = True

    @property
    def kernel(self) -> Kernel:
        """The loop, compiled unless it runs a small space with a sizing of its own."""
        return kernel_of(self.formulas, is_compiled=self.is_compiled)

    def compile(self) -> None:
        """Makes the loop before it is timed."""
        self.broken_in_job(Job(0, 0, 0, 1))

    def broken_in_block(self, kind: KindOfPoints, number: int) -> dict[str, int]:
        """The first point of a block for each law that it breaks, found again without the compiler."""
        plain, block = kernel_of(self.formulas, is_compiled=False), kind.block(number)
        right, asked = terms(block), plain.variants(block)
        found: dict[str, int] = {}
        for pages in range(self.points.space.sizes):
            of_size, *of_budgets = plain.judged(
                block, right, asked, float(pages), plain.budgets(right, block.page, float(pages))
            )
            for place, bits in enumerate((of_size | of_budgets[0], *of_budgets[1:])):
                for law_number, law in enumerate(LAWS):
                    if int(bits) >> law_number & 1:
                        found.setdefault(law, self.points.index(kind, number, pages, place))
        return found

    def broken_in_job(self, job: Job) -> dict[str, int]:
        """The first point of a job for each law that is broken in it."""
        kind, start, wanted = self.points.kinds[job.kind], job.start, ALL_LAWS
        found: dict[str, int] = {}
        while wanted:
            bits, number = self.kernel.scan(
                kind.number, kind.cells.prices, kind.rows, start, job.stop, job.step, self.points.space.sizes, wanted
            )
            if not bits:
                return found
            in_block = self.broken_in_block(kind, number)
            if sum(1 << LAWS.index(law) for law in in_block) != bits:
                raise KernelsDiffer(f"{kind.cells.kind} block {number}: bits {bits}, without the compiler {in_block}")
            found |= {law: index for law, index in in_block.items() if law not in found}
            wanted = ALL_LAWS & ~sum(1 << LAWS.index(law) for law in found)
            start = number + job.step
        return found

    def differs_from_the_spec(self, index: int) -> bool:
        """Whether the compiled sizing and the spec answer a point differently."""
        kind, number, pages, place = self.points.located(index)
        block = kind.block(number)
        rows, swa, started = self.kernel.answer(block, float(self.points.block_budgets(block, pages)[place]))
        answer = sizes_or_refusal(self.points.scenario(index))
        if not isinstance(answer, PoolSizes) or not started:
            return isinstance(answer, PoolSizes) or bool(started)
        full = 0 if kind.cells.kind == ALL_WINDOW_POOL else rows
        return (rows, full, swa) != (
            answer.max_total_num_tokens,
            answer.full_max_total_num_tokens,
            answer.swa_max_total_num_tokens,
        )

    def sampled(self, shard: int, shards: int, samples: int) -> Iterator[int]:
        """Points of a shard to ask the spec about, as many of each kind, so that a small one is met, too."""
        random, share = Random(f"{self.points.space.digest} {shard}/{shards}"), samples // len(self.points.kinds)
        for kind in self.points.kinds:
            blocks = range((shard - kind.first_block) % shards, kind.blocks, shards)
            budgets = self.points.budgets
            for number in random.sample(range(len(blocks) * budgets), min(share, len(blocks) * budgets)):
                yield self.points.index(kind, blocks[number // budgets], 0, number % budgets)

    def first_difference(self, shard: int, shards: int, samples: int) -> tuple[int, dict[str, int]]:
        """(samples, Q1 and the first of them in which the compiled sizing differs from the spec)."""
        drawn = sorted(self.sampled(shard, shards, samples))
        differing = next((index for index in drawn if self.differs_from_the_spec(index)), None)
        return len(drawn), {} if differing is None else {AGREEMENT: differing}

    def finding(self, law_id: str, index: int) -> tuple[Finding, Answer]:
        """A point as the reporter takes it: what the law of `spec/laws/` says of its scenario, and the answer. Where
        that law holds, the sweep and it differ, which is as wrong."""
        scenario, implementation = self.points.scenario(index), implementation_of(self.formulas)
        outcome = verdict(BY_ID[law_id], implementation, scenario)[0]
        if not isinstance(outcome, Broken):
            outcome = Broken("sweep", f"{law_id} {outcome.value}, by spec/laws", "broken, by the sweep")
        return Finding(BY_ID[law_id], cell_of(scenario), scenario, outcome), implementation.size_pools(scenario)


def swept(
    sweep: Sweep, shard: int = 0, shards: int = 1, *, before: Result | None = None, samples: int = SAMPLES,
    threads: int | None = None, progress: Progress = lambda result: None,
) -> Result:  # fmt: skip
    """One shard, from where `before` got to. Jobs end in any order and are told in theirs."""
    name = f"{shard + 1}/{shards}"
    result = before or Result(sweep.points.space.digest, sweep.points.count, (name,))
    jobs = list(sweep.points.jobs(shard, shards))
    if result.jobs is None:
        return result
    sweep.compile()
    started, earlier = time.monotonic(), result.seconds
    executor = ThreadPoolExecutor(threads or cores())
    try:
        left = jobs[result.jobs :]
        for job, found in zip(left, executor.map(sweep.broken_in_job, left), strict=True):
            result = replace(
                result,
                jobs=(result.jobs or 0) + 1,
                judged=result.judged + job.blocks * sweep.points.budgets,
                seconds=earlier + time.monotonic() - started,
                broken=result.with_broken(found),
            )
            progress(result)
    finally:
        executor.shutdown(cancel_futures=True)
    asked, differing = sweep.first_difference(shard, shards, -(-samples // shards))
    return replace(result, jobs=None, samples=asked, broken=result.with_broken(differing))


def swept_text(text: str, shard: int, shards: int, samples: int = SAMPLES, threads: int = 1) -> Result:
    """One shard of a TOML text: what a worker of a cluster is asked for."""
    return swept(Sweep(points_of(text)), shard, shards, samples=samples, threads=threads)
