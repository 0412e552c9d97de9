"""The site has every page, needs no network, and leads nowhere it should not."""

import pytest

from tests.links import ROOT, anchor, images_without_words, links, wrong_links
from tests.site import MENU, DeadLink, Site, dead_links, main, page_of, references


@pytest.fixture(scope="module", name="folder")
def built_once(tmp_path_factory):
    """The site."""
    folder = tmp_path_factory.mktemp("site") / "site"
    assert main(folder) == 0
    return folder


def test_every_page_of_the_menu_is_there(folder):
    """And every Markdown file that one of them links to."""
    assert all((folder / page_of(name)).is_file() for name in MENU)
    assert (folder / "spec/cell.py.html").is_file()


def test_nothing_comes_from_the_network(folder):
    """Only links that a reader follows lead outside: images, styles and scripts are in the pages or beside them."""
    for page in folder.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "<script" not in text and "<link" not in text and "@import" not in text
        assert 'src="http' not in text


@pytest.mark.parametrize("name", [name for name in MENU if name != "CHANGELOG.md"])
def test_every_link_of_a_document_leads_somewhere(name):
    """In the files as in the site."""
    assert wrong_links(ROOT / name) == []


def test_a_dead_link_is_seen(tmp_path):
    """In a file: no such file, no such heading, no words for an image. In the site: the same in HTML."""
    page = tmp_path / "page.md"
    page.write_text("# Here\n[a](none.md) [b](#here) [c](#there) ![ok](page.md) `[d](none)`\n")
    assert wrong_links(page) == ["page.md", "none.md", "#there"]
    (tmp_path / "page.html").write_text('<a href="#x"></a><a href="none.html"></a><img src="page.md"><p id="y">')
    assert dead_links(tmp_path) == ["page.html: #x", "page.html: none.html"]
    with pytest.raises(DeadLink, match=r"README\.md: none\.md"):
        Site(tmp_path).reference("README.md", "none.md")


def test_links_are_read_as_a_reader_sees_them():
    """Not in code; and headings have the anchors that GitHub gives them."""
    assert links("[a](b.md) `[c](d.md)`\n```python\n[e](f.md)\n```\n") == ["b.md"]
    assert anchor("Add a configurator, or a pool kind") == "add-a-configurator-or-a-pool-kind"
    assert anchor("`auto` in [SGLang](x.md)") == "auto-in-sglang"
    assert images_without_words("![tokens against tp](a.svg) ![](b.svg)") == ["b.svg"]
    assert references(ROOT / "Makefile").targets == []
