"""Figures of simulations as text: short numbers, and tables of distributions."""

from collections.abc import Iterable, Iterator
from dataclasses import astuple

from rich.table import Table

from gputopo_cli.shared import output
from gputopo_simulate.mapa.summary import Quartiles

QUARTILE_COLUMNS = ("MIN>", "25 %>", "MEDIAN>", "75 %>", "MAX>")

__all__ = ["QUARTILE_COLUMNS", "Quartiles", "distribution", "short"]


def short(value: float) -> str:
    """Return a number with three decimals at most, more where it would be nothing.

    >>> short(2103.0), short(57.8578), short(0.000123)
    ('2103', '57.858', '0.000123')
    """
    text = f"{value:.3f}".rstrip("0").rstrip(".")
    return text if float(text) or not value else f"{value:.3g}"


def distribution(heading: str, rows: Iterable[tuple[str, Quartiles | None]]) -> Table:
    """Return a table of quartiles, a row for each name; dashes where there are no values."""
    return output.table(heading, *QUARTILE_COLUMNS, rows=_cells(rows))


def _cells(rows: Iterable[tuple[str, Quartiles | None]]) -> Iterator[tuple[str, ...]]:
    for name, quartiles in rows:
        values = ("-",) * 5 if quartiles is None else map(short, astuple(quartiles))
        yield name, *values
