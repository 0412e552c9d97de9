"""`coverage.toml` beside what a release has: each configurator, pool class, algorithm and KV dtype is judged, or left
out with a reason. What is in neither list is new, and what a list names and a release has not is stale: both fail the
gate.
"""

import tomllib
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from impl.sglang.exemptions import in_range
from impl.sglang.inventory import inventory
from impl.sglang.releases import Release

COVERAGE = Path(__file__).parent / "coverage.toml"
KINDS = ("configurator", "pool", "algorithm", "dtype")
JUDGED, EXEMPT = "judged", "exempt"
EVERY_RELEASE = ">=0"


@dataclass(frozen=True)
class Entry:
    """Names of one kind in a range of releases, and why the laws do not judge them; "" where they do."""

    kind: str
    names: tuple[str, ...]
    releases: str
    reason: str
    date: date | None


def entry_of(list_name: str, table: dict[str, Any]) -> Entry:
    """One table of the file. Raises ValueError with the key and the value."""
    wanted = {"kind", "names"} | ({"reason", "date"} if list_name == EXEMPT else set())
    wrong = (wanted - table.keys()) | (table.keys() - wanted - {"releases"})
    if wrong:
        raise ValueError(f"{COVERAGE.name}: [[{list_name}]] {table}: {', '.join(sorted(wrong))} is missing or not read")
    if table["kind"] not in KINDS:
        raise ValueError(f"{COVERAGE.name}: kind = {table['kind']!r}, one of {', '.join(KINDS)} expected")
    reason = " ".join(table.get("reason", "").split())
    return Entry(table["kind"], tuple(table["names"]), table.get("releases", EVERY_RELEASE), reason, table.get("date"))


def entries(path: Path = COVERAGE) -> tuple[Entry, ...]:
    """The file, read."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    unread = data.keys() - {JUDGED, EXEMPT}
    if unread:
        raise ValueError(f"{path.name}: nobody reads {', '.join(sorted(unread))}")
    return tuple(entry_of(name, table) for name in (JUDGED, EXEMPT) for table in data.get(name, []))


@dataclass(frozen=True)
class Coverage:
    """What a release has, by kind, and the entries that are for it."""

    version: str
    found: dict[str, frozenset[str]]
    entries: tuple[Entry, ...]

    def listed(self, kind: str, *, judged: bool) -> frozenset[str]:
        """The names of a kind that are judged, or that are left out."""
        return frozenset(
            name
            for entry in self.entries
            if entry.kind == kind and judged != bool(entry.reason)
            for name in entry.names
        )

    def complaints(self) -> list[str]:
        """What is new, what is stale, what is in both lists."""
        said = []
        for kind, found in self.found.items():
            judged, exempt = self.listed(kind, judged=True), self.listed(kind, judged=False)
            said += [f"SGLang {self.version} adds {name}: no law judges it" for name in sorted(found - judged - exempt)]
            said += [
                f"{COVERAGE.name} names the {kind} {name}, which SGLang {self.version} has not"
                for name in sorted((judged | exempt) - found)
            ]
            said += [
                f"{COVERAGE.name} has the {kind} {name} as judged and as exempt" for name in sorted(judged & exempt)
            ]
        return said

    def line(self) -> str:
        """How much of each kind is judged."""
        parts = [
            f"{len(self.listed(kind, judged=True) & found)} of {len(found)} {kind}s"
            for kind, found in self.found.items()
        ]
        left_out = sum(len(self.listed(kind, judged=False)) for kind in self.found)
        return f"{', '.join(parts)}; {left_out} left out with a reason ({COVERAGE.name})"


def coverage_of(root: Path, version: str, release: Release) -> Coverage:
    """The coverage of the release whose `sglang/` folder is `root`."""
    mine = tuple(entry for entry in entries() if in_range(entry.releases, release))
    return Coverage(version, inventory(root), mine)
