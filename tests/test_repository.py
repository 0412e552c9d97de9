"""What every file of the repository keeps to. Each check is a function from a text to what is wrong in it, and is seen
to complain about a small example first."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path

import pytest

from spec import READING_ORDER
from spec.laws import LAWS
from spec.laws.startup import START_UP_LAWS

ROOT = Path(__file__).parents[1]
PACKAGES = ("spec", "impl", "properties", "tests")

LINES_OF_A_FILE = 400
"""The most lines of a Python file."""

LONGER_FILES = {"tests/wrong_answers.py": "one table, a few lines for each wrong answer"}
"""Python files that may be longer, and why."""

TOP_LEVEL = {
    ".ci",
    ".github",
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "action.yml",
    "conftest.py",
    "impl",
    "properties",
    "pyproject.toml",
    "spec",
    "tests",
}

OWN_IMPORTS = {"spec": {"spec"}, "impl": {"spec", "impl"}, "properties": {"spec", "impl", "properties"}}
"""The packages of this repository that a package may import."""

OTHER_IMPORTS = {"spec/explain/charts.py": {"matplotlib"}}
"""Packages from elsewhere that a file of spec may import, within a function: when a picture is asked for."""


@cache
def files() -> tuple[str, ...]:
    """Every file that is, or is about to be, under version control."""
    command = ("git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return tuple(sorted({name for name in listed if name and (ROOT / name).is_file()}))


def python_files(*packages: str) -> list[str]:
    """The Python files of some packages."""
    return [name for name in files() if name.endswith(".py") and name.split("/")[0] in packages]


def text_of(name: str) -> str:
    """A file's text."""
    return (ROOT / name).read_text(encoding="utf-8")


def module_of(name: str) -> str:
    """`spec/laws/__init__.py` is `spec.laws`."""
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imported(text: str) -> Iterator[tuple[str, str]]:
    """What a text imports: a module, and a name of it or nothing."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((module, alias.name) for alias in node.names)


def wrong_packages(package: str, text: str, others: Set[str] = frozenset()) -> list[str]:
    """Imports against the direction spec, impl, properties, tests; spec adds the standard library and `others` only."""
    wrong = []
    for module, _ in imported(text):
        top = module.split(".")[0]
        own = top in PACKAGES or not top
        is_listed = package != "spec" or top in sys.stdlib_module_names or top in others
        allowed = top in OWN_IMPORTS[package] if own else is_listed
        if not allowed:
            wrong.append(module)
    return wrong


def imports_below(module: str, text: str, order: tuple[str, ...] = READING_ORDER) -> list[str]:
    """Modules of spec that a module of spec imports without being listed below them."""
    if module not in order:
        return [f"{module} is not listed"]
    above = order[: order.index(module)]
    wanted = [
        f"{parent}.{name}" if f"{parent}.{name}" in order else parent
        for parent, name in imported(text)
        if parent.split(".")[0] == "spec"
    ]
    return [name for name in wanted if name not in above]


def cleverness(text: str) -> list[str]:
    """Caches and floats, which spec does without."""
    found = []
    for node in ast.walk(ast.parse(text)):
        is_name = isinstance(node, ast.Name | ast.Attribute | ast.alias)
        name = getattr(node, "id", getattr(node, "attr", getattr(node, "name", ""))) if is_name else ""
        if name in ("cache", "lru_cache", "cached_property"):
            found.append(name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, float):
            found.append(repr(node.value))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "float":
            found.append("float()")
    return found


def undocumented(text: str) -> list[str]:
    """Public functions, methods and classes without a docstring, and the file itself."""
    tree = ast.parse(text)
    missing = [] if ast.get_docstring(tree) else ["the file"]
    pending: list[ast.AST] = list(tree.body)
    for node in pending:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            if not ast.get_docstring(node):
                missing.append(node.name)
            if isinstance(node, ast.ClassDef):
                pending += node.body
    return missing


def wrong_lengths(lengths: dict[str, int], reasons: dict[str, str]) -> list[str]:
    """Files with too many lines and no reason, and reasons no longer needed."""
    long = {name for name, length in lengths.items() if length > LINES_OF_A_FILE}
    wrong = [f"{name} is too long" for name in sorted(long - reasons.keys())]
    return wrong + [f"{name} needs no exception" for name in sorted(reasons.keys() - long)]


def strays(names: tuple[str, ...]) -> list[str]:
    """Top-level entries nobody agreed on."""
    return sorted({name.split("/")[0] for name in names} - TOP_LEVEL)


MACHINE_PATH = re.compile("|".join((r"(?<![\w.*])/(?:work|tmp|root|home|Users)/", r"(?<![\w/.-])shared" + "/")))
"""A directory of somebody's machine."""


def machine_paths(text: str) -> list[str]:
    """Paths that exist on one machine only."""
    return MACHINE_PATH.findall(text)


def law_tests(text: str, mark_name: str = "law") -> list[tuple[str, str, str]]:
    """Law id, name and docstring of every test with a law's mark."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == f"pytest.mark.{mark_name}":
                law_id = ast.literal_eval(mark.args[0])
                found.append((law_id, node.name, " ".join((ast.get_docstring(node) or "").split())))
    return found


def short_names(text: str) -> list[str]:
    """Tests whose name is no sentence: fewer than two words after `test_`."""
    names = [node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return [name for name in names if name.startswith("test_") and len(name.split("_")) < 3]


@pytest.mark.parametrize("package", OWN_IMPORTS)
def test_imports_point_one_way(package: str) -> None:
    others = {name: OTHER_IMPORTS.get(name, set()) for name in python_files(package)}
    found = {name: wrong_packages(package, text_of(name), allowed) for name, allowed in others.items()}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize(
    ("package", "text", "wrong"),
    [
        ("spec", "import numpy\nimport math", ["numpy"]),
        ("spec", "from impl.reference import Reference", ["impl.reference"]),
        ("spec", "from . import units", ["."]),
        ("impl", "import torch\nimport properties", ["properties"]),
        ("impl", "def late():\n    from tests import categories", ["tests"]),
        ("properties", "import hypothesis, impl, spec.laws\nimport tests.categories", ["tests.categories"]),
    ],
)
def test_a_wrong_import_is_seen(package: str, text: str, wrong: list[str]) -> None:
    assert wrong_packages(package, text) == wrong


def test_spec_is_read_from_top_to_bottom() -> None:
    names = [name for name in python_files("spec") if module_of(name) != "spec"]
    assert {name: wrong for name in names if (wrong := imports_below(module_of(name), text_of(name)))} == {}
    assert sorted(map(module_of, names)) == sorted(READING_ORDER)


def test_reading_upwards_is_seen() -> None:
    order = ("spec.units", "spec.laws.base", "spec.laws")
    assert imports_below("spec.units", "from spec.laws.base import Law", order) == ["spec.laws.base"]
    assert imports_below("spec.units", "from spec.laws import base, LAWS", order) == ["spec.laws.base", "spec.laws"]
    assert imports_below("spec.laws.base", "import spec.laws.base", order) == ["spec.laws.base"]
    assert imports_below("spec.laws", "from spec.laws import base\nfrom spec import units", order) == []
    assert imports_below("spec.stray", "", order) == ["spec.stray is not listed"]


@pytest.mark.parametrize("name", python_files("spec"))
def test_spec_caches_nothing_and_has_no_floats(name: str) -> None:
    assert cleverness(text_of(name)) == []


def test_caches_and_floats_are_seen() -> None:
    assert cleverness("from functools import cache, reduce") == ["cache"]
    assert cleverness("import functools\n@functools.lru_cache(None)\ndef price(): ...") == ["lru_cache"]
    assert cleverness("ratio = 0.8") == ["0.8"]
    assert cleverness("share = float(tokens)\nhalf = 1 / 2\nisinstance(ratio, float)") == ["float()"]


@pytest.mark.parametrize("name", python_files("spec", "impl"))
def test_every_public_name_has_a_docstring(name: str) -> None:
    assert not text_of(name) or undocumented(text_of(name)) == []


def test_a_missing_docstring_is_seen() -> None:
    source = 'class Draft:\n    "A draft."\n    def rows(self): ...\n    def _own(self): ...\ndef price(): ...'
    assert undocumented(source) == ["the file", "price", "rows"]


def test_files_are_short() -> None:
    lengths = {name: len(text_of(name).splitlines()) for name in python_files(*PACKAGES)}
    assert wrong_lengths(lengths, LONGER_FILES) == []


def test_a_long_file_is_seen() -> None:
    reasons = {"spec/table.py": "a table", "spec/was_long.py": "a table"}
    lengths = {"spec/pools.py": 401, "spec/cell.py": 400, "spec/table.py": 500, "spec/was_long.py": 9}
    assert wrong_lengths(lengths, reasons) == ["spec/pools.py is too long", "spec/was_long.py needs no exception"]


@pytest.mark.parametrize("name", files())
def test_no_file_names_a_machines_directory(name: str) -> None:
    assert machine_paths((ROOT / name).read_text(encoding="utf-8", errors="replace")) == []


def test_a_machines_directory_is_seen() -> None:
    for directory in ("work", "tmp", "root", "home"):
        assert machine_paths(f"see /{directory}/notes.md") == [f"/{directory}/"]
    assert machine_paths("(shared" + "/design.md)") == ["shared" + "/"]
    assert machine_paths("path/tmp/x, mem_cache/shared" + "/pool.py, https://host/home/page") == []


def test_the_top_level_holds_what_it_should() -> None:
    assert "spec/__init__.py" in files()
    assert strays(files()) == []


def test_a_stray_file_is_seen() -> None:
    assert strays(("README.md", "spec/pools.py", "notes.txt", "scripts/run.py")) == ["notes.txt", "scripts"]


def test_every_law_has_one_test_that_says_its_sentence() -> None:
    found = [law for name in python_files("properties") for law in law_tests(text_of(name))]
    expected = [(law.id, f"test_{law.predicate.__name__}", law.sentence) for law in LAWS]
    assert sorted(found) == sorted(expected)


def test_every_start_up_law_has_one_test_that_says_its_sentence() -> None:
    found = [law for name in python_files("properties") for law in law_tests(text_of(name), "start_up_law")]
    predicates = [(law, law.of_rank or law.of_end) for law in START_UP_LAWS]
    assert sorted(found) == [(law.id, f"test_{predicate.__name__}", law.sentence) for law, predicate in predicates]


def test_a_law_test_is_read_with_its_sentence() -> None:
    source = '@pytest.mark.law("B1")\ndef test_fits_the_budget(judge, cell):\n    """All pools\n    fit."""\n'
    assert law_tests(source) == [("B1", "test_fits_the_budget", "All pools fit.")]
    assert law_tests(source.replace("law(", "skip(")) == []


@pytest.mark.parametrize("name", python_files("properties", "tests"))
def test_names_of_tests_are_sentences(name: str) -> None:
    assert "/benchmarks/" in name or short_names(text_of(name)) == []


def test_a_name_of_one_word_is_seen() -> None:
    assert short_names("def test_budget(): ...\ndef test_it_fits(): ...") == ["test_budget"]
