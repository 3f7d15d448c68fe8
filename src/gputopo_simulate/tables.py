"""Parse CSV tables with a header, and check every cell."""

import csv
import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from gputopo.runtime.messages import quoted
from gputopo_simulate.errors import SimulationError

_MAX_VALUE: Final = 1e15


class TableRow(NamedTuple):
    """One row of a table: its line number, and its cells by column."""

    table: str
    line: int
    cells: dict[str, str]

    def text(self, column: str) -> str:
        """Return a cell; raise :class:`SimulationError` if it is empty."""
        if not self.cells[column]:
            raise self.error(column, "is missing")
        return self.cells[column]

    def number(self, column: str, least: float, most: float = _MAX_VALUE) -> float:
        """Return a cell as a number; raise :class:`SimulationError` if not in least..most."""
        return self._parse(column, float, least, most, "number")

    def whole(self, column: str, least: int, most: float = _MAX_VALUE) -> int:
        """Return a cell as an int; raise :class:`SimulationError` if not in least..most."""
        return self._parse(column, int, least, most, "whole number")

    def error(self, column: str, why: str) -> SimulationError:
        """Return an error that names table, line and column of a cell."""
        return SimulationError(f"{self.table}: line {self.line}, {column}: {why}")

    def _parse(
        self, column: str, number: type["Value"], least: float, most: float, kind: str
    ) -> "Value":
        text = self.text(column)
        plain = text.isascii() and "_" not in text  # Python accepts 1_000 as a number
        try:
            value = number(text if plain else "")
        except ValueError:
            raise self.error(column, f"{quoted(text)} is not a {kind}") from None
        if not (math.isfinite(value) and least <= value <= most):
            raise self.error(column, f"{quoted(text)} is not in {least:g}..{most:g}")
        return value


Value = TypeVar("Value", int, float)


def rows(
    table: str, text: str, columns: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[TableRow]:
    """Yield the rows of a table. It must have all ``columns``, in any order.

    Empty lines, lines that begin with ``#`` and further columns are ignored.

    Raises:
        SimulationError: if the text is not such a table.
    """
    lines = cells_of(table, text)
    line, header = next(lines, (1, []))
    required = [*columns, *(column for column in optional if column in header)]
    for column in required:
        if column not in header:
            raise SimulationError(
                f"{table}: line {line}: no column {column} in {quoted(','.join(header))}"
            )
        if header.count(column) > 1:
            raise SimulationError(f"{table}: line {line}: column {column} occurs twice")
    for line, cells in lines:
        if len(cells) != len(header):
            raise SimulationError(
                f"{table}: line {line}: {len(cells)} columns; expected {len(header)}"
            )
        named = dict(zip(header, cells, strict=True))
        yield TableRow(table, line, {column: named[column] for column in required})


def cells_of(table: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and cells of each row; skip empty lines and lines that begin with ``#``.

    Raises:
        SimulationError: if the text is not CSV.
    """
    reader = csv.reader(text.splitlines(), strict=True)
    try:
        for row in reader:
            cells = [cell.strip() for cell in row]
            if any(cells) and not cells[0].startswith("#"):
                yield reader.line_num, cells
    except csv.Error as error:
        raise SimulationError(f"{table}: line {reader.line_num}: {error}") from None
