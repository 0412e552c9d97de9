"""Links of Markdown files: what they are, and those that lead nowhere."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def without_blocks(text: str) -> str:
    """A text without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def code_spans(text: str) -> list[str]:
    """What stands in single backquotes."""
    return re.findall(r"`([^`\n]+)`", without_blocks(text))


def links(text: str) -> list[str]:
    """The targets of links and images."""
    spanless = re.sub(r"`[^`\n]+`", "", without_blocks(text))
    return re.findall(r"\]\(([^)\s]+)\)", spanless)


def images_without_words(text: str) -> list[str]:
    """Images whose alternative text says nothing."""
    return [target for words, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", text) if len(words.split()) < 3]


def anchor(heading: str) -> str:
    """The anchor GitHub gives a heading: lower case, words joined by hyphens, no other punctuation."""
    words = re.sub(r"[`*\\]|\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-")


def anchors(text: str) -> set[str]:
    """The anchors of a Markdown text: of its headings, and those it sets itself."""
    headings = {anchor(heading) for heading in re.findall(r"^#+ (.+)$", without_blocks(text), flags=re.MULTILINE)}
    return headings | set(re.findall(r'<a id="([^"]+)">', text))


def wrong_links(file: Path) -> list[str]:
    """Links of a Markdown file to files or headings that are not there, and images without words."""
    text = file.read_text(encoding="utf-8")
    wrong = images_without_words(text)
    for target in links(text):
        if re.match(r"https?:", target):
            continue
        path, _, heading = target.partition("#")
        found = (file.parent / path).resolve() if path else file
        if not found.exists() or heading and heading not in anchors(found.read_text(encoding="utf-8")):
            wrong.append(target)
    return wrong
