"""Failures that are expected: what the file may say, what a run makes of it, and how it is written again."""

import re
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from impl import Exemption
from properties.case_files import scenario_text
from properties.cell_names import BY_NAME, cells_of
from properties.context import Context, judged_cells
from properties.known import Fault, Known, KnownFailures, WrongKnownFile, read_known
from properties.known_update import REASON, UNEXPLAINED, file_text, in_order, updated, write_again
from properties.smallest import smallest_cases, smallest_of
from properties.summary import result_of
from spec.laws import BY_ID
from spec.model import Latent
from tests.case_scenarios import layers_of_heads, served
from tests.test_gate import gate_again, judging
from tests.wrong_implementations import CannotJudgeAfterAll, HalvesRequestsToo, HasNoPages, OnePageTooMany, Sound

CASE = served(layers_of_heads(1, 1, 1), 100)
"""4 bytes a row, so 25 fit: whoever sells one more breaks B1."""
TODAY = date(2026, 12, 1)
TP = "default-none-tp-same"
NOTHING_EXPECTED = KnownFailures()
EVERY_TP = ("{default,mla}-none-tp-same",)


def entry(law="B1", term="allocated bytes", patterns=(TP,), scenario=CASE, fault="one-page"):
    """One known failure."""
    cells = cells_of(patterns)
    return Known(fault, law, term, tuple(patterns), cells, TP if TP in cells else min(cells), scenario)


def known(*entries, path=Path("known.toml")):
    """A file of them."""
    faults = {one.fault: Fault(f"what {one.fault} is", "https://example.org/1", date(2026, 11, 1)) for one in entries}
    return KnownFailures(path, "", tuple(faults.items()), frozenset(faults), entries)


def run(implementation, expected=NOTHING_EXPECTED, laws=("B1",), cells=(TP,)):
    """A run with few draws, in this process."""
    context = Context(
        implementation=implementation,
        implementation_name=implementation.name,
        given_path=None,
        profile_name="dev",
        seed=0,
        laws=tuple(BY_ID[law] for law in laws),
        cells=tuple(BY_NAME[cell] for cell in cells),
        known=expected,
        report=None,
        updates=False,
    )
    for cell in context.cells:
        for law in context.laws:
            result = context.judge(law, cell)
            assert result_of(result.as_property()) == result
            context.summary.add(result)
    return context


def verdicts(context):
    """What each result says."""
    return {(result.law, result.cell): (result.verdict, result.terms) for result in context.summary.in_order()}


def update(context, today=TODAY):
    """The file after a run."""
    pin = lambda result, term: smallest_of(result, term, context)  # noqa: E731
    return updated(context.known, context.summary, smallest_cases(context), pin, today)


# What a run makes of it.


def test_an_expected_failure_is_known() -> None:
    found = verdicts(run(OnePageTooMany(), known(entry())))
    assert found == {("B1", TP): ("known", ["allocated bytes"])}
    assert verdicts(run(OnePageTooMany())) == {("B1", TP): ("broken", ["allocated bytes"])}


def test_the_pinned_case_fails_whatever_is_drawn() -> None:
    """A draw that misses the fault altogether: only a page of 97 tokens is sold too many."""

    class OnlyPagesOf97(Sound):
        """Right everywhere else."""

        def size_pools(self, scenario):
            wrong = OnePageTooMany() if scenario.page_size == 97 else Sound()
            return wrong.size_pools(scenario)

    case = replace(CASE, page_size=97, budget=(1000,))
    assert verdicts(run(OnlyPagesOf97())) == {("B1", TP): ("holds", [])}
    expected = known(entry(patterns=EVERY_TP, scenario=case))
    assert verdicts(run(OnlyPagesOf97(), expected)) == {("B1", TP): ("known", ["allocated bytes"])}
    both = run(OnlyPagesOf97(), expected, cells=(TP, "mla-none-tp-same"))
    assert both.summary.known_lines(expected) == [
        "known one-page, 1 of 2 verdicts of B1: what one-page is (https://example.org/1)",
        "  not met here: B1 in mla-none-tp-same",
    ]


def test_another_term_is_a_new_failure() -> None:
    expected = known(entry("Q1", "max_total_num_tokens", scenario=replace(CASE, page_size=2)))
    (result,) = run(HalvesRequestsToo(), expected, laws=("Q1",)).summary.in_order()
    assert result.verdict == "broken" and result.unexpected == ["max_running_requests"]
    assert set(result.terms) == {"max_total_num_tokens", "max_running_requests"}


def test_an_entry_that_no_longer_fails_is_an_error() -> None:
    (result,) = run(Sound(), known(entry())).summary.in_order()
    (fixed,) = result.fixed
    assert (result.verdict, fixed.fault, fixed.said) == ("broken", "one-page", "holds")


def test_a_case_that_fails_in_another_term_is_both() -> None:
    (result,) = run(OnePageTooMany(), known(entry(term="swa rows"))).summary.in_order()
    assert [fixed.said for fixed in result.fixed] == ["is off in allocated bytes"]
    assert result.unexpected == ["allocated bytes"] and result.found[0].case == scenario_text(CASE)


def test_a_case_that_cannot_be_judged_is_an_error() -> None:
    (result,) = run(CannotJudgeAfterAll(), known(entry())).summary.in_order()
    assert [fixed.said for fixed in result.fixed] == ["cannot be judged: its builder needs a GPU"]
    assert result.verdict == "unsupported"


def test_judging_nothing_is_never_expected() -> None:
    (result,) = run(CannotJudgeAfterAll()).summary.in_order()
    assert (result.verdict, result.terms) == ("unsupported", ["nothing judged"])
    assert not update(run(CannotJudgeAfterAll())).entries


def test_a_cell_outside_the_selection_is_not_judged() -> None:
    context = run(Sound(), known(entry()), cells=("mla-none-tp-same",))
    assert verdicts(context) == {("B1", "mla-none-tp-same"): ("holds", [])}
    assert not context.summary.known_lines(context.known)


# The file written again.


def test_an_update_expects_all_that_is_off_and_a_second_run_is_green() -> None:
    laws, cells = ("B1", "Q1"), (TP, "default-none-dp-same", "mla-none-tp-same")
    after = update(run(HalvesRequestsToo(), laws=laws, cells=cells))
    assert {one.fault for one in after.entries} == {UNEXPLAINED}
    assert dict(after.faults)[UNEXPLAINED] == Fault(REASON, "", TODAY)
    again = run(HalvesRequestsToo(), after, laws, cells)
    assert {verdict for verdict, _ in verdicts(again).values()} == {"known"}
    assert update(again) == after


def test_an_update_leaves_what_still_fails_as_it_is() -> None:
    wide = known(entry(patterns=("default-none-*",)))
    assert update(run(OnePageTooMany(), wide)) == wide
    assert update(run(Sound(), wide, cells=("default-none-dp-same",))) == wide


def test_an_update_adds_beside_what_is_known() -> None:
    after = update(run(OnePageTooMany(), known(entry()), cells=(TP, "mla-none-tp-same")))
    old, new = after.entries
    assert old == entry() and (new.fault, new.patterns) == (UNEXPLAINED, ("mla-none-tp-same",))
    assert isinstance(new.scenario.target.full, Latent) and new.scenario.page_size == 1


def test_an_update_removes_what_is_fixed_and_its_fault() -> None:
    after = update(run(Sound(), known(entry())))
    assert (after.entries, after.faults, after.own) == ((), (), frozenset())


def test_an_update_pins_a_half_fixed_fault_again() -> None:
    """The case holds, but in another cell of the entry the term is still off; a third was not judged."""

    class OnlyLatents(Sound):
        """Right beside heads."""

        def size_pools(self, scenario):
            latent = isinstance(scenario.target.full, Latent)
            return (OnePageTooMany() if latent else Sound()).size_pools(scenario)

    cells = (TP, "mla-none-tp-same")
    before = known(entry(patterns=("{default,mla}-none-{tp,dp}-same",)))
    after = update(run(OnlyLatents(), before, cells=cells))
    (pinned,) = after.entries
    assert (pinned.fault, pinned.cell) == ("one-page", "mla-none-tp-same")
    assert pinned.patterns == ("default-none-dp-same", "mla-none-{dp,tp}-same") and after.faults == before.faults
    assert verdicts(run(OnlyLatents(), after, cells=cells))["B1", TP] == ("holds", [])


def test_a_fault_split_in_two_keeps_what_the_other_explains() -> None:
    """Both entries expect the term everywhere; only one case is fixed, and its entry leaves."""
    fixed = entry(patterns=("default-none-*",), scenario=replace(CASE, page_size=2), fault="pages-of-two")
    still = entry(patterns=("default-none-*",))

    class OddPages(Sound):
        """Wrong on odd pages."""

        def size_pools(self, scenario):
            return (OnePageTooMany() if scenario.page_size % 2 else Sound()).size_pools(scenario)

    assert update(run(OddPages(), known(fixed, still))).entries == (still,)


def askable(law):
    """Every cell a law claims."""
    return judged_cells(Sound(), law)


LONG_REASON = 'a reason of "many" words, ' * 8


@pytest.mark.parametrize("shared", [False, True])
def test_what_is_written_is_read_again(tmp_path: Path, shared: bool) -> None:
    path = tmp_path / "known" / "1.toml"
    path.parent.mkdir()
    many = tuple(sorted(("default-none-tp-same", "default-*_own-tp-same", "mla-none-*")))
    file = known(
        entry("Q1", 'a "term"', many),
        entry(),
        entry("B2", fault="other", scenario=replace(CASE, swa_full_tokens_ratio="1/3")),
        path=path,
    )
    file = replace(file, entries=tuple(replace(one, scenario=CASE) for one in file.entries))
    file = in_order(replace(file, faults=(("one-page", Fault(LONG_REASON.strip(), "", TODAY)), *file.faults[1:])))
    if shared:
        head = '[fault.one-page]\nreason = "shared"\ndate = 2026-01-01\ncause = "told elsewhere"\n'
        (tmp_path / "faults.toml").write_text(head, encoding="utf-8")
        faults = (("one-page", Fault("shared", "", date(2026, 1, 1))), *file.faults[1:])
        file = replace(file, shared="../faults.toml", faults=faults, own=frozenset({"other"}))
    path.write_text(file_text(file), encoding="utf-8")
    assert read_known(path, askable) == file
    assert max(map(len, path.read_text(encoding="utf-8").splitlines())) <= 120


def test_a_fault_expires_the_day_after_its_date() -> None:
    """It counts while an entry is of it."""
    expected = known(entry())
    ((name, fault),) = expected.faults
    dated = replace(expected, faults=((name, replace(fault, until=TODAY)),))
    assert dated.expired(TODAY) == [] and expected.expired(TODAY) == []
    assert [name for name, _ in dated.expired(TODAY + timedelta(days=1))] == ["one-page"]
    assert replace(dated, entries=()).expired(TODAY + timedelta(days=1)) == []


def test_an_expired_fault_makes_a_run_red(tmp_path: Path) -> None:
    """Its failure is met as it is expected; the date is past."""
    path = tmp_path / "known.toml"
    expected = known(entry(), path=path)
    ((name, fault),) = expected.faults
    for until, code in ((date(2020, 1, 1), 1), (date.max, 0)):
        dated = replace(expected, faults=((name, replace(fault, until=until)),))
        path.write_text(file_text(dated), encoding="utf-8")
        done = gate_again("--kv-law", "B1", "--kv-cell", TP, *judging("OnePageTooMany"), "--kv-known", str(path))
        assert done.code == code, done.text
        assert ("EXPIRED one-page, known until 2020-01-01: what one-page is" in done.text) == bool(code)


def test_a_file_that_says_nothing_new_is_left_alone(tmp_path: Path) -> None:
    file = known(entry(), path=tmp_path / "known.toml")
    file.path.write_text("# by hand\n" + file_text(file), encoding="utf-8")
    assert write_again(file, file).endswith("stays as it is, 1 entries")
    assert file.path.read_text(encoding="utf-8").startswith("# by hand")
    assert write_again(file, replace(file, entries=())).endswith("written, 0 entries: 0 new, 1 gone")


# What the file may not say.


GOOD = file_text(known(entry()))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('law = "B1"', 'law = "Z9"', "known 1: law = 'Z9', one of B1, B2"),
        (
            'law = "B1"',
            'law = "W1"',
            "known 1 of one-page, W1: cells: no cell matches 'default-none-tp-same' in which W1",
        ),
        ('law = "B1"', "law = 1", "known 1: law = 1, str expected"),
        ('law = "B1"\n', "", "known 1: law is missing"),
        ('law = "B1"', 'law = "B1"\nlaws = "B2"', "known 1: nobody reads 'laws' = 'B2'"),
        (TP, "default-nothing-*", "cells: no cell matches 'default-nothing-*'"),
        (TP, "{default,none}-none-tp-same", "cells: no cell matches 'none-none-tp-same'"),
        (TP, "mla-*", f"case: its cell is {TP}, which is none of the entry's cells"),
        (f'["{TP}"]', f'"{TP}"', "cells = 'default-none-tp-same', list expected"),
        (f'["{TP}"]', "[]", "cells = [], list expected"),
        (f'["{TP}"]', "[1]", "cells = [1], a list of patterns expected"),
        ('"allocated bytes"', '"nothing judged"', "term = 'nothing judged' cannot be expected"),
        ('"allocated bytes"', '""', "known 1: term = '', str expected"),
        ('"budget"', '"budgets"', "case: Scenario: nobody reads 'budgets'"),
        ("[100]", '[100], "page_size": 0', "case: invalid_input: page_size=0"),
        ('fault = "one-page"', 'fault = "two-pages"', "fault = 'two-pages': there is no [fault.two-pages]"),
        ("[fault.one-page]", "[fault.'one page']", "fault.'one page': letters, digits, - and _ expected"),
        ('link = "https', 'url = "https', "fault.one-page: nobody reads 'url' = 'https://example.org/1'"),
        ("date = 2026-11-01\n", "", "fault.one-page: date is missing"),
        ("date = 2026-11-01", 'date = "2026-11-01"', "fault.one-page: date = '2026-11-01', date expected"),
        ("[[known]]", "[[knowns]]", "nobody reads 'knowns'"),
        ("[[known]]", "[known]", "known a list of tables [[known]]"),
        ("[fault.one-page]", "[fault]", "tables [fault.ID] expected"),
        ("[fault.one-page]", 'faults = "not-there.toml"\n[fault.one-page]', "not-there.toml cannot be read: "),
        (
            "[fault.one-page]",
            '[fault.two]\nreason = "b"\ndate = 2026-11-01\n[fault.one-page]',
            "no entry is of this fault",
        ),
        ("[fault.one-page]", "[fault.one-page", "cannot be read: "),
        ("[fault.one-page]", f"x = {'[' * 50_000}\n[fault.one-page]", "cannot be read: "),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    path = tmp_path / "known.toml"
    path.write_text(GOOD.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(WrongKnownFile, match=re.escape(said)) as error:
        read_known(path, askable)
    assert "known.toml" in str(error.value) or "not-there.toml" in str(error.value)


def test_a_fault_told_in_two_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "faults.toml").write_text('[fault.one-page]\nreason = "b"\ndate = 2026-11-01\n', encoding="utf-8")
    path = tmp_path / "known.toml"
    path.write_text('faults = "faults.toml"\n' + GOOD, encoding="utf-8")
    with pytest.raises(WrongKnownFile, match=r"fault.one-page is in faults.toml too"):
        read_known(path, askable)


def test_shared_faults_are_tables(tmp_path: Path) -> None:
    (tmp_path / "faults.toml").write_text("fault = 3\n", encoding="utf-8")
    path = tmp_path / "known.toml"
    path.write_text('faults = "faults.toml"\n' + GOOD, encoding="utf-8")
    with pytest.raises(WrongKnownFile, match=r"faults.toml: fault = 3, tables \[fault.ID\] expected"):
        read_known(path, askable)


def test_an_entry_of_which_every_cell_is_exempt_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    path.write_text(GOOD.replace('"B1"', '"B4"'), encoding="utf-8")
    with pytest.raises(WrongKnownFile, match=f"no cell matches '{TP}' in which B4 is judged"):
        read_known(path, lambda law: judged_cells(HasNoPages(), law))
    assert Exemption("B4 B5", "default-*", "it has no pages") in HasNoPages().exemptions()


def test_the_entry_with_its_case_in_the_cell_explains_it() -> None:
    wide = entry(patterns=("default-none-*",), fault="wide")
    other = replace(entry(patterns=("default-none-dp-same",), fault="dp"), cell="default-none-dp-same")
    file = known(wide, other)
    assert file.expecting("B1", "default-none-dp-same", "allocated bytes") == other
    assert file.expecting("B1", "default-none-pp-same", "allocated bytes") == wide
    assert file.expecting("B1", "mla-none-pp-same", "allocated bytes") is None
    assert file.expecting("B1", TP, "rows") is None and file.pinned("B1", TP) == [wide]
