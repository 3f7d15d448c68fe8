"""Who starts next among the jobs that wait."""

from collections import deque
from typing import Protocol

from gputopo_simulate.mapa.model import Queueing, SimulatedJob


class Queue(Protocol):
    """Jobs that have arrived and not started."""

    def add(self, order: int, job: SimulatedJob) -> None:
        """Put a job at the end; ``order`` grows from job to job."""

    def first(self, most_free: int) -> SimulatedJob | None:
        """Return the job that may start where a node has ``most_free`` GPUs, if any."""

    def remove(self, first: SimulatedJob) -> None:
        """Take out the job that :meth:`first` returned last."""


class Fifo:
    """See :attr:`Queueing.FIFO`."""

    def __init__(self) -> None:
        self._jobs: deque[SimulatedJob] = deque()

    def add(self, order: int, job: SimulatedJob) -> None:  # noqa: ARG002 - in order as they come
        """Put a job at the end."""
        self._jobs.append(job)

    def first(self, most_free: int) -> SimulatedJob | None:
        """Return the head, if it fits."""
        if self._jobs and self._jobs[0].pattern.size <= most_free:
            return self._jobs[0]
        return None

    def remove(self, first: SimulatedJob) -> None:  # noqa: ARG002 - there is but one head
        """Take out the head."""
        self._jobs.popleft()


class SkipAhead:
    """See :attr:`Queueing.SKIP_AHEAD`. One queue for each size: only sizes decide what fits."""

    def __init__(self) -> None:
        self._of_size: dict[int, deque[tuple[int, SimulatedJob]]] = {}

    def add(self, order: int, job: SimulatedJob) -> None:
        """Put a job at the end."""
        self._of_size.setdefault(job.pattern.size, deque()).append((order, job))

    def first(self, most_free: int) -> SimulatedJob | None:
        """Return the longest waiting of those that fit."""
        fitting = [jobs for size, jobs in self._of_size.items() if jobs and size <= most_free]
        return min(fitting, key=lambda jobs: jobs[0][0])[0][1] if fitting else None

    def remove(self, first: SimulatedJob) -> None:
        """Take out the head of its size."""
        self._of_size[first.pattern.size].popleft()


def queue_of(queueing: Queueing) -> Queue:
    """Return an empty queue of this kind."""
    return Fifo() if queueing is Queueing.FIFO else SkipAhead()
