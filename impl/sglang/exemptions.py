"""`exempt.toml` read for one release: what is not judged of it, and why."""

import re
import tomllib
from pathlib import Path

from impl import Exemption
from impl.sglang.releases import Release, numbers

EXEMPT = Path(__file__).parent / "exempt.toml"
"""The entries, each with `law`, `cell`, `reason`, `date`, and `releases` where it is not for all of them."""


def in_range(releases: str, release: Release) -> bool:
    """Whether a release is in a range: `>=X`, `<=X`, or several with a comma."""
    version = numbers(release.version)
    for bound in releases.split(","):
        found = re.fullmatch(r"(>=|<=)(\d+(?:\.\d+)*)", bound.strip())
        if found is None:
            raise ValueError(f"{EXEMPT.name}: {releases!r} is no range of releases")
        limit = numbers(found[2])
        if version < limit if found[1] == ">=" else version > limit:
            return False
    return True


def exemptions_of(release: Release) -> tuple[Exemption, ...]:
    """The entries that are for a release, in the order of the file. A key nobody reads is an error."""
    entries = tomllib.loads(EXEMPT.read_text(encoding="utf-8"))["exempt"]
    for entry in entries:
        unread = entry.keys() - {"law", "cell", "reason", "date", "releases"}
        if unread:
            raise ValueError(f"{EXEMPT.name}: nobody reads {', '.join(sorted(unread))}")
    return tuple(
        Exemption(entry["law"], entry["cell"], " ".join(entry["reason"].split()))
        for entry in entries
        if in_range(entry.get("releases", ">=0"), release)
    )
