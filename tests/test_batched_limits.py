"""Batches of random scenarios beside the spec, and every number of a batch one below, on and one above each limit of an
arithmetic."""

from dataclasses import fields, replace
from random import Random

import numpy as np
import pytest

import impl.batched as batched
import tests.batched_random as batched_random
from impl.batched import KERNELS, Batch, Sized, bounds, kernel_dtype, size_batch
from properties.cells import cell_of
from spec.laws.base import is_valid
from spec.layers import CAPPED_POOL, HYBRID_POOL, POOL_KINDS, pool_kind
from spec.pools import MAX_REQUESTS, sizes_or_refusal
from tests.random_scenarios import FAR, random_scenario
from tests.test_batched import one_row

DRIVERS = {
    "available_bytes": lambda kind, number: {"available_bytes": [[number // (2 if kind == HYBRID_POOL else 1)]]},
    "page": lambda kind, number: (
        {"full": [[number - 1]], "swa": [[1]], "draft": [[0]], "page_size": [1]}
        | ({"ratio_numerator": [1], "ratio_denominator": [1]} if kind == HYBRID_POOL else {})
    ),
    "fixed_swa_rows": lambda kind, number: {"fixed_swa_rows": [number], "swa": [[1]]},
    "max_total_tokens": lambda kind, number: {"max_total_tokens": [number]},
    "sliding_window_size": lambda kind, number: {"sliding_window_size": [number - 16]},
    "max_running_requests": lambda kind, number: {"max_running_requests": [number]},
    "context_len": lambda kind, number: {"context_len": [number // MAX_REQUESTS]},
}
"""A column, and the changes to a row that make the largest bound follow it."""


@pytest.mark.parametrize("kind", POOL_KINDS)
def test_random_scenarios_are_sized_as_by_the_spec(kind, capsys):
    assert batched_random.main(["--scenarios", str(200 * len(POOL_KINDS)), "--seed", "1"]) == 0
    said = capsys.readouterr().out
    assert f"{kind}: 200 scenarios, all alike" in said


@pytest.mark.parametrize("kind", POOL_KINDS)
def test_random_scenarios_are_valid_and_of_their_kind(kind):
    random = Random(3)
    drawn = [random_scenario(random, kind) for _ in range(300)]
    assert all(is_valid(scenario) and pool_kind(scenario) == kind for scenario in drawn)
    assert len({str(cell_of(scenario)) for scenario in drawn}) > 30
    assert any(min(scenario.budget) > FAR[2] for scenario in drawn)
    sized = [scenario for scenario in drawn if batched_random.kind_of(sizes_or_refusal(scenario)) == "sized"]
    assert len(sized) > 100


def test_a_batch_that_differs_is_told(monkeypatch, capsys):
    def a_row_less(scenarios):
        answers = [sizes_or_refusal(scenario) for scenario in scenarios]
        sized = [place for place, answer in enumerate(answers) if batched_random.kind_of(answer) == "sized"]
        answers[sized[-1]] = replace(answers[sized[-1]], max_req_len=answers[sized[-1]].max_req_len + 1)
        return answers if len(scenarios) > 1 else [replace(answers[0], max_req_len=1)]

    monkeypatch.setattr(batched_random, "size_scenarios", a_row_less)
    assert batched_random.main(["--scenarios", "100"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("default differs at Scenario(target=") and "max_req_len 1\n" in said


@pytest.mark.parametrize("kind", POOL_KINDS)
@pytest.mark.parametrize("column", DRIVERS)
@pytest.mark.parametrize("limit", [bound for bound, _ in KERNELS])
def test_every_number_below_on_and_above_a_limit(kind, column, limit, monkeypatch):
    """The arithmetic that is chosen holds the number, and the answer is that of Python ints."""
    if column == "fixed_swa_rows" and kind != CAPPED_POOL:
        kind = CAPPED_POOL
    chosen = []
    for beyond in (-1, 0, 1):
        batch = one_row(**as_objects(DRIVERS[column](kind, limit + beyond)))
        largest = max(bounds(kind, batch))
        assert limit - 2 * MAX_REQUESTS <= largest <= limit + 2 * MAX_REQUESTS
        dtype = kernel_dtype(kind, batch)
        assert dtype is object or largest < next(bound for bound, name in KERNELS if name is dtype)
        chosen.append(dtype)
        answers = [size_batch(kind, batch)]
        with monkeypatch.context() as patch:
            patch.setattr(batched, "KERNELS", ())
            answers.append(size_batch(kind, batch))
        for name in [field.name for field in fields(Sized)]:
            first, second = (int(getattr(answer, name)[0]) for answer in answers)
            assert first == second, (name, beyond)
    assert len(set(chosen)) == 2 or column in ("context_len", "available_bytes")


def as_objects(changes):
    """Columns of Python ints, whatever their length."""
    return {name: np.array(entries, dtype=object) for name, entries in changes.items()}


def test_every_bound_has_a_driver():
    """As many as `bounds` has; two of its entries are of the fixed rows."""
    assert len(bounds(CAPPED_POOL, one_row())) == len(DRIVERS) + 1
    assert {field.name for field in fields(Batch)} >= set(DRIVERS) - {"page"}
