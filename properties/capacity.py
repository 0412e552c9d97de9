"""What each release of SGLang sells beside the one before it, written down: impl/sglang/CAPACITY.md.

    python -m properties capacity

Every release is asked the same scenarios once, in a process of its own, two processes at a time.
"""

import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import impl
from impl.sglang.releases import RELEASES
from properties.asked import Process, Question, released
from properties.cell_names import cells_of, cells_text
from properties.cells import CELLS
from properties.corpus import PROFILES
from properties.diff import SEED, diff_of, drawn_questions, said_by
from properties.diff_text import CELL_HEADER, REAL_HEADER, Diff, cell_row, draft_of, function_text, grouped, real_rows
from properties.findings import markdown_table
from properties.moves import Move
from properties.verbs import Parser

FOLDER = Path(impl.__file__).parent / "sglang"
CAPACITY = FOLDER / "CAPACITY.md"
"""The document."""
KNOWN = FOLDER / "known"
"""Which faults each release has, and in which cells."""

HEAD = """\
# Capacity from release to release

Written by `make capacity`; do not edit. Each release of SGLang beside the one before it, on the same scenarios: the
pairs and targets of the catalog with 80 GiB for KV, and what is drawn for each cell ({drawn}), on a CPU, through the
releases' own code. Tokens are rows per rank. `over`: bytes that the tokens sold need beyond the budget by the spec's
accounting, below zero bytes left. A term is what an implementation charges, seen from outside: a great many bytes
divided by the rows they buy, with and without the draft. The function is the one that made the difference in the worst
move of these cells. Faults are those of `faults.toml` that only one of the two releases has and that break laws in
these cells.
"""
CELLS_HEADER = ("cells", *CELL_HEADER[1:], "function", "faults")


def faults_by_cell(release: str) -> dict[str, frozenset[str]]:
    """The known faults of a release, and the cells in which each breaks a law."""
    entries = tomllib.loads((KNOWN / f"{release}.toml").read_text(encoding="utf-8"))["known"]
    names = dict.fromkeys(entry["fault"] for entry in entries)
    return {
        name: frozenset().union(*(cells_of(entry["cells"]) for entry in entries if entry["fault"] == name))
        for name in names
    }


def faults_text(base: str, head: str, moves: Sequence[Move]) -> str:
    """The faults that end or begin between two releases in the cells of these moves."""
    before, after = faults_by_cell(base), faults_by_cell(head)
    cells = {move.cell for move in moves}

    def others(here: dict[str, frozenset[str]], there: dict[str, frozenset[str]]) -> list[str]:
        return [name for name, where in here.items() if where & cells and name not in there]

    changes = [("ends", others(before, after)), ("begins", others(after, before))]
    return "; ".join(f"{word} {', '.join(names)}" for word, names in changes if names) or "-"


def release_text(base: str, head: str, diff: Diff) -> str:
    """One release beside the one before: counts, real deployments, cells."""
    real, generated = diff.of_real(True), diff.of_real(False)
    parts = [
        f"## {base} to {head}",
        f"{len(diff.moves):,} of {diff.compared:,} scenarios moved: {len(real):,} of {diff.real:,} real deployments, "
        f"{len(generated):,} of {diff.generated:,} generated.",
        "\n".join(f"- Not compared, {count:,}: {reason}." for reason, count in diff.unsupported.most_common()),
        markdown_table(REAL_HEADER, real_rows(real)) if real else "",
    ]
    rows = []
    for group, moves in grouped(generated, draft_of).items():
        cells = cells_text({move.cell for move in moves})
        function = function_text(diff.functions.get(group)) or "-"
        rows.append([*cell_row(cells, moves), function, faults_text(base, head, moves)])
    return "\n\n".join(part for part in [*parts, markdown_table(CELLS_HEADER, rows) if rows else ""] if part)


def document(diffs: Sequence[tuple[str, str, Diff]], drawn: str) -> str:
    """The whole text."""
    parts = [HEAD.format(drawn=drawn), *(release_text(*entry) for entry in diffs)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def all_diffs(questions: list[Question], drawn: str) -> Iterator[tuple[str, str, Diff]]:
    """Every release beside the one before it."""
    names = list(RELEASES)
    with ExitStack() as stack:
        base, head = (stack.enter_context(Process(released(name))) for name in names[:2])
        before = said_by(base, questions)
        for number, name in enumerate(names[1:], 1):
            after = said_by(head, questions)
            yield names[number - 1], name, diff_of((base, head), (before, after), questions, drawn)
            base.close()
            base, before = head, after
            if number + 1 < len(names):
                head = stack.enter_context(Process(released(names[number + 1])))


def main(arguments: Sequence[str]) -> int:
    """The verb; returns the exit code."""
    options = Parser("python -m properties capacity", description=__doc__)
    options.add_argument("--kv-profile", choices=PROFILES, default="gate", help="how much to draw (seed 0)")
    profile = options.parse_args(arguments).kv_profile
    drawn = f"profile {profile}, seed {SEED}"
    diffs = []
    for base, head, diff in all_diffs(drawn_questions(CELLS, profile), drawn):
        diffs.append((base, head, diff))
        print(f"{base} to {head}: {len(diff.moves):,} of {diff.compared:,} moved", flush=True)
    CAPACITY.write_text(document(diffs, drawn), encoding="utf-8")
    print(f"{CAPACITY} written")
    return 0
