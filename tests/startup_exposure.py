"""What the historical start-ups cost on real pairs: `python -m tests.startup_exposure` prints the table again.

Pools are exact, weights nominal (`data/nominal_weights.json`). A rank of 24, 80 or 141 GiB, all of it free before
loading; its share of the weights is an even one.
"""

import json
import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path

from spec.catalog import pairs
from spec.laws.startup import counted_bytes
from spec.model import STANDALONE, Deployment, Scenario
from spec.startup.explorer import finished, replayed
from spec.startup.protocols import ANY_ORDER, DRAFT, HISTORICAL
from spec.startup.system import System
from spec.startup.world import Rank, World, buffers, static_share
from spec.units import GiB, ceil_div

DATA = Path(__file__).parent / "data"
TABLE = DATA / "startup_exposure.md"
MEMORY = (24, 80, 141)
"""Free GiB before loading, of a rank."""
FRACTIONS = (Fraction("0.8"), Fraction("0.9"))
TP_SIZES = (1, 2, 4, 8)
MiB = 2**20
RIGHT = ANY_ORDER
"""The order that is right for every pair."""

WEIGHTS = {entry["name"]: entry for entry in json.loads((DATA / "nominal_weights.json").read_text())["models"]}
PAIRS = [pair for pair in pairs() if pair.target.name in WEIGHTS]
"""The pairs whose target's name says how large it is."""


def named_bytes(name, tp_size):
    """One rank's share of a model whose name says how many parameters it has."""
    bits = Fraction(WEIGHTS[name]["parameters_billion"]) * 10**9 * Fraction(WEIGHTS[name]["bits"])
    return ceil_div(int(bits), 8 * tp_size)


def draft_bytes(pair, tp_size):
    """One rank's share of the draft, by its name, or as dense layers as wide as its target."""
    if pair.draft_name in WEIGHTS:
        return named_bytes(pair.draft_name, tp_size)
    parameters = len(pair.draft.shape.layers) * 12 * WEIGHTS[pair.target.name]["hidden_size"] ** 2
    return ceil_div(2 * parameters, tp_size)


def world_of(pair, protocol, memory, fraction, tp_size):
    """One rank of a pair under a protocol."""
    scenario = Scenario(
        pair.target.shape,
        (0,),
        draft=pair.draft,
        speculative_algorithm=pair.speculative_algorithm,
        deployment=Deployment(tp_size=tp_size),
        kv_cache_dtype=pair.kv_cache_dtype,
        swa_full_tokens_ratio=pair.swa_full_tokens_ratio,
        window_pools=pair.target.window_pools,
        page_size=64,
    )
    return World(
        replace(protocol, algorithm=pair.speculative_algorithm),
        scenario,
        (Rank(memory * GiB),),
        fraction,
        named_bytes(pair.target.name, tp_size),
        (draft_bytes(pair, tp_size),),
    )


def historical(name):
    """A historical protocol by name."""
    return next(protocol for protocol in HISTORICAL if protocol.name == name)


def ended(world):
    """The system, and the rank where its start ends."""
    system = System(world)
    return system, replayed(system, finished(system, ()))[-1][0]


def over_bytes(pair, memory, fraction, tp_size):
    """Bytes over the static share where memory was measured before the draft loaded; None: there were not so many."""
    system, state = ended(world_of(pair, historical("measure before the draft loads"), memory, fraction, tp_size))
    return counted_bytes(system, state) - math.floor(static_share(system.world, 0)) if state.reported else None


def left_of_reserve(pair, memory, fraction, tp_size):
    """What draft weights and draft pool leave of the flat reserve, and whether the start lived: below zero they need
    more. None: the reserve leaves the target no memory."""
    size = 6 if pair.speculative_algorithm == STANDALONE else 4
    system, state = ended(world_of(pair, historical(f"flat reserve of {size} GiB"), memory, fraction, tp_size))
    if state.sizes is None:
        return None
    sold = sum(buffer.sold_bytes for buffer in buffers(system.world, DRAFT, state.sizes))
    return size * GiB - system.world.draft_weight_bytes[0] - sold, state.reported


def starts(pair, memory, fraction, tp_size):
    """Whether a start finishes in the right order."""
    world = world_of(pair, RIGHT, memory, fraction, tp_size)
    return world.target_weight_bytes < memory * GiB and ended(world)[1].reported


def cells(pair, memory, tp_size):
    """The figures of one row, a pair of them a fraction; None where a start in the right order is refused."""
    for fraction in FRACTIONS:
        if starts(pair, memory, fraction, tp_size):
            yield over_bytes(pair, memory, fraction, tp_size), left_of_reserve(pair, memory, fraction, tp_size)
        else:
            yield None


def rows():
    """Pair, memory, tp size and figures of every row in which anything starts."""
    for pair, memory, tp_size in product(PAIRS, MEMORY, TP_SIZES):
        figures = tuple(cells(pair, memory, tp_size))
        if any(figures):
            yield pair, memory, tp_size, figures


def over_text(over):
    """MiB over budget."""
    return "out of memory" if over is None else f"{over // MiB}"


def reserve_text(left):
    """MiB wasted, or lacked."""
    if left is None:
        return "no room"
    return f"{left[0] // MiB:+}" + ("" if left[1] else ", out of memory")


def row_text(pair, memory, tp_size, figures):
    """One line of the table."""
    words = [pair.target.name, pair.draft_name, pair.speculative_algorithm, str(memory), str(tp_size)]
    for figure in figures:
        words += ["-", "-"] if figure is None else [over_text(figure[0]), reserve_text(figure[1])]
    return f"| {' | '.join(words)} |"


def counted(found):
    """Starts, those the reserve was too small for, those of them that ran out of memory; the most it wasted and lacked
    in MiB."""
    reserves = [figure[1] for *_, figures in found for figure in figures if figure is not None and figure[1]]
    lacked = [left for left in reserves if left[0] < 0]
    return {
        "starts": len(reserves),
        "lacked": len(lacked),
        "died": sum(not lived for _, lived in lacked),
        "most_wasted": max(left for left, _ in reserves) // MiB,
        "most_lacked": -(min(left for left, _ in reserves) // MiB),
    }


HEAD = """# What two historical start-ups cost on real pairs

`over`: MiB over the static share where memory was measured before the draft loaded, which is also what the frozen-KV
protocol of 0.5.14 missed. `reserve`: MiB that draft weights and draft pool leave of the flat reserve (6 GiB for
STANDALONE, else 4); below zero, those it lacks. One rank of so many GiB at two values of `mem_fraction_static`; `-`: no
start in the right order; `no room`: the reserve leaves the target nothing. Pools are exact, weights nominal
(`nominal_weights.json`); rounded down. Written by `python -m tests.startup_exposure`, compared by
`test_startup_exposure.py`.

The reserve was too small in {lacked} of {starts} starts, {died} of which ran out of memory.
It lacked up to {most_lacked} MiB and wasted up to {most_wasted}.
"""


def table(found):
    """The whole file."""
    heads = [f"over, {fraction.numerator * 10 // fraction.denominator}/10 | reserve" for fraction in FRACTIONS]
    lines = [
        f"| target | draft | algorithm | GiB | tp | {' | '.join(heads)} |",
        "|" + "---|" * (5 + 2 * len(FRACTIONS)),
    ]
    return "\n".join([HEAD.format(**counted(found)), *lines, *(row_text(*row) for row in found), ""])


if __name__ == "__main__":
    print(table(list(rows())), end="")
