"""Two set-ups side by side: the terms that differ, and what becomes of the results."""

from collections.abc import Iterator
from fractions import Fraction

from spec.explain.findings import total_tokens
from spec.explain.report import Explanation, title
from spec.explain.wording import number_text
from spec.model import PoolSizes

Figure = int | Fraction | None
"""A number to compare; None where one side has none."""


def terms(explanation: Explanation) -> dict[str, Figure]:
    """Term -> value. A term that is worked out several times (stages, the cap) is told apart by its meaning."""
    return {f"{one.name}: {one.meaning}": one.value for one in explanation.equations}


def outcomes(explanation: Explanation) -> dict[str, Figure]:
    """The results as numbers."""
    answer, scenario = explanation.answer, explanation.setup.scenario
    sizes = answer if isinstance(answer, PoolSizes) else None
    return {
        "needed, bytes a rank": explanation.needed.rank_bytes,
        "reserved, bytes a rank": max((part.sold_bytes for part in explanation.reserved), default=None),
        "sold, tokens": None if sizes is None else total_tokens(scenario, sizes),
        "sold, SWA rows": None if sizes is None else sizes.swa_max_total_num_tokens,
        "running requests": None if sizes is None else sizes.max_running_requests,
        "longest request, tokens": None if sizes is None else sizes.max_req_len,
    }


def figure_text(value: Figure) -> str:
    """A number, or a dash."""
    return "-" if value is None else number_text(value)


def change_text(before: Figure, after: Figure) -> str:
    """The difference and, of what there was, the hundredths."""
    if before is None or after is None:
        return ""
    change = after - before
    sign = "+" if change > 0 else ""
    hundredths = f" ({round(100 * Fraction(change) / before):+} %)" if before else ""
    return f"{sign}{number_text(change)}{hundredths}"


def rows(left: dict[str, Figure], right: dict[str, Figure], *, all_of_them: bool) -> Iterator[tuple[str, ...]]:
    """Name, both values, the change: of all, or of those that differ."""
    for name in dict.fromkeys([*left, *right]):
        before, after = left.get(name), right.get(name)
        if all_of_them or before != after:
            yield name, figure_text(before), figure_text(after), change_text(before, after)


def aligned(lines: list[tuple[str, ...]]) -> Iterator[str]:
    """Columns: names to the left, numbers to the right."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for name, *numbers in lines:
        cells = [f"{number:>{width}}" for number, width in zip(numbers, widths[1:], strict=True)]
        yield "  ".join([f"  {name:<{widths[0]}}", *cells]).rstrip()


def compared(left: Explanation, right: Explanation) -> str:
    """The two, one above the other, then what differs, then the results."""
    lines = [f"A  {title(left.setup)}", f"B  {title(right.setup)}"]
    differing = list(rows(terms(left), terms(right), all_of_them=False))
    header = ("", "A", "B", "B - A")
    if differing:
        lines += ["", "Terms that differ", *aligned([header, *differing])]
    lines += ["", "Results", *aligned([header, *rows(outcomes(left), outcomes(right), all_of_them=True)])]
    for name, side in (("A", left), ("B", right)):
        lines += [f"  {name} {words}" for words in (*side.limits, *side.warnings)]
    return "\n".join(lines)
