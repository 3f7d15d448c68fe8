"""Rows of CSV with a header, each cell checked before anything is made of it."""

import csv
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from gputopo.errors import InvalidInputError
from gputopo.runtime.messages import quoted

_MOST = 1e15


class TableError(InvalidInputError):
    """A table that cannot be used; the message names what it is, line, column and value."""


class Row(NamedTuple):
    """One row: where it stands, and its cells by their columns."""

    table: str
    line: int
    cells: dict[str, str]

    def text(self, column: str) -> str:
        """Return a cell that is not empty.

        Raises:
            TableError: it is.
        """
        if not self.cells[column]:
            raise self.refusal(column, "is missing")
        return self.cells[column]

    def number(self, column: str, least: float, most: float = _MOST) -> float:
        """Return a cell that is a number of ``least`` to ``most``.

        Raises:
            TableError: it is none.
        """
        return self._read(column, float, least, most, "number")

    def whole(self, column: str, least: int, most: float = _MOST) -> int:
        """Return a cell that is a whole number of ``least`` to ``most``.

        Raises:
            TableError: it is none.
        """
        return self._read(column, int, least, most, "whole number")

    def refusal(self, column: str, why: str) -> TableError:
        """Return the error that says where the cell stands."""
        return TableError(f"{self.table}: line {self.line}, {column}: {why}")

    def _read(
        self, column: str, reader: type["Value"], least: float, most: float, kind: str
    ) -> "Value":
        text = self.text(column)
        plain = text.isascii() and "_" not in text  # 1_000 is a number to Python alone
        try:
            value = reader(text if plain else "")
        except ValueError:
            raise self.refusal(column, f"{quoted(text)} is not a {kind}") from None
        if not (math.isfinite(value) and least <= value <= most):
            raise self.refusal(column, f"{quoted(text)} is not in {least:g}..{most:g}")
        return value


Value = TypeVar("Value", int, float)


def rows(
    table: str, text: str, columns: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[Row]:
    """Yield the rows of a table that has at least these columns, in any order.

    Empty lines and lines that begin with ``#`` are left out, and so are columns that are
    neither among these nor optional.

    Raises:
        TableError: on text that is no such table.
    """
    lines = cells_of(table, text)
    line, header = next(lines, (1, []))
    wanted = [*columns, *(column for column in optional if column in header)]
    for column in wanted:
        if column not in header:
            raise TableError(
                f"{table}: line {line}: no column {column} in {quoted(','.join(header))}"
            )
        if header.count(column) > 1:
            raise TableError(f"{table}: line {line}: column {column} is there twice")
    for line, cells in lines:
        if len(cells) != len(header):
            raise TableError(f"{table}: line {line}: {len(cells)} columns, not {len(header)}")
        named = dict(zip(header, cells, strict=True))
        yield Row(table, line, {column: named[column] for column in wanted})


def cells_of(table: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and cells of each row, but of empty lines and those that begin with ``#``.

    Raises:
        TableError: on text that is no CSV.
    """
    reader = csv.reader(text.splitlines(), strict=True)
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells) and not cells[0].startswith("#"):
                yield reader.line_num, cells
    except csv.Error as error:
        raise TableError(f"{table}: line {reader.line_num}: {error}") from None
