"""Decide when a sensitive job waits for better links instead of starting at once.

In MAPA's released program, a sensitive job waits if no free GPU set has more than 12.34 GB/s. The
rule here compares two amounts of GPU time: the time that the job loses on the links that are free
now, and the time that the free GPUs are idle while the job waits.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gputopo_simulate.mapa.model import SimulatedJob
from gputopo_simulate.mapa.nodes import RunningJob, SimulatedNodes
from gputopo_simulate.mapa.timelaw import TimeLaw

_MIN_RESIDUAL: Final = 1 / 60
"""Least expected residual time, in mean run times. This limit keeps weights finite."""


@dataclass(frozen=True, slots=True)
class WaitingRule:
    """Parameters of the rule by which a sensitive job waits for better links.

    Attributes:
        theta: a job waits if the GPU time that it saves exceeds ``theta`` times the idle GPU time.
        max_mean_times: longest wait, as a multiple of the mean run time of finished jobs.
    """

    theta: float = 1.0
    max_mean_times: float = 1.65


@dataclass(frozen=True, slots=True)
class PossibleEnd:
    """The end of a running job, for which another job could wait.

    Attributes:
        age: run time of the running job so far.
        slowdown: slowdown of the waiting job on the best GPUs that are free after this end.
    """

    age: float
    slowdown: float


def should_wait(
    rule: WaitingRule,
    observed: Sequence[float],
    *,
    gpus: int,
    free: int,
    slowdown: float,
    ends: Sequence[PossibleEnd],
) -> bool:
    """Return whether a job should wait until the next running job ends.

    By waiting, the job saves ``gpus * mean run time * (slowdown now - slowdown after the end)`` of
    GPU time. In the meantime, ``free`` GPUs are idle. It is unknown which running job ends next, so
    the slowdown after the end is a mean over all ``ends``. The weight of an end is 1 / residual
    time, because a job with a short residual time probably ends next. The residual time of a job is
    estimated as the mean residual time of finished jobs at the same age.

    ``observed`` has the run times of finished jobs, ascending. ``slowdown`` is the slowdown of the
    job on the GPUs that are free now.
    """
    if not observed or not ends:
        return False
    mean = sum(observed) / len(observed)
    weights = [1 / max(_MIN_RESIDUAL * mean, expected_residual(observed, end.age)) for end in ends]
    pairs = zip(weights, ends, strict=True)
    then = sum(weight * end.slowdown for weight, end in pairs) / sum(weights)
    saved = gpus * mean * (slowdown - then)
    return saved > rule.theta * free / sum(weights)


def expected_residual(observed: Sequence[float], age: float) -> float:
    """Return the mean of ``run time - age`` of the jobs that ran longer than ``age``, or 0.

    >>> expected_residual([2.0, 6.0, 10.0], 4.0)
    4.0
    """
    longer = observed[bisect_right(observed, age) :]
    return sum(longer) / len(longer) - age if longer else 0.0


class WaitingState:
    """Records until when the first job in the queue waits. If the rule is None, no job waits.

    Attributes:
        until: latest start of the job that waits now; None while no job waits.
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
        """Return whether ``job`` waits for the next event, although enough GPUs are free."""
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

    def _slowdown(self, job: SimulatedJob, ended: RunningJob | None = None) -> float:
        match = self._nodes.match_on_first(job, None if ended is None else ended.placement)
        return self._time_law.execution_time(job, match.effective_mb_per_s) / job.service
