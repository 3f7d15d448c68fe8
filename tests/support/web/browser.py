"""Debian's chromium, driven by Playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright


def chromium() -> str:
    """Return the path of chromium, which tools/setup installs."""
    found = shutil.which("chromium")
    assert found, "chromium is not on the PATH: run tools/setup"
    return found


@contextmanager
def running_browser(*options: str) -> Iterator[Browser]:
    """Run chromium without a window."""
    with sync_playwright() as playwright:
        # Chromium's sandbox does not work for root, as which the tests of the cluster run.
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", *options]
        )
        yield browser
        browser.close()
