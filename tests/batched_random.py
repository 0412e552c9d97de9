"""Batched sizing beside the spec on random scenarios of every pool kind: `make batched`, a million of them.

    python -m tests.batched_random --scenarios 1000000 --seed 0

Exit code 1 where an answer differs; the scenario is printed as a call to paste.
"""

import argparse
from collections import Counter
from random import Random

from tqdm import tqdm

from impl.batched_scenarios import size_scenarios
from properties.show import answer_text, paste_able
from spec.layers import POOL_KINDS, pool_kind
from spec.model import PoolSizes, Refusal, Scenario
from spec.pools import sizes_or_refusal
from tests.random_scenarios import random_scenario

TOGETHER = 1000
"""Scenarios of a batch."""


def kind_of(answer: PoolSizes | Refusal) -> str:
    """What is counted of an answer."""
    return "sized" if isinstance(answer, PoolSizes) else answer.kind


def differing(scenarios: list[Scenario], counts: Counter[str]) -> Scenario | None:
    """The first scenario that a batch answers differently from the spec: another size, or another refusal."""
    for scenario, answer in zip(scenarios, size_scenarios(scenarios), strict=True):
        expected = sizes_or_refusal(scenario)
        counts[kind_of(expected)] += 1
        if answer != expected if isinstance(expected, PoolSizes) else kind_of(answer) != expected.kind:
            return scenario
    return None


def checked(kind: str, scenarios: int, seed: int, told: "tqdm[None]") -> tuple[Counter[str], Scenario | None]:
    """So many scenarios of one kind: what the spec answered, and the first that differs."""
    random, counts = Random(f"{kind} {seed}"), Counter[str]()
    while counts.total() < scenarios:
        drawn = [random_scenario(random, kind) for _ in range(min(TOGETHER, scenarios - counts.total()))]
        wrong = differing(drawn, counts)
        if wrong is not None:
            return counts, wrong
        told.update(len(drawn))
    return counts, None


def main(arguments: list[str] | None = None) -> int:
    """Prints a line a kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", type=int, default=1_000_000, help="of all kinds together")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    with tqdm(total=given.scenarios, unit=" scenarios", disable=None, leave=False) as told:
        for kind in POOL_KINDS:
            counts, wrong = checked(kind, given.scenarios // len(POOL_KINDS), given.seed, told)
            if wrong is not None:
                assert pool_kind(wrong) == kind
                print(f"{kind} differs at {paste_able(wrong)}")
                print(f"batched: {answer_text(size_scenarios([wrong])[0])}")
                print(f"spec: {answer_text(sizes_or_refusal(wrong))}")
                return 1
            answers = ", ".join(f"{count:,} {answer}" for answer, count in counts.most_common())
            print(f"{kind}: {counts.total():,} scenarios, all alike: {answers}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
