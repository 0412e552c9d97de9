"""What a run has judged, added up from the reports of its tests, wherever they ran."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from properties.cells import CELLS
from properties.show import row_text, table
from spec.laws import LAWS
from spec.layers import POOL_KINDS

PROPERTY = "kv"
"""The name under which a test reports its tally in `user_properties`, so that workers' figures add up."""


def braced(parts: Iterable[str]) -> str:
    """`{a,b}`, or just `a`: the shell's way to write several names at once."""
    names = list(parts)
    return names[0] if len(names) == 1 else "{" + ",".join(names) + "}"


def cells_text(cells: Iterable[str]) -> str:
    """All the cells, those with the same endings written at once: `mla-{eagle_own,dflash_own}-{tp,dp}-{same,other}`.

    A cell has four parts; drafts that are broken on the same ranks and dtypes share one pattern."""
    ends: dict[tuple[str, str], list[str]] = {}
    for pool, draft, deployment, dtype in sorted(cell.split("-") for cell in cells):
        ends.setdefault((pool, draft), []).append(f"{deployment}-{dtype}")
    drafts: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (pool, draft), endings in ends.items():
        drafts.setdefault((pool, tuple(endings)), []).append(draft)
    return ", ".join(f"{pool}-{braced(names)}-{endings_text(endings)}" for (pool, endings), names in drafts.items())


def endings_text(endings: tuple[str, ...]) -> str:
    """`{tp,dp}-{same,other}` where every combination is there, else each ending by itself."""
    deployments = list(dict.fromkeys(ending.split("-")[0] for ending in endings))
    dtypes = list(dict.fromkeys(ending.split("-")[1] for ending in endings))
    if len(deployments) * len(dtypes) == len(endings):
        return f"{braced(deployments)}-{braced(dtypes)}"
    return braced(endings)


@dataclass
class Summary:
    """Figures of one run. Every counter is keyed by (law id, pool kind)."""

    judged: Counter[tuple[str, str]] = field(default_factory=Counter)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    broken: Counter[tuple[str, str]] = field(default_factory=Counter)
    unsupported: Counter[str] = field(default_factory=Counter)
    """Judgements left out, by the implementation's reason."""
    scenarios: dict[str, int] = field(default_factory=dict)
    blocks: dict[tuple[str, str, str], str] = field(default_factory=dict)
    broken_cells: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)

    def add(self, entry: dict[str, Any]) -> None:
        """One test's tally, and what it found."""
        key = (entry["law"], entry["pool"])
        self.judged[key] += entry["judged"]
        self.refused[key] += entry["refused"]
        self.scenarios[entry["cell"]] = entry["scenarios"]
        self.unsupported.update(entry["unsupported"])
        if entry.get("term") is None:
            return
        self.broken[key] += 1
        fault = (*key, entry["term"])
        self.broken_cells.setdefault(fault, []).append(entry["cell"])
        text = entry.get("text")
        if text is not None and len(text) < len(self.blocks.get(fault, text + " ")):
            self.blocks[fault] = text

    def cell_text(self, law_id: str, pool: str) -> str:
        """One field of the table: judgements, or how many cells are broken, and refusals."""
        key = (law_id, pool)
        if key not in self.judged:
            return "n/a"
        broken = f"BROKEN in {self.broken[key]} " if self.broken[key] else ""
        return f"{broken}{self.judged[key]:,} / {self.refused[key]:,}"

    def law_table(self) -> str:
        """Law by pool kind: judgements / refusals, and how many cells are broken."""
        header = ["law (judged / refused)", *POOL_KINDS]
        rows = [
            [f"{law.id} {law.name}", *(self.cell_text(law.id, pool) for pool in POOL_KINDS)]
            for law in LAWS
            if any((law.id, pool) in self.judged for pool in POOL_KINDS)
        ]
        return table(header, rows)

    def finding_blocks(self) -> list[str]:
        """One block for each (law, pool kind, term) that is off, and the cells where it is."""
        blocks = []
        for fault, cells in sorted(self.broken_cells.items()):
            law_id, pool, term = fault
            places = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
            blocks.append(
                f"BROKEN {law_id} on {pool} in {places}: {term}\n{self.blocks.get(fault, '')}\n"
                + row_text("cells", cells_text(cells))
            )
        return blocks

    def unsupported_lines(self) -> list[str]:
        """What the implementation does not support, the most frequent reason first."""
        return [f"not supported, {count:,} judgements: {reason}" for reason, count in self.unsupported.most_common()]

    def figures(self) -> str:
        """The line CI looks for."""
        return (
            f"{self.judged.total():,} judgements on {sum(self.scenarios.values()):,} distinct scenarios in "
            f"{len(self.scenarios)} of {len(CELLS)} cells"
        )
