"""`python -m spec explain`: every equation is worked out again, and every word of advice is tried."""

import math
import re
from fractions import Fraction
from importlib import import_module

import pytest

from spec import catalog
from spec.explain.equations import SECTIONS
from spec.explain.report import explain
from spec.explain.results import limiting_stage
from spec.explain.setup import Setup
from spec.layers import CAPPED_POOL, HYBRID_POOL, pool_kind
from spec.model import FULL, LINEAR, SWA, AttentionShape, Deployment, Draft, Heads, MemoryFigures, PoolSizes, Scenario
from spec.pools import bytes_per_token, size_pools, stage_row_bytes
from spec.units import GiB, align_down, align_up
from spec.validity import check_scenario
from tests.fault_examples import EXAMPLES

NAMES = {
    "align_down": align_down,
    "align_up": align_up,
    "floor": math.floor,
    "min": min,
    "max": max,
}


def worked_out(numbers):
    """The value of an equation's right-hand side, exactly."""
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", numbers)
    exact = re.sub(r"\d+\.\d+", lambda found: f"Fraction('{found[0]}')", plain)
    return eval(exact, {"__builtins__": {}}, NAMES | {"Fraction": Fraction})


def setup(scenario):
    """A setup around a scenario; weights are what loading took."""
    budget, weights = scenario.budget, None
    if isinstance(budget, MemoryFigures):
        weights = budget.free_before_load[0][0] - budget.free_after_all_weights[0][0]
    return Setup("target", None if scenario.draft is None else "draft", scenario, weights, None, 1)


def pair_scenario(pair, **fields):
    """A pair of the catalog with 80 GiB for KV."""
    return Scenario(
        pair.target.shape,
        (80 * GiB,) * fields.get("deployment", Deployment()).pp_size,
        draft=pair.draft,
        speculative_algorithm=pair.speculative_algorithm,
        window_pools=pair.target.window_pools,
        kv_cache_dtype=pair.kv_cache_dtype,
        swa_full_tokens_ratio=pair.swa_full_tokens_ratio,
        **fields,
    )


DEPLOYMENTS = (
    {},
    {"deployment": Deployment(tp_size=8), "page_size": 64},
    {"deployment": Deployment(tp_size=8, attn_dp_size=8)},
    {"deployment": Deployment(tp_size=8, attn_dcp_size=8), "max_total_tokens": 1000},
    {"deployment": Deployment(pp_size=2), "page_size": 16},
    {"user_max_running_requests": 8, "disable_radix_cache": True, "page_size": 128},
)


def is_valid(scenario):
    """Whether it means anything, and is priced by its own geometry: the command line knows no other."""
    try:
        check_scenario(scenario)
    except ValueError:
        return False
    return scenario.draft is None or scenario.draft.geometry_resolved


def plain(name, **fields):
    """A target of the catalog without a draft."""
    entry = catalog.target(name)
    return Scenario(entry.shape, (80 * GiB,), window_pools=entry.window_pools, **fields)


def small(shape, *stage_bytes, **fields):
    """A small shape in fp8."""
    return Scenario(shape, stage_bytes, kv_cache_dtype="fp8_e4m3", **fields)


HEAD = Heads(1, 2, 2)
RARE = [
    plain("GLM-5.2", kv_cache_dtype="fp8_e4m3"),
    plain("DeepSeek-V3", kv_cache_dtype="fp4_mx_block16"),
    plain("MiniMax-M3"),
    plain("Qwen3-8B", kv_cache_dtype="nvfp4"),
    plain("Qwen3-8B", kv_cache_dtype="mxfp8", user_max_running_requests=8),
    small(AttentionShape((SWA,), None, HEAD, sliding_window_size=2), 400, context_len=64),
    small(
        AttentionShape((SWA,), None, HEAD, sliding_window_size=2),
        4000,
        draft=Draft(AttentionShape((FULL,), HEAD)),
        speculative_algorithm="EAGLE",
    ),
    small(AttentionShape((FULL, LINEAR), HEAD), 400, 400, deployment=Deployment(pp_size=2)),
]
SCENARIOS = [
    scenario
    for pair in catalog.pairs()
    for fields in DEPLOYMENTS
    if is_valid(scenario := pair_scenario(pair, **fields))
]
SCENARIOS += [*RARE, *filter(is_valid, EXAMPLES.values())]


@pytest.fixture(scope="module", name="explained")
def explained_once():
    """Every scenario explained."""
    return [explain(setup(scenario)) for scenario in SCENARIOS]


def test_every_equation_is_true(explained):
    """Worked out from the numbers it prints, an equation gives what the formula of the spec returned."""
    equations = [equation for explanation in explained for equation in explanation.equations]
    assert [one for one in equations if worked_out(one.numbers) != one.value] == []
    assert {one.section for one in equations} == set(SECTIONS)
    assert len(SCENARIOS) > 200 and len(equations) > 3000


def test_every_source_is_a_name_of_the_spec(explained):
    """The function named beside an equation exists."""
    sources = {equation.source for explanation in explained for equation in explanation.equations}
    assert len(sources) > 20
    for source in sources:
        module, name = source.split(".")
        assert hasattr(import_module(f"spec.{module}"), name)


def test_the_last_n_is_what_is_sold(explained):
    """The equations end in the answer."""
    for explanation in explained:
        if isinstance(explanation.answer, PoolSizes):
            rows = [one.value for one in explanation.equations if one.name == "N"]
            assert rows[-1] == explanation.answer.max_total_num_tokens
            assert explanation.answer == size_pools(explanation.setup.scenario)


def test_what_a_request_needs_is_its_rows_at_the_price_of_a_token(explained):
    """On the dearest stage, the draft's rows included; where full rows bring no SWA rows with them."""
    kinds = set()
    for explanation in explained:
        scenario, needed = explanation.setup.scenario, explanation.needed
        kind, stages = pool_kind(scenario), range(scenario.deployment.pp_size)
        if kind not in (HYBRID_POOL, CAPPED_POOL):
            kinds.add(kind)
            price = max(bytes_per_token(kind, stage_row_bytes(scenario, stage), Fraction(1)) for stage in stages)
            assert needed.rank_bytes == (needed.full_rows or needed.swa_rows) * price
    assert len(kinds) == 3


def test_the_bars_add_up(explained):
    """The memory bar is the available bytes of its rank, the token bar a token's price."""
    for explanation in explained:
        scenario = explanation.setup.scenario
        stage = stage_row_bytes(scenario, scenario.deployment.pp_size - 1)
        kind = pool_kind(scenario)
        price = bytes_per_token(kind, stage, scenario.swa_full_tokens_ratio)
        assert sum(part.bytes for part in explanation.token_bar) == price
        if explanation.memory_bar:
            total = explanation.setup.gpu_bytes or scenario.budget[limiting_stage(scenario)]
            assert sum(part.bytes for part in explanation.memory_bar) == total
