"""Arrays of scenarios: the same answers as one by one, in every arithmetic, and nothing that is no number."""

from dataclasses import fields, replace
from random import Random

import numpy as np
import pytest
import torch

import impl.batched as batched
from impl.batched import REFUSALS, Batch, Sized, kernel_dtype, size_batch, size_batch_from_max_tokens
from impl.batched_scenarios import Batched, size_scenarios
from impl.optimized import Configurator
from properties.cells import CELLS
from properties.corpus import corpus_of
from properties.judge import verdict
from spec.laws import LAWS
from spec.laws.base import Broken
from spec.layers import ALL_WINDOW_POOL, CAPPED_POOL, DEFAULT_POOL, HYBRID_POOL, POOL_KINDS
from spec.model import PoolSizes, Refused
from spec.pools import sizes_or_refusal

SOME_CELLS = [cell for number, cell in enumerate(CELLS) if number % 7 == 0]
NAMES = [field.name for field in fields(Batch)]
LIMITS = (2**53, 2**63, 2**64)


def one_row(**changes):
    """A batch of one row on one stage."""
    row = {
        "available_bytes": [[4096]],
        "full": [[4]],
        "swa": [[2]],
        "draft": [[1]],
        "page_size": [8],
        "ratio_numerator": [1],
        "ratio_denominator": [2],
        "fixed_swa_rows": [64],
        "sliding_window_size": [5],
        "max_total_tokens": [0],
        "max_running_requests": [0],
        "context_len": [1024],
        "attn_dcp_size": [1],
    }
    return Batch(**{name: np.array(changes.get(name, entries)) for name, entries in row.items()})


def figures(sized, place=0):
    """One row of an answer as Python ints."""
    return [int(getattr(sized, field.name)[place]) for field in fields(Sized)]


@pytest.mark.parametrize("cell", SOME_CELLS, ids=str)
def test_the_corpus_of_a_cell_sized_at_once_is_sized_as_one_by_one(cell):
    drawn = corpus_of(cell, 10, 1)
    for scenario, answer in zip(drawn, size_scenarios(drawn), strict=True):
        assert answer == Configurator().size_pools(scenario)
        expected = sizes_or_refusal(scenario)
        assert answer == expected if isinstance(expected, PoolSizes) else answer.kind == expected.kind
        for tokens in (1, 100, 4096):
            single = Batched().size_pools_from_max_tokens(scenario, tokens)
            assert single == Configurator().size_pools_from_max_tokens(scenario, tokens)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.id)
def test_every_law_holds_of_it(law):
    """On what a gate run would draw first in some of the cells; the gate itself takes `--kv-impl batched`."""
    for cell in SOME_CELLS:
        if law.claims(str(cell)):
            for scenario in corpus_of(cell, 3, 0):
                assert not isinstance(verdict(law, Batched(), scenario)[0], Broken)


def test_what_is_no_token_count_is_refused_alone():
    scenario = corpus_of(CELLS[0], 3, 0)[0]
    for tokens in (0, -5, 1.5):
        assert Batched().size_pools_from_max_tokens(scenario, tokens).kind == "invalid_input"
    assert Batched().size_pools(replace(scenario, page_size=0)).kind == "invalid_input"
    assert Batched().size_pools_from_max_tokens(replace(scenario, page_size=0), 8).kind == "invalid_input"


# In every arithmetic.


def random_row(random, kind, most_bytes):
    """A row whose bytes are about so many, on two stages."""
    page_size = random.choice((1, 2, 7, 64))
    denominator = random.choice((1, 2, 10, 1000))
    prices = [[random.randrange(3) and random.randrange(1, 200) for _ in range(2)] for _ in range(3)]
    for price in prices:
        price[random.randrange(2)] = random.randrange(1, 200)
    return {
        "available_bytes": [random.randrange(1, most_bytes) for _ in range(2)],
        "full": prices[0],
        "swa": prices[1],
        "draft": prices[2],
        "page_size": page_size,
        "ratio_numerator": random.randrange(1, denominator + 1),
        "ratio_denominator": denominator,
        "fixed_swa_rows": page_size * random.randrange(20),
        "sliding_window_size": random.randrange(9),
        "max_total_tokens": random.choice((0, 0, random.randrange(1, 500))),
        "max_running_requests": random.choice((0, 1, 33)),
        "context_len": random.choice((2, 1024, 131072)),
        "attn_dcp_size": random.choice((1, 2)),
    }


def batch_of_rows(rows):
    """Rows as columns of Python ints."""
    return Batch(**{name: np.array([row[name] for row in rows], dtype=object) for name in NAMES})


@pytest.mark.parametrize("kind", POOL_KINDS)
@pytest.mark.parametrize("most_bytes", [2**12, 2**40, 2**60, 2**63, 2**80])
def test_every_arithmetic_agrees_with_python_ints(kind, most_bytes, monkeypatch):
    random = Random(f"{kind} {most_bytes}")
    batch = batch_of_rows([random_row(random, kind, most_bytes) for _ in range(300)])
    answers = [size_batch(kind, batch)]
    monkeypatch.setattr(batched, "KERNELS", ())
    answers.append(size_batch(kind, batch))
    assert answers[1].max_total_num_tokens.dtype == object
    for name in [field.name for field in fields(Sized)]:
        assert list(map(int, getattr(answers[0], name))) == list(map(int, getattr(answers[1], name))), name


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("beyond", [-2, -1, 0, 1])
@pytest.mark.parametrize("kind", [DEFAULT_POOL, HYBRID_POOL, ALL_WINDOW_POOL])
def test_below_on_and_above_a_limit(kind, beyond, limit):
    """The bytes, in units of the kind, are the largest number; the answer is the exact one on either side."""
    units = 2 if kind == HYBRID_POOL else 1
    available = (limit + beyond) // units
    batch = one_row(available_bytes=np.array([[available]], dtype=object), context_len=[1], attn_dcp_size=[2])
    expected = np.float64 if available * units < 2**53 else np.int64 if available * units < 2**63 else None
    if expected is not None:
        assert kernel_dtype(kind, batch) == expected
    cell = {DEFAULT_POOL: 5 * 8, HYBRID_POOL: (5 * 2 + 2) * 8, ALL_WINDOW_POOL: 3 * 8}[kind]
    rows = available * units // cell * 8
    assert int(size_batch(kind, replace(batch, context_len=np.array([2]))).max_total_num_tokens[0]) == rows


def test_python_ints_take_over_above_64_bits():
    batch = one_row(available_bytes=np.array([[2**64]], dtype=object))
    assert kernel_dtype(DEFAULT_POOL, batch) is object
    assert kernel_dtype(DEFAULT_POOL, one_row(available_bytes=np.array([[2**64 - 1]]))) == np.uint64


def test_tensors_give_tensors():
    arrays = one_row()
    tensors = Batch(**{name: torch.from_numpy(getattr(arrays, name)) for name in NAMES})
    sized = size_batch(HYBRID_POOL, tensors)
    assert all(isinstance(getattr(sized, field.name), torch.Tensor) for field in fields(Sized))
    assert figures(sized) == figures(size_batch(HYBRID_POOL, arrays)) == [680, 680, 336, 340, 679, 0, 0]


# Refusals of rows, and of columns.


@pytest.mark.parametrize(
    ("kind", "changes", "refusal", "stage"),
    [
        (DEFAULT_POOL, {"available_bytes": [[39]]}, "no_page_fits", 0),
        (DEFAULT_POOL, {"available_bytes": [[40, 39]], "full": [[4, 4]], "swa": [[0, 0]], "draft": [[1, 1]]}, 1, 1),
        (CAPPED_POOL, {"available_bytes": [[167]]}, "swa_pool_leaves_no_room", 0),
        (DEFAULT_POOL, {"max_total_tokens": [7]}, "cap_too_small", 0),
        (HYBRID_POOL, {"sliding_window_size": [321]}, "window_pool_too_small", 0),
        (DEFAULT_POOL, {"page_size": [1], "max_total_tokens": [1]}, "no_running_request", 0),
        (DEFAULT_POOL, {"context_len": [1]}, "no_request_length", 0),
    ],
)
def test_a_row_is_refused_for_the_first_reason(kind, changes, refusal, stage):
    sized = size_batch(kind, one_row(**changes))
    wanted = refusal if isinstance(refusal, int) else REFUSALS.index(refusal)
    assert figures(sized) == [0, 0, 0, 0, 0, wanted, stage]


def test_tokens_below_a_page_are_a_cap_too_small():
    sized = size_batch_from_max_tokens(HYBRID_POOL, one_row(), np.array([7]))
    assert REFUSALS[int(sized.refusal[0])] == "cap_too_small"
    assert figures(size_batch_from_max_tokens(HYBRID_POOL, one_row(), np.array([100])))[:3] == [96, 96, 48]


@pytest.mark.parametrize(
    ("kind", "changes", "field", "value"),
    [
        (DEFAULT_POOL, {"full": [[4.0]]}, "full", "float64"),
        (DEFAULT_POOL, {"full": [[True]]}, "full", "bool"),
        (DEFAULT_POOL, {"full": np.array([[2.5]], dtype=object)}, "full[0, 0]", 2.5),
        (DEFAULT_POOL, {"draft": [[-1]]}, "draft[0, 0]", -1),
        (DEFAULT_POOL, {"page_size": [0]}, "page_size[0]", 0),
        (HYBRID_POOL, {"ratio_denominator": [0]}, "ratio_denominator[0]", 0),
        (HYBRID_POOL, {"ratio_numerator": [3]}, "ratio_numerator[0]", 3),
        (DEFAULT_POOL, {"full": [[0]], "draft": [[0]]}, "full[0]", [0]),
        (DEFAULT_POOL, {"context_len": [5, 6]}, "context_len", (2,)),
        (DEFAULT_POOL, {"available_bytes": np.zeros((0, 1), dtype=int)}, "available_bytes", (0, 1)),
        ("paged", {}, "kind", "paged"),
    ],
)
def test_what_is_no_number_of_its_column_is_named_with_its_place(kind, changes, field, value):
    with pytest.raises(Refused) as refused:
        size_batch(kind, one_row(**changes))
    refusal = refused.value.refusal
    assert refusal.kind == "invalid_input" and refusal.field == field
    assert np.array_equal(refusal.value, value)


def test_the_first_bad_row_is_named():
    batch = Batch(**{name: np.repeat(getattr(one_row(), name), 4, axis=0) for name in NAMES})
    batch.page_size[2:] = 0
    with pytest.raises(Refused, match=r"page_size\[2\]"):
        size_batch(DEFAULT_POOL, batch)
