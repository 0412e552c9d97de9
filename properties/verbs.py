"""The verbs of `python -m properties`: what `pytest properties` has no place for.

A verb is a module with `main(arguments)`, imported when it is asked for; it returns the exit code, one of pytest's.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import NoReturn

import pytest

VERBS = {
    "capacity": "properties.capacity",
    "diff": "properties.diff",
    "doctor": "properties.doctor",
    "summarize": "properties.step_summary",
    "sweep": "properties.sweep.command",
}
"""Name of a verb and its module; the first line of the module says what it does."""


class Parser(argparse.ArgumentParser):
    """Command-line options whose errors end the program with pytest's exit code 4."""

    def error(self, message: str) -> NoReturn:
        """Says what is wrong, and how it is called."""
        self.print_usage()
        self.exit(pytest.ExitCode.USAGE_ERROR, f"{self.prog}: error: {message}\n")


def main(arguments: Sequence[str]) -> int:
    """Runs the verb that comes first with the rest."""
    parser = Parser(prog="python -m properties", description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=sorted(VERBS), help="`VERB --help` says more")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="options of the verb")
    given = parser.parse_args(arguments)
    try:
        return int(importlib.import_module(VERBS[given.verb]).main(given.options))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return int(pytest.ExitCode.INTERRUPTED)
