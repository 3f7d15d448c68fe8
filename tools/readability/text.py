"""Formats a passage for readers."""

import textwrap
from collections.abc import Iterator
from typing import Final

from readability.passages import Passage

_WIDTH: Final = 100


def format_passage(passage: Passage) -> Iterator[str]:
    """Yield the lines beside the passage, each after ``|``, then the passage and an empty line."""
    for line in passage.context.splitlines():
        yield from _wrapped(line, "   | ")
    for line in passage.text.splitlines():
        yield from _wrapped(line, "   ")
    yield ""


def _wrapped(line: str, margin: str) -> list[str]:
    return textwrap.wrap(
        line,
        _WIDTH,
        initial_indent=margin,
        subsequent_indent=margin,
        break_long_words=False,
        break_on_hyphens=False,
    )
