"""The capacity diff: what moved, by which term, in which function, and what is red. Processes and transcripts are in
`tests/test_diff_runs.py`."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest

from impl import load
from properties.asked import Call, Identity, NotSupported, Question, Raised, Saved, said_json, said_of, saved_text
from properties.cell_names import BY_NAME
from properties.cells import CELLS
from properties.diff import diff_of, drawn_questions, priced_by, real_questions, said_by
from properties.diff_rules import ANY, LOSS, NEVER, Acknowledged, read_acknowledged, ruling, share, why_it_fails
from properties.diff_text import Diff, document, markdown_text, percent, terminal_text
from properties.known import WrongKnownFile
from properties.moves import Move, Term, differ, first_change, price_terms
from properties.observed import answered, calls_of, prices_of, source_folders
from spec.model import DFLASH, FULL, AttentionShape, Draft, Heads, MemoryFigures, PoolSizes, Refusal, Scenario
from tests.wrong_implementations import DividesByZero, OnePageTooMany, SupportsNothing

ROW = Heads(num_kv_heads=1, head_dim=1, v_head_dim=1)
PLAIN = Scenario(AttentionShape((FULL,), ROW), (4096,))
DRAFTED = replace(
    PLAIN,
    draft=Draft(AttentionShape((FULL,), Heads(num_kv_heads=1, head_dim=2, v_head_dim=2))),
    speculative_algorithm=DFLASH,
)
FEW = (Question("a pair", DRAFTED), Question("", PLAIN), Question("", DRAFTED))


class Here:
    """An implementation in this process."""

    def __init__(self, name: object) -> None:
        self.implementation = load(name) if isinstance(name, str) else name
        self.identity = Identity(self.implementation.name, self.implementation.version)

    def said(self, question: Question):
        return said_of(answered(self.implementation, question.scenario))

    def prices(self, question: Question):
        return prices_of(self.implementation, question.scenario)

    def calls(self, question: Question):
        folders = source_folders(self.implementation, None)
        return [Call(*call) for call in calls_of(self.implementation, question.scenario, folders)]

    def close(self):
        pass


def compared(base: object, head: object, questions: tuple[Question, ...] = FEW) -> Diff:
    """One beside the other."""
    asked = Here(base), Here(head)
    return diff_of(asked, (said_by(asked[0], questions), said_by(asked[1], questions)), questions, "a few")


LAYERS_FOR_DRAFT = "impl.faults:LayerRatioForEveryDraft"


def test_nothing_moves_where_nothing_changed() -> None:
    diff = compared("configurator", "spec")
    assert (diff.moves, diff.real, diff.generated, diff.functions) == ((), 1, 2, {})
    assert terminal_text(diff, ruling(diff.moves, ANY, Fraction(0))).endswith("\nOK 0 of 3 scenarios moved")


def test_a_fix_shrinks_what_was_over_budget_and_names_the_draft() -> None:
    """As PR 34234 does: the draft's own geometry in place of so many layers of the target."""
    diff = compared(LAYERS_FOR_DRAFT, "configurator")
    real, generated = diff.moves
    assert real.terms == generated.terms == (Term("draft row", "4", "8"),)
    assert real.mended and not real.newly_over and real.change == Fraction(341 - 512, 512)
    assert (real.base_over, real.head_over) == (2048, -4)


def test_the_way_back_is_newly_over_budget() -> None:
    diff = compared("configurator", LAYERS_FOR_DRAFT)
    assert all(move.newly_over and not move.mended for move in diff.moves) and len(diff.moves) == 2
    call, was = diff.function
    assert call.name.endswith("_Pool.draft_cell_size_per_token") and call.file.endswith("impl/faults/draft.py")
    assert (was, call.value) == ("(8, 0)", "(4, 0)")


def test_what_raises_and_what_is_not_supported_are_told_apart() -> None:
    diff = compared("spec", DividesByZero())
    assert [move.newly_raised for move in diff.moves] == [True] * 3
    assert diff.moves[0].terms == (Term("answer", "tokens", "raised"),)
    nothing = compared("spec", SupportsNothing())
    assert nothing.compared == 0 and nothing.unsupported == {"head: no GPU here": 3}
    assert compared(SupportsNothing(), "spec").unsupported == {"base: no GPU here": 3}
    assert compared(DividesByZero(), DividesByZero()).moves == ()


def test_a_change_of_nothing_that_costs_is_told_by_what_it_changed() -> None:
    question = Question("", PLAIN)
    (move,) = compared("spec", OnePageTooMany(), (question,)).moves
    assert move.terms == (Term("tokens at the same prices", "1,024", "1,025"),)
    figures = MemoryFigures(((8192,),), ((4096,),), Fraction(3, 4))
    (move,) = compared("spec", OnePageTooMany(), (Question("", replace(PLAIN, budget=figures)),)).moves
    assert move.terms[0].name == "available bytes, by the tokens"


# Prices, seen from outside.


@pytest.mark.parametrize("name", ["spec", "configurator", "batched"])
@pytest.mark.parametrize("cell", ["default-dflash_own-pp-same", "hybrid-eagle_own-tp-same", "mla-none-dcp-same"])
def test_observed_prices_are_those_of_the_spec(name: str, cell: str) -> None:
    from spec.laws.base import draft_is_resolved
    from spec.pools import stage_row_bytes

    questions = [question for question in drawn_questions([BY_NAME[cell]], "dev") if not question.name]
    for question in questions:
        scenario = question.scenario
        if not draft_is_resolved(scenario):
            continue
        for stage, prices in enumerate(prices_of(load(name), scenario)):
            if None in prices.values():
                continue
            row_bytes = stage_row_bytes(scenario, stage)
            whole = row_bytes.full + row_bytes.swa + row_bytes.draft
            assert sum(Fraction(price) for price in prices.values()) == whole, (scenario, prices, row_bytes)


def test_stages_are_named_where_there_are_several() -> None:
    base, head = [{"target row": "4"}, {"target row": "8"}], [{"target row": "4"}, {"target row": "17/2"}]
    assert price_terms(base, head) == [Term("target row", "8", "17/2", stage=1)]
    assert price_terms(base[:1], [{"target row": None}]) == price_terms([{"target row": None}], base[:1]) == []


def test_answers_are_compared_field_by_field() -> None:
    sizes, refusal = PoolSizes(8, 8, 0, 4, 7), Refusal("no_page_fits", "available_bytes", 0)
    assert not differ(sizes, sizes) and differ(sizes, replace(sizes, max_req_len=6)) and differ(sizes, refusal)
    assert not differ(refusal, replace(refusal, value=5)) and differ(refusal, replace(refusal, kind="cap_too_small"))
    assert differ(sizes, Raised("x")) and not differ(Raised("x"), Raised("y"))


def calls(*values: str, code: int = 0, name: str = "Pool") -> list[Call]:
    """Calls of `row`, `cell`, `row`, one for each value."""
    return [
        Call(f"{name}.{method}", "a.py", 1, code, value)
        for method, value in zip(("row", "cell", "row"), values, strict=True)
    ]


def test_the_innermost_function_is_the_first_to_change() -> None:
    base, head = calls("4", "4", "6"), calls("4", "5", "7")
    assert first_change(base, head) == (head[1], "4")
    assert first_change(base, calls("4", "4", "7")) == (head[2], "6")
    assert first_change(base, [head[2]]) is None
    assert first_change(base, base) is None and first_change([], head) is None


def test_a_function_with_other_code_is_named_before_those_it_calls() -> None:
    base, other = calls("4", "4", "6"), calls("5", "9", "6", code=1, name="Changed")
    head = [*calls("5", "4", "6"), other[1]]
    assert first_change(base, head) == (other[1], "4")


# What is red.


def moved(before: int | None, after: int | None, *, over: tuple[int, int] = (-1, -1), cell: str = "") -> Move:
    """A move between so many tokens, None for a refusal."""
    refusal = Refusal("no_page_fits", "available_bytes", 0)
    base, head = (refusal if rows is None else PoolSizes(rows, rows, 0, 1, 1) for rows in (before, after))
    return Move(FEW[1], cell or "default-none-tp-same", base, head, (), *over)


@pytest.mark.parametrize(
    ("move", "reasons"),
    [
        (moved(1000, 999), {LOSS: "loss", ANY: "loss", NEVER: None}),
        (moved(1000, 1001), {LOSS: None, ANY: "moved", NEVER: None}),
        (moved(1000, None), {LOSS: "newly refused", ANY: "newly refused", NEVER: None}),
        (moved(None, 1000), {LOSS: None, ANY: "moved", NEVER: None}),
        (moved(1000, 1001, over=(-5, 3)), {LOSS: "newly over budget", ANY: "newly over budget", NEVER: None}),
        (moved(1000, 990, over=(7, 3)), {LOSS: "loss", ANY: "loss", NEVER: None}),
        (moved(1000, 1001, over=(3, 4)), {LOSS: "further over budget", ANY: "further over budget", NEVER: None}),
    ],
)
def test_each_move_fails_for_its_worst_reason(move: Move, reasons: dict[str, str | None]) -> None:
    assert {fail: why_it_fails(move, fail, Fraction(0)) for fail in reasons} == reasons


def test_a_tolerance_lets_small_moves_pass_but_nothing_over_budget() -> None:
    half = share("0.5%")
    assert half == Fraction(1, 200)
    assert why_it_fails(moved(1000, 995), LOSS, half) is None and why_it_fails(moved(1000, 994), LOSS, half) == "loss"
    assert why_it_fails(moved(1000, 1005), ANY, half) is None
    assert why_it_fails(moved(1000, 1001, over=(-1, 1)), LOSS, half) == "newly over budget"
    with pytest.raises(ValueError, match="'half' is no share"):
        share("half")


ACKNOWLEDGED = Acknowledged(frozenset(["default-none-tp-same"]), Fraction(1, 10), "a fix", "", date(2026, 11, 30))


def test_an_acknowledged_loss_is_green_and_still_told() -> None:
    move = moved(1000, 900)
    ruled = ruling([move, move], LOSS, Fraction(0), [ACKNOWLEDGED])
    assert not ruled.failures and ruled.acknowledged == ((ACKNOWLEDGED, 2),)
    text = terminal_text(Diff(Identity("a", "1"), Identity("b", "2"), "drawn", 0, 2, Counter(), (move, move)), ruled)
    assert "acknowledged, 2 moves: a fix, 2026-11-30" in text and "default-none" in text and "-10.00 %" in text


@pytest.mark.parametrize(
    "move",
    [
        moved(1000, 899),
        moved(1000, None),
        moved(1000, 950, cell="default-none-dp-same"),
        moved(1000, 950, over=(-1, 1)),
    ],
    ids=["more than that", "refused", "elsewhere", "over budget"],
)
def test_an_acknowledgement_covers_no_more_than_it_says(move: Move) -> None:
    ruled = ruling([move], LOSS, Fraction(0), [ACKNOWLEDGED])
    assert len(ruled.failures) == 1 and ruled.acknowledged == ((ACKNOWLEDGED, 0),)


GOOD = '[[acknowledged]]\ncells = ["default-none-tp-*"]\nloss = "10%"\nreason = "a fix"\ndate = 2026-11-30\n'


def test_acknowledgements_are_read(tmp_path: Path) -> None:
    path = tmp_path / "acknowledged.toml"
    path.write_text(GOOD)
    assert read_acknowledged(path) == (ACKNOWLEDGED,)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("reason = ", "why = "), "acknowledged 1: nobody reads 'why' = 'a fix'"),
        (('loss = "10%"', 'loss = "ten"'), "'ten' is no share"),
        (('loss = "10%"', "loss = 0.1"), "loss = 0.1, str expected"),
        (("default-none-tp-*", "default-nothing-*"), "no cell matches 'default-nothing-*'"),
        (("date = 2026-11-30", ""), "date is missing"),
        (("[[acknowledged]]", "[[accepted]]"), "tables [[acknowledged]] alone expected, 'accepted' given"),
        (("[[acknowledged]]", "[[acknowledged"), "cannot be read"),
    ],
)
def test_a_wrong_acknowledgement_is_told(change: tuple[str, str], said: str, tmp_path: Path) -> None:
    path = tmp_path / "acknowledged.toml"
    path.write_text(GOOD.replace(*change))
    with pytest.raises(WrongKnownFile, match=".*") as error:
        read_acknowledged(path)
    assert said in str(error.value)


# What is asked, kept and said.


def test_every_real_deployment_has_a_name_of_its_own() -> None:
    names = [question.name for question in real_questions(CELLS)]
    assert len(set(names)) == len(names) > 200
    assert {name.rpartition(", ")[2] for name in names} == {"tp1", "tp8", "tp8 dp8", "tp8 dcp8"}


def test_saved_answers_say_what_was_said(tmp_path: Path) -> None:
    asked, path = Here("configurator"), tmp_path / "saved.jsonl"
    answers = list(zip(said_by(asked, FEW), priced_by(asked, FEW), strict=True))
    path.write_text(saved_text(asked, list(FEW), answers))
    saved = Saved(path)
    assert saved.identity == asked.identity and list(saved.rows) == list(FEW)
    assert all(saved.said(question) == asked.said(question) for question in FEW)
    assert all(saved.prices(question) == asked.prices(question) for question in FEW)
    diff = diff_of(
        (saved, Here(LAYERS_FOR_DRAFT)), (said_by(saved, FEW), said_by(Here(LAYERS_FOR_DRAFT), FEW)), FEW, ""
    )
    assert len(diff.moves) == 2 and diff.function is None


def test_saved_prices_are_fractions(tmp_path: Path) -> None:
    asked, path = Here("configurator"), tmp_path / "saved.jsonl"
    answers = list(zip(said_by(asked, FEW), priced_by(asked, FEW), strict=True))
    head, *lines = saved_text(asked, list(FEW), answers).splitlines()
    for prices in (5, [{"full": "many"}]):
        path.write_text("\n".join([head, json.dumps(json.loads(lines[0]) | {"prices": prices})]))
        with pytest.raises(pytest.UsageError, match="is no file of saved answers"):
            Saved(path)


@pytest.mark.parametrize("said", [NotSupported("no GPU"), Raised("ValueError: 3"), PoolSizes(1, 1, 0, 1, 1)])
def test_everything_that_can_be_said_can_be_kept(said: object) -> None:
    assert said_of(json.loads(json.dumps(said_json(said)))) == said


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Fraction(0), "0"),
        (Fraction(-1, 1000), "-0.10 %"),
        (Fraction(12), "+1,200.00 %"),
        (Fraction(-1), "-100.00 %"),
    ],
)
def test_shares_have_a_sign_and_two_decimals(number: Fraction, text: str) -> None:
    assert percent(number) == text


@pytest.mark.parametrize("text_of", [terminal_text, markdown_text])
def test_real_deployments_come_first_and_the_reason_last(text_of: Callable[..., str]) -> None:
    diff = compared("configurator", LAYERS_FOR_DRAFT)
    text = text_of(diff, ruling(diff.moves, LOSS, Fraction(0)))
    assert text.index("a pair") < text.index("default-dflash_own") < text.index("differs first in")
    assert text.splitlines()[-1] == "MOVED newly over budget in 2 of 3 scenarios"


def test_the_document_has_refusals_of_any_value() -> None:
    """A value that was read from JSON may be a list."""
    move = replace(moved(1000, None), head=Refusal("unsupported", "target.layers", ["swa", "full"]))
    diff = Diff(Identity("a", "1"), Identity("b", "2"), "drawn", 0, 1, Counter(), (move,))
    data = document(diff, ruling(diff.moves, LOSS, Fraction(0)))
    assert data["moves"][0]["fails"] == "newly refused" and data["moves"][0]["head_tokens"] == 0


def test_the_document_has_every_move_with_its_terms() -> None:
    diff = compared("configurator", LAYERS_FOR_DRAFT)
    data = json.loads(json.dumps(document(diff, ruling(diff.moves, LOSS, Fraction(0)))))
    first = data["moves"][0]
    assert (first["name"], first["base_tokens"], first["head_tokens"]) == ("a pair", 341, 512)
    assert first["terms"] == [{"name": "draft row", "base": "8", "head": "4", "stage": None}]
    assert first["fails"] == "newly over budget" and data["fails"] == {"newly over budget": 2}
    assert data["function"]["file"] == "impl/faults/draft.py"
