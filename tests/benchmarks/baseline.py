"""Each benchmark beside a baseline in the same run, and beside the run before: `python -m tests.benchmarks.baseline`.

A busy machine slows both, so the ratio is what is compared from run to run. pytest-benchmark keeps the runs in
`.benchmarks/`.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from properties.show import table
from tests.benchmarks.ratios import seconds_per_call

STORAGE = Path(".benchmarks")
BASELINE, RATIO = "baseline", "times_faster"
"""What a benchmark notes of itself."""
MOVED = 1.2
"""A ratio that moved by more is marked."""


def beside(benchmark: Any, name: str, call: Callable[[], object], calls: int = 1, rounds: int = 3) -> None:
    """Notes how much faster the benchmark is than a baseline that does as much, the best of several rounds each."""
    if benchmark.stats is not None:
        seconds = min(seconds_per_call(call, calls) for _ in range(rounds))
        benchmark.extra_info[BASELINE] = name
        benchmark.extra_info[RATIO] = seconds / benchmark.stats.stats.min


def ratios_of(run: dict[str, Any]) -> dict[str, tuple[str, float]]:
    """Baseline and ratio of every benchmark of a saved run."""
    noted = {entry["name"]: entry["extra_info"] for entry in run["benchmarks"]}
    return {name: (info[BASELINE], info[RATIO]) for name, info in noted.items() if BASELINE in info}


def figure(ratio: float) -> str:
    """A ratio in three digits, or all it has before the point."""
    return f"{ratio:,.0f}" if ratio >= 1000 else f"{ratio:.3g}"


def comparison(now: dict[str, tuple[str, float]], before: dict[str, tuple[str, float]]) -> str:
    """A line a benchmark: its ratio, that of the run before, and a mark where it moved."""
    rows = []
    for name, (baseline, ratio) in now.items():
        earlier = before[name][1] if name in before and before[name][0] == baseline else None
        moved = "" if earlier is None or max(ratio / earlier, earlier / ratio) <= MOVED else f"{ratio / earlier:.2f}x"
        rows.append([name, baseline, figure(ratio), "-" if earlier is None else figure(earlier), moved])
    return table(["benchmark", "baseline", "times faster", "before", "moved"], rows)


def saved_runs(storage: Path) -> list[Path]:
    """The runs that were kept, the last one last."""
    return sorted(storage.glob("*/[0-9]*.json"), key=lambda path: path.name)


def main(storage: Path = STORAGE) -> int:
    """Prints the last run beside the one before."""
    runs = saved_runs(storage)[-2:]
    if not runs:
        print(f"no saved run in {storage}", file=sys.stderr)
        return 1
    now, *before = (ratios_of(json.loads(path.read_text(encoding="utf-8"))) for path in reversed(runs))
    print(comparison(now, before[0] if before else {}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
