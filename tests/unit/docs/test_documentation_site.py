"""The documentation site builds without warnings, and its pages read the same in the repository."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import markdown
import pytest
from markdown_it import MarkdownIt

from docsite.links import PAGES, find_links, rewrite_links, to_site_path

ROOT = Path(__file__).parents[3]
SITE_PAGES = sorted(
    [*(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")), *PAGES]
)
NAMING = {"", ".md", ".py", ".tpl", ".txt", ".yaml", ".yml"}
STRUCTURE = {"ul", "ol", "li", "pre", "table", "tr", "h1", "h2", "h3", "h4", "img", "blockquote"}


class Structure(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: Counter[str] = Counter()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        self.elements[tag] += tag in STRUCTURE


def build(folder: Path, config: Path = ROOT / "mkdocs.yml") -> subprocess.CompletedProcess[str]:
    argv = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-f",
        f"{config}",
        "-d",
        f"{folder}",
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tools"), "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def test_site_builds_without_warnings_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    done = build(tmp_path)
    assert (done.returncode, "WARNING" in done.stderr) == (0, False), done.stderr
    for path in SITE_PAGES:
        page = (tmp_path / to_site_path(path)).with_suffix(".html")
        if page.name == "README.html":
            page = page.with_name("index.html")
        html = page.read_text()
        assert 'src="http' not in html, path
        assert 'rel="stylesheet" href="http' not in html, path

    listed = (tmp_path / "llms.txt").read_text()
    assert listed.startswith("# gputopo\n\n> GPU placement")
    assert "\n## Start\n\n- [Installation](start/install.html)\n" in listed
    for path in SITE_PAGES:
        uri = to_site_path(path).replace("README.md", "index.md").replace(".md", ".html")
        assert f"]({uri})" in listed


def test_readme_fits_on_a_screen_with_one_picture_and_two_commands_that_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 60
    assert len(re.findall(r"!\[", readme)) == 1
    [block] = re.findall(r"```\n(.*?)```", readme, re.DOTALL)
    commands = [line.split()[0] for line in block.splitlines()]
    assert commands == ["tools/demo", "tools/test"]
    assert all(os.access(ROOT / command, os.X_OK) for command in commands)


def test_build_fails_for_a_link_to_a_heading_that_does_not_exist(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("# One\n\n[two](#two)\n")
    settings = (ROOT / "mkdocs.yml").read_text().replace("tools/docsite", f"{ROOT}/tools/docsite")
    config = tmp_path / "mkdocs.yml"
    config.write_text(settings)
    done = build(tmp_path / "site", config)
    assert done.returncode == 1
    assert "'#two'" in done.stdout + done.stderr


def test_build_in_a_new_clone_names_the_commands_that_make_it_possible(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    program = shutil.copy(ROOT / "tools/docs", tmp_path / "tools")
    built = subprocess.run([program], capture_output=True, text=True, check=False)
    assert built.returncode == 1
    assert built.stderr.startswith("error: no .venv; run tools/setup, or: uv sync")


@pytest.mark.parametrize("path", SITE_PAGES)
def test_pages_have_the_same_structure_on_the_site_and_in_the_repository(path: str) -> None:
    text = (ROOT / path).read_text()
    extensions = ["attr_list", "tables", "pymdownx.superfences"]
    site = Structure(markdown.markdown(text, extensions=extensions)).elements
    repository = Structure(MarkdownIt("commonmark").enable("table").render(text)).elements
    assert +site == +repository


@pytest.mark.parametrize("path", SITE_PAGES)
def test_links_of_pages_lead_to_files(path: str) -> None:
    missing = [
        each for each in find_links((ROOT / path).read_text(), path) if not (ROOT / each).is_file()
    ]
    assert not missing


def test_pages_that_code_chart_and_examples_name_exist() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    named = {
        (path, page)
        for path in listed.stdout.splitlines()
        if not path.startswith("tests/data/") and Path(path).suffix in NAMING
        if (ROOT / path).is_file()
        for page in re.findall(r"(?<![\w/.-])docs/[\w./-]+\.md", (ROOT / path).read_text())
    }
    assert len(named) > 50
    assert [each for each in sorted(named) if not (ROOT / each[1]).is_file()] == []


@pytest.mark.parametrize(
    ("link", "path", "expected"),
    [
        ("[a](queue.md#b)", "docs/use/cli.md", "[a](queue.md#b)"),
        ("[a](../../crds/x.yaml)", "docs/use/cli.md", "[a](../files/crds/x.yaml)"),
        ("[a](docs/use/cli.md#b)", "CONTRIBUTING.md", "[a](../use/cli.md#b)"),
        ("[a](../docs/adr/README.md)", "operator/README.md", "[a](../adr/README.md)"),
        ("[a](https://b.example)", "README.md", "[a](https://b.example)"),
        ("[a](mailto:b@c.example)", "README.md", "[a](mailto:b@c.example)"),
        ("[a](#b)", "docs/use/cli.md", "[a](#b)"),
    ],
)
def test_links_are_rewritten_for_the_layout_of_the_site(
    link: str, path: str, expected: str
) -> None:
    assert rewrite_links(link, path) == expected
