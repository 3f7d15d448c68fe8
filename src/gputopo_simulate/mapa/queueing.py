"""Queues of waiting jobs: which one starts next."""

from collections import deque
from typing import Protocol

from gputopo_simulate.mapa.model import Queueing, SimulatedJob


class JobQueue(Protocol):
    """Jobs that have arrived and not started."""

    def add(self, order: int, job: SimulatedJob) -> None:
        """Append a job; ``order`` grows from job to job."""

    def first(self, max_free: int) -> SimulatedJob | None:
        """Return the job that starts next if a node has ``max_free`` free GPUs, or None."""

    def remove(self, first: SimulatedJob) -> None:
        """Remove the job that :meth:`first` returned last."""


class FifoQueue:
    """See :attr:`Queueing.FIFO`."""

    def __init__(self) -> None:
        self._jobs: deque[SimulatedJob] = deque()

    def add(self, order: int, job: SimulatedJob) -> None:  # noqa: ARG002 - jobs come in order
        """Append a job."""
        self._jobs.append(job)

    def first(self, max_free: int) -> SimulatedJob | None:
        """Return the first job, if it fits."""
        if self._jobs and self._jobs[0].pattern.size <= max_free:
            return self._jobs[0]
        return None

    def remove(self, first: SimulatedJob) -> None:  # noqa: ARG002 - it is always the first
        """Remove the first job."""
        self._jobs.popleft()


class SkipAheadQueue:
    """See :attr:`Queueing.SKIP_AHEAD`. One queue for each size: only size decides what fits."""

    def __init__(self) -> None:
        self._by_size: dict[int, deque[tuple[int, SimulatedJob]]] = {}

    def add(self, order: int, job: SimulatedJob) -> None:
        """Append a job."""
        self._by_size.setdefault(job.pattern.size, deque()).append((order, job))

    def first(self, max_free: int) -> SimulatedJob | None:
        """Return the job that has waited longest of those that fit."""
        fitting = [jobs for size, jobs in self._by_size.items() if jobs and size <= max_free]
        return min(fitting, key=lambda jobs: jobs[0][0])[0][1] if fitting else None

    def remove(self, first: SimulatedJob) -> None:
        """Remove the first job of its size."""
        self._by_size[first.pattern.size].popleft()


def new_queue(queueing: Queueing) -> JobQueue:
    """Return an empty queue of this kind."""
    return FifoQueue() if queueing is Queueing.FIFO else SkipAheadQueue()
