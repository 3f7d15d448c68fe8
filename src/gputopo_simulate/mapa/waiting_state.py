"""Apply the waiting rule to the first job of the queue during a run."""

from bisect import insort
from collections.abc import Sequence

from gputopo_simulate.mapa.model import SimulatedJob
from gputopo_simulate.mapa.nodes import RunningJob, SimulatedNodes
from gputopo_simulate.mapa.timelaw import TimeLaw
from gputopo_simulate.mapa.waiting import PossibleEnd, WaitingRule, should_wait


class WaitingState:
    """The wait of the first job of the queue, on one node; without a rule no job waits.

    Attributes:
        until: when the job that waits now starts at the latest; None while no job waits.
    """

    def __init__(self, rule: WaitingRule | None, time_law: TimeLaw, nodes: SimulatedNodes) -> None:
        self.until: float | None = None
        self._rule = rule
        self._time_law = time_law
        self._nodes = nodes
        self._observed: list[float] = []

    def observe(self, run_time: float) -> None:
        """Record the run time of a finished job."""
        insort(self._observed, run_time)

    def waits(self, job: SimulatedJob, now: float, running: Sequence[RunningJob]) -> bool:
        """Return whether ``job``, for which enough GPUs are free, waits for the next event."""
        rule = self._rule
        late = self.until is not None and now >= self.until
        if rule is None or late or not self._should_wait(rule, job, now, running):
            self.until = None
            return False
        if self.until is None:
            mean = sum(self._observed) / len(self._observed)
            self.until = now + rule.max_mean_times * mean
        return True

    def _should_wait(
        self, rule: WaitingRule, job: SimulatedJob, now: float, running: Sequence[RunningJob]
    ) -> bool:
        if not job.sensitive or job.pattern.size == 1:
            return False
        ends = [PossibleEnd(now - each.start, self._slowdown(job, each)) for each in running]
        return should_wait(
            rule,
            self._observed,
            gpus=job.pattern.size,
            free=self._nodes.max_free(),
            slowdown=self._slowdown(job),
            ends=ends,
        )

    def _slowdown(self, job: SimulatedJob, after: RunningJob | None = None) -> float:
        match = self._nodes.match_on_first(job, None if after is None else after.placement)
        return self._time_law.execution_time(job, match.effective_mb_per_s) / job.service
