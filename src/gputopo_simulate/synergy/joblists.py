"""Parse job lists of Synergy: CSV with the columns job, model, gpus, arrival_s, iterations."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from gputopo_simulate.errors import SimulationError
from gputopo_simulate.synergy.measured import MeasuredModel
from gputopo_simulate.synergy.model import TrainingJob
from gputopo_simulate.tables import TableRow, rows

COLUMNS: Final = ("job", "model", "gpus", "arrival_s", "iterations")
_MAX_ID: Final = 10**9
_MAX_GPUS: Final = 10**6
_MAX_ITERATIONS: Final = 10**12


def parse_jobs(text: str, models: Mapping[str, MeasuredModel]) -> tuple[TrainingJob, ...]:
    """Return the jobs in the order of the list. Columns with other names are ignored.

    Raises:
        SimulationError: the text is not a job list, or the list is empty.
    """
    jobs = tuple(_parse_job(row, models) for row in rows("jobs", text, COLUMNS))
    if not jobs:
        raise SimulationError("jobs: the list is empty")
    return jobs


def _parse_job(row: TableRow, models: Mapping[str, MeasuredModel]) -> TrainingJob:
    name = row.text("model")
    if name not in models:
        near = get_close_matches(name, models, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise row.error("model", f"{name!r:.80} is not one of {', '.join(models)}{hint}")
    return TrainingJob(
        id=row.whole("job", 0, _MAX_ID),
        model=models[name],
        gpus=row.whole("gpus", 1, _MAX_GPUS),
        arrival_seconds=row.number("arrival_s", 0),
        iterations=row.whole("iterations", 1, _MAX_ITERATIONS),
    )
