"""The document on released SGLang: prose from `impl/sglang/faults.toml`, numbers from one run of each release. The same
runs give the same text.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from properties.pairs import PairFigures, gib
from properties.show import figure, paste_able
from properties.summary import KNOWN
from properties.witnesses import BROKEN, HOLDS, NOT_ASKED, Fault, WitnessFigures
from spec.laws import LAWS
from spec.layers import POOL_KINDS

EAGLE_LIKE, DFLASH_LIKE = ("eagle", "mtp", "standalone"), ("dflash", "dspark")
MARKS = {BROKEN: "x", HOLDS: ".", NOT_ASKED: "-"}
"""How a verdict on a witness is written in the table."""
OFF = (BROKEN, KNOWN)
"""Verdicts of a law that is broken, whether that is known or not."""
PAIRS_SHOWN = 3
"""Pairs listed for a fault, the worst first."""
CELLS_SHOWN = 5
"""Cells listed for a law that nothing explains."""

HEAD = """\
# Findings on released SGLang

Written by `make matrix`; do not edit. The prose is that of `faults.toml`, every number is from a run: profile
{profile}, seed {seed}, on a CPU, through the release's own code. Bytes built are those of the pools that the release's
own builders make, spare rows aside, on the rank where most is missing. What was read and not run says so.
"""


@dataclass(frozen=True)
class ReleaseRun:
    """What was measured of one release: its `report.json`, and what it does with witnesses and pairs."""

    release: str
    report: dict[str, Any]
    witnesses: tuple[WitnessFigures, ...]
    pairs: tuple[PairFigures, ...]

    def witness(self, fault: Fault) -> WitnessFigures:
        """What it does with the witness of a fault."""
        return next(figures for figures in self.witnesses if figures.fault == fault.id)

    def has(self, fault: Fault) -> bool:
        """Whether the witness of a fault breaks its law."""
        return self.witness(fault).verdict == BROKEN


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the first column is left-aligned, the others right."""
    lines = [header, ["---", *("---:" for _ in header[1:])], *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def releases_text(releases: Sequence[str], asked: Sequence[str]) -> str:
    """`0.5.14 to 0.5.17, 0.5.20`: those that follow one another among all that were asked are one range."""
    ranges: list[list[str]] = []
    for release in asked:
        if release in releases:
            if ranges and asked.index(ranges[-1][-1]) + 1 == asked.index(release):
                ranges[-1].append(release)
            else:
                ranges.append([release])
    return ", ".join(names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}" for names in ranges) or "none"


def release_table(runs: Sequence[ReleaseRun]) -> str:
    """How much was judged of each release, and how many verdicts are broken."""
    rows = []
    for run in runs:
        verdicts = Counter(row["verdict"] for row in run.report["verdicts"])
        figures = run.report["figures"]
        rows.append(
            [
                run.release,
                figure(figures["judgements"]),
                figure(figures["scenarios"]),
                figure(verdicts[HOLDS]),
                figure(sum(verdicts[verdict] for verdict in OFF)),
                figure(verdicts["exempt"]),
            ]
        )
    return markdown_table(["release", "judgements", "scenarios", "verdicts that hold", "broken", "exempt"], rows)


def fault_table(runs: Sequence[ReleaseRun], faults: Sequence[Fault]) -> str:
    """Fault by release, by its witness."""
    rows = [[f"[{fault.title}](#{fault.id})", *(MARKS[run.witness(fault).verdict] for run in runs)] for fault in faults]
    return markdown_table(["fault", *(run.release for run in runs)], rows)


def count_of(run: ReleaseRun, law_id: str, wanted: Callable[[str], bool]) -> str:
    """`broken / judged` over the cells that are wanted, `-` where none was judged."""
    verdicts = [row["verdict"] for row in run.report["verdicts"] if row["law"] == law_id and wanted(row["cell"])]
    broken = sum(verdict in OFF for verdict in verdicts)
    judged = broken + verdicts.count(HOLDS)
    return f"{broken} / {judged}" if judged else "-"


def with_draft(drafts: Sequence[str], ending: str = "") -> Callable[[str], bool]:
    """Whether a cell has one of these drafts."""
    return lambda cell: cell.split("-")[1] in {f"{draft}{ending}" for draft in drafts}


def any_geometry(drafts: Sequence[str]) -> Callable[[str], bool]:
    """Whether a cell has one of these drafts, shaped as it may be."""
    return lambda cell: cell.split("-")[1].split("_")[0] in drafts


def law_table(runs: Sequence[ReleaseRun]) -> str:
    """Law by draft by release: cells broken of cells judged."""
    groups = {"none": with_draft(("none",)), "EAGLE": any_geometry(EAGLE_LIKE), "DFLASH": any_geometry(DFLASH_LIKE)}
    rows = [
        [f"{law.id} {law.name}, {name}", *(count_of(run, law.id, wanted) for run in runs)]
        for law in LAWS
        for name, wanted in groups.items()
    ]
    return markdown_table(
        ["law, draft", *(run.release for run in runs)], [row for row in rows if set(row[1:]) != {"-"}]
    )


def budget_table(runs: Sequence[ReleaseRun]) -> str:
    """B1 by pool and draft by release: cells broken of cells judged."""
    groups = {
        "none": with_draft(("none",)),
        "EAGLE same": with_draft(EAGLE_LIKE, "_same"),
        "EAGLE own": with_draft(EAGLE_LIKE, "_own"),
        "DFLASH same": with_draft(DFLASH_LIKE, "_same"),
        "DFLASH own": with_draft(DFLASH_LIKE, "_own"),
    }

    def in_pool(pool: str, wanted: Callable[[str], bool]) -> Callable[[str], bool]:
        return lambda cell: cell.startswith(f"{pool}-") and wanted(cell)

    rows = [
        [f"{pool}, {name}", *(count_of(run, "B1", in_pool(pool, wanted)) for run in runs)]
        for pool in POOL_KINDS
        for name, wanted in groups.items()
    ]
    return markdown_table(["B1 by pool, draft", *(run.release for run in runs)], rows)


def over_text(figures: WitnessFigures) -> str:
    """Bytes beyond the budget, or bytes left."""
    if figures.built_bytes is None or figures.available_bytes is None:
        return "-"
    return f"{figures.built_bytes - figures.available_bytes:+,}"


def witness_table(runs: Sequence[ReleaseRun], fault: Fault) -> str:
    """What the releases do with the witness, those that do the same in one row."""
    by_figures: dict[WitnessFigures, list[str]] = {}
    for run in runs:
        by_figures.setdefault(run.witness(fault), []).append(run.release)
    rows = [
        [
            releases_text(names, [run.release for run in runs]),
            figures.verdict,
            figures.said if figures.verdict != HOLDS else "",
            figures.answer or "-",
            figure(figures.built_bytes) if figures.built_bytes is not None else "-",
            figure(figures.available_bytes) if figures.available_bytes is not None else "-",
            over_text(figures),
        ]
        for figures, names in by_figures.items()
    ]
    return markdown_table(["releases", fault.law, "", "answer", "bytes built", "bytes there", "over"], rows)


def worst_pairs(runs: Sequence[ReleaseRun], fault: Fault) -> list[tuple[str, PairFigures]]:
    """(release, figures) of the real pairs that show the fault on which an affected release is most wrong, a pair
    once."""
    wrong = [
        (abs(pair.over_bytes), run.release, pair)
        for run in runs
        if run.has(fault)
        for pair in run.pairs
        if pair.cell in fault.pairs and pair.over_bytes is not None and pair.tokens != pair.spec_tokens
    ]
    worst: dict[str, tuple[str, PairFigures]] = {}
    for _, release, pair in sorted(wrong, key=lambda entry: -entry[0]):
        worst.setdefault(pair.name, (release, pair))
    return list(worst.values())[:PAIRS_SHOWN]


def pair_text(runs: Sequence[ReleaseRun], fault: Fault) -> str:
    """The effect on real pairs with 80 GiB for KV."""
    rows = [
        [f"{pair.name}, {pair.algorithm}, {pair.deployment}", release]
        + [figure(pair.tokens), figure(pair.spec_tokens), gib(pair.over_bytes)]
        for release, pair in worst_pairs(runs, fault)
    ]
    if not rows:
        return "No pair of the catalog, as it is served, shows it."
    return markdown_table(["pair with 80 GiB for KV", "release", "tokens sold", "that fit", "over"], rows)


def seen_text(runs: Sequence[ReleaseRun], fault: Fault) -> str:
    """The laws that are broken in the fault's cells where the fault is, each with its number of cells over all
    releases."""
    cells: dict[str, set[str]] = {}
    for run in runs:
        if run.has(fault):
            for row in run.report["verdicts"]:
                if row["verdict"] in OFF and fault.explains(row["law"], row["cell"]):
                    cells.setdefault(row["law"], set()).add(row["cell"])
    return ", ".join(f"{law.id} ({len(cells[law.id])})" for law in LAWS if law.id in cells)


def fault_text(runs: Sequence[ReleaseRun], fault: Fault) -> str:
    """One fault: in words, its smallest counterexample in numbers, what it does to real pairs."""
    affected = releases_text([run.release for run in runs if run.has(fault)], [run.release for run in runs])
    lines = [
        f'<a id="{fault.id}"></a>',
        f"### {fault.title}",
        "",
        f"{fault.reason[0].upper()}{fault.reason[1:]}.",
        "",
        f"- Releases: {affected}.",
        f"- Where: `{fault.function}`.",
        f"- Who meets it: {fault.reach}.",
        *([f"- Reported: {fault.link}."] if fault.link else []),
        f"- Laws broken in its cells (other faults may add some): {seen_text(runs, fault) or 'none'}.",
        "",
        f"Smallest case, {fault.law} in {fault.cell}. The spec's answer: {spec_said(runs, fault)}.",
        "",
        "```python",
        paste_able(fault.witness),
        "```",
        "",
        witness_table(runs, fault),
        "",
        pair_text(runs, fault),
        "",
    ]
    return "\n".join(lines)


def spec_said(runs: Sequence[ReleaseRun], fault: Fault) -> str:
    """The spec's answer to a witness, from the first release that could be asked."""
    return next((run.witness(fault).spec_answer for run in runs if run.witness(fault).spec_answer), "-")


def unexplained_text(runs: Sequence[ReleaseRun], faults: Sequence[Fault]) -> str:
    """Broken verdicts that no fault of the release can cause, by law and term. A fault whose witness cannot be asked of
    a release may be there."""
    lines = []
    for run in runs:
        present = [fault for fault in faults if run.witness(fault).verdict != HOLDS]
        cells: dict[tuple[str, str], list[str]] = {}
        for row in run.report["verdicts"]:
            if row["verdict"] in OFF and not any(fault.explains(row["law"], row["cell"]) for fault in present):
                cells.setdefault((row["law"], ", ".join(row["terms"])), []).append(row["cell"])
        lines += [
            f"- {run.release}, {law_id}, {terms}, {len(names)} cells: {', '.join(names[:CELLS_SHOWN])}"
            for (law_id, terms), names in cells.items()
        ]
    return "\n".join(lines) or "None."


def document(runs: Sequence[ReleaseRun], faults: Sequence[Fault]) -> str:
    """The whole text."""
    first = runs[0].report
    parts = [
        HEAD.format(profile=first["profile"], seed=first["seed"]),
        release_table(runs),
        "## Faults by release\n\n`x`: the smallest case breaks its law, `.`: it does not, `-`: it cannot be asked.",
        fault_table(runs, faults),
        "## Budget (B1) by pool and draft\n\nCells broken / cells judged. `same`: the draft's layers are shaped as the "
        "target's; `own`: they are not.",
        budget_table(runs),
        f"## Laws by draft\n\nCells broken / cells judged. EAGLE stands for {', '.join(EAGLE_LIKE)}, DFLASH for "
        f"{', '.join(DFLASH_LIKE)}.",
        law_table(runs),
        "## The faults",
        *(fault_text(runs, fault) for fault in faults),
        "## Broken and not explained",
        unexplained_text(runs, faults),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"
