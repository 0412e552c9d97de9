"""A small git repository with an engine of its own, for what CI does with a checkout.

python -m tests.scratch_repository FOLDER    # its last commit is a refactoring
"""

import subprocess
import sys
from pathlib import Path

ENGINE = '''\
"""An engine whose hybrid pool prices its draft by itself."""

from impl.configurator import POOL_CONFIGURATORS, HybridSWAPoolConfigurator
from impl.optimized import Configurator


class Hybrid(HybridSWAPoolConfigurator):
    """Full and window rows, and the draft's."""

    __slots__ = ()

    def draft_cell_size_per_token(self, stage):
        full, swa = super().draft_cell_size_per_token(stage)
        return full, swa


class Engine(Configurator):
    """What is judged."""

    name = "scratch"
    configurators = {**POOL_CONFIGURATORS, "hybrid": Hybrid}
'''
RETURN = "        return full, swa\n"
REFACTORED = ENGINE.replace(RETURN, "        return self.in_one(full, swa)\n").replace(
    "\n\nclass Engine", "\n    def in_one(self, *rows):\n        return rows\n\n\nclass Engine"
)
"""The same in other words."""
BROKEN = ENGINE.replace(RETURN, "        return 0, 0\n")
"""The draft for nothing, as law B1 forbids."""
FILE = "python/scratch_engine.py"
IMPL = "scratch_engine:Engine"


def git(folder: Path, *words: str) -> str:
    """One git command in a repository that nobody's settings reach."""
    author = ("-c", "user.name=scratch", "-c", "user.email=scratch@localhost", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ("git", "-C", str(folder), *author, *words), check=True, capture_output=True, text=True
    ).stdout.strip()


def made(folder: Path, change: str) -> str:
    """The repository, with the engine in its first commit and a change in its second. Returns the first."""
    (folder / FILE).parent.mkdir(parents=True)
    git(folder, "init", "--quiet")
    for text, message in ((ENGINE, "Add an engine"), (change, "Change it")):
        (folder / FILE).write_text(text, encoding="utf-8")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "--message", message)
    return git(folder, "rev-parse", "HEAD~1")


if __name__ == "__main__":
    print(made(Path(sys.argv[1]), REFACTORED))
