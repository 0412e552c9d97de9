"""The numbers of the guide's figures, each from the formula it illustrates."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import floor

from spec import catalog
from spec.catalog import CatalogPair
from spec.explain.findings import by_layer_ratio, draft_token_bytes
from spec.explain.report import Explanation, explain
from spec.explain.results import token_bar
from spec.explain.setup import parser, setup_of
from spec.laws import LAWS
from spec.laws.startup import START_UP_LAWS, counted_bytes
from spec.layers import POOL_KINDS, WINDOW_POOLS
from spec.model import Deployment, PoolSizes, Scenario
from spec.pools import rows_that_fit, size_pools, stage_row_bytes
from spec.startup.explorer import explore, finished, replayed
from spec.startup.protocols import HISTORICAL, PRESENT, Protocol
from spec.startup.system import System, free_bytes
from spec.startup.world import static_share
from spec.startup.worlds import ROOMY, small_world
from spec.units import GiB

MEMORY_EXAMPLES = (
    "Qwen3-8B z-lab/Qwen3-8B-DFlash-b16 --gpu-bytes 80GiB --mem-fraction-static 0.88 --weights-bytes 15.25GiB "
    "--draft-weights-bytes 2GiB --page-size 64",
    "gpt-oss-20b z-lab/gpt-oss-20b-DFlash --gpu-bytes 80GiB --mem-fraction-static 0.88 --weights-bytes 13GiB "
    "--draft-weights-bytes 2GiB --page-size 64",
)
"""Two budgets on one card. The bytes of the weights are examples; the catalog holds none."""

TOKEN_PAIRS = (
    ("Qwen3-8B", "z-lab/Qwen3-8B-DFlash-b16"),
    ("Llama-3.1-8B", "Llama-3.2-1B"),
    ("gpt-oss-20b", "z-lab/gpt-oss-20b-DFlash"),
    ("MiMo-V2-Flash", "MiMo-V2 DFlash (released)"),
    ("Kimi-K2.5", "SpecForge kimi-k25-eagle3"),
    ("Kimi-K3", "Kimi-K3 DSpark, GQA (RadixArk/Kimi-K3-DSpark)"),
    ("DeepSeek-V3", "DeepSeek-V3/R1 MTP (built in)"),
)
"""A GQA target, a small model as draft, two window models, three MLA targets."""

REPLICATED = ("Qwen2.5-7B", "Qwen2.5-1.5B")
"""A target of 4 KV heads and a draft of 2: from tp 2 on the draft costs a rank the same, from tp 4 on both do."""
RANK_COUNTS = (1, 2, 4, 8, 16)
REPLICATED_BYTES = 40 * GiB


def pair_of(names: tuple[str, str]) -> CatalogPair:
    """A pair of the catalog."""
    return next(pair for pair in catalog.pairs() if (pair.target.name, pair.draft_name) == names)


def pair_scenario(pair: CatalogPair, tp_size: int = 1, available: int = 80 * GiB) -> Scenario:
    """A pair as it is served, with so many bytes for KV on each rank."""
    return Scenario(
        target=pair.target.shape,
        budget=(available,),
        draft=pair.draft,
        speculative_algorithm=pair.speculative_algorithm,
        deployment=Deployment(tp_size=tp_size),
        kv_cache_dtype=pair.kv_cache_dtype,
        window_pools=pair.target.window_pools,
        swa_full_tokens_ratio=pair.swa_full_tokens_ratio,
    )


def explained(line: str) -> Explanation:
    """The explanation of a command line whose names have no blanks."""
    return explain(setup_of(parser("explain").parse_args(line.split())))


def memory_examples() -> tuple[Explanation, ...]:
    """The budgets of the memory bars."""
    return tuple(explained(line) for line in MEMORY_EXAMPLES)


def token_examples() -> dict[str, dict[str, int | Fraction]]:
    """Pair -> bytes of one token by term, at tp 1."""
    pairs = map(pair_of, TOKEN_PAIRS)
    return {
        f"{pair.target.name}, {pair.speculative_algorithm}": {
            one.name: one.bytes for one in token_bar(pair_scenario(pair))
        }
        for pair in pairs
    }


def sold(scenario: Scenario) -> int:
    """Tokens sold. A figure shows no refusal."""
    answer = size_pools(scenario)
    assert isinstance(answer, PoolSizes)
    return answer.max_total_num_tokens


def tokens_by_tp() -> dict[str, dict[int, int]]:
    """Line -> tensor-parallel ranks -> tokens sold: without a draft, with it, and by an engine that splits its heads
    further than there are heads."""
    pair = pair_of(REPLICATED)
    plain, drafted, split = {}, {}, {}
    for ranks in RANK_COUNTS:
        scenario = pair_scenario(pair, ranks, REPLICATED_BYTES)
        alone = pair_scenario(pair, 1, REPLICATED_BYTES)
        plain[ranks] = sold(replace(scenario, speculative_algorithm=None))
        drafted[ranks] = sold(scenario)
        price = stage_row_bytes(scenario, 0).full + Fraction(stage_row_bytes(alone, 0).draft, ranks)
        split[ranks] = rows_that_fit(REPLICATED_BYTES, price, scenario.page_size)
    return {"no draft": plain, "draft, as it is stored": drafted, "draft, split over all ranks": split}


def ratio_errors() -> list[tuple[str, dict[int, Fraction]]]:
    """(pair, tensor-parallel ranks -> what the layer ratio charges of what the draft costs), the lowest first."""
    found = []
    for pair in catalog.pairs():
        dtype = "" if pair.kv_cache_dtype == "auto" else f" {pair.kv_cache_dtype}"
        scenarios = {ranks: pair_scenario(pair, ranks) for ranks in (1, 8)}
        shares = {
            ranks: draft_token_bytes(by_layer_ratio(scenario, pair.draft)) / draft_token_bytes(scenario)
            for ranks, scenario in scenarios.items()
        }
        found.append((f"{pair.target.name}{dtype} + {short_name(pair.draft_name)}", shares))
    return sorted(found, key=lambda entry: (entry[1][1], entry[0]))


def short_name(name: str) -> str:
    """A draft's name up to its first bracket."""
    return name.split(" (")[0]


TRACED = (PRESENT[3], HISTORICAL[0], HISTORICAL[2])
"""EAGLE as it starts now; measured before the draft loads; and with a flat reserve in place of a measurement."""


@dataclass(frozen=True)
class StartUp:
    """One start-up on one rank: its steps, the bytes free at first and after each, those that are to stay free of
    weights and pools, and how many of them are taken, counted as law S5 counts."""

    steps: tuple[str, ...]
    free_bytes: tuple[int, ...]
    kept_bytes: int
    over_bytes: int


def start_up(protocol: Protocol) -> StartUp:
    """A shortest way to more bytes than the static part, and on to the end; the first way where there is none."""
    world = small_world(protocol, (ROOMY,), captures=False, releases=False)
    system = System(world)
    violation = explore(system, START_UP_LAWS).violations.get("S5")
    trace = finished(system, () if violation is None else violation.trace)
    states = [state[0] for state in replayed(system, trace)]
    most = max(counted_bytes(system, state) for state in states)
    return StartUp(
        steps=tuple(str(step) for _, step in trace),
        free_bytes=tuple(free_bytes(world, 0, state) for state in states),
        kept_bytes=world.ranks[0].free_before_load - floor(static_share(world, 0)),
        over_bytes=max(0, most - floor(static_share(world, 0))),
    )


def startup_traces() -> dict[str, StartUp]:
    """Protocol -> its start-up."""
    return {protocol.name: start_up(protocol) for protocol in TRACED}


DRAFT_GROUPS = ("no draft", "same", "own")
"""Columns of the law matrix within a pool kind."""


def cell_names(pool: str, group: str) -> Iterator[str]:
    """The cells of a pool kind without a draft, with one shaped as the target, with one of its own shape
    (`properties/cells.py`)."""
    deployments = [name for name in ("tp", "dp", "dcp", "pp") if not (name == "dcp" and pool in WINDOW_POOLS)]
    if group == "no draft":
        yield from (f"{pool}-none-{deployment}-same" for deployment in deployments)
        return
    drafts = ("eagle", "mtp", "standalone", "dflash", "dspark")
    for draft, deployment, dtype in product(drafts, deployments, ("same", "other")):
        yield f"{pool}-{draft}_{group}-{deployment}-{dtype}"


def law_matrix() -> Mapping[str, Mapping[str, tuple[int, int]]]:
    """Law -> pool kind and draft -> how many of its cells the law claims, and how many there are."""
    columns = {f"{pool} {group}": tuple(cell_names(pool, group)) for pool in POOL_KINDS for group in DRAFT_GROUPS}
    return {
        f"{law.id} {law.name}": {column: (sum(map(law.claims, cells)), len(cells)) for column, cells in columns.items()}
        for law in LAWS
    }
