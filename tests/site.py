"""The site: README, guide and every file they link to, as pages that need no network (`make docs`).

`python -m tests.site FOLDER` starts from README.md and follows links: Markdown becomes a page, an image is copied, any
other file is shown as source. A link that leads nowhere is an error, in a file and in what was made of it.
"""

import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from posixpath import relpath
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.util import ClassNotFound

from tests.links import ROOT, anchor

START = "README.md"
IMAGES = (".svg", ".png")
MENU = {
    "README.md": "The suite",
    "spec/guide/README.md": "The guide",
    "spec/guide/1-one-token.md": "1. One token",
    "spec/guide/2-heads-and-ranks.md": "2. Heads and ranks",
    "spec/guide/3-dtypes-and-scales.md": "3. Dtypes and scales",
    "spec/guide/4-two-pools.md": "4. Two pools",
    "spec/guide/5-the-draft.md": "5. The draft",
    "spec/guide/6-order.md": "6. Order",
    "spec/guide/7-limits.md": "7. Limits",
    "spec/guide/8-counterexample.md": "8. Counterexamples",
    "spec/guide/9-changing-it.md": "9. Changing it",
    "spec/guide/names.md": "Names",
    "CONTRIBUTING.md": "Contributing",
    "impl/sglang/FINDINGS.md": "Findings on SGLang",
    "tests/kill_matrix.md": "Kill matrix",
    "CHANGELOG.md": "Changelog",
}
"""What every page lists at its side: file and name."""

LIGHT, DARK = HtmlFormatter(style="default", nowrap=True), HtmlFormatter(style="github-dark", nowrap=True)
STYLE = """
:root { color-scheme: light dark; --line: #d0d7de; --shade: #f6f8fa; }
body { font: 16px/1.55 system-ui, sans-serif; margin: 0; display: grid; grid-template-columns: 15rem minmax(0, 1fr); }
nav { border-right: 1px solid var(--line); padding: 1.5rem 1rem; font-size: 0.92rem; }
nav a { display: block; padding: 0.2rem 0; text-decoration: none; }
nav a.here { font-weight: 600; }
main { max-width: 68rem; padding: 1.5rem 2.5rem 5rem; min-width: 0; }
a { color: #0969da; }
h1, h2 { line-height: 1.25; border-bottom: 1px solid var(--line); padding-bottom: 0.3rem; }
pre { background: var(--shade); padding: 0.8rem 1rem; overflow-x: auto; border-radius: 6px; }
code, pre { font: 0.87em/1.45 ui-monospace, monospace; }
div.table { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.92rem; margin: 1rem 0; }
th, td { border: 1px solid var(--line); padding: 0.3rem 0.6rem; text-align: left; vertical-align: top; }
td code { overflow-wrap: anywhere; }
img { max-width: 100%; }
@media (max-width: 50rem) { body { display: block; } nav { border-right: 0; border-bottom: 1px solid var(--line); } }
@media (prefers-color-scheme: dark) { :root { --line: #3d444d; --shade: #161b22; } a { color: #4493f8; } }
"""


def style() -> str:
    """The style of every page, light and dark."""
    dark = DARK.get_style_defs("pre")
    return f"{STYLE}{LIGHT.get_style_defs('pre')}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


class DeadLink(Exception):
    """A link to a file or a heading that is not there."""


def page_of(name: str) -> str:
    """The page of a file: a folder's README is its index, an image stays what it is."""
    path = PurePosixPath(name)
    if path.suffix in IMAGES:
        return name
    if path.name == "README.md":
        return str(path.with_name("index.html"))
    return str(path.with_suffix(".html")) if path.suffix == ".md" else f"{name}.html"


def source(text: str, language: str) -> str:
    """A block of code in colours; of a language that Pygments does not know, plain."""
    try:
        lexer = get_lexer_by_name({"console": "console", "python": "pycon"}.get(language, language))
    except ClassNotFound:
        lexer = get_lexer_by_name("text")
    return highlight(text, lexer, LIGHT)


class Site:
    """The pages made, and those still to be made. Names are paths from the root of the repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pending = [START]
        self.seen = {START}
        self.markdown = MarkdownIt("commonmark", {"html": True, "highlight": self.highlighted}).enable("table")

    @staticmethod
    def highlighted(text: str, language: str, _: str) -> str:
        """Coloured code for markdown-it."""
        return source(text, language)

    def build(self) -> None:
        """Every page that can be reached."""
        while self.pending:
            name = self.pending.pop()
            target = self.folder / page_of(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith(IMAGES):
                shutil.copyfile(ROOT / name, target)
            else:
                text = (ROOT / name).read_text(encoding="utf-8")
                body = self.rendered(name, text) if name.endswith(".md") else self.listing(name, text)
                target.write_text(self.framed(name, text, body), encoding="utf-8")

    def listing(self, name: str, text: str) -> str:
        """A file that is no Markdown, as source."""
        try:
            lexer = get_lexer_for_filename(name)
        except ClassNotFound:
            lexer = get_lexer_by_name("text")
        return f"<h1>{name}</h1>\n<pre>{highlight(text, lexer, LIGHT)}</pre>"

    def rendered(self, name: str, text: str) -> str:
        """Markdown as HTML, its links turned to pages, its headings with anchors, its tables free to scroll."""
        tokens = self.markdown.parse(text)
        for position, token in enumerate(tokens):
            if token.type == "heading_open":
                token.attrSet("id", anchor(tokens[position + 1].content))
            for child in token.children or ():
                self.turn(name, child)
        html = self.markdown.renderer.render(tokens, self.markdown.options, {})
        return html.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")

    def turn(self, name: str, token: Token) -> None:
        """Makes a link or an image point to a page, which is made in its turn."""
        key = {"link_open": "href", "image": "src"}.get(token.type)
        if key is not None:
            token.attrSet(key, self.reference(name, unquote(str(token.attrGet(key)))))

    def reference(self, name: str, target: str) -> str:
        """A link of the file `name`, from its page to the page of its target."""
        path, sharp, heading = target.partition("#")
        if target.startswith(("http://", "https://")) or not path:
            return target
        found = (ROOT / name).parent.joinpath(path).resolve()
        linked = found.relative_to(ROOT).as_posix()
        if not found.is_file():
            raise DeadLink(f"{name}: {target}")
        if linked not in self.seen:
            self.seen.add(linked)
            self.pending.append(linked)
        return relpath(page_of(linked), str(PurePosixPath(page_of(name)).parent)) + sharp + heading

    def framed(self, name: str, text: str, body: str) -> str:
        """A page: title, style, menu, body."""
        lines = [
            f'<a href="{self.reference(name, relpath(entry, str(PurePosixPath(name).parent)))}"'
            f"{' class=here' if entry == name else ''}>{words}</a>"
            for entry, words in MENU.items()
        ]
        title = text.partition("\n")[0].lstrip("# ") if name.endswith(".md") else name
        head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
        menu = "\n".join(lines)
        return (
            f"<!doctype html>\n<html lang=en><head>{head}<style>{style()}</style></head>\n"
            f"<body><nav>\n{menu}\n</nav><main>\n{body}</main></body></html>\n"
        )


class References(HTMLParser):
    """What a page refers to, and the anchors it has."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collects `href`, `src` and `id`."""
        for key, value in attrs:
            if key in ("href", "src") and value is not None:
                self.targets.append(value)
            elif key == "id" and value is not None:
                self.anchors.add(value)


def references(page: Path) -> References:
    """The references of a page."""
    found = References()
    if page.suffix == ".html":
        found.feed(page.read_text(encoding="utf-8"))
    return found


def dead_links(folder: Path) -> list[str]:
    """References of the pages in a folder to files or anchors that are not there."""
    dead = []
    for page in sorted(folder.rglob("*.html")):
        for target in references(page).targets:
            path, _, heading = target.partition("#")
            found = (page.parent / path).resolve() if path else page
            if target.startswith(("http://", "https://")):
                continue
            if not found.is_file() or (heading and heading not in references(found).anchors):
                dead.append(f"{page.relative_to(folder)}: {target}")
    return dead


def main(folder: Path) -> int:
    """Build the site into an empty folder, and say what is wrong with it."""
    if folder.exists():
        shutil.rmtree(folder)
    Site(folder).build()
    dead = dead_links(folder)
    print(
        "\n".join(dead)
        or f"{folder / 'index.html'}: {len(list(folder.rglob('*.html')))} pages, every link leads somewhere"
    )
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
