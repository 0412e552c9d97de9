"""The guide says what is so: every block, table and number of it is what the code says today."""

import difflib
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import impl.configurator
import impl.faults
import spec.model
from spec.laws import LAWS
from spec.laws.startup import START_UP_LAWS
from tests.guide import (
    GUIDE,
    ROOT,
    as_it_is_now,
    copy_of_the_repository,
    facts,
    is_stale,
    main,
    numbers,
    pages,
    shown,
    unfounded,
    without_commands,
    wrong_sums,
)
from tests.links import code_spans, links, wrong_links
from tests.test_repository import files

PAGES = [page.name for page in pages()]
CHAPTERS = [name for name in PAGES if name[0].isdigit()]
MOST_FACTS = 3
"""Numbers a chapter may state without showing them."""

CONSTANTS = {
    "the bytes of a dtype": (
        ("spec/dtypes.py", '"fp8_e4m3": 8,', '"fp8_e4m3": 16,'),
        ["3-dtypes-and-scales.md", "5-the-draft.md", "float_formula.md"],
    ),
    "the scales of a sparse row": (
        ("spec/dtypes.py", "SPARSE_SCALE_BYTES = 4", "SPARSE_SCALE_BYTES = 8"),
        ["3-dtypes-and-scales.md"],
    ),
    "the default ratio": (
        (
            "spec/model.py",
            "swa_full_tokens_ratio: Fraction = Fraction(4, 5)",
            "swa_full_tokens_ratio: Fraction = Fraction(3, 4)",
        ),
        ["4-two-pools.md", "5-the-draft.md"],
    ),
    "the most requests": (
        ("spec/pools.py", "MAX_REQUESTS = 4096", "MAX_REQUESTS = 8192"),
        ["1-one-token.md", "6-order.md", "7-limits.md"],
    ),
}
"""A constant of the spec, the line that changes it, and every page that quotes it."""


def text_of(name: str) -> str:
    """One page."""
    return (GUIDE / name).read_text(encoding="utf-8")


def page_of(*lines: str) -> str:
    """A small page."""
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_it_would_say_now(name):
    """`make guide` writes it again."""
    text = text_of(name)
    again = as_it_is_now(text)
    changed = difflib.unified_diff(text.splitlines(), again.splitlines(), name, "make guide", n=1, lineterm="")
    assert again == text, "\n".join(changed)


@pytest.mark.parametrize("name", PAGES)
def test_every_number_in_the_text_is_shown_by_a_block(name):
    """Or is a stated fact, of which there are few; and equations are right."""
    assert unfounded(text_of(name)) == []
    assert wrong_sums(text_of(name)) == []
    assert len(facts(text_of(name))) <= MOST_FACTS


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_is_built_as_all_are(name):
    """A question first, three exercises whose answers run, and the way on."""
    text = text_of(name)
    assert re.match(r"# \d\. .+\n\n\*\*The question\.\*\* ", text)
    _, exercises = text.split("\n## Exercises\n")
    answers = re.findall(r"<details><summary>Answer</summary>\n\n(.*?)</details>", exercises, flags=re.DOTALL)
    assert len(answers) == len(re.findall(r"^\d\. ", exercises, flags=re.MULTILINE)) == 3
    assert all("```python" in answer for answer in answers)
    assert [target for target in links(exercises) if target.endswith(".md")]


def test_the_contents_list_every_page():
    """In the order of their numbers."""
    listed = [target for target in links(text_of("README.md")) if re.fullmatch(r"\d-[\w-]+\.md", target)]
    assert listed == CHAPTERS
    assert set(PAGES) == {*CHAPTERS, "README.md", "float_formula.md", "names.md"}


@pytest.mark.parametrize("name", PAGES)
def test_every_link_of_a_page_leads_somewhere(name):
    """To a file, and to a heading of it where it names one."""
    assert wrong_links(GUIDE / name) == []


@pytest.mark.parametrize("name", CHAPTERS)
def test_every_name_of_a_chapter_exists(name):
    """Files, and classes and faults in capitals."""
    modules = (impl.configurator, impl.faults, spec.model)
    for span in code_spans(text_of(name)):
        if re.fullmatch(r"(?:spec|impl|properties|tests)/[\w/]+(?:\.py)?/?", span):
            assert (ROOT / span).exists(), span
        elif re.fullmatch(r"(?:[A-Z][a-z0-9]\w*){2,}", span):
            assert any(hasattr(module, span) for module in modules), span


def test_the_index_names_functions_and_laws_that_exist():
    """Each function with a link to its file; each row with a chapter."""
    rows = re.findall(r"^\| `.+? \| .+? \| (\[`.+?) \| (.+?) \| (\[\d.+?) \|$", text_of("names.md"), flags=re.MULTILINE)
    known = {law.id for law in (*LAWS, *START_UP_LAWS)}
    assert len(rows) > 50
    for functions, laws, chapters in rows:
        for module_name, attribute, file in re.findall(r"\[`([\w.]+)\.(\w+)`\]\(([^)]+)\)", functions):
            module = importlib.import_module(f"spec.{module_name}")
            assert hasattr(module, attribute), attribute
            assert Path(module.__file__) == (GUIDE / file).resolve()
        assert set(re.findall(r"[A-Z]\d", laws)) <= known
        assert set(links(chapters)) <= set(CHAPTERS)


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", *(file for file in files() if file.startswith(".github/"))])
def test_every_file_that_contributors_are_sent_to_exists(name):
    """In the guide for contributors and in the templates of issues and pull requests."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for path in re.findall(r"(?<![\w/.])(?:spec|impl|properties|tests)/(?:[\w.-]+/)*(?:[\w-]+\.\w+)?", text):
        assert (ROOT / path).exists(), path


def test_the_commands_of_the_readme_explain_a_budget():
    """From a clone, with Python alone."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8").replace("\\\n", "")
    commands = re.findall(r"^    python3 -m (spec explain .+)$", readme, flags=re.MULTILINE)
    assert commands
    for command in commands:
        ran = subprocess.run(
            [sys.executable, "-m", *command.split()], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert "\nResults\n" in ran.stdout


@pytest.mark.parametrize("constant", CONSTANTS)
def test_a_changed_constant_makes_every_page_that_quotes_it_stale(constant, tmp_path):
    """And no other. The constant is edited in a copy, as somebody would who changes the spec and forgets the guide."""
    (file, before, after), quoting = CONSTANTS[constant]
    root = copy_of_the_repository(tmp_path)
    source = (root / file).read_text(encoding="utf-8")
    assert source.count(before) == 1
    (root / file).write_text(source.replace(before, after), encoding="utf-8")
    command = [sys.executable, "-m", "tests.guide", "--stale"]
    ran = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == quoting


def test_a_stale_page_is_seen(tmp_path, capsys):
    """And written again."""
    page = tmp_path / "page.md"
    page.write_text(page_of("```python", ">>> 1 + 1", "3", "```"))
    main(["--stale", str(page)])
    assert capsys.readouterr().out == "page.md\n"
    main([str(page)])
    assert page.read_text() == page_of("```python", ">>> 1 + 1", "2", "```")
    main(["--stale", str(page)])
    assert capsys.readouterr().out == ""


def test_every_kind_of_block_is_run():
    """Prompts, exceptions, commands, tables, patches; what cannot be run is an error."""
    text = page_of(
        "```python",
        ">>> rows = [('a', 'b'), ('x', 1000)]",
        ">>> print()",
        ">>> 1 / 0",
        "```",
        "<!-- table: rows -->",
        "",
        "Text.",
        "```console",
        "$ echo took 1.25s; \\",
        "  echo done",
        "```",
    )
    now = as_it_is_now(text)
    assert "<BLANKLINE>" in now
    assert "ZeroDivisionError: division by zero" in now
    assert "| a | b |\n| --- | ---: |\n| x | 1,000 |\n\nText.\n" in now
    assert "took ... s\ndone\n" in now
    assert as_it_is_now(now) == now
    assert as_it_is_now(without_commands(now)) == without_commands(now)
    for block in (["python", "1 + 1"], ["", "text"], ["diff", "--- a/none", "+++ b/none", "@@ -1 +1 @@", "-x", "+y"]):
        assert is_stale(page_of(f"```{block[0]}", *block[1:], "```"))


def test_a_number_nobody_shows_is_seen():
    """And a fact nobody uses, and a wrong sum."""
    block = ("```python", ">>> 2 * 20480", "40960", "```")
    assert unfounded(page_of(*block, "It takes 40,960 bytes, PR 34234 in 0.5.17 of `chapter 3`.")) == []
    assert unfounded(page_of(*block, "It takes 40,961 bytes.")) == ["40961"]
    assert unfounded(page_of("1. On 80 GiB.", "<!-- fact: 80 of a card -->", "<!-- fact: 7 of nothing -->")) == [
        "unused: 7"
    ]
    assert wrong_sums("    2 x (3 + 4) = 14\n    61 x 656 = 40,016\n    1 - 0.8 = 0.2") == []
    assert wrong_sums("    2 x (3 + 4) = 15") == ["2 x (3 + 4) = 15"]
    assert list(numbers("B1, 1,000.5 and sglang#28219")) == ["1000.5"]
    assert shown("```python\n>>> 10_000\n10000\n```") == {"10000"}
