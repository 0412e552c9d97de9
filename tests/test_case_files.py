"""Scenarios and answers as JSON: nothing is lost, and what cannot be read is named."""

import json
import re
from copy import deepcopy
from fractions import Fraction

import pytest

from properties.case_files import (
    SCHEMA,
    RecordedCase,
    WrongCase,
    as_json,
    case_document,
    from_json,
    parsed,
    read_case,
    scenario_from_text,
    scenario_text,
)
from properties.cells import CELLS
from properties.corpus import corpus_of
from properties.judge import Finding
from spec.laws import BY_ID
from spec.laws.base import Answer, Broken
from spec.model import MemoryFigures, Refusal, Scenario
from spec.pools import size_pools
from tests.case_scenarios import drafted, layers_of_heads, served, windowed

PLAIN = served(layers_of_heads(1, 1, 1), 100)
DRAFTED = drafted(windowed(1, 1, PLAIN.target.full), layers_of_heads(1, 1, 1), 100)


def there_and_back(hint, value):
    """A value written as text and read again."""
    return from_json(hint, json.loads(json.dumps(as_json(hint, value))))


@pytest.mark.parametrize("pool", dict.fromkeys(cell.pool for cell in CELLS))
def test_no_scenario_of_a_corpus_is_changed(pool) -> None:
    for cell in CELLS:
        for scenario in corpus_of(cell, 2, run_seed=0) if cell.pool == pool else ():
            assert there_and_back(Scenario, scenario) == scenario
            assert scenario_from_text(scenario_text(scenario)) == scenario
            answer = size_pools(scenario)
            assert there_and_back(Answer, answer) == answer


def test_fractions_stay_exact() -> None:
    figures = MemoryFigures(((2**80,),), ((3,),), Fraction(1, 3))
    scenario = there_and_back(Scenario, Scenario(PLAIN.target, figures, swa_full_tokens_ratio=Fraction("0.8")))
    assert scenario.budget == figures and scenario.swa_full_tokens_ratio == Fraction(4, 5)
    assert from_json(Fraction, "0.8") == from_json(Fraction, "4/5")


def test_fields_at_their_default_may_be_left_out() -> None:
    text = scenario_text(PLAIN)
    assert "page_size" not in text and '"null"' not in text
    assert as_json(Scenario, PLAIN)["page_size"] == 1 and as_json(Scenario, PLAIN)["draft"] is None
    assert scenario_from_text(text.replace(", ", ",\n")) == PLAIN


def test_a_refusal_keeps_what_json_has() -> None:
    refusal = Refusal("no_page_fits", "available_bytes[0]", 3, needed=4, available=3, advice="more")
    assert there_and_back(Answer, refusal) == refusal
    assert there_and_back(Answer, Refusal("invalid_input", "page_size", 1.5)).value == "1.5"


def changed(scenario, path, value):
    """The JSON of a scenario with one place changed; `del` removes it."""
    data = deepcopy(as_json(Scenario, scenario))
    *parents, last = path
    place = data
    for parent in parents:
        place = place[parent]
    if value is del_:
        del place[last]
    else:
        place[last] = value
    return data


del_ = object()
"""No value at all."""


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (["page_size"], "16", "page_size: '16' given, int expected"),
        (["page_size"], True, "page_size: True given, int expected"),
        (["page_size"], 1.0, "page_size: 1.0 given, int expected"),
        (["page_size"], None, "page_size: None given, int expected"),
        (["window_pools"], 1, "window_pools: 1 given, bool expected"),
        (["kv_cache_dtype"], 8, "kv_cache_dtype: 8 given, str expected"),
        (["swa_full_tokens_ratio"], 0.8, "swa_full_tokens_ratio: 0.8 given, a fraction"),
        (["swa_full_tokens_ratio"], "4/0", "swa_full_tokens_ratio: '4/0' given, a fraction"),
        (["swa_full_tokens_ratio"], "most", "swa_full_tokens_ratio: 'most' given, a fraction"),
        (["budget"], [1, "2"], "budget[1]: '2' given, int expected"),
        (["budget"], 100, "budget: 100 given, a list expected"),
        (["budget"], {"Memory": 1}, "budget: {'Memory': 1} given, an object with one of the keys MemoryFigures"),
        (["budget"], {"MemoryFigures": {}}, "budget.MemoryFigures: free_before_load is missing"),
        (["target", "full"], {"num_kv_heads": 1}, "an object with one of the keys Heads, Latent expected"),
        (["target", "full"], [1], "target.full: [1] given, an object with one of the keys Heads, Latent expected"),
        (["target", "full", "Heads", "head_dim"], [], "target.full.Heads.head_dim: [] given, int expected"),
        (["target", "swa", "head_dims"], 4, "target.swa: nobody reads 'head_dims' = 4"),
        (["target", "swa", "head_dim"], del_, "target.swa: head_dim is missing"),
        (["target", "layers"], "full", "target.layers: 'full' given, a list expected"),
        (["target"], None, "target: None given, an object with the fields of AttentionShape expected"),
        (["deployment", "tp_size"], None, "deployment.tp_size: None given, int expected"),
        (["swa_full_tokens_ratio"], "1e-999999999", "'1e-999999999' given, a fraction such as"),
        (["ratio"], 1, "Scenario: nobody reads 'ratio' = 1"),
        (["budget"], del_, "Scenario: budget is missing"),
    ],
)
def test_what_cannot_be_read_is_named(path, value, said) -> None:
    with pytest.raises(WrongCase, match=re.escape(said)):
        from_json(Scenario, changed(DRAFTED, path, value))


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(WrongCase, match="no JSON: .*line 1"):
        parsed("{'budget': 1}")
    for text in ("[" * 100_000, '{"page_size": ' + "9" * 5000 + "}"):
        with pytest.raises(WrongCase, match="no JSON: "):
            parsed(text)
    with pytest.raises(WrongCase, match="page_size: given twice, once as 1"):
        parsed('{"page_size": 1, "page_size": 2}')


def written(tmp_path, document):
    """A file of its own."""
    path = tmp_path / "case.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_a_case_is_read_as_it_was_written(tmp_path) -> None:
    finding = Finding(BY_ID["B1"], CELLS[0], PLAIN, Broken("allocated bytes", Fraction(1, 3), 4, "stage 0"))
    document = case_document(finding, size_pools(PLAIN), {"name": "x", "version": "1", "path": None}, "pytest ...")
    assert read_case(written(tmp_path, document)) == RecordedCase(PLAIN, "B1", size_pools(PLAIN), "x", "pytest ...")
    assert (document["expected"], document["got"]) == ("1/3", 4)
    said = case_document(finding, "ZeroDivisionError", {}, "")
    assert read_case(written(tmp_path, said)) == RecordedCase(PLAIN, "B1", None)
    least = {"schema": SCHEMA, "scenario": as_json(Scenario, PLAIN, full=False)}
    assert read_case(written(tmp_path, least)) == RecordedCase(PLAIN, None, None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 2}, "schema: 2 given, 1 expected"),
        ({"schema": None}, "schema: None given, 1 expected"),
        ({"law": "Z9"}, "law: 'Z9' given, one of B1, B2"),
        ({"law": []}, "law: [] given, one of B1, B2"),
        ({"laws": ["B1"]}, "nobody reads 'laws' = ['B1']"),
        ({"answer": {"Sizes": {}}}, "answer: {'Sizes': {}} given, an object with one of the keys PoolSizes, Refusal"),
        ({"scenario": {}}, "scenario: target is missing"),
    ],
)
def test_a_wrong_case_file_is_refused(tmp_path, change, said) -> None:
    document = {"schema": SCHEMA, "scenario": as_json(Scenario, PLAIN)}
    with pytest.raises(WrongCase, match=re.escape(said)):
        read_case(written(tmp_path, document | change))


def test_a_file_that_holds_no_case_is_refused(tmp_path) -> None:
    with pytest.raises(WrongCase, match="case: \\[\\] given, an object expected"):
        read_case(written(tmp_path, []))
    with pytest.raises(WrongCase, match="scenario is missing"):
        read_case(written(tmp_path, {"schema": SCHEMA}))
