"""Algorithm 2 of the thesis (Tabrizian, MASc thesis 2020, section 5.1), as published.

The jobs are sorted by C, the GPUs by the sum of the C of their jobs. Each job in turn goes to the
GPU with the least sum, as long as the predicted speed-up is at least 1. The first job that is
rejected ends the loop: all further jobs have a higher C.

The thesis leaves ``CalculateSpeedup`` open and states the condition of its GPUs: the sum of C is at
most 4e7, in a unit that it does not name. So the limit is an argument here, and it is calibrated
for each GPU model (:func:`calibrate_limit`). An empty GPU always accepts a job. Ties are decided by
M as in the published sort, then by the order of the arguments.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Final, NamedTuple

from gputopo.sharing.model import StepLoad

MIN_OBSERVATIONS: Final = 10
"""The thesis fitted its limit to 60 sets of jobs; with less than 10, a limit would be a guess."""


@dataclass(frozen=True, slots=True)
class ColocationJob:
    """A job of the queue, with its load in one step."""

    name: str
    load: StepLoad


@dataclass(frozen=True, slots=True)
class ColocationGpu:
    """A GPU with the loads of the jobs that run on it."""

    name: str
    loads: tuple[StepLoad, ...] = ()


class Colocation(NamedTuple):
    """A job and the GPU on which it starts."""

    job: str
    gpu: str


class LoadObservation(NamedTuple):
    """Sum of the C of the jobs of one measured set in microseconds, and its measured delta."""

    occupancy_us: float
    delta: float


def colocate(
    gpus: Sequence[ColocationGpu], jobs: Sequence[ColocationJob], limit_us: float | None
) -> tuple[Colocation, ...]:
    """Return the jobs that start now, in the order of the algorithm.

    Args:
        gpus: GPUs with their running jobs.
        jobs: jobs of the queue.
        limit_us: highest sum of C of the jobs of one GPU, in microseconds; None if it is unknown
            for this GPU model. Then only empty GPUs accept a job.
    """
    heap = [(*_sum(gpu.loads), position) for position, gpu in enumerate(gpus)]
    heapify(heap)
    empty = {position for position, gpu in enumerate(gpus) if not gpu.loads}
    started: list[Colocation] = []
    for job in sorted(jobs, key=lambda each: _key(each.load)) if gpus else ():
        occupancy, dram, position = heap[0]
        added = _key(job.load)
        fits = limit_us is not None and occupancy + added[0] <= limit_us
        if not fits and position not in empty:
            break
        empty.discard(position)
        heapreplace(heap, (occupancy + added[0], dram + added[1], position))
        started.append(Colocation(job.name, gpus[position].name))
    return tuple(started)


def calibrate_limit(observations: Sequence[LoadObservation]) -> float | None:
    """Return the sum of C that separates the sets with delta of at least 1 best from the others.

    This is the limit with the fewest wrong decisions on the observations. Of equally good ones it
    is the lowest, which shares less. The result is 0 if no set should have shared.

    Returns:
        The limit in microseconds, or None with less than :data:`MIN_OBSERVATIONS` observations.
    """
    if len(observations) < MIN_OBSERVATIONS:
        return None
    limits = sorted({0.0, *(seen.occupancy_us for seen in observations)})
    return min(limits, key=lambda limit: (_wrong(observations, limit), limit))


def _wrong(observations: Sequence[LoadObservation], limit: float) -> int:
    return sum((seen.occupancy_us <= limit) != (seen.delta >= 1) for seen in observations)


def _sum(loads: Sequence[StepLoad]) -> tuple[float, float]:
    keys = [_key(load) for load in loads]
    return sum(occupancy for occupancy, _ in keys), sum(dram for _, dram in keys)


def _key(load: StepLoad) -> tuple[float, float]:
    return load.occupancy_us, load.dram_us or 0.0
