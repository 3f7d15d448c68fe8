"""Who starts next among the jobs that wait."""

from collections import deque
from typing import Protocol

from gputopo.simulate.model import Queueing, SimulatedJob


class Queue(Protocol):
    """Jobs that have arrived and not started."""

    def add(self, order: int, job: SimulatedJob) -> None:
        """Put a job at the end; ``order`` grows from job to job."""

    def pop(self, most_free: int) -> SimulatedJob | None:
        """Take out the job that may start where a node has ``most_free`` GPUs, if any."""


class Fifo:
    """See :attr:`Queueing.FIFO`."""

    def __init__(self) -> None:
        self._jobs: deque[SimulatedJob] = deque()

    def add(self, order: int, job: SimulatedJob) -> None:  # noqa: ARG002 - in order as they come
        """Put a job at the end."""
        self._jobs.append(job)

    def pop(self, most_free: int) -> SimulatedJob | None:
        """Take out the head, if it fits."""
        if self._jobs and self._jobs[0].pattern.size <= most_free:
            return self._jobs.popleft()
        return None


class SkipAhead:
    """See :attr:`Queueing.SKIP_AHEAD`. One queue for each size: only sizes decide what fits."""

    def __init__(self) -> None:
        self._of_size: dict[int, deque[tuple[int, SimulatedJob]]] = {}

    def add(self, order: int, job: SimulatedJob) -> None:
        """Put a job at the end."""
        self._of_size.setdefault(job.pattern.size, deque()).append((order, job))

    def pop(self, most_free: int) -> SimulatedJob | None:
        """Take out the longest waiting of those that fit."""
        fitting = [jobs for size, jobs in self._of_size.items() if jobs and size <= most_free]
        return min(fitting, key=lambda jobs: jobs[0][0]).popleft()[1] if fitting else None


def queue_of(queueing: Queueing) -> Queue:
    """Return an empty queue of this kind."""
    return Fifo() if queueing is Queueing.FIFO else SkipAhead()
