"""Bad input is refused by name, by the spec and the configurator alike, from bytes and from a number of tokens.

The mistakes are those of `tests/bad_inputs.py`; then come refusals that are no mistakes; then the strategy `INVALID`,
whose faults meet every check of `spec/validity.py`.
"""

import ast
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from impl.configurator_screen import screened_kinds
from impl.optimized import Configurator
from properties.invalid_strategies import FAULTS, INVALID, INVALID_OF, Invalid
from properties.invalid_values import UNUSUAL, with_field
from spec import validity
from spec.model import (
    FULL,
    SWA,
    AttentionShape,
    Deployment,
    Draft,
    Heads,
    Latent,
    MemoryFigures,
    PoolSizes,
    Refusal,
    Refused,
    Scenario,
)
from spec.pools import size_pools, size_pools_from_max_tokens
from spec.validity import check_scenario
from tests.bad_inputs import BAD, DENSE, NO_INTEGERS, NUMBERS, SOUND, Bad


def answers(scenario: Scenario, tokens: Any = 4096) -> list[PoolSizes | Refusal]:
    """What spec and configurator say to the bytes, then what they say to a number of tokens."""
    configurator = Configurator()
    return [
        size_pools(scenario),
        configurator.size_pools(scenario),
        size_pools_from_max_tokens(scenario, tokens),
        configurator.size_pools_from_max_tokens(scenario, tokens),
    ]


def the_refusal(scenario: Scenario, tokens: Any = 4096) -> Refusal:
    """The one refusal that all four answers are."""
    first, *others = answers(scenario, tokens)
    assert isinstance(first, Refusal)
    assert others == [first] * 3
    return first


@pytest.mark.parametrize("name", SOUND)
def test_the_sound_scenarios_start(name: str) -> None:
    """Otherwise the broken ones would prove nothing."""
    first, *others = answers(SOUND[name])
    assert isinstance(first, PoolSizes) and others[0] == first and isinstance(others[1], PoolSizes)
    assert screened_kinds(SOUND[name]) is not None


@pytest.mark.parametrize(("sound", "path", "least"), NUMBERS, ids=[path for _, path, _ in NUMBERS])
def test_a_number_is_an_integer_in_range(sound: Scenario, path: str, least: int) -> None:
    """Zero, less, booleans, floats, nan, infinity, nothing and text are refused, with the least there may be."""
    for bad in (*NO_INTEGERS, *(0,) * least):
        refusal = the_refusal(with_field(sound, path, bad))
        assert (refusal.kind, refusal.field) == ("invalid_input", path.replace("draft.shape.", "draft."))
        assert (refusal.needed, refusal.available) == (least, None)
        assert refusal.value is bad and refusal.advice == f"give an integer of at least {least}"


@pytest.mark.parametrize("bad", [0, *(value for value in NO_INTEGERS if value is not None)], ids=repr)
@pytest.mark.parametrize("field", ["max_total_tokens", "user_max_running_requests"])
def test_a_cap_is_a_positive_integer_or_none(field: str, bad: object) -> None:
    """None is no cap; nothing fits a cap of zero."""
    refusal = the_refusal(with_field(DENSE, field, bad))
    assert (refusal.kind, refusal.field, refusal.needed) == ("invalid_input", field, 1)
    assert refusal.value is bad


@pytest.mark.parametrize("tokens", [0, *NO_INTEGERS], ids=repr)
def test_a_number_of_tokens_is_a_positive_integer(tokens: object) -> None:
    """The constraint path takes nothing else."""
    _, _, refusal, again = answers(DENSE, tokens)
    assert isinstance(refusal, Refusal) and refusal == again
    assert (refusal.kind, refusal.field, refusal.needed) == ("invalid_input", "tokens", 1)
    assert refusal.value is tokens


@pytest.mark.parametrize("bad", BAD, ids=[f"{bad.path}={bad.new!r:.40}" for bad in BAD])
def test_a_mistake_is_refused_by_name(bad: Bad) -> None:
    """Kind, field and value, and a word on what to do."""
    refusal = the_refusal(with_field(bad.sound, bad.path, bad.new))
    assert (refusal.kind, refusal.field) == (bad.kind, bad.field)
    assert refusal.value is bad.value or refusal.value == bad.value
    assert refusal.advice


def test_an_idle_draft_is_not_looked_at() -> None:
    """Whatever it is: on the plain path, and in the draft worker."""
    for draft in (None, "garbage", UNUSUAL, Draft(AttentionShape(("conv",), Heads(0, -1, 0)), num_steps=0)):
        plain = replace(with_field(DENSE, "draft", draft), speculative_algorithm=None)
        worker = replace(with_field(DENSE, "draft", draft), is_draft_worker=True)
        expected = size_pools(replace(plain, draft=None))
        assert isinstance(expected, PoolSizes)
        assert answers(plain) == answers(worker)
        assert answers(plain)[:2] == [expected] * 2


# No mistakes, but no start either. In fp8 a row of ROW is one byte; in WINDOWED F is 2 bytes and S is 4.

ROW = Scenario(AttentionShape((FULL,), Latent(1, 0)), (100,), kv_cache_dtype="fp8_e4m3")
WINDOWED = replace(
    ROW,
    target=AttentionShape((FULL, SWA), Heads(1, 1, 1), Heads(1, 2, 2), sliding_window_size=2),
    swa_full_tokens_ratio=Fraction(1, 2),
)
CAPPED = replace(WINDOWED, user_max_running_requests=1, disable_radix_cache=True, chunked_prefill_size=4)
NOTHING_LEFT = MemoryFigures(((1000,),), ((100,),), Fraction("0.9"))
NOTHING_FREE = replace(NOTHING_LEFT, free_after_all_weights=((0,),))
STAGES = replace(ROW, target=AttentionShape((FULL,) * 2, Latent(1, 0)), deployment=Deployment(pp_size=2))

SHORT = [
    (replace(ROW, budget=(0,)), "no_memory_left", "available_bytes[0]", 0, 1, 0),
    (replace(ROW, budget=(-(2**70),)), "no_memory_left", "available_bytes[0]", -(2**70), 1, -(2**70)),
    (replace(STAGES, budget=(100, -1)), "no_memory_left", "available_bytes[1]", -1, 1, -1),
    (replace(ROW, budget=NOTHING_LEFT), "no_memory_left", "available_bytes[0]", 0, 1, 0),
    (replace(ROW, budget=NOTHING_FREE), "no_memory_left", "available_bytes[0]", -100, 1, -100),
    # A page larger than the budget.
    (replace(ROW, page_size=101), "no_page_fits", "available_bytes[0]", 100, 101, 100),
    (replace(ROW, page_size=2**70), "no_page_fits", "available_bytes[0]", 100, 2**70, 100),
    (replace(STAGES, budget=(100, 15), page_size=16), "no_page_fits", "available_bytes[1]", 15, 16, 15),
    (replace(WINDOWED, page_size=64), "no_page_fits", "available_bytes[0]", 100, 256, 100),
    # Capped: one request of 2 + 1 + 1 + 1 rows, two chunks of 4 and a page make 14 SWA rows of 4 bytes.
    (replace(CAPPED, budget=(57,)), "swa_pool_leaves_no_room", "available_bytes[0]", 57, 58, 57),
    # A window pool too small for a request: a window of 2 and two pages.
    (replace(WINDOWED, budget=(28,)), "window_pool_too_small", "swa_max_total_num_tokens", 3, 4, 3),
    (replace(WINDOWED, max_total_tokens=7), "window_pool_too_small", "swa_max_total_num_tokens", 3, 4, 3),
    # A cap below a page.
    (replace(ROW, page_size=16, max_total_tokens=15), "cap_too_small", "max_total_tokens", 15, 16, 15),
    (replace(ROW, budget=(1,)), "no_running_request", "max_total_num_tokens", 1, 2, 1),
    (replace(ROW, max_total_tokens=1), "no_running_request", "max_total_num_tokens", 1, 2, 1),
    (replace(ROW, context_len=1), "no_request_length", "context_len", 1, 2, 1),
]
"""A valid scenario, and the refusal: kind, field, value, what is needed and what there is."""


@pytest.mark.parametrize(("scenario", "kind", "field", "value", "needed", "available"), SHORT)
def test_a_shortage_is_refused_with_both_numbers(
    scenario: Scenario, kind: str, field: str, value: int, needed: int, available: int
) -> None:
    """Spec and configurator say what was needed and what there was."""
    check_scenario(scenario)
    refusal, again, *_ = answers(scenario)
    assert isinstance(refusal, Refusal) and refusal == again
    assert (refusal.kind, refusal.field, refusal.value) == (kind, field, value)
    assert (refusal.needed, refusal.available) == (needed, available)


SHORT_OF_TOKENS = [
    (replace(ROW, page_size=16), 15, "cap_too_small", "max_total_tokens", 15, 16, 15),
    (WINDOWED, 7, "window_pool_too_small", "swa_max_total_num_tokens", 3, 4, 3),
    (CAPPED, 3, "window_pool_too_small", "swa_max_total_num_tokens", 3, 4, 3),
    (ROW, 1, "no_running_request", "max_total_num_tokens", 1, 2, 1),
    (replace(ROW, context_len=1), 100, "no_request_length", "context_len", 1, 2, 1),
]
"""The same from a number of tokens."""


@pytest.mark.parametrize(("scenario", "tokens", "kind", "field", "value", "needed", "available"), SHORT_OF_TOKENS)
def test_too_few_tokens_are_refused_with_both_numbers(
    scenario: Scenario, tokens: int, kind: str, field: str, value: int, needed: int, available: int
) -> None:
    """The constraint path refuses what the cap of the same number refuses."""
    *_, refusal, again = answers(scenario, tokens)
    assert isinstance(refusal, Refusal) and refusal == again
    assert (refusal.kind, refusal.field, refusal.value) == (kind, field, value)
    assert (refusal.needed, refusal.available) == (needed, available)


# The strategy.


def is_refused_everywhere(invalid: Invalid) -> None:
    """Four equal refusals, of the kind and for the field that the fault names; and the screen turns it away."""
    refusal = the_refusal(invalid.scenario)
    assert (refusal.kind, refusal.field) == (invalid.kind, invalid.field)
    assert invalid.kind in ("invalid_input", "unsupported")
    assert screened_kinds(invalid.scenario) is None


@settings(max_examples=2000, derandomize=True, database=None, deadline=None, suppress_health_check=tuple(HealthCheck))
@given(INVALID)
def test_invalid_scenarios_are_refused_everywhere(invalid: Invalid) -> None:
    """Any fault in any cell."""
    is_refused_everywhere(invalid)


def drawn(fault: str, draws: int = 4) -> list[Invalid]:
    """A few scenarios with one fault."""
    met: list[Invalid] = []

    @settings(
        max_examples=draws,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=tuple(HealthCheck),
    )
    @given(INVALID_OF[fault])
    def collect(invalid: Invalid) -> None:
        met.append(invalid)

    collect()
    return met


@pytest.fixture(scope="module")
def faulty() -> dict[str, list[Invalid]]:
    """A few scenarios with each fault."""
    return {fault: drawn(fault) for fault in FAULTS}


def test_every_fault_is_met_and_refused(faulty: dict[str, list[Invalid]]) -> None:
    """None is so rare that the draws might miss it."""
    assert set(faulty) == set(FAULTS)
    for fault, met in faulty.items():
        assert met and {invalid.category for invalid in met} == {fault}
        for invalid in met:
            is_refused_everywhere(invalid)


def refusing_lines(scenario: Scenario) -> Iterator[int]:
    """The lines of `spec/validity.py` at which its checks stand when they refuse."""
    with pytest.raises(Refused) as caught:
        check_scenario(scenario)
    traceback = caught.value.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == validity.__file__:
            yield traceback.tb_lineno
        traceback = traceback.tb_next


def checks_of(source: str) -> dict[str, range]:
    """The lines of every `raise`, and of every call of another check, in a source."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.startswith("check_")
        if isinstance(node, ast.Raise) or is_call:
            assert isinstance(node, ast.Raise | ast.Call) and node.end_lineno is not None
            found[f"line {node.lineno}: {ast.unparse(node)}"] = range(node.lineno, node.end_lineno + 1)
    return found


def test_every_check_of_the_spec_refuses_some_fault(faulty: dict[str, list[Invalid]]) -> None:
    """Every `raise` of `spec/validity.py`, and every way to reach it, is what some fault ends in."""
    lines = {line for met in faulty.values() for invalid in met for line in refusing_lines(invalid.scenario)}
    checks = checks_of(Path(validity.__file__).read_text(encoding="utf-8"))
    assert len(checks) > 70
    assert [check for check, span in checks.items() if not lines & set(span)] == []


@pytest.mark.parametrize("field", ["page_size", "context_len", "decode_extra_slots", "budget", "tp_size", "pp_size"])
@pytest.mark.parametrize("sign", [1, -1])
def test_numbers_too_long_to_print_are_refused_or_answered(field: str, sign: int) -> None:
    """5000 digits: Python refuses to write such a number out, so no check may."""
    number = sign * 10**5000
    scenario = Scenario(AttentionShape((FULL,), Heads(1, 8, 8)), (10**6,))
    if field == "budget":
        scenario = replace(scenario, budget=(number,))
    elif hasattr(scenario, field):
        scenario = replace(scenario, **{field: number})
    else:
        ranks = Deployment(**{field: number}) if field == "pp_size" else Deployment(tp_size=3, attn_dp_size=number)
        scenario = replace(scenario, deployment=ranks)
    answers = [size_pools(scenario), Configurator().size_pools(scenario)]
    assert answers[0] == answers[1]
    assert isinstance(answers[0], PoolSizes | Refusal)
