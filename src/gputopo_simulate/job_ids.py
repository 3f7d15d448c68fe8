"""The IDs of the jobs of a simulation."""

from collections.abc import Hashable, Iterable, Iterator
from typing import Protocol, TypeVar

from gputopo_simulate.errors import SimulationError


class _Identified(Protocol):
    @property
    def id(self) -> Hashable: ...


_Job = TypeVar("_Job", bound=_Identified)


def with_unique_ids(jobs: Iterable[_Job]) -> Iterator[_Job]:
    """Yield the jobs.

    Raises:
        SimulationError: a job has the ID of an earlier one.
    """
    seen: set[Hashable] = set()
    for job in jobs:
        if job.id in seen:
            raise SimulationError(f"job {job.id!r}: id: used by another job; IDs must be unique")
        seen.add(job.id)
        yield job
