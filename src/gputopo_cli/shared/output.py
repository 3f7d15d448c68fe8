"""What goes to the terminal, and how wide it may be."""

import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from gputopo_cli.shared.files import write_text

_UNLIMITED: Final = 10_000
"""Columns where nobody looks: lines in a file or a pipe are not wrapped."""

_NUMBERS: Final = re.compile(r"(?<=\[)\s+[-+.\de,\s]+(?=\])", re.ASCII)


def width() -> int:
    """Return the columns that a line may have; plenty where nobody looks, such as in a pipe."""
    return _console().width


def show(parts: Iterable[RenderableType], path: str | None = None) -> None:
    """Write lines and tables to the terminal, or without colours to a file.

    Raises:
        InputError: on a file that cannot be written.
    """
    console = _console() if path is None else Console(color_system=None, width=_UNLIMITED)
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    write("\n".join(line.rstrip() for line in captured.get().splitlines()), path)


def table(*columns: str, rows: Iterable[Sequence[str]]) -> Table:
    """Return a table; a column whose heading ends in ``>`` has its values at the right.

    Nothing is ever cut off: on a narrow terminal values go on in the next line.
    """
    found = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        right = column.endswith(">")
        found.add_column(
            column.removesuffix(">"), justify="right" if right else "left", overflow="fold"
        )
    for row in rows:
        found.add_row(*(Text(cell) for cell in row))
    return found


def one_line(text: str) -> str:
    """Return a text from a cluster; its line breaks and control characters shall do nothing."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def _console() -> Console:
    """Return standard output; rich leaves colours out in a pipe and where NO_COLOR is set."""
    plenty = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=_UNLIMITED if plenty else None, highlight=False, markup=False)


def gb_per_s(mb_per_s: float | None) -> float | None:
    """Return GB/s for MB/s; both decimal."""
    return None if mb_per_s is None else mb_per_s / 1000


def figure(mb_per_s: float | None) -> str:
    """Return GB/s as a table shows them: three decimals only where they say something.

    >>> figure(57858), figure(125000), figure(None)
    ('57.858', '125', '-')
    """
    return "-" if mb_per_s is None else f"{mb_per_s / 1000:.3f}".rstrip("0").rstrip(".")


def write_json(document: object, path: str | None = None) -> None:
    """Write a document to standard output, or to a file; a list of numbers takes one line."""
    text = json.dumps(document, indent=2, allow_nan=False)
    write(_NUMBERS.sub(lambda found: " ".join(found[0].split()), text), path)


def write(text: str, path: str | None = None) -> None:
    """Write a text to standard output, or to a file.

    Raises:
        InputError: on a file that cannot be written.
    """
    if path is None:
        sys.stdout.write(f"{text}\n")
    else:
        write_text(path, f"{text}\n")
