"""What a sweep found, in a form that can be written, read again and merged."""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

SCHEMA = 1
"""Of the files below."""


class WrongResult(ValueError):
    """Results that cannot be read or do not belong together."""


@dataclass(frozen=True)
class Result:
    """One shard, or several.

    space: the digest of its axes. points: of the whole space. shards: those that it covers, `3/8` for the third of
    eight. jobs: how many are done of a shard that is being swept, None where it is finished. judged: points. samples:
    those of them that the spec was asked about. seconds: of the loops of all shards. broken: law id and its first
    point.
    """

    space: str
    points: int
    shards: tuple[str, ...]
    jobs: int | None = 0
    judged: int = 0
    samples: int = 0
    seconds: float = 0.0
    broken: dict[str, int] | None = None

    def with_broken(self, found: dict[str, int]) -> dict[str, int]:
        """The first point of each law, here or there."""
        own = self.broken or {}
        return {law: min(own.get(law, index), found.get(law, index)) for law, index in sorted((found | own).items())}


def merged(results: Iterable[Result]) -> Result:
    """Finished shards of one space as one. Raises WrongResult where they overlap, do not belong together or are not
    finished."""
    first, *others = results
    total = first
    for other in others:
        if (other.space, other.points) != (first.space, first.points):
            raise WrongResult(f"shard {', '.join(other.shards)} is of space {other.space}, not of {first.space}")
        twice = set(other.shards) & set(total.shards)
        if twice or len({shard.split("/")[1] for shard in (*total.shards, *other.shards)}) > 1:
            raise WrongResult(f"shards {', '.join(total.shards)} and {', '.join(other.shards)} overlap")
        total = replace(
            total,
            shards=(*total.shards, *other.shards),
            judged=total.judged + other.judged,
            samples=total.samples + other.samples,
            seconds=total.seconds + other.seconds,
            broken=total.with_broken(other.broken or {}),
        )
    unfinished = [result for result in (first, *others) if result.jobs is not None]
    if unfinished:
        raise WrongResult(f"shard {', '.join(unfinished[0].shards)} is not finished")
    return total


def is_complete(result: Result) -> bool:
    """Whether every point of the space was judged."""
    return result.judged == result.points


def document(result: Result, **more: Any) -> dict[str, Any]:
    """What a file says of a result."""
    return {"schema": SCHEMA, **asdict(result), "complete": is_complete(result), **more}


def write(path: Path, content: dict[str, Any]) -> None:
    """One JSON file, whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, path)


def read(path: Path) -> Result:
    """The result of a file. Raises WrongResult, or OSError where there is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise WrongResult(f"{path}: schema {data['schema']!r} given, {SCHEMA} expected")
        values = {name: data[name] for name in Result.__dataclass_fields__}
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise WrongResult(f"{path} holds no result of a sweep: {error!r}") from error
    return Result(**(values | {"shards": tuple(values["shards"])}))
