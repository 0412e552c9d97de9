"""One budget as one offline page: the picture, the results, every equation, the findings; no script, no network."""

from collections.abc import Iterable
from html import escape

from spec.explain.charts import svg
from spec.explain.equations import SECTIONS
from spec.explain.pictures import budget_picture
from spec.explain.report import (
    Explanation,
    knob_result,
    needed_line,
    reserved_lines,
    sold_line,
    title,
)
from spec.explain.wording import number_text

STYLE = """
:root { color-scheme: light dark; --paper: #fdfdfd; --ink: #1c2128; --lines: #c9ced6; --soft: #57606a; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #0f141b; --ink: #e3e8ee; --lines: #3a424d; --soft: #9aa4b0; }
}
body { margin: 2rem auto; max-width: 62rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
svg { max-width: 100%; height: auto; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--lines); padding: 0.35rem 0.7rem 0.35rem 0; text-align: left;
  vertical-align: top; }
th:last-child { text-align: right; }
td.value { font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap; }
code { font: 0.9em ui-monospace, monospace; overflow-wrap: anywhere; }
small { color: var(--soft); }
dt { font-weight: 600; } dd { margin: 0 0 0.7rem 0; }
"""
"""One sheet for both colour schemes; no font is fetched."""


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells that are HTML already; the last column holds values."""
    head = "".join(f'<th scope="col">{name}</th>' for name in header)
    lines = []
    for row in rows:
        *cells, value = row
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + f'<td class="value">{value}</td></tr>')
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def equation_tables(explanation: Explanation) -> str:
    """A table for each section: name and meaning, formula and numbers, value."""
    found = []
    for section in SECTIONS:
        held = [one for one in explanation.equations if one.section == section]
        rows = [
            (
                f"<b>{escape(one.name)}</b><br>{escape(one.meaning)}<br><small>{escape(one.source)}</small>",
                f"<code>{escape(one.formula)}</code><br><code>= {escape(one.numbers)}</code>",
                f"{number_text(one.value)} {one.unit}",
            )
            for one in held
        ]
        if rows:
            found.append(f"<h2>{section}</h2>{table(('term', 'equation', 'value'), rows)}")
    return "".join(found)


def results(explanation: Explanation) -> str:
    """The three results, each under its label."""
    lines = [needed_line(explanation.needed), *reserved_lines(explanation.reserved), sold_line(explanation)]
    split = (line.split(maxsplit=1) for line in lines)
    return "<dl>" + "".join(f"<dt>{label}</dt><dd>{escape(words)}</dd>" for label, words in split) + "</dl>"


def sentences(heading: str, lines: Iterable[str]) -> str:
    """A heading and a list, nothing where there is nothing."""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<h2>{heading}</h2><ul>{items}</ul>" if items else ""


def knobs_table(explanation: Explanation) -> str:
    """What each knob does when it is turned alone."""
    rows = [
        (
            f"<code>{escape(knob.name)}</code>",
            f"{escape(knob.before)} → {escape(knob.after)}",
            escape(knob_result(knob)),
        )
        for knob in explanation.knobs
    ]
    return f"<h2>Knobs, each turned alone</h2>{table(('knob', 'turned', 'tokens sold'), rows)}"


def inline_svg(explanation: Explanation) -> str:
    """The picture without the prolog a file of its own has."""
    text = svg(budget_picture(explanation))
    return text[text.index("<svg ") :]


def page(explanation: Explanation) -> str:
    """The whole page."""
    name = escape(title(explanation.setup))
    body = [
        f"<h1>{name}</h1>",
        inline_svg(explanation),
        f"<h2>Results</h2>{results(explanation)}",
        sentences("What limits it", explanation.limits),
        sentences("Warnings", explanation.warnings),
        knobs_table(explanation),
        sentences("Out of memory: two cases, opposite advice", explanation.oom),
        equation_tables(explanation),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}</title><style>{STYLE}</style></head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )
