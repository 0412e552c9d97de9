"""`python -m spec explain`: the command line. Exit codes: 0 explained, 1 a refused start, 2 wrong input."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spec.explain.compare import compared
from spec.explain.law import told
from spec.explain.log import judged, told_lines
from spec.explain.log_lines import ignored, lines_of, models_of, options_of, server_args
from spec.explain.log_state import OFF
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
    asked = options.parse_intermixed_args(arguments)
    explanation = explain(setup_of(asked))
    write_pictures(asked, explanation)
    print(json.dumps(as_json(explanation), indent=1) if asked.json else text(explanation))
    return 1 if isinstance(explanation.answer, Refusal) else 0


def explain_difference(arguments: Sequence[str]) -> int:
    """`explain compare TARGET [DRAFT] [options] vs TARGET [DRAFT] [options]`."""
    options = parser(f"{PROGRAM} compare TARGET [DRAFT] [options] vs TARGET [DRAFT]")
    options.description = (
        "Two set-ups side by side. The second has the first one's options but for those it gives; models, and what is "
        "said of a draft, are its own."
    )
    if asks_for_help(arguments):
        options.print_help()
        return 0
    if list(arguments).count("vs") != 1:
        raise refuse("invalid_input", "compare", " ".join(arguments), "put vs between the two set-ups")
    middle = list(arguments).index("vs")
    first = options.parse_intermixed_args(arguments[:middle])
    words = arguments[middle + 1 :]
    second = options.parse_intermixed_args(words, argparse.Namespace(**inherited(vars(first), words)))
    print(compared(explained("A", first), explained("B", second)))
    return 0


def inherited(first: dict[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """The options that the second set-up, of these words, takes over: no draft's, and no other way to say its bytes."""
    parts = ("gpu_bytes", "weights_bytes", "mem_fraction_static")
    other: tuple[str, ...] = parts if "--available-bytes" in words else ()
    if any(f"--{name.replace('_', '-')}" in words for name in parts):
        other = ("available_bytes",)
    own = [name for name in first if name.startswith(("draft", "speculative")) or name in other]
    return first | dict.fromkeys(own)


def explained(side: str, asked: argparse.Namespace) -> Explanation:
    """One of two set-ups. A refusal says of which."""
    try:
        return explain(setup_of(asked))
    except Refused as refused:
        raise advising(refused, f"set-up {side}: {refused.refusal.advice}") from None


def advising(refused: Refused, advice: str) -> Refused:
    """The refusal with other advice."""
    return Refused(replace(refused.refusal, advice=advice))


def asks_for_help(arguments: Sequence[str]) -> bool:
    """Whether that is all that is asked."""
    return "-h" in arguments or "--help" in arguments


def explain_log(arguments: Sequence[str]) -> int:
    """`explain log FILE [TARGET [DRAFT]] [options]`. What the log says of models and deployment comes first, so that
    what the reader says replaces it. Exit code 1 where a line does not add up."""
    options = parser(f"{PROGRAM} log FILE [TARGET [DRAFT]]")
    options.description = (
        "Each number of a start-up log, worked out again. FILE may be - for what is piped in. Models and options are "
        "those of its server_args; what is given replaces them."
    )
    if asks_for_help(arguments):
        options.print_help()
        return 0
    if not arguments:
        raise refuse("invalid_input", "FILE", None, "name the file that holds the log")
    log = read_log(arguments[0])
    fields = server_args(log)
    said = list(arguments[1:])
    models = [] if said and not said[0].startswith("-") else models_of(fields)
    asked = options.parse_intermixed_args([*options_of(fields), *models, *said])
    fraction, asked.mem_fraction_static, asked.available_bytes = asked.mem_fraction_static, None, 1
    try:
        scenario = setup_of(asked).scenario
    except Refused as refused:
        if not models:
            raise
        advice = f"{refused.refusal.advice}. To name them: explain log FILE TARGET [DRAFT]"
        raise advising(refused, advice) from None
    found = judged(list(lines_of(log)), scenario, fraction)
    for field in ignored(fields):
        print(f"not understood in server_args: {field}; the option says what to take in its place")
    print("\n".join(told_lines(found)))
    return 1 if any(one.verdict == OFF for one in found) else 0


def read_log(name: str) -> str:
    """The text of a file, or of what is piped in. Refuses what cannot be read."""
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise refuse("invalid_input", "FILE", name, f"it cannot be read: {error.strerror}") from error


def explain_law(arguments: Sequence[str]) -> int:
    """`explain law ID`."""
    if asks_for_help(arguments):
        print(f"usage: {PROGRAM} law ID\n\nWhy there is a law, and the bugs it stops.")
        return 0
    if len(arguments) != 1:
        raise refuse("invalid_input", "law", " ".join(arguments), "give one id, like B1")
    print(told(arguments[0]))
    return 0


def draw_figures(arguments: Sequence[str]) -> int:
    """`explain figures [FOLDER]`: the guide's figures, drawn again where they are."""
    if asks_for_help(arguments):
        print(f"usage: {PROGRAM} figures [FOLDER]\n\nDraws the guide's figures, where they are or into a folder.")
        return 0
    if len(arguments) > 1 or any(name.startswith("-") for name in arguments):
        raise refuse("invalid_input", "FOLDER", " ".join(arguments), "give one folder, or none")
    from spec.explain.figures import write_figures

    try:
        write_figures(*map(Path, arguments[:1]))
    except OSError as error:
        raise refuse("invalid_input", "FOLDER", " ".join(arguments), f"nothing can be written: {error}") from error
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
