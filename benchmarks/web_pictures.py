"""Pictures of the page for the documentation."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

_COLOURS: Final = 64


def take(page: "Page", folder: Path, nodes: int, *, details: bool) -> None:
    """Write pictures of the opened page; ``details`` also of its sections and panels."""
    _write(page, folder / f"web-{nodes}-nodes.png")
    if not details:
        return
    _write(_what_if(page), folder / "web-what-if.png")
    _write(_section(page, "sizes"), folder / "web-sizes.png")
    profile = page.locator("#profiles details").first
    profile.locator("summary").click()
    _write(_section(page, "profiles"), folder / "web-profile.png")
    for state, name in (("running", "web-placed-pod"), ("waiting", "web-waiting-pod")):
        page.locator(f"#jobs tr.{state} th a").first.click()
        page.wait_for_selector("#panel-content h3")
        _write(page.locator("#panel"), folder / f"{name}.png")
        page.keyboard.press("Escape")


def _section(page: "Page", name: str) -> "Locator":
    return page.locator(f"section:has(#{name}-heading)")


def _what_if(page: "Page") -> "Locator":
    """Fill in the form and show its result; return its section."""
    page.get_by_label("GPUs", exact=True).fill("3")
    page.get_by_label("Pattern").select_option("Ring")
    page.get_by_label("Without node").fill("gpu-0001")
    page.get_by_role("button", name="Show").click()
    page.wait_for_selector("#what-if-result svg")
    return _section(page, "what-if")


def _write(shown: "Page | Locator", path: Path) -> None:
    """Write a picture with a palette, so that it is small."""
    from PIL import Image  # noqa: PLC0415 - comes with matplotlib

    shown.screenshot(path=path)
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(_COLOURS).save(path, optimize=True)
    print(f"wrote {path}, {path.stat().st_size / 1e3:.0f} kB")
