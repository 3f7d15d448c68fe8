"""Writes ``llms.txt``: the contents of the site as one plain file (https://llmstxt.org)."""

from collections.abc import Iterable, Iterator

from mkdocs.structure import StructureItem
from mkdocs.structure.nav import Section
from mkdocs.structure.pages import Page


def contents(name: str, description: str, items: Iterable[StructureItem]) -> str:
    """Return the text for these items of the navigation, whose pages have their titles."""
    return "\n".join([f"# {name}", "", f"> {description}", "", *_lines(items)]) + "\n"


def _lines(items: Iterable[StructureItem]) -> Iterator[str]:
    for item in items:
        if isinstance(item, Page):
            yield f"- [{item.title}]({item.url})"
        elif isinstance(item, Section):
            yield from ("", f"## {item.title}", "", *_lines(item.children))
