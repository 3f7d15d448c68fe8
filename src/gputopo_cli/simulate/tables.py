"""Tables of quartiles, for one simulation and for comparisons."""

from collections.abc import Iterable
from dataclasses import astuple
from typing import Final

from rich.table import Table

from gputopo_cli.shared.output import format_number, table
from gputopo_simulate.mapa.summary import Quartiles

QUARTILE_COLUMNS: Final = ("MIN>", "25 %>", "MEDIAN>", "75 %>", "MAX>")


def quartile_table(heading: str, rows: Iterable[tuple[str, Quartiles | None]]) -> Table:
    """Return a table with a row for each name; a row without values has dashes."""
    return table(
        heading,
        *QUARTILE_COLUMNS,
        rows=[
            (name, *(("-",) * 5 if values is None else map(format_number, astuple(values))))
            for name, values in rows
        ],
    )
