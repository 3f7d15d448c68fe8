"""The queue of waiting jobs. It decides which job starts next."""

from collections import deque

from gputopo_simulate.mapa.model import Queueing, SimulatedJob


class JobQueue:
    """Jobs that have arrived and have not started; see :class:`Queueing`.

    With SKIP_AHEAD there is one queue for all jobs with the same number of GPUs, because only this
    number decides whether a job fits. So only the first job of each queue must be checked.
    """

    def __init__(self, queueing: Queueing) -> None:
        self._by_size = queueing is Queueing.SKIP_AHEAD
        self._added = 0
        self._queues: dict[int, deque[tuple[int, SimulatedJob]]] = {}

    def add(self, job: SimulatedJob) -> None:
        """Append a job."""
        self._queues.setdefault(self._key(job), deque()).append((self._added, job))
        self._added += 1

    def first(self, max_free: int) -> SimulatedJob | None:
        """Return the job to start next if a node has ``max_free`` free GPUs; None if none fits."""
        heads = [queue[0] for queue in self._queues.values() if queue]
        fitting = [head for head in heads if head[1].pattern.size <= max_free]
        return min(fitting)[1] if fitting else None

    def remove(self, first: SimulatedJob) -> None:
        """Remove the job that :meth:`first` returned."""
        self._queues[self._key(first)].popleft()

    def _key(self, job: SimulatedJob) -> int:
        return job.pattern.size if self._by_size else 0
