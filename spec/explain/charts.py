"""How a picture is drawn: one palette, one theme, SVG that reads in light and in dark and says in words what it shows.

matplotlib is imported here alone, and only when a picture is asked for. It draws for light; a style sheet in the file
turns paper, ink and lines over where the reader's system is dark.
"""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from spec.explain.results import Segment
from spec.explain.wording import number_text, size_text
from spec.model import refuse

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER, INK, LINES = "#fdfdfd", "#1c2128", "#c9ced6"
"""Background, text, grid."""
DARK = {PAPER: "#0f141b", INK: "#e3e8ee", LINES: "#3a424d"}
"""The same in the dark."""

COLORS = {
    "blue": "#0072b2",
    "orange": "#e69f00",
    "green": "#009e73",
    "sky": "#56b4e9",
    "red": "#d55e00",
    "pink": "#cc79a7",
    "grey": "#8c959f",
}
"""Okabe and Ito's palette, which colour-blind readers tell apart, and a grey for what is not used."""

OWNER_COLORS = {
    "weights": COLORS["grey"],
    "draft weights": "#b8bec6",
    "full pool": COLORS["blue"],
    "SWA pool": COLORS["sky"],
    "draft pool": COLORS["orange"],
    "spare pages": COLORS["red"],
    "slack": COLORS["green"],
    "not sold": COLORS["green"],
    "target, full rows": COLORS["blue"],
    "target, SWA rows": COLORS["sky"],
    "draft, SWA rows": COLORS["pink"],
    "draft": COLORS["orange"],
}
"""One colour for each part of a bar, the same in every picture."""


@dataclass(frozen=True)
class Picture:
    """One picture. title, description: what a reader hears who does not see it. data: the numbers it shows, as JSON."""

    title: str
    description: str
    data: Mapping[str, Any]
    figure: "Figure"


def new_figure(width: int, height: int, panels: int = 1) -> tuple["Figure", list["Axes"]]:
    """An empty figure of so many inches, its panels one above the other. Refuses where matplotlib is not installed."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        advice = "pictures need matplotlib: pip install -e '.[pictures]', or the .venv that make properties makes"
        raise refuse("unsupported", "matplotlib", None, advice) from error
    matplotlib.rcParams.update(
        {
            "svg.hashsalt": "kv-budget-spec",
            "svg.fonttype": "none",
            "font.size": 10,
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.edgecolor": LINES,
            "axes.facecolor": "none",
            "xtick.color": INK,
            "ytick.color": INK,
            "grid.color": LINES,
            "legend.frameon": False,
        }
    )
    figure = Figure(figsize=(width, height), facecolor=PAPER)
    axes = [figure.add_subplot(panels, 1, panel + 1) for panel in range(panels)]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def dark_style() -> str:
    """The style sheet that turns the three colours of the theme over, in fills and in strokes."""
    rules = [
        f'[style*="{name}: {light}"]{{{name}:{dark}!important}}'
        for light, dark in DARK.items()
        for name in ("fill", "stroke")
    ]
    return f"<style>@media (prefers-color-scheme: dark){{{''.join(rules)}}}</style>"


def svg(picture: Picture) -> str:
    """The picture as an SVG file: the same bytes for the same numbers, whenever and wherever it is drawn."""
    drawn = io.StringIO()
    picture.figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = drawn.getvalue()
    start = text.index("<svg ")
    opening = text[start : text.index(">", start)]
    spoken = f"<title>{escape(picture.title)}</title>\n <desc>{escape(picture.description)}</desc>"
    data = f'<metadata id="data">{escape(json.dumps(picture.data))}</metadata>'
    body = text[text.index(">", start) + 1 :]
    lines = f'{opening} role="img">\n {spoken}\n {data}\n {dark_style()}{body}'
    return "\n".join(line.rstrip() for line in lines.splitlines()) + "\n"


def share(count: int | Fraction, whole: int = 1) -> Any:
    """`count / whole` as a chart takes it."""
    exact = Fraction(count) / whole
    return exact.numerator / exact.denominator


def stacked_bar(axes: "Axes", segments: Sequence[Segment], whole: int) -> None:
    """One bar of parts laid end to end, each named with its size below it; a part below zero is not drawn. whole: what
    one unit is, in bytes."""
    left = Fraction(0)
    for one in segments:
        width = Fraction(max(0, one.bytes), whole)
        size = number_text(one.bytes) if whole == 1 else size_text(int(one.bytes)).removesuffix(" GiB")
        color = OWNER_COLORS[one.name]
        label = f"{one.name}: {size}"
        axes.barh([0], [share(width)], left=[share(left)], color=color, edgecolor=PAPER, linewidth=1, label=label)
        left += width
    axes.set_xlim(0, share(left))
    axes.set_yticks([])
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.spines["left"].set_visible(False)
    axes.legend(loc="upper left", bbox_to_anchor=(0, -1 / 3), ncols=4, borderaxespad=0)
