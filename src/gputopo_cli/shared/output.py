"""Write text, tables and JSON to standard output or a file."""

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
from gputopo_explain.text import format_gb_per_s, format_number, one_line

__all__ = [
    "format_gb_per_s",
    "format_number",
    "one_line",
    "show",
    "table",
    "to_gb_per_s",
    "width",
    "write",
    "write_json",
]

_UNLIMITED: Final = 10_000  # width of files and pipes: lines are not wrapped
_NUMBERS: Final = re.compile(r"(?<=\[)\s+[-+.\de,\s]+(?=\])", re.ASCII)


def width() -> int:
    """Return the width of the terminal; for a pipe a large number, so that no line is wrapped."""
    return _console().width


def show(parts: Iterable[RenderableType], path: str | None = None) -> None:
    """Write lines and tables to standard output, or to the file ``path`` without colours."""
    console = _console() if path is None else Console(color_system=None, width=_UNLIMITED)
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    write("\n".join(line.rstrip() for line in captured.get().splitlines()), path)


def _console() -> Console:
    """Return a console for standard output. It omits colours in a pipe and if NO_COLOR is set."""
    unlimited = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=_UNLIMITED if unlimited else None, highlight=False, markup=False)


def write_json(document: object, path: str | None = None) -> None:
    """Write a JSON document to standard output or a file, with each list of numbers on one line."""
    text = json.dumps(document, indent=2, allow_nan=False)
    write(_NUMBERS.sub(lambda found: " ".join(found[0].split()), text), path)


def write(text: str, path: str | None = None) -> None:
    """Write a text to standard output or a file."""
    if path is None:
        sys.stdout.write(f"{text}\n")
    else:
        write_text(path, f"{text}\n")


def table(*columns: str, rows: Iterable[Sequence[str]]) -> Table:
    """Return a table; a heading that ends in ``>`` makes its column right-aligned.

    On a narrow terminal, long values continue on the next line. No value is cut off.
    """
    result = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        right = column.endswith(">")
        result.add_column(
            column.removesuffix(">"), justify="right" if right else "left", overflow="fold"
        )
    for row in rows:
        result.add_row(*(Text(cell) for cell in row))
    return result


def to_gb_per_s(mb_per_s: float | None) -> float | None:
    """Convert MB/s to GB/s, both with decimal prefixes."""
    return None if mb_per_s is None else mb_per_s / 1000
