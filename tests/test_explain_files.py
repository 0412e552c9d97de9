"""The picture and the page of one budget, and two set-ups side by side."""

import re
from html.parser import HTMLParser

import pytest

from spec.__main__ import main
from spec.explain.command import explain_budget
from spec.model import PoolSizes
from spec.pools import size_pools
from tests.test_explain_command import AVAILABLE, GPU, QWEN3, asked, printed
from tests.test_figures import data_of, labels_of

REFUSED = "MiMo-V2-Flash --gpu-bytes 80GiB --weights-bytes 75GiB --mem-fraction-static 0.9"


class Page(HTMLParser):
    """Every tag is closed, in order; what a page would fetch is noted."""

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.tags = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.fetched += [value for name, value in attrs if name in ("src", "href") and not value.startswith("#")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_picture_shows_both_bars(tmp_path, capsys):
    """Its numbers are those of the explanation, and written out beside the bars."""
    printed(f"{QWEN3} {GPU} --draft-weights-bytes 1GiB --svg {tmp_path}/budget.svg", capsys)
    text = (tmp_path / "budget.svg").read_text(encoding="utf-8")
    data = data_of(text)
    assert data["token"] == {"target, full rows": 147456, "draft": 20480}
    assert sum(data["memory"].values()) == 80 * 2**30
    assert "weights: 15.30" in labels_of(text) and "draft: 20,480" in labels_of(text)
    assert (
        labels_of(text)[0]
        == "Qwen3-8B with z-lab/Qwen3-8B-DFlash-b16, DFLASH, default pools, tp 1, page 1, context 4,096"
    )


def test_a_refused_start_has_a_token_all_the_same(tmp_path, capsys):
    printed(f"{REFUSED} --svg {tmp_path}/budget.svg", capsys, code=1)
    data = data_of((tmp_path / "budget.svg").read_text(encoding="utf-8"))
    assert data["memory"] == {} and data["token"] == {"target, full rows": 23040, "target, SWA rows": 159744}


@pytest.mark.parametrize("line", [f"{QWEN3} {AVAILABLE}", REFUSED])
def test_the_page_is_whole_and_fetches_nothing(line, tmp_path, capsys):
    """The same words as on the terminal, the picture inside, no script, no address but namespaces."""
    out = printed(f"{line} --html {tmp_path}/budget.html", capsys, code=int(line == REFUSED)).out
    text = (tmp_path / "budget.html").read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    assert page.open == [] and page.fetched == [] and "script" not in page.tags and "svg" in page.tags
    assert "@import" not in text and "url(http" not in text
    for words in re.findall(r"^  (?:needed|sold) +(.+)$", out, flags=re.MULTILINE):
        assert words in text
    assert text.count("<tr>") > 10


def test_a_path_that_cannot_be_written_is_named(tmp_path, capsys):
    found = printed(f"Qwen3-8B {AVAILABLE} --html {tmp_path}", capsys, code=2)
    assert f"invalid_input: html='{tmp_path}'. it cannot be written: Is a directory" in found.err


def test_two_set_ups_side_by_side(capsys):
    """The terms that differ, the results, and how much they differ."""
    out = printed(f"compare Qwen3-8B {AVAILABLE} vs {QWEN3} {AVAILABLE}", capsys).out
    assert re.search(r"sold, tokens +436,906 +383,625 +-53,281 \(-12 %\)\n", out)
    assert re.search(r"D: all draft rows of one row sold +- +20,480\n", out)
    assert "F: one full row" not in out
    assert re.search(r"sold, SWA rows +0 +0 +0\n", out)


def test_the_same_twice_differs_in_nothing(capsys):
    out = printed(f"compare Qwen3-8B {AVAILABLE} vs Qwen3-8B {AVAILABLE}", capsys).out
    assert "Terms that differ" not in out and "0 (+0 %)" in out


def test_a_refusal_is_compared_too(capsys):
    out = printed(f"compare {REFUSED} vs MiMo-V2-Flash {AVAILABLE}", capsys).out
    answer = size_pools(asked(f"MiMo-V2-Flash {AVAILABLE}").scenario)
    assert isinstance(answer, PoolSizes)
    assert re.search(rf"sold, tokens +- +{answer.max_total_num_tokens:,}\n", out)
    assert "  A refused, no_memory_left" in out


def test_the_second_set_up_has_the_options_of_the_first_and_a_draft_of_its_own(capsys):
    once = printed(f"compare {QWEN3} {GPU} --draft-weights-bytes 2GiB vs Qwen3-8B", capsys).out
    assert once == printed(f"compare {QWEN3} {GPU} --draft-weights-bytes 2GiB vs Qwen3-8B {GPU}", capsys).out
    other = printed(f"compare Qwen3-8B {AVAILABLE} vs Qwen3-8B {GPU}", capsys).out
    assert "B  Qwen3-8B" in other
    back = printed(f"compare Qwen3-8B {GPU} vs Qwen3-8B {AVAILABLE}", capsys).out
    assert "A  Qwen3-8B" in back
    assert (
        "weights_bytes=None. set-up B: give it"
        in printed(f"compare Qwen3-8B {AVAILABLE} vs Qwen3-8B --gpu-bytes 80GiB", capsys, code=2).err
    )


def test_compare_wants_two(capsys):
    assert main(["explain", "compare", "Qwen3-8B"]) == 2
    assert "compare='Qwen3-8B'. put vs between the two set-ups" in capsys.readouterr().err


def test_without_a_target_the_usage_is_said(capsys):
    with pytest.raises(SystemExit, match="2"):
        explain_budget([])
    assert "usage: python -m spec explain TARGET [DRAFT] [options]" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        explain_budget(["--help"])
    assert "log FILE (an SGLang start-up log" in " ".join(capsys.readouterr().out.split())
