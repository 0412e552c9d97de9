"""What is said of a broken law: words, figures, the real pair and the known bugs, on the terminal and in the report."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from impl.configurator import HybridSWAPoolConfigurator
from impl.faults import FAULTS, Fault
from impl.optimized import Configurator
from impl.places import place_of
from properties.cell_names import BY_NAME
from properties.cells import cell_of
from properties.counterexample import (
    Counterexample,
    block_text,
    counterexample,
    facts_document,
    nearest_pair,
    off_text,
    real_scenarios,
    similar_text,
    traceback_text,
)
from properties.judge import Finding, verdict
from properties.prices import PoolPrice, StageBytes
from properties.smallest import shown
from properties.words import budget_text, scenario_words
from spec.laws import BY_ID
from spec.laws.base import Broken
from spec.layers import POOL_KINDS
from spec.model import DFLASH, AttentionShape, Deployment, Draft, Heads, Index, Latent, MemoryFigures, Scenario
from tests.test_prices import CAPPED, DEFAULT, HYBRID
from tests.wrong_implementations import (
    DividesByZero,
    DropsTheDraftTerm,
    OnePageTooMany,
    RefusesInItsOwnWords,
    ReturnsATuple,
    SupportsNothing,
)


def fault(name: str) -> Fault:
    """A known-bad implementation."""
    return next(one() for one in FAULTS if one.__name__ == name)


def facts_of(implementation: Any, scenario: Scenario, law_id: str) -> Counterexample:
    """What is said of a scenario that breaks a law."""
    outcome, _ = verdict(BY_ID[law_id], implementation, scenario)
    assert isinstance(outcome, Broken)
    case = shown(Finding(BY_ID[law_id], cell_of(scenario), scenario, outcome), implementation)
    return counterexample(case, implementation)


NO_DRAFT = facts_of(fault("NoDraftOnHybrid"), HYBRID, "B1")


def test_the_term_that_is_off_is_named_in_bytes() -> None:
    assert NO_DRAFT.off_terms() == ["draft pool: priced 0 B/token, allocated 8 B/token"]
    assert NO_DRAFT.worst is not None and NO_DRAFT.worst.over > 0
    price = PoolPrice(0, "full", Fraction(5, 2), Fraction(4), Fraction(8192), 1, 8192)
    assert off_text(price) == "full pool: priced 2.500 B/row, allocated 8,192 B/row (the spec charges 4)"


def test_a_block_has_a_row_for_every_question() -> None:
    text = block_text(NO_DRAFT, [("replay", "pytest properties")])
    assert text.startswith(BY_ID["B1"].sentence + "\n")
    rows = [line[2:16].strip() for line in text.splitlines()[1:]]
    asked = ("smallest case", "budget", "answer", "the spec's", "term off", "allocated", "off", "where", "real pair")
    assert [row for row in rows if row in (*asked, "like", "replay")] == [*asked, "like", "replay"]
    assert "impl/faults/draft.py:" in text and "<- off" in text and "\x1b" not in text


def test_the_report_says_what_the_block_says() -> None:
    document = facts_document(NO_DRAFT)
    text = block_text(NO_DRAFT, [])
    for line in (*document["smallest_case"], *document["off"], document["where"], document["budget"]):
        assert line in text
    assert document["sentence"] == BY_ID["B1"].sentence
    assert [(pool["pool"], pool["priced"], pool["off"]) for pool in document["pools"]] == [
        ("full", 4, False),
        ("swa", 8, False),
        ("draft", 0, True),
    ]
    assert document["real_pair"]["over_bytes"] > 0 and document["real_pair"]["name"] in text


def test_the_real_pair_is_the_nearest_in_the_catalog() -> None:
    for pool in POOL_KINDS:
        assert any(cell.pool == pool for _, _, cell, _ in real_scenarios()) or pool == "allswa"
    cell = BY_NAME["mla-eagle_own-dp-same"]
    pair = nearest_pair(Configurator(), BY_ID["Q1"], cell)
    assert pair is not None and pair.deployment == "tp8 dp8" and pair.tokens == pair.spec_tokens
    assert "(the same)" in pair.text() and "B left" in pair.text()


def test_without_a_draft_the_pair_is_its_target_alone() -> None:
    pair = nearest_pair(OnePageTooMany(), BY_ID["Q1"], BY_NAME["default-none-tp-same"])
    assert pair is not None and " + " not in pair.name and pair.tokens == pair.spec_tokens + 64


def test_among_equals_the_pair_with_the_greatest_effect_is_told() -> None:
    """Most real drafts of this cell have layers like their target's."""
    pair = nearest_pair(fault("LayerRatioForEveryDraft"), BY_ID["Q1"], BY_NAME["default-dflash_own-tp-same"])
    assert pair is not None and pair.effect > 0 and pair.tokens != pair.spec_tokens


def test_a_pair_without_an_answer_says_why() -> None:
    cell = BY_NAME["default-dflash_own-tp-same"]
    raised, refused = (
        nearest_pair(DividesByZero(), BY_ID["Q1"], cell),
        nearest_pair(RefusesInItsOwnWords(), BY_ID["Q1"], cell),
    )
    assert raised is not None and "ZeroDivisionError: cell size is 0, the spec sells " in raised.text()
    assert refused is not None and "out_of_memory" in refused.text()


def test_a_pool_kind_without_pairs_says_so() -> None:
    assert nearest_pair(Configurator(), BY_ID["Q1"], BY_NAME["allswa-none-tp-same"]) is None
    assert "none of this pool kind in the catalog" in block_text(replace(NO_DRAFT, real=None), [])


def test_known_bugs_that_answer_the_same_are_named() -> None:
    found = facts_of(DropsTheDraftTerm(), HYBRID, "B1").similar
    assert found[0] == ("NoDraftOnHybrid", "The hybrid pool has no draft term. (sglang#28219, PR 32508)")
    assert "NoDraftOnHybrid" not in dict(NO_DRAFT.similar)
    assert similar_text((("A", "a"), ("B", "b"), ("C", "c"), ("D", "d"))) == "A: a\nB: b\nC: c\nand 1 more"
    assert similar_text(()) == "no other known bug answers the same"


def test_a_configurator_that_is_broken_is_like_no_fault_built_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fault that gets something else wrong answers as it does."""
    monkeypatch.setattr(HybridSWAPoolConfigurator, "_paid_and_page_cost", lambda self, full, swa, draft: (0, full))
    facts = facts_of(Configurator(), HYBRID, "B1")
    assert facts.similar is None and "the configurator itself, so the known bugs" in block_text(facts, [])
    assert facts_document(facts)["similar"] is None


def test_an_answer_that_is_none_has_no_bytes() -> None:
    facts = facts_of(DividesByZero(), DEFAULT, "B1")
    assert (facts.worst, facts.pools, facts.similar) == (None, (), ())
    assert "ZeroDivisionError" in block_text(facts, [])
    assert facts_document(facts)["over_bytes"] is None


def test_a_traceback_is_where_the_implementation_raises() -> None:
    text = traceback_text(DividesByZero(), HYBRID)
    assert text.startswith("Traceback") and text.endswith("ZeroDivisionError: cell size is 0")
    assert traceback_text(Configurator(), HYBRID) == traceback_text(ReturnsATuple(), HYBRID) == ""
    assert traceback_text(SupportsNothing(), HYBRID) == ""


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        (
            CAPPED,
            "target 1 full layer of 1 KV head of 1 + 1, 1 swa layer of 1 KV head of 2 + 2, window 1, bf16\n"
            "draft 1 full layer of 1 KV head of 2 + 2, bf16\n"
            "--swa-full-tokens-ratio 1/3 --context-length 64 --max-running-requests 2 --chunked-prefill-size 8 "
            "--disable-radix-cache --speculative-algorithm DFLASH",
        ),
        (
            Scenario(
                AttentionShape(("full",) * 2, Latent(512, 64), index=Index(128, (0,)), kv_checkpoint_dtype="fp8_e4m3"),
                (1,),
                deployment=Deployment(tp_size=8, attn_dp_size=2, pp_size=2, draft_on_every_stage=True),
                is_decode_role=True,
                swa_eviction_interval=4,
            ),
            "target 2 full layers of latents of 512 + 64, an index of 128 on 1 of them, bf16, "
            "KV quantized to fp8_e4m3\n"
            "SGLANG_SWA_EVICTION_INTERVAL=4 --tp-size 8 --dp-size 2 --pp-size 2 --enable-dp-attention "
            "(a draft on every stage) --disaggregation-mode decode",
        ),
        (
            Scenario(
                AttentionShape(("swa", "linear"), None, Heads(1024, 1, 1), sliding_window_size=1024),
                (1,),
                Draft(AttentionShape((), None), swa_at_full_rows=True, geometry_resolved=False, num_steps=3),
                DFLASH,
                window_pools=False,
            ),
            "target 1 swa layer of 1,024 KV heads of 1 + 1, 1 linear layer, window 1,024, bf16\n"
            "draft no layers, bf16, window layers at full rows, geometry not readable\n"
            "(window layers at full length) --speculative-algorithm DFLASH --speculative-num-steps 3",
        ),
    ],
)
def test_a_scenario_reads_as_a_server_is_started(scenario: Scenario, words: str) -> None:
    assert scenario_words(scenario) == words


def test_a_budget_is_bytes_or_readings() -> None:
    readings = MemoryFigures(((4096, 4097),), ((2048, 2049),), Fraction(4, 5))
    assert budget_text(DEFAULT) == "4,096 + 8,192 B a rank of each stage"
    assert budget_text(HYBRID) == "4,096 B a rank"
    said = "2,048 B free of 4,096 B before loading, --mem-fraction-static 0.8"
    assert budget_text(replace(DEFAULT, budget=readings)) == said


def test_every_fault_names_the_method_that_is_wrong() -> None:
    for one in FAULTS:
        assert one().where(HYBRID).startswith("impl/faults/")
    assert place_of(Configurator).startswith("impl/optimized.py:")
    assert Configurator().where(HYBRID).endswith(" HybridSWAPoolConfigurator")
    assert DropsTheDraftTerm().where(HYBRID).endswith(" DropsTheDraftTerm.size_pools")


def test_a_rank_without_bytes_has_no_share() -> None:
    assert StageBytes(0, 8, 0).text() == "8 of 0 B, OVER by 8 B (all)"
