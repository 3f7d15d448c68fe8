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


def one_line(text: str) -> str:
    """Replace line breaks and control characters in a text from the cluster by spaces."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def to_gb_per_s(mb_per_s: float | None) -> float | None:
    """Convert MB/s to GB/s, both with decimal prefixes."""
    return None if mb_per_s is None else mb_per_s / 1000


def format_gb_per_s(mb_per_s: float | None) -> str:
    """Return MB/s as GB/s with at most three decimals.

    >>> format_gb_per_s(57858), format_gb_per_s(125000), format_gb_per_s(None)
    ('57.858', '125', '-')
    """
    return "-" if mb_per_s is None else f"{mb_per_s / 1000:.3f}".rstrip("0").rstrip(".")


def format_number(value: float) -> str:
    """Return a number with at most three decimals; very small ones with three significant digits.

    >>> format_number(2103.0), format_number(57.8578), format_number(0.000123)
    ('2103', '57.858', '0.000123')
    """
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return text if float(text) or not value else f"{value:.3g}"
