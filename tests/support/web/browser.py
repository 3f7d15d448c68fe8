"""Debian's chromium, driven by Playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, expect, sync_playwright

EXPECTED_MS = 60_000
LONGEST_MS = 120_000
"""Limit of a start or an action. Playwright's 30 s, and 5 s of ``expect``, suit an idle machine."""


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
            executable_path=chromium(), args=["--no-sandbox", *options], timeout=LONGEST_MS
        )
        expect.set_options(timeout=EXPECTED_MS)
        yield browser
        browser.close()
