"""The guide, run: each page of `spec/guide/` again, with what its blocks print now.

Three kinds of blocks, run from top to bottom: `python` with prompts, all blocks of a page in one session; `console`,
each line after a `$` a command in the root of the repository; `diff`, applied to a copy of the repository, in which the
later commands of the page run. A comment `<!-- table: NAME -->` is followed by the table of that value of the session:
a list of rows, the first of them the head. A page that is not what it would be now is stale.

`python -m tests.guide` (`make guide`) writes every page again; with `--stale` it names those that are stale.
"""

import argparse
import contextlib
import doctest
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "spec" / "guide"

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
"""A fenced block: its language and its text."""
TABLE = re.compile(r"^<!-- table: (\w+) -->\n\n((?:\|[^\n]*\n)*)\n*", flags=re.MULTILINE)
"""The name of a table, and the table."""
PART = re.compile(f"{BLOCK.pattern}|{TABLE.pattern}", flags=BLOCK.flags)
"""Either of them."""
SECONDS = re.compile(r"\d+\.\d+ ?s\b")
"""A duration, which no two runs have in common."""
NUMBER = re.compile(r"[-+]?\d[\d,.]*( %)?")
"""A cell that is aligned to the right."""
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build")
"""What no copy of the repository needs: environments and caches."""


def pages() -> list[Path]:
    """Every page of the guide."""
    return sorted(GUIDE.glob("*.md"))


def copy_of_the_repository(folder: Path) -> Path:
    """A copy of the files a command needs."""
    return Path(shutil.copytree(ROOT, folder / "repository", ignore=LEFT_OUT))


class Session:
    """One page being run."""

    def __init__(self, folder: Path) -> None:
        self.names = {"__name__": "guide"}
        self.folder = folder
        self.root = ROOT

    def printed(self, source: str) -> str:
        """What a prompt answers: the value, what was printed, or the last line of the traceback."""
        written = io.StringIO()
        with contextlib.redirect_stdout(written):
            try:
                exec(compile(source, "<guide>", "single"), self.names)
            except Exception as error:
                last = "".join(traceback.format_exception_only(error))
                print(f"Traceback (most recent call last):\n    ...\n{last}", end="")
        return re.sub(r"^$(?=\n)", "<BLANKLINE>", written.getvalue(), flags=re.MULTILINE)

    def python(self, text: str) -> str:
        """A block of prompts with their answers. Code without a prompt would not be run: it is an error."""
        lines = []
        for part in doctest.DocTestParser().parse(text):
            if isinstance(part, doctest.Example):
                first, *more = part.source.splitlines()
                lines += [f">>> {first}", *(f"... {line}".rstrip() for line in more)]
                lines += self.printed(part.source).splitlines()
            elif part.strip():
                raise ValueError(f"not run: {part!r}")
        return "".join(f"{line}\n" for line in lines)

    def console(self, text: str) -> str:
        """Each command of a block with its output, durations left out."""
        commands = re.findall(r"^\$ ((?:.*\\\n)*.*)\n", text, flags=re.MULTILINE)
        return "".join(f"$ {command}\n{self.output(command)}" for command in commands)

    def output(self, command: str) -> str:
        """What a command writes, errors included. `python` and `pytest` are those that run this file."""
        tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = os.environ | {"PATH": tools, "NO_COLOR": "1", "COLUMNS": "120", "PYTHONPATH": str(self.root)}
        for name in [name for name in environment if name.startswith(("PYTEST_", "COV_", "KV_"))]:
            del environment[name]
        ran = subprocess.run(
            ["bash", "-c", command],
            cwd=self.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return "".join(f"{line.rstrip()}\n" for line in SECONDS.sub("... s", ran.stdout).splitlines())

    def diff(self, text: str) -> str:
        """The same text, applied to this page's copy of the repository. What does not apply is an error."""
        if self.root == ROOT:
            self.root = copy_of_the_repository(self.folder)
        command = ("git", "apply", "-")
        subprocess.run(command, cwd=self.root, input=text, text=True, check=True)
        return text

    def table(self, name: str) -> str:
        """A value of the session as a table."""
        head, *rows = [[cell_text(value) for value in row] for row in self.names[name]]
        rules = [
            "---:" if all(NUMBER.fullmatch(value) for value in column) else "---" for column in zip(*rows, strict=True)
        ]
        return "".join(f"| {' | '.join(line)} |\n" for line in (head, rules, *rows))

    def again(self, part: re.Match[str]) -> str:
        """A block or a table as it is now."""
        language, text, table, _ = part.groups()
        if table:
            return f"<!-- table: {table} -->\n\n{self.table(table)}\n"
        if language not in ("python", "console", "diff"):
            raise ValueError(f"a block of {language or 'no language'} is not run")
        return f"```{language}\n{getattr(self, language)(text)}```"


def cell_text(value: object) -> str:
    """A cell: an integer with separators, anything else as it is."""
    return f"{value:,}" if type(value) is int else str(value)


def as_it_is_now(text: str) -> str:
    """A page with every block and table run again."""
    with tempfile.TemporaryDirectory() as folder:
        session = Session(Path(folder))
        return PART.sub(session.again, text)


def numbers(text: str) -> Iterator[str]:
    """The numbers in a text, without separators: no part of a name, no version, no number of an issue or a chapter."""
    named = r"\bPR \d+|#\d+|\b\d+(?:\.\d+){2,}|\b[Cc]hapters? \d(?:(?:, | and )\d)*"
    for found in re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?!\w)", re.sub(named, "", text)):
        yield plain(found)


def plain(number: str) -> str:
    """A number without separators, and without a fraction of zeros."""
    return re.sub(r"[,_]|\.0+$", "", number)


def prose(text: str) -> str:
    """What a reader is told without its being run: no blocks, no tables made from values, no comments, no headings, no
    targets of links."""
    rest = PART.sub("", text)
    return re.sub(r"<!--.*?-->|^#.*$|^\d+\. |\[\d\]\([^)]*\)|\[\d\.|\]\([^)]*\)", "", rest, flags=re.MULTILINE)


def shown(text: str) -> set[str]:
    """The numbers in what is run."""
    run = "\n".join(part.group() for part in PART.finditer(text))
    return {plain(found) for found in re.findall(r"\d[\d,_]*(?:\.\d+)?", run)}


def facts(text: str) -> dict[str, str]:
    """Numbers of a page that no block can show, and what they are: `<!-- fact: 80 is the memory of a card -->`."""
    return dict(re.findall(r"<!-- fact: (\S+) (.+?) -->", text))


def unfounded(text: str) -> list[str]:
    """Numbers of the prose that no block of the page shows and that are no stated facts; facts nobody uses."""
    said = set(numbers(prose(text)))
    return sorted(said - shown(text) - facts(text).keys()) + sorted(
        f"unused: {one}" for one in facts(text).keys() - said
    )


def wrong_sums(text: str) -> list[str]:
    """Equations of the prose, such as 36 x 8 = 288, whose sides differ."""
    wrong = []
    for left, right in re.findall(r"(?<![\w.])([\d(][\d ,.()x/+-]*[\d)]) = (\d[\d,]*(?:\.\d+)?)", prose(text)):
        source = re.sub(r"(\d+(?:\.\d+)?)", r"Fraction('\1')", left.replace(",", "").replace("x", "*"))
        if eval(source, {"Fraction": Fraction}) != Fraction(right.replace(",", "")):
            wrong.append(f"{left} = {right}")
    return wrong


def is_stale(text: str) -> bool:
    """Whether a page says something else than it does now, or no longer runs."""
    try:
        return as_it_is_now(text) != text
    except Exception:
        return True


def without_commands(text: str) -> str:
    """A page without its commands, which take seconds."""
    return BLOCK.sub(lambda block: block.group() if block.group(1) == "python" else "", text)


def main(arguments: Iterable[str] | None = None) -> int:
    """Write pages again, or name those that are stale."""
    parser = argparse.ArgumentParser(prog="python -m tests.guide", description=main.__doc__)
    parser.add_argument("pages", nargs="*", type=Path, help="files; none: every page")
    parser.add_argument("--stale", action="store_true", help="write nothing, run no commands, print the stale pages")
    options = parser.parse_args(None if arguments is None else list(arguments))
    for page in options.pages or pages():
        text = page.read_text(encoding="utf-8")
        if options.stale:
            if is_stale(without_commands(text)):
                print(page.name)
        else:
            page.write_text(as_it_is_now(text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
