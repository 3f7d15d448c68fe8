"""Simulate jobs of one GPU on GPUs that two jobs can share, event by event, without randomness."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from gputopo_simulate.errors import SimulationError
from gputopo_simulate.progress import ProgressCallback
from gputopo_simulate.sharing.cluster import SharingClient, SimulatedGpus
from gputopo_simulate.sharing.measured import MeasuredPairs
from gputopo_simulate.sharing.model import (
    FinishedSharedJob,
    FirstChoice,
    OneGpuJob,
    SharingResult,
    check_jobs,
)
from gputopo_simulate.sharing.policies import PolicySettings, SharingRule, policy_named

_ARRIVES: Final = 2
_ENDS: Final = 0
_MEASURED: Final = 1


@dataclass(frozen=True, slots=True)
class SharingRunSettings:
    """Settings of a run.

    Attributes:
        policy: a name of :data:`.policies.POLICIES`.
        measure_seconds: time after which the speeds of a pair are known, and a wrong sharing ends.
        restart_seconds: work that a job loses if it has to leave a GPU.
    """

    policy: str
    gpus: int
    rules: PolicySettings = field(default_factory=PolicySettings)
    measure_seconds: float = 120.0
    restart_seconds: float = 60.0


def run(
    jobs: Sequence[OneGpuJob],
    pairs: MeasuredPairs,
    settings: SharingRunSettings,
    progress: ProgressCallback | None = None,
) -> SharingResult:
    """Simulate jobs. At equal times jobs end, then pairs are measured, then jobs arrive.

    Waiting jobs are tried in the order of their arrival. A job gets an empty GPU if there is one.
    If not, it shares with the running job with which the policy's gain is highest.

    Args:
        jobs: the jobs, in any order.
        pairs: measured speeds; they are the truth.
        settings: policy and cluster.
        progress: called after each event.

    Raises:
        SimulationError: if a job is not valid, or there is no GPU.
    """
    check_jobs(jobs, pairs)
    if settings.gpus < 1:
        raise SimulationError(f"gpus: {settings.gpus}; must be at least 1")
    rule = policy_named(settings.policy, pairs, settings.rules)
    simulation = _SharingSimulation(pairs, settings, rule)
    finished = simulation.finish(jobs, progress or (lambda _done, _total: None))
    return SharingResult(settings.policy, tuple(finished[job.id] for job in jobs))


class _SharingSimulation:
    def __init__(
        self, pairs: MeasuredPairs, settings: SharingRunSettings, rule: SharingRule
    ) -> None:
        self._pairs: Final = pairs
        self._settings: Final = settings
        self._rule: Final = rule
        self._gpus: Final = SimulatedGpus.of(settings.gpus, pairs)
        self._queue: list[SharingClient] = []
        self._events: Final[list[tuple[float, int, int, SharingClient, int]]] = []
        self._numbers: Final = count()
        self._finished: Final[dict[int, FinishedSharedJob]] = {}

    def finish(
        self, jobs: Sequence[OneGpuJob], progress: ProgressCallback
    ) -> dict[int, FinishedSharedJob]:
        """Run until all jobs have ended."""
        for given in sorted(jobs, key=lambda each: (each.arrival, each.id)):
            self._push(given.arrival, _ARRIVES, SharingClient(given, given.seconds))
        while self._events:
            now, kind, _, job, version = heapq.heappop(self._events)
            if kind == _ARRIVES:
                self._arrive(job, now)
            elif version != job.version:
                continue  # its speed has changed since
            elif kind == _ENDS:
                self._end(job, now)
                self._start_all(now)
            else:
                self._measure(job, now)
                self._start_all(now)
            progress(len(self._finished), len(jobs))
        return self._finished

    def _push(self, time: float, kind: int, job: SharingClient) -> None:
        heapq.heappush(self._events, (time, kind, next(self._numbers), job, job.version))

    def _arrive(self, job: SharingClient, now: float) -> None:
        """Start a new job, or let it wait. No job that waits already can start now."""
        may_start = self._rule.overtakes or not self._queue
        if not (may_start and self._start(job, now)):
            job.first_choice = self._waited(job)
            self._queue.append(job)

    def _end(self, job: SharingClient, now: float) -> None:
        gpu = job.gpu
        self._schedule(self._gpus.remove(job, now), now)
        start = now if job.start is None else job.start
        choice = job.first_choice or FirstChoice.NOT_NEEDED
        self._finished[job.job.id] = FinishedSharedJob(job.job, start, now, gpu, job.moves, choice)

    def _measure(self, last: SharingClient, now: float) -> None:
        """Let the policy learn the speeds of a pair; the last job leaves if the pair is wrong."""
        first = self._gpus.jobs[last.gpu][0]
        if not self._rule.ends(first.model, last.model):
            return
        self._schedule(self._gpus.remove(last, now), now)
        last.work += self._settings.restart_seconds
        last.moves += 1
        self._queue.insert(0, last)

    def _schedule(self, changed: Sequence[SharingClient], now: float) -> None:
        for job in changed:
            self._push(now + job.work / job.speed, _ENDS, job)

    def _start_all(self, now: float) -> None:
        """Try all waiting jobs, the oldest first."""
        waiting: list[SharingClient] = []
        rejected: set[str] = set()  # no GPU gets free for other jobs while this loop runs
        for position, job in enumerate(self._queue):
            if job.model not in rejected and self._start(job, now):
                continue
            rejected.add(job.model)
            waiting.append(job)
            if not self._rule.overtakes or len(rejected) == len(self._pairs.models):
                waiting += self._queue[position + 1 :]
                break
        self._queue = waiting

    def _start(self, job: SharingClient, now: float) -> bool:
        gpu = self._gpus.empty()
        choice = FirstChoice.NOT_NEEDED
        if gpu is None:
            model = self._partner(job)
            if model is None:
                return False
            gpu = next(iter(self._gpus.singles[model]))
            is_right = self._pairs.gain(job.model, model).summed_speed >= 1
            choice = FirstChoice.RIGHT if is_right else FirstChoice.SHARED_WRONG
        job.first_choice = job.first_choice or choice
        job.start = now if job.start is None else job.start
        job.since = now
        changed = self._gpus.add(job, gpu, now)
        self._schedule(changed, now)
        if len(changed) > 1:
            self._push(now + self._settings.measure_seconds, _MEASURED, job)
        return True

    def _partner(self, job: SharingClient) -> str | None:
        """Return the model of the running jobs with the highest gain beside this job."""
        best: tuple[float, str] | None = None
        for model in sorted(self._gpus.singles):
            gain = self._rule.gain(job.model, model) if self._fits(job, model) else None
            if gain is not None and (best is None or gain > best[0]):
                best = gain, model
        return best[1] if best else None

    def _waited(self, job: SharingClient) -> FirstChoice:
        margin = self._settings.rules.margin
        possible = (
            self._pairs.gain(job.model, model).summed_speed > margin
            for model in self._gpus.singles
            if self._fits(job, model)
        )
        return FirstChoice.WAITED_WRONG if any(possible) else FirstChoice.RIGHT

    def _fits(self, job: SharingClient, model: str) -> bool:
        return self._pairs.fits(job.model, model)
