"""Public reports of wrong KV budgets: the spec gives the right value, the faulty formula the faulty one.

`data/cases.json` holds the reports as arithmetic over their inputs, `case_answers.py` what the spec answers, in a table
for each of its functions. All values are exact; only what a report rounded itself is compared with a tolerance.
"""

import importlib
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest

from spec.accounting import stage_buffers
from spec.capped import capped_swa_rows, swa_rows_per_request
from spec.catalog import target
from spec.cell import heads_row_bytes
from spec.model import Deployment, Heads, PoolSizes
from spec.pools import hybrid_swa_rows
from spec.units import GiB, align_up
from tests.case_answers import ANSWERS, DISPUTED
from tests.case_scenarios import layers_of_heads, served, stored_bytes, windowed
from tests.expressions import evaluate, exact, names_in

DATA = json.loads((Path(__file__).parent / "data" / "cases.json").read_text(encoding="utf-8"))
CASES = {case["id"]: case for case in DATA["cases"]}
FIXTURES = {fixture["id"]: fixture for fixture in DATA["fixtures"]}
ANSWERED = [(function, name) for function, table in ANSWERS.items() for name in table]
COUNTS = ("layers", "heads", "cap", "budget", "depths")
"""An input with one of these in its name is a count or a budget: twice of it is as good a deployment."""

UNIT = {"MiB": 2**20, "GiB": GiB, "tokens": 1, "x": 1}

each_case = pytest.mark.parametrize("name", CASES)


def inputs_of(name, **changes):
    """The inputs of a case, decimals as they are written."""
    inputs = {**CASES[name]["inputs"], **changes}
    return SimpleNamespace(**{key: exact(value) for key, value in inputs.items()})


def answer(function, name, **changes):
    """What the spec gives, by that function."""
    return ANSWERS[function][name](inputs_of(name, **changes))


def changed_inputs():
    """Every case with one of its counts doubled, where that changes the right value."""
    for function, name in ANSWERED:
        case = CASES[name]
        for key in sorted(names_in(case["right_expr"]) & case["inputs"].keys()):
            changes = {key: case["inputs"][key]}
            if isinstance(changes[key], int) and any(word in key for word in COUNTS) and key != "swa_cap_tokens":
                changes[key] *= 2
                if evaluate(case["right_expr"], {**case["inputs"], **changes}) != exact(case["right"]):
                    yield pytest.param(function, name, changes, id=f"{name}-{key}")


def test_every_report_is_in_the_data_once():
    """60 reports: 44 in scope, each answered by the spec, and 16 out of scope."""
    outside = [entry["id"] for entry in DATA["out_of_scope"]]
    assert len(DATA["cases"]) == len(CASES) == 44
    assert len(outside) == len(set(outside)) == 16
    assert len({*CASES, *outside}) == 60
    assert len(ANSWERED) == 44
    assert all(entry["reason"] and entry["report"] for entry in DATA["out_of_scope"])


def test_every_case_names_the_function_that_answers_it():
    """The data and the tables agree, each case is answered once, and the function exists."""
    assert sorted(ANSWERED) == sorted((case["spec"], name) for name, case in CASES.items())
    for function in ANSWERS:
        module, _, attribute = function.partition(".")
        assert callable(getattr(importlib.import_module(f"spec.{module}"), attribute))


@pytest.mark.parametrize(("function", "name"), ANSWERED, ids=[f"{function}-{name}" for function, name in ANSWERED])
def test_the_spec_gives_the_right_value(function, name):
    """The value of the report, from a scenario or a formula of the spec, and never the faulty one."""
    value = answer(function, name)
    assert value == exact(CASES[name]["right"])
    assert value != exact(CASES[name]["faulty"])


@each_case
def test_each_formula_gives_its_value(name):
    """The faulty formula gives the faulty value, the right one the right value, and they differ."""
    case = CASES[name]
    assert evaluate(case["right_expr"], case["inputs"]) == exact(case["right"])
    assert evaluate(case["faulty_expr"], case["inputs"]) == exact(case["faulty"])
    assert exact(case["right"]) != exact(case["faulty"])


@each_case
def test_the_values_are_those_of_the_report(name):
    """What a report says itself, exactly, or within the rounding it was printed with."""
    case = CASES[name]
    for side in ("right", "faulty"):
        if f"reported_{side}" in case:
            reported, value = exact(case[f"reported_{side}"]), exact(case[side])
            assert abs(value - reported) <= exact(case.get("rel_tolerance", 0)) * reported


@pytest.mark.parametrize(("function", "name", "changes"), list(changed_inputs()))
def test_another_geometry_gives_another_value(function, name, changes):
    """With twice the layers, heads or bytes the spec leaves the value of the report and follows the right formula."""
    case = CASES[name]
    value = answer(function, name, **changes)
    assert value != exact(case["right"])
    assert value == evaluate(case["right_expr"], {**case["inputs"], **changes})


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "disputed" in case])
def test_a_disputed_case_says_what_the_spec_holds_instead(name):
    """Where the spec does not hold the right value right, the data says why and what the spec answers."""
    assert DISPUTED.keys() == {name for name, case in CASES.items() if "disputed" in case}
    assert DISPUTED[name](inputs_of(name)) == CASES[name]["spec_answer"]


@pytest.mark.parametrize("chunked_prefill_size", [1024, 16384])
def test_tokens_in_flight_are_charged_once_for_the_pool(chunked_prefill_size):
    """What the reports of window blocks ask for, in the spec's own rule: one more request costs the rows it may hold,
    whatever the chunk."""
    scenario = served(
        windowed(1, 1, Heads(1, 4, 4), window=128),
        page_size=8,
        user_max_running_requests=8,
        disable_radix_cache=True,
        chunked_prefill_size=chunked_prefill_size,
    )
    more = capped_swa_rows(replace(scenario, user_max_running_requests=16)) - capped_swa_rows(scenario)
    assert more == 8 * swa_rows_per_request(scenario) == 8 * (128 + 1 + 8 + 8)


def k_rows(shape, swa_rows, tp_size):
    """Bytes of the K rows of the SWA pool."""
    scenario = served(shape, deployment=Deployment(tp_size=tp_size))
    sizes = PoolSizes(1, 1, swa_rows, max_running_requests=1, max_req_len=1)
    buffers = stage_buffers(scenario, sizes, stage=0)
    return sum(buffer.sold_bytes for buffer in buffers if buffer.pool == "swa" and buffer.row.name == "k")


MIMO, QWEN = target("MiMo-V2-Flash").shape, target("Qwen3-30B-A3B").shape
FIXTURE_ANSWERS = {
    "fx-mimo-full": lambda: stored_bytes(MIMO, 262144),
    "fx-mimo-swa": lambda: stored_bytes(MIMO, 0, 4352),
    "fx-mimo-sglang-swa-k": lambda: k_rows(MIMO, 300288, tp_size=4),
    "fx-dsv4-swa": lambda: hybrid_swa_rows(186368, Fraction(1, 10), 256),
    "fx-vllm-25350-a": lambda: stored_bytes(QWEN, 230528, kv_cache_dtype="fp8_e4m3"),
    "fx-vllm-25350-b": lambda: stored_bytes(QWEN, align_up(221000, 16), kv_cache_dtype="fp8_e4m3"),
    "fx-fp4-16-a": lambda: Fraction(
        heads_row_bytes(8, 128, 128, "fp8_e4m3"), heads_row_bytes(8, 128, 128, "fp4_mx_block16")
    ),
    "fx-fp4-16-b": lambda: Fraction(
        heads_row_bytes(8, 128, 128, "bf16"), heads_row_bytes(8, 128, 128, "fp4_mx_block16")
    ),
    "fx-lmdeploy-684": lambda: stored_bytes(layers_of_heads(80, 8, 128), 48 * 4096),
}


@pytest.mark.parametrize("name", FIXTURES)
def test_a_size_seen_in_a_report_is_the_specs(name):
    """Pool sizes that reports print, exact and to the printed digit."""
    fixture, value = FIXTURES[name], FIXTURE_ANSWERS[name]()
    assert value == evaluate(fixture["expr"], {}) == exact(fixture.get("value", value))
    number, unit = fixture["seen"].split()
    assert f"{float(Fraction(value) / UNIT[unit]):.{len(number.partition('.')[2])}f}" == number


@pytest.mark.parametrize(
    "text", ["__import__('os').getcwd()", "layers.real", "2**3", "open", "max(*[1, 2])", "'reject'", "lambda: 1"]
)
def test_an_expression_is_arithmetic_and_nothing_else(text):
    """Names, attributes, powers and text that a case could smuggle in are refused."""
    with pytest.raises(ValueError, match="not arithmetic"):
        evaluate(text, {"layers": 1})
