"""Pictures of the page for the documentation."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

MESH_NODE: Final = "gpu-0002"
"""The node whose links differ."""
EXPLAINED: Final = "train-00001"
"""The first pod of the cluster, with several GPUs of this node."""


def take(page: "Page", folder: Path, nodes: int, *, details: bool) -> None:
    """Write pictures of the opened page; ``details`` also of its sections and panels."""
    if details:
        page.set_viewport_size({"width": 1000, "height": 860})
    _write(page, folder / f"web-{nodes}-nodes.png")
    if details:
        _details(page, folder)


def _details(page: "Page", folder: Path) -> None:
    """Write pictures of about the width of a page of the docs."""
    page.set_viewport_size({"width": 880, "height": 1800})  # a panel is as high as its content
    _write(_what_if(page), folder / "web-what-if.png")
    _write(_section(page, "sizes"), folder / "web-sizes.png")
    profile = page.locator("#profiles details").first
    profile.locator("summary").click()
    _write(_section(page, "profiles"), folder / "web-profile.png")
    for name, link in (
        ("web-placed-pod", page.locator(f"#jobs th a:has-text('{EXPLAINED}')")),
        ("web-waiting-pod", page.locator("#jobs tr.waiting th a")),
    ):
        link.first.click()
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
    """Write a picture with 256 colours; the octree keeps those of thin links, the default not."""
    from PIL import Image  # noqa: PLC0415 - comes with matplotlib

    shown.screenshot(path=path)
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(method=Image.Quantize.FASTOCTREE).save(path, optimize=True)
    print(f"wrote {path}, {path.stat().st_size / 1e3:.0f} kB")
