"""`python -m spec explain`: see `spec/explain/`."""

import sys

from spec.explain.command import main as explain


def main(arguments: list[str]) -> int:
    """Runs one command."""
    if arguments[:1] != ["explain"]:
        print("usage: python -m spec explain TARGET [DRAFT] [options], or explain --help", file=sys.stderr)
        return 2
    return explain(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
