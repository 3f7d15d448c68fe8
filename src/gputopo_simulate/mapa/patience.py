"""The head of the queue as it waits, and what has been seen of the jobs before it."""

from bisect import insort
from collections.abc import Sequence

from gputopo_simulate.mapa.fleet import Fleet, Running
from gputopo_simulate.mapa.model import SimulatedJob
from gputopo_simulate.mapa.timelaw import TimeLaw
from gputopo_simulate.mapa.waiting import Ending, Waiting, pays


class Patience:
    """Applies a rule of waiting on one node; with no rule nobody ever waits.

    Attributes:
        until: when the job that waits now starts at the latest; None while none waits.
    """

    def __init__(self, waiting: Waiting | None, time_law: TimeLaw, fleet: Fleet) -> None:
        """Have seen no job yet."""
        self.until: float | None = None
        self._waiting = waiting
        self._time_law = time_law
        self._fleet = fleet
        self._observed: list[float] = []

    def observe(self, time: float) -> None:
        """Note how long a job ran that has ended."""
        insort(self._observed, time)

    def waits(self, job: SimulatedJob, now: float, running: Sequence[Running]) -> bool:
        """Return whether ``job``, which has GPUs to start on, waits for the next event."""
        waiting = self._waiting
        late = self.until is not None and now >= self.until
        if waiting is None or late or not self._should_wait(waiting, job, now, running):
            self.until = None
            return False
        if self.until is None:
            mean = sum(self._observed) / len(self._observed)
            self.until = now + waiting.most_mean_times * mean
        return True

    def _should_wait(
        self, waiting: Waiting, job: SimulatedJob, now: float, running: Sequence[Running]
    ) -> bool:
        if not job.sensitive or job.pattern.size == 1:
            return False
        endings = [Ending(now - one.start, self._slowdown(job, one)) for one in running]
        return pays(
            waiting,
            self._observed,
            gpus=job.pattern.size,
            free=self._fleet.most_free(),
            slowdown=self._slowdown(job),
            endings=endings,
        )

    def _slowdown(self, job: SimulatedJob, after: Running | None = None) -> float:
        offer = self._fleet.offer(job, None if after is None else after.placed)
        return self._time_law.execution_time(job, offer.effective_mb_per_s) / job.service
