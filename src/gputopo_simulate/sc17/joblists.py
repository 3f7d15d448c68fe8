"""Parse job lists: CSV with the columns id, arrival_s, net, batch, gpus and min_utility."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from gputopo_simulate.errors import SimulationError
from gputopo_simulate.sc17.model import CaffeJob
from gputopo_simulate.tables import TableRow, rows

COLUMNS: Final = ("id", "arrival_s", "net", "batch", "gpus", "min_utility")
_MAX_ID: Final = 10**9
_MAX_GPUS: Final = 64

LISTS: Final[Mapping[str, str]] = MappingProxyType({"table1": "5", "six": "5", "hundred": "100"})
"""Job lists of the authors, by name, and their names in the table of lists."""

_TABLE_1_NETS: Final[Mapping[int, str]] = MappingProxyType(
    {1: "bvlc_googlenet", 2: "bvlc_alexnet", 5: "bvlc_alexnet"}
)
"""Networks of the paper's table 1 that differ from those of the released list.

Job 5 runs CaffeRef in the paper, which has no measured times. CaffeRef is a variant of AlexNet, so
AlexNet stands for it.
"""


def parse_jobs(text: str) -> tuple[CaffeJob, ...]:
    """Return the jobs in the order of the list. Other columns are ignored.

    Raises:
        SimulationError: if the text is not a job list.
    """
    return tuple(_parse_job(row) for row in rows("jobs", text, COLUMNS))


def authors_list(name: str, text: str) -> tuple[CaffeJob, ...]:
    """Return a job list of the authors.

    Args:
        name: a key of :data:`LISTS`. ``six`` is the released list for table 1. In ``table1`` the
            jobs have the networks that the paper prints.
        text: the table of all their lists, with the additional column ``list``.

    Raises:
        SimulationError: if the text is not such a table, or the name is unknown.
    """
    if name not in LISTS:
        raise SimulationError(f"list: {name!r:.80} is not one of {', '.join(LISTS)}")
    found = rows("jobs", text, ("list", *COLUMNS))
    jobs = tuple(_parse_job(row) for row in found if row.text("list") == LISTS[name])
    if name != "table1":
        return jobs
    return tuple(replace(job, net=_TABLE_1_NETS.get(job.id, job.net)) for job in jobs)


def _parse_job(row: TableRow) -> CaffeJob:
    return CaffeJob(
        id=row.whole("id", 0, _MAX_ID),
        arrival=row.number("arrival_s", 0),
        net=row.text("net"),
        batch=row.whole("batch", 1),
        gpus=row.whole("gpus", 1, _MAX_GPUS),
        min_utility=row.number("min_utility", 0, 1),
    )
