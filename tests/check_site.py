"""A browser shows the site: `make docs-check`. No part of `pytest tests`, which needs no browser."""

import shutil
import subprocess

import pytest

from tests.site import main

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--window-size=1200,1600")
SHOWN = {
    "index.html": "The laws",
    "spec/guide/5-the-draft.html": "PR 34234",
    "spec/guide/names.html": "--swa-full-tokens-ratio",
}
"""Pages that are opened, and words that a reader must see there."""


@pytest.fixture(scope="module", name="browser")
def found_browser():
    """The first browser there is."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.fail(f"no page was opened: none of {', '.join(BROWSERS)} is installed")
    return found


@pytest.fixture(scope="module", name="folder")
def built_once(tmp_path_factory):
    """The site."""
    folder = tmp_path_factory.mktemp("site") / "site"
    assert main(folder) == 0
    return folder


@pytest.mark.parametrize("page", SHOWN)
def test_a_browser_shows_the_page(browser, folder, page, tmp_path):
    """Opened in headless Chromium: its words down to the end, and a picture of it that is not empty."""
    picture = tmp_path / "page.png"
    command = (browser, *OPTIONS, f"--user-data-dir={tmp_path / 'profile'}")
    address = (folder / page).as_uri()
    opened = subprocess.run((*command, "--dump-dom", address), capture_output=True, text=True, timeout=240, check=True)
    subprocess.run((*command, f"--screenshot={picture}", address), capture_output=True, timeout=240, check=True)
    assert SHOWN[page] in opened.stdout
    assert "</main></body></html>" in opened.stdout.replace("\n", "")
    assert picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 20_000
