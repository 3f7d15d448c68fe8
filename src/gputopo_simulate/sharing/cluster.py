"""The GPUs of a simulated cluster and the jobs that run on them, at most two on each GPU."""

import heapq
from dataclasses import dataclass, field

from gputopo_simulate.sharing.measured import MeasuredPairs
from gputopo_simulate.sharing.model import FirstChoice, OneGpuJob


@dataclass(slots=True, eq=False)
class SharingClient:
    """A job that has arrived and not ended.

    Attributes:
        work: seconds of execution alone that remain at time ``since``.
        speed: normalised speed now; 0 while it waits.
        gpu: number of its GPU; -1 while it waits.
        version: number of changes of the speed; an end of an older version is void.
    """

    job: OneGpuJob
    work: float
    since: float = 0.0
    speed: float = 0.0
    gpu: int = -1
    start: float | None = None
    moves: int = 0
    version: int = 0
    first_choice: FirstChoice | None = None

    @property
    def model(self) -> str:
        """The model that it trains."""
        return self.job.model

    def change_speed(self, now: float, speed: float) -> None:
        """Count the work that is done by ``now``, and continue at another speed."""
        self.work = max(0.0, self.work - (now - self.since) * self.speed)
        self.since, self.speed = now, speed
        self.version += 1


@dataclass(slots=True)
class SimulatedGpus:
    """GPUs by number: empty, with one job or with two.

    Attributes:
        jobs: the jobs of each GPU, in the order of their start.
        singles: GPUs with one job by its model, in the order in which they got into this state.
    """

    pairs: MeasuredPairs
    jobs: list[list[SharingClient]]
    singles: dict[str, dict[int, None]] = field(default_factory=dict)
    _empty: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, count: int, pairs: MeasuredPairs) -> "SimulatedGpus":
        """Return this number of empty GPUs."""
        return cls(pairs, [[] for _ in range(count)], {}, list(range(count)))

    def empty(self) -> int | None:
        """Return the empty GPU with the lowest number, if there is one."""
        return self._empty[0] if self._empty else None

    def add(self, job: SharingClient, gpu: int, now: float) -> list[SharingClient]:
        """Start a job on an empty GPU or beside one job; return the jobs whose speed changes."""
        present = self.jobs[gpu]
        if present:
            self._remove_single(present[0].model, gpu)
        else:
            heapq.heappop(self._empty)
            self.singles.setdefault(job.model, {})[gpu] = None
        present.append(job)
        job.gpu = gpu
        return self._update(gpu, now)

    def remove(self, job: SharingClient, now: float) -> list[SharingClient]:
        """Take a job off its GPU; return the jobs whose speed changes."""
        gpu = job.gpu
        left = self.jobs[gpu]
        left.remove(job)
        job.change_speed(now, 0.0)
        job.gpu = -1
        if left:
            self.singles.setdefault(left[0].model, {})[gpu] = None
        else:
            self._remove_single(job.model, gpu)
            heapq.heappush(self._empty, gpu)
        return self._update(gpu, now)

    def _remove_single(self, model: str, gpu: int) -> None:
        del self.singles[model][gpu]
        if not self.singles[model]:
            del self.singles[model]

    def _update(self, gpu: int, now: float) -> list[SharingClient]:
        present = self.jobs[gpu]
        models = [job.model for job in present]
        for job, other in zip(present, reversed(models), strict=True):
            alone = len(present) == 1
            job.change_speed(now, 1.0 if alone else self.pairs.speeds[job.model, other])
        return present
