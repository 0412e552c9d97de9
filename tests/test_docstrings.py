"""Formulas say what they are measured in and where they were read: those of the table in `spec/__init__.py`, and all
others of the same files."""

import ast
import re
from collections.abc import Iterator

import pytest

import spec
from tests.test_repository import text_of

UNITS = re.compile(
    r"bytes?|bits?|tokens?|rows?|pages?|layers?|heads?|ranks?|requests?|elements?|fraction|depths?", flags=re.IGNORECASE
)
"""What a number of the budget counts; a fraction is a share."""

NUMBERS = re.compile(r"int|Fraction|tuple\[int(, (int|\.\.\.))*\]")
"""Annotations of a number, or of several."""

ROWS = re.findall(r"^\| (?:.+?) \| (`.+?) \| (.+) \|$", spec.__doc__ or "", flags=re.MULTILINE)
"""The functions and the source of each formula."""

MODULES = sorted({name.rpartition(".")[0] for functions, _ in ROWS for name in re.findall(r"`([\w.]+)`", functions)})
"""The modules with a formula of the table."""

SOURCES = re.compile(r"`[\w/]+\.py\b|`--[a-z-]+`|^same, `|`\w+`'s message")
"""A file of SGLang's, a flag, or what a class of it says."""


def file_of(module: str) -> str:
    """`startup.world` is `spec/startup/world.py`."""
    return f"spec/{module.replace('.', '/')}.py"


def is_number(annotation: ast.expr | None) -> bool:
    """Whether a function returns a number, or a number or None."""
    parts = set() if annotation is None else set(ast.unparse(annotation).split(" | ")) - {"None"}
    return bool(parts) and all(NUMBERS.fullmatch(part) for part in parts)


def without_units(text: str) -> list[str]:
    """Functions that return a number and say neither by name nor by docstring what it counts."""
    return [
        node.name
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and is_number(node.returns)
        if not UNITS.search(f"{node.name} {ast.get_docstring(node) or ''}".replace("_", " "))
    ]


def constants(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Each constant with a number in it, and whether a docstring follows it or the constants after it."""
    for position, node in enumerate(tree.body):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not any(
            isinstance(part, ast.Constant) and type(part.value) is int for part in ast.walk(node)
        ):
            continue
        after = next(
            (other for other in tree.body[position:] if not isinstance(other, ast.Assign | ast.AnnAssign)), None
        )
        is_said = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        yield ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target), is_said


def without_meaning(text: str) -> list[str]:
    """Constants with a number in them that nothing is said about."""
    return [name for name, is_said in constants(ast.parse(text)) if not is_said]


@pytest.mark.parametrize("module", MODULES)
def test_numbers_say_what_they_count(module):
    text = text_of(file_of(module))
    assert without_units(text) == []
    assert without_meaning(text) == []


def test_every_formula_has_its_source():
    assert [functions for functions, source in ROWS if not SOURCES.search(source)] == []
    assert not SOURCES.search("`memory`")


def test_the_table_names_the_files_of_all_formulas():
    assert {"budget", "cell", "draft", "layers", "pools", "startup.world"} <= set(MODULES)


def test_a_number_without_a_unit_is_seen():
    source = 'def price(scenario) -> int:\n    "What it costs."\ndef row_bytes() -> int: ...\ndef told() -> str: ...\n'
    assert without_units(source) == ["price"]
    assert without_units(source.replace("costs", "costs, in bytes")) == []
    assert without_units('def share() -> Fraction | None:\n    "What is left."') == ["share"]


def test_a_constant_without_a_meaning_is_seen():
    source = 'LEAST = 1\nMOST = 9\n"""Bounds."""\nBLOCK = {"a": 16}\n\ndef f(): ...\nWORDS = ("a",)\n'
    assert without_meaning(source) == ["BLOCK"]
