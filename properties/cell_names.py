"""Names of many cells at once, written and read: globs, with braces for alternatives.

`mla-{eagle_own,dflash_own}-{tp,dp}-*` stands for four globs. What a run prints of its cells can be given to
`--kv-cell` and written into a file of known failures as it is.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from properties.cells import CELLS

BY_NAME = {str(cell): cell for cell in CELLS}
"""Every cell by its name, in the order they are judged."""
POSITION = {name: position for position, name in enumerate(BY_NAME)}

PATTERN = re.compile(r"(?:[^\s,{}]|\{[^{}]*\})+")
"""One pattern of a list: no comma or space outside its braces."""
BRACES = re.compile(r"\{([^{}]*)\}")


class WrongPattern(ValueError):
    """A list of cells with a brace that is not closed, or that no cell matches."""


def braced(parts: Iterable[str]) -> str:
    """`{a,b}`, or just `a`: the shell's way to write several names at once."""
    names = list(parts)
    return names[0] if len(names) == 1 else "{" + ",".join(names) + "}"


def cell_patterns(cells: Iterable[str]) -> tuple[str, ...]:
    """All the cells, those with the same endings written at once: `mla-{eagle_own,dflash_own}-{tp,dp}-{same,other}`.

    A cell has four parts; drafts that are broken on the same ranks and dtypes share one pattern."""
    ends: dict[tuple[str, str], list[str]] = {}
    for pool, draft, deployment, dtype in sorted(cell.split("-") for cell in cells):
        ends.setdefault((pool, draft), []).append(f"{deployment}-{dtype}")
    drafts: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (pool, draft), endings in ends.items():
        drafts.setdefault((pool, tuple(endings)), []).append(draft)
    return tuple(f"{pool}-{braced(names)}-{endings_text(endings)}" for (pool, endings), names in drafts.items())


def cells_text(cells: Iterable[str]) -> str:
    """All the cells on one line."""
    return ", ".join(cell_patterns(cells))


def endings_text(endings: tuple[str, ...]) -> str:
    """`{tp,dp}-{same,other}` where every combination is there, else each ending by itself."""
    deployments = list(dict.fromkeys(ending.split("-")[0] for ending in endings))
    dtypes = list(dict.fromkeys(ending.split("-")[1] for ending in endings))
    if len(deployments) * len(dtypes) == len(endings):
        return f"{braced(deployments)}-{braced(dtypes)}"
    return braced(endings)


def globs_of(pattern: str) -> list[str]:
    """The globs one pattern stands for, its braces written out."""
    found = BRACES.search(pattern)
    if found is None:
        return [pattern]
    before, after = pattern[: found.start()], pattern[found.end() :]
    return [glob for name in found[1].split(",") for glob in globs_of(f"{before}{name.strip()}{after}")]


def patterns_in(text: str) -> list[str]:
    """The patterns of a list separated by commas or spaces. Raises WrongPattern where a brace is not closed."""
    patterns = PATTERN.findall(text)
    if re.sub(r"[\s,]", "", PATTERN.sub("", text)):
        raise WrongPattern(f"{text!r} has a brace that is not closed, or one inside another")
    return patterns


def cells_of(patterns: Iterable[str], names: Iterable[str] = BY_NAME) -> frozenset[str]:
    """Those of `names` that the patterns stand for. Raises WrongPattern for a glob that matches none."""
    known = frozenset(names)
    cells: set[str] = set()
    for pattern in patterns:
        for glob in globs_of(pattern):
            matched = {glob} & known or {name for name in known if fnmatchcase(name, glob)}
            if not matched:
                raise WrongPattern(f"no cell matches {glob!r}")
            cells |= matched
    return frozenset(cells)
