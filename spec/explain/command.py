"""`python -m spec explain`: the command line. Exit codes: 0 explained, 1 a refused start, 2 wrong input."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from spec.explain.compare import compared
from spec.explain.law import told
from spec.explain.log import OFF, judged, told_lines
from spec.explain.log_lines import lines_of, models_of, options_of, server_args
from spec.explain.report import Explanation, as_json, explain, text
from spec.explain.setup import parser, setup_of
from spec.model import Refusal, Refused, refuse

PROGRAM = "python -m spec explain"
OTHER_VERBS = """In the place of TARGET: compare (two set-ups, vs between them), law ID (its reason, the bugs it stops),
log FILE (an SGLang start-up log, line by line), figures [FOLDER] (the guide's, drawn again)."""
"""The end of the help."""


def write(option: str, path: Path, content: str) -> None:
    """Writes a file. Refuses a path that cannot be written."""
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise refuse("invalid_input", option, str(path), f"it cannot be written: {error.strerror}") from error


def write_pictures(asked: argparse.Namespace, explanation: Explanation) -> None:
    """The files that were asked for. matplotlib is imported here, and where nobody asks, nowhere."""
    if asked.svg is not None:
        from spec.explain.charts import svg
        from spec.explain.pictures import budget_picture

        write("svg", asked.svg, svg(budget_picture(explanation)))
    if asked.html is not None:
        from spec.explain.page import page

        write("html", asked.html, page(explanation))


def explain_budget(arguments: Sequence[str]) -> int:
    """`explain TARGET [DRAFT]`."""
    options = parser(f"{PROGRAM} TARGET [DRAFT]")
    options.epilog = OTHER_VERBS
    options.add_argument("--json", action="store_true", help="print JSON")
    options.add_argument("--svg", type=Path, metavar="FILE", help="draw a rank's memory and one token")
    options.add_argument("--html", type=Path, metavar="FILE", help="write one page that needs no network")
    asked = options.parse_args(arguments)
    explanation = explain(setup_of(asked))
    write_pictures(asked, explanation)
    print(json.dumps(as_json(explanation), indent=1) if asked.json else text(explanation))
    return 1 if isinstance(explanation.answer, Refusal) else 0


def explain_difference(arguments: Sequence[str]) -> int:
    """`explain compare TARGET [DRAFT] [options] vs TARGET [DRAFT] [options]`."""
    if list(arguments).count("vs") != 1:
        raise refuse("invalid_input", "compare", " ".join(arguments), "put vs between the two set-ups")
    middle = list(arguments).index("vs")
    options = parser(f"{PROGRAM} compare TARGET [DRAFT] [options] vs TARGET [DRAFT]")
    sides = [explain(setup_of(options.parse_args(side))) for side in (arguments[:middle], arguments[middle + 1 :])]
    print(compared(*sides))
    return 0


def explain_log(arguments: Sequence[str]) -> int:
    """`explain log FILE [TARGET [DRAFT]] [options]`. What the log says of models and deployment comes first, so that
    what the reader says replaces it. Exit code 1 where a line does not add up."""
    if not arguments:
        raise refuse("invalid_input", "FILE", None, "name the file that holds the log")
    log = read_log(arguments[0])
    fields = server_args(log)
    said = list(arguments[1:])
    models = [] if said and not said[0].startswith("-") else models_of(fields)
    options = parser(f"{PROGRAM} log FILE [TARGET [DRAFT]]")
    asked = options.parse_args([*options_of(fields), *models, *said])
    fraction, asked.mem_fraction_static, asked.available_bytes = asked.mem_fraction_static, None, 1
    found = judged(list(lines_of(log)), setup_of(asked).scenario, fraction)
    print("\n".join(told_lines(found)))
    return 1 if any(one.verdict == OFF for one in found) else 0


def read_log(name: str) -> str:
    """The text of a file. Refuses what cannot be read."""
    try:
        return Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise refuse("invalid_input", "FILE", name, f"it cannot be read: {error.strerror}") from error


def explain_law(arguments: Sequence[str]) -> int:
    """`explain law ID`."""
    if len(arguments) != 1:
        raise refuse("invalid_input", "law", " ".join(arguments), "give one id, like B1")
    print(told(arguments[0]))
    return 0


def draw_figures(arguments: Sequence[str]) -> int:
    """`explain figures [FOLDER]`: the guide's figures, drawn again where they are."""
    from spec.explain.figures import write_figures

    write_figures(*map(Path, arguments[:1]))
    return 0


VERBS = {"compare": explain_difference, "figures": draw_figures, "law": explain_law, "log": explain_log}
"""What may stand in the place of TARGET."""


def main(arguments: Sequence[str]) -> int:
    """Runs one of the verbs; a refusal of the input is one line that names the field and the value."""
    verb = VERBS.get(arguments[0]) if arguments else None
    try:
        return explain_budget(arguments) if verb is None else verb(arguments[1:])
    except Refused as refused:
        print(f"{PROGRAM}: {refused}", file=sys.stderr)
        return 2
