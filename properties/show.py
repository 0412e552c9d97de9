"""The one printer: records as paste-able calls without their defaults, figures, rows and tables."""

from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from spec.laws.base import SIZE_FIELDS, Answer
from spec.model import PoolSizes


def paste_able(value: Any) -> str:
    """A record as the call that builds it, fields at their default left out."""
    if is_dataclass(value) and not isinstance(value, type):
        given = [
            f"{field.name}={paste_able(getattr(value, field.name))}"
            for field in fields(value)
            if field.default is MISSING or getattr(value, field.name) != field.default
        ]
        return f"{type(value).__name__}({', '.join(given)})"
    if isinstance(value, tuple):
        return f"({', '.join(map(paste_able, value))}{',' if len(value) == 1 else ''})"
    return repr(value)


def figure(value: object) -> str:
    """A number with separators, anything else as it is."""
    return f"{value:,}" if isinstance(value, int) else str(value)


def answer_text(answer: Answer | str) -> str:
    """An answer on one line, or what was said in place of one."""
    if isinstance(answer, str):
        return answer
    if isinstance(answer, PoolSizes):
        return ", ".join(f"{name} {getattr(answer, name):,}" for name in SIZE_FIELDS)
    return f"refused: {answer.kind}, {answer.field} = {figure(answer.value)}"


def row_text(name: str, text: str) -> str:
    """One row of a block; further lines of its text are indented as the first."""
    return f"  {name:<14} " + text.replace("\n", "\n" + 17 * " ")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell; the first is left-aligned, the rest right."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = zip(cells, widths, strict=True)
        return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]).rstrip()

    return "\n".join(line(row) for row in (header, *rows))
