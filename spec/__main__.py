"""`python -m spec explain`: see `spec/explain/`."""

import sys

from spec.explain.command import main as explain


def main(arguments: list[str]) -> int:
    """Runs one command."""
    usage = "usage: python -m spec explain TARGET [DRAFT] [options]; explain --help says more"
    if arguments in (["-h"], ["--help"]):
        print(usage)
        return 0
    if arguments[:1] != ["explain"]:
        print(usage, file=sys.stderr)
        return 2
    return explain(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
