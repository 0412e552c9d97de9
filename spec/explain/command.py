"""`python -m spec explain`: the command line. Exit codes: 0 explained, 1 a refused start, 2 wrong input."""

import json
import sys
from collections.abc import Sequence

from spec.explain.report import as_json, explain, text
from spec.explain.setup import parser, setup_of
from spec.model import Refusal, Refused

PROGRAM = "python -m spec explain"


def explain_budget(arguments: Sequence[str]) -> int:
    """`explain TARGET [DRAFT]`."""
    options = parser(PROGRAM)
    options.add_argument("--json", action="store_true", help="print JSON")
    asked = options.parse_args(arguments)
    explanation = explain(setup_of(asked))
    print(json.dumps(as_json(explanation), indent=1) if asked.json else text(explanation))
    return 1 if isinstance(explanation.answer, Refusal) else 0


def main(arguments: Sequence[str]) -> int:
    """Runs one of the verbs; a refusal of the input is one line that names the field and the value."""
    try:
        return explain_budget(arguments)
    except Refused as refused:
        print(f"{PROGRAM}: {refused}", file=sys.stderr)
        return 2
