"""The guide's figures: `python -m spec explain figures` writes them into `spec/guide/figures/`."""

from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

from spec.explain.charts import COLORS, INK, LINES, OWNER_COLORS, PAPER, Picture, new_figure, share, stacked_bar, svg
from spec.explain.figure_data import (
    DRAFT_GROUPS,
    RANK_COUNTS,
    REPLICATED,
    law_matrix,
    memory_examples,
    ratio_errors,
    startup_traces,
    token_examples,
    tokens_by_tp,
)
from spec.explain.pictures import bar_data, in_words
from spec.explain.report import plain
from spec.explain.wording import decimal_text, number_text, signed_gib
from spec.layers import POOL_KINDS
from spec.units import GiB

FOLDER = Path(__file__).parents[1] / "guide" / "figures"


def memory_bar() -> Picture:
    """Two budgets on an 80 GiB card."""
    examples = memory_examples()
    figure, axes = new_figure(10, 4, panels=len(examples))
    for panel, one in zip(axes, examples, strict=True):
        setup = one.setup
        panel.set_title(f"{setup.target_name} with {setup.draft_name}, GiB", loc="left")
        stacked_bar(panel, one.memory_bar, GiB)
    figure.subplots_adjust(left=2 / 100, right=98 / 100, top=92 / 100, bottom=18 / 100, hspace=2)
    return Picture(
        title="Where the memory of a rank goes",
        description=". ".join(f"{one.setup.target_name}: {in_words(one.memory_bar)}" for one in examples),
        data={one.setup.target_name: bar_data(one.memory_bar) for one in examples},
        figure=figure,
    )


def token_bytes() -> Picture:
    """What one token costs, pair by pair."""
    examples = token_examples()
    figure, (axes,) = new_figure(10, 4)
    named: set[str] = set()
    for row, terms in enumerate(examples.values()):
        left = Fraction(0)
        for name, count in terms.items():
            label = "" if name in named else name
            named.add(name)
            width, color = share(count), OWNER_COLORS[name]
            axes.barh([row], [width], left=[share(left)], color=color, edgecolor=PAPER, linewidth=1, label=label)
            left += count
        axes.annotate(number_text(left), (share(left), row), (6, 0), textcoords="offset points", va="center")
    axes.set_yticks(range(len(examples)), list(examples))
    axes.invert_yaxis()
    axes.set_xlim(0, share(max(sum(terms.values(), Fraction(0)) for terms in examples.values()), 1) * 9 / 8)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("bytes of one token on one rank, tp 1")
    axes.legend(loc="lower right")
    figure.subplots_adjust(left=24 / 100, right=98 / 100, top=97 / 100, bottom=14 / 100)
    totals = {name: number_text(sum(terms.values(), Fraction(0))) for name, terms in examples.items()}
    return Picture(
        title="Bytes of one token by term",
        description="; ".join(f"{name}: {total} bytes" for name, total in totals.items()),
        data={name: plain(terms) for name, terms in examples.items()},
        figure=figure,
    )


def tokens_by_ranks() -> Picture:
    """Tokens against tensor-parallel ranks for a draft with fewer heads than ranks."""
    lines = tokens_by_tp()
    figure, (axes,) = new_figure(8, 4)
    looks = (("grey", "s", ":"), ("blue", "o", "-"), ("red", "^", "--"))
    for (name, tokens), (color, marker, style) in zip(lines.items(), looks, strict=True):
        millions = [share(count, 10**6) for count in tokens.values()]
        axes.plot(
            range(len(millions)), millions, color=COLORS[color], marker=marker, linestyle=style, linewidth=2, label=name
        )
    paid, split = lines["draft, as it is stored"], lines["draft, split over all ranks"]
    last = RANK_COUNTS[-1]
    over = Fraction(100 * (split[last] - paid[last]), paid[last])
    axes.annotate(
        f"{round(over)} % more sold than fit",
        (len(RANK_COUNTS) - 1, share(split[last], 10**6)),
        xytext=(-10, 8),
        textcoords="offset points",
        ha="right",
    )
    axes.set_xticks(range(len(RANK_COUNTS)), [f"tp {ranks}" for ranks in RANK_COUNTS])
    axes.set_ylabel("million tokens")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y")
    axes.legend(loc="upper left")
    figure.subplots_adjust(left=9 / 100, right=98 / 100, top=97 / 100, bottom=10 / 100)
    target, draft = REPLICATED
    told = "; ".join(f"{name}: {', '.join(map(number_text, tokens.values()))}" for name, tokens in lines.items())
    ranks = ", ".join(map(str, RANK_COUNTS))
    return Picture(
        title=f"Tokens of {target} with the draft {draft}, 40 GiB on each rank",
        description=f"At tp {ranks}. {told}. From tp 4 on a head more is only stored again.",
        data={name: {str(ranks): count for ranks, count in tokens.items()} for name, tokens in lines.items()},
        figure=figure,
    )


def ratio_error() -> Picture:
    """What the layer ratio charges for the draft of every pair of the catalog, of what the draft costs."""
    pairs = ratio_errors()
    figure, (axes,) = new_figure(10, 10)
    rows = range(len(pairs))
    for ranks, color, marker, size in ((1, "blue", "o", 45), (8, "orange", "D", 22)):
        values = [share(shares[ranks]) for _, shares in pairs]
        axes.scatter(values, rows, s=size, marker=marker, color=COLORS[color], label=f"tp {ranks}", zorder=3)
    axes.axvline(1, color=INK, linewidth=1)
    axes.set_xscale("log", base=2)
    ticks = [Fraction(2) ** power for power in range(-5, 3)]
    axes.set_xticks([share(tick) for tick in ticks], [f"{tick}x" for tick in ticks])
    axes.set_yticks(rows, [name for name, _ in pairs], fontsize=8)
    axes.invert_yaxis()
    axes.margins(y=1 / 100)
    axes.grid(axis="both")
    axes.set_xlabel("price by layer ratio / price by own geometry: left of 1x sells too much")
    axes.legend(loc="lower left")
    figure.subplots_adjust(left=40 / 100, right=98 / 100, top=99 / 100, bottom=6 / 100)
    low = sum(shares[1] < 1 for _, shares in pairs)
    high = sum(shares[1] > 1 for _, shares in pairs)
    worst, shares = pairs[0]
    return Picture(
        title=f"Price error of the layer ratio over {len(pairs)} real pairs",
        description=(
            f"At tp 1 the layer ratio charges too little for {low} drafts, too much for {high}, the right price for "
            f"{len(pairs) - low - high}. The worst: {worst}, 1/{round(1 / shares[1])} of the price."
        ),
        data={name: {str(ranks): decimal_text(value) for ranks, value in shares.items()} for name, shares in pairs},
        figure=figure,
    )


def traces() -> Picture:
    """The bytes free on a rank through three start-ups."""
    found = startup_traces()
    figure, axes = new_figure(10, 9, panels=len(found))
    for panel, (name, told) in zip(axes, found.items(), strict=True):
        kept, over = told.kept_bytes, told.over_bytes
        heights = [share(count, GiB) for count in told.free_bytes]
        color = COLORS["red"] if over else COLORS["blue"]
        panel.step(range(len(heights)), heights, where="mid", color=color, linewidth=2)
        panel.axhline(share(kept, GiB), color=INK, linestyle="--", linewidth=1)
        panel.text(0, share(kept, GiB), "to stay free", va="bottom", fontsize=8)
        panel.set_xticks(range(len(heights)), ["start", *told.steps], rotation=30, ha="right", fontsize=8)
        panel.set_ylabel("GiB free")
        panel.set_ylim(bottom=0)
        panel.set_title(f"{name}: {f'{signed_gib(over)} too much' if over else 'within the static part'}", loc="left")
    figure.subplots_adjust(left=8 / 100, right=98 / 100, top=95 / 100, bottom=10 / 100, hspace=85 / 100)
    words = [f"{name}: {number_text(told.over_bytes)} bytes of them taken" for name, told in found.items()]
    kept_words = number_text(next(iter(found.values())).kept_bytes)
    return Picture(
        title="Three start-ups: bytes free after each step",
        description=f"{kept_words} bytes are to stay free, request tables and spare rows aside. {'. '.join(words)}.",
        data={name: asdict(told) for name, told in found.items()},
        figure=figure,
    )


def matrix() -> Picture:
    """Which law judges which cells."""
    laws = law_matrix()
    columns = list(next(iter(laws.values())))
    figure, (axes,) = new_figure(10, 9)
    for row, claims in enumerate(laws.values()):
        for column, (claimed, cells) in enumerate(claims.values()):
            if claimed:
                side = 8 / 10 if claimed == cells else 5 / 10
                color = COLORS["blue"] if claimed == cells else COLORS["sky"]
                axes.bar([column], [side], width=side, bottom=[row - side / 2], color=color)
    axes.set_xlim(-1 / 2, len(columns) - 1 / 2)
    axes.set_ylim(len(laws) - 1 / 2, -1 / 2)
    axes.set_yticks(range(len(laws)), list(laws))
    axes.set_xticks(range(len(columns)), list(DRAFT_GROUPS) * len(POOL_KINDS), rotation=60, ha="left")
    axes.xaxis.tick_top()
    for place, pool in enumerate(POOL_KINDS):
        axes.text(len(DRAFT_GROUPS) * place + 1, len(laws) - 1 / 5, pool, ha="center", va="top")
        if place:
            axes.axvline(len(DRAFT_GROUPS) * place - 1 / 2, color=LINES, linewidth=1)
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    figure.subplots_adjust(left=36 / 100, right=97 / 100, top=92 / 100, bottom=5 / 100)
    whole = [name.split()[0] for name, claims in laws.items() if all(one == cells for one, cells in claims.values())]
    return Picture(
        title="Which law judges which cells",
        description=(
            f"Rows are laws, columns pool kinds: without a draft, with one shaped as the target, with its own shape. "
            f"{', '.join(whole)} judge all cells; a small square is a law that judges some cells of a group."
        ),
        data=laws,
        figure=figure,
    )


FIGURES: dict[str, Callable[[], Picture]] = {
    "memory-bar": memory_bar,
    "token-bytes": token_bytes,
    "tokens-by-tp": tokens_by_ranks,
    "ratio-error": ratio_error,
    "startup-traces": traces,
    "law-matrix": matrix,
}
"""File name -> the figure."""


def write_figures(folder: Path = FOLDER) -> None:
    """Draws every figure into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in FIGURES.items():
        (folder / f"{name}.svg").write_text(svg(figure()), encoding="utf-8")
