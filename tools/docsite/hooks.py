"""MkDocs hooks: add pages and files of the repository that are outside ``docs/``."""

from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

from docsite.contents import contents
from docsite.links import PAGES, find_links, rewrite_links, to_site_path

ROOT: Final = Path(__file__).parents[2]
_REPOSITORY_PATHS: Final = {to_site_path(path): path for path in PAGES}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of ``PAGES``, and a copy of every other file to which a page links."""
    for path, uri in PAGES.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    for page in list(files.documentation_pages()):
        for target in find_links(page.content_string, _repository_path(page.src_uri)):
            uri = to_site_path(target)
            if (ROOT / target).is_file() and files.get_file_from_path(uri) is None:
                files.append(File.generated(config, uri, abs_src_path=str(ROOT / target)))
    return files


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Keep the navigation for ``llms.txt``; the titles of its pages are not known yet."""
    del files
    config.extra["navigation"] = nav
    return nav


def on_post_build(config: MkDocsConfig) -> None:
    """Write the contents of the site to ``llms.txt``."""
    text = contents(config.site_name, config.site_description or "", config.extra["navigation"])
    (Path(config.site_dir) / "llms.txt").write_text(text)


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:  # noqa: ANN401 - MkDocs' own
    """Rewrite the links of a page for the site."""
    return rewrite_links(markdown, _repository_path(page.file.src_uri))


def _repository_path(uri: str) -> str:
    return _REPOSITORY_PATHS.get(uri, f"docs/{uri}")
