"""Formats Markdown of the generated reference pages."""

from collections.abc import Iterable, Sequence


def code(text: str) -> str:
    """Return the text in code font; a vertical bar would end the cell of a table."""
    return f"`{_without_bars(text)}`"


def cell(text: str) -> str:
    """Return the text as one line for the cell of a table, without HTML.

    >>> cell("three lines of <text>")
    'three lines of &lt;text>'
    """
    return _without_bars(" ".join(text.split()).replace("<", "&lt;"))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, with a newline at its end.

    >>> print(table(("a", "b"), [("1", "")]), end="")
    | a | b |
    |---|---|
    | 1 | |
    """
    lines = [_row(head), "|" + "---|" * len(head), *map(_row, rows)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "".join(["|", *(f" {text} |" if text else " |" for text in cells)])


def _without_bars(text: str) -> str:
    return text.replace("|", "\\|")
