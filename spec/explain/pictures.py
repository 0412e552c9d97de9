"""The picture of one budget: a rank's memory, and one token's bytes."""

from collections.abc import Sequence

from spec.explain.charts import Picture, new_figure, stacked_bar
from spec.explain.report import Explanation, plain, title
from spec.explain.results import Segment
from spec.explain.wording import number_text, size_text
from spec.units import GiB


def in_words(segments: Sequence[Segment]) -> str:
    """The parts of a memory bar in a sentence."""
    return ", ".join(f"{one.name} {size_text(int(one.bytes))}" for one in segments)


def token_words(segments: Sequence[Segment]) -> str:
    """The parts of a token in a sentence."""
    return ", ".join(f"{one.name} {number_text(one.bytes)} bytes" for one in segments)


def bar_data(segments: Sequence[Segment]) -> object:
    """A bar as JSON."""
    return plain({one.name: one.bytes for one in segments})


def budget_picture(explanation: Explanation) -> Picture:
    """Both bars; the token's alone where the start is refused."""
    memory, token = explanation.memory_bar, explanation.token_bar
    figure, axes = new_figure(10, 4 if memory else 2, panels=2 if memory else 1)
    if memory:
        axes[0].set_title("Memory of a rank, GiB", loc="left")
        stacked_bar(axes[0], memory, GiB)
    axes[-1].set_title("One token, bytes", loc="left")
    stacked_bar(axes[-1], token, 1)
    bottom = 15 / 100 if memory else 2 / 5
    figure.subplots_adjust(left=2 / 100, right=98 / 100, top=92 / 100 if memory else 85 / 100, bottom=bottom, hspace=2)
    heard = f"One token: {token_words(token)}."
    return Picture(
        title=title(explanation.setup),
        description=f"Memory of a rank: {in_words(memory)}. {heard}" if memory else heard,
        data={"memory": bar_data(memory), "token": bar_data(token)},
        figure=figure,
    )
