"""Every pair of the catalog on a card with 80 GiB for KV: the tokens an implementation sells, the spec's, and the bytes
of the pools it builds for them.

    python -m properties.pairs --kv-impl sglang --kv-impl-path DIR
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from impl import Implementation
from properties.cells import cell_of
from properties.corpus import pair_scenario, runs_on
from properties.judge import UnlistedAnswer, Unsupported, listed_answer, told
from properties.options import loaded
from properties.show import table
from spec import catalog
from spec.laws.allocation import NOTHING
from spec.laws.base import Answer
from spec.model import Deployment, PoolSizes, Refusal, Scenario
from spec.pools import size_pools
from spec.units import GiB

BUDGET_BYTES = 80 * GiB
"""For KV alone: a difference reads as a share of a card, whatever the weights take."""

DEPLOYMENTS = {
    "tp1": Deployment(),
    "tp8": Deployment(tp_size=8),
    "tp8 dp8": Deployment(tp_size=8, attn_dp_size=8),
    "tp8 dcp8": Deployment(tp_size=8, attn_dcp_size=8),
}


@dataclass(frozen=True)
class PairFigures:
    """What one implementation does with one pair. `tokens` are rows per rank; None, and why in `said`, where there is
    no answer. `built_bytes` are those of one rank, spare rows aside; None where the pools cannot be built."""

    name: str
    algorithm: str
    deployment: str
    cell: str
    spec_tokens: int
    tokens: int | None = None
    built_bytes: int | None = None
    said: str = ""

    @property
    def over_bytes(self) -> int | None:
        """Bytes the pools take beyond the budget; below zero they leave some."""
        return None if self.built_bytes is None else self.built_bytes - BUDGET_BYTES


def pair_scenarios() -> Iterator[tuple[str, str, Scenario]]:
    """(pair, deployment, scenario) of every pair on every deployment that it splits over and the spec sizes."""
    for pair in catalog.pairs():
        dtype = "" if pair.kv_cache_dtype == "auto" else f" in {pair.kv_cache_dtype}"
        for name, deployment in DEPLOYMENTS.items():
            scenario = replace(pair_scenario(pair), deployment=deployment, budget=(BUDGET_BYTES,))
            if runs_on(deployment, scenario.target, scenario.draft) and isinstance(size_pools(scenario), PoolSizes):
                yield f"{pair.target.name}{dtype} + {pair.draft_name}", name, scenario


def built_bytes(implementation: Implementation, scenario: Scenario, sizes: PoolSizes) -> tuple[int, ...] | None:
    """Bytes of the rows sold in the pools that the implementation builds, on one rank of each stage, spare rows aside.
    None where it builds none, or not these."""
    if not hasattr(implementation, "allocated_bytes"):
        return None
    try:
        whole = told(implementation, "allocated_bytes", scenario, sizes)
        spare = told(implementation, "allocated_bytes", scenario, NOTHING)
    except (Unsupported, UnlistedAnswer):
        return None
    return tuple(stage - rows for stage, rows in zip(whole, spare, strict=True))


def pair_figures(implementation: Implementation, name: str, deployment: str, scenario: Scenario) -> PairFigures:
    """One pair sized."""
    expected = size_pools(scenario)
    assert isinstance(expected, PoolSizes) and scenario.speculative_algorithm is not None
    figures = PairFigures(
        name, scenario.speculative_algorithm, deployment, str(cell_of(scenario)), expected.max_total_num_tokens
    )
    try:
        answer: Answer = listed_answer(implementation, scenario)
    except Unsupported as reason:
        return replace(figures, said=f"not supported: {reason}")
    except UnlistedAnswer as error:
        return replace(figures, said=f"unlisted answer: {error}")
    if isinstance(answer, Refusal):
        return replace(figures, said=f"refused: {answer.kind}")
    built = built_bytes(implementation, scenario, answer)
    return replace(figures, tokens=answer.max_total_num_tokens, built_bytes=None if built is None else built[0])


def all_pair_figures(implementation: Implementation) -> list[PairFigures]:
    """Every pair sized, in the order of the catalog."""
    return [pair_figures(implementation, *entry) for entry in pair_scenarios()]


def gib(value: int | None) -> str:
    """Bytes in GiB with a sign, `-` for none."""
    return "-" if value is None else f"{value / GiB:+.2f} GiB"


def pair_table(figures: list[PairFigures]) -> str:
    """A row a pair."""
    header = ["pair at 80 GiB", "algorithm", "ranks", "the spec's", "tokens", "over", ""]
    rows = [
        [
            pair.name,
            pair.algorithm,
            pair.deployment,
            f"{pair.spec_tokens:,}",
            "-" if pair.tokens is None else f"{pair.tokens:,}",
            gib(pair.over_bytes),
            pair.said,
        ]
        for pair in figures
    ]
    return table(header, rows)


def chosen_implementation(arguments: argparse.Namespace) -> Implementation:
    """The implementation of `--kv-impl` and `--kv-impl-path`; one that cannot be loaded ends the program with exit code
    4, as it does a run of the laws."""
    try:
        return loaded(arguments.kv_impl, arguments.kv_impl_path)
    except pytest.UsageError as error:
        print(error, file=sys.stderr)
        raise SystemExit(pytest.ExitCode.USAGE_ERROR) from error


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """The two options that choose an implementation."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kv-impl", default="configurator", metavar="NAME")
    parser.add_argument("--kv-impl-path", metavar="DIR")
    return parser


if __name__ == "__main__":
    print(pair_table(all_pair_figures(chosen_implementation(parser_of(__doc__).parse_args()))))
