"""Simulate a queue of training jobs as the text of the Synergy paper describes it.

A mechanism of :mod:`gputopo_simulate.synergy.mechanisms` assigns servers to all jobs that have
arrived and have not finished. With rounds, the mechanism runs once in each round. In the
event-driven mode, it runs when a job arrives or finishes. The speed of a job is the throughput in
its sensitivity matrix. A running job that gets other servers loses no time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gputopo.sizing.model import SizingMechanism, SizingRequest
from gputopo.sizing.orders import JobProgress, OrderKey, sort_jobs
from gputopo.sizing.requests import runnable
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.progress import ProgressCallback
from gputopo_simulate.synergy.active import ActiveJob, active_jobs, servers_of
from gputopo_simulate.synergy.model import (
    ROUND_SECONDS,
    FinishedTrainingJob,
    SimulatedCluster,
    TrainingJob,
    check_jobs,
    first_round_seconds,
    next_round_seconds,
)


@dataclass(frozen=True, slots=True)
class SynergySettings:
    """Queue order, sizing mechanism and rounds of a run.

    Attributes:
        runnable_only: if true, the mechanism gets only the jobs that run now
            (:func:`gputopo.sizing.requests.runnable`); if false, the whole queue. True saves time,
            and is allowed for :data:`.mechanisms.GUARANTEE_SHARES`, which run exactly these jobs.
        round_seconds: length of a round; None for the event-driven mode.
    """

    order: OrderKey
    mechanism: SizingMechanism
    runnable_only: bool
    round_seconds: float | None = ROUND_SECONDS


def run(
    cluster: SimulatedCluster,
    jobs: Sequence[TrainingJob],
    settings: SynergySettings,
    progress: ProgressCallback | None = None,
) -> tuple[FinishedTrainingJob, ...]:
    """Return all jobs in the order in which they finish.

    With rounds, a job that finishes keeps its servers until the round ends. If all jobs arrive
    before second 1, the first round begins at second 1. If not, it begins at the first multiple of
    the round's length at or after the first arrival.

    Raises:
        SimulationError: there are no jobs, or a job would never finish.
    """
    check_jobs(jobs, cluster)
    simulation = _SynergySimulation(cluster, jobs, settings)
    finished: list[FinishedTrainingJob] = []
    while not simulation.is_over:
        finished += simulation.step()
        if progress is not None:
            progress(len(finished), len(jobs))
    return tuple(finished)


class _SynergySimulation:
    def __init__(
        self, cluster: SimulatedCluster, jobs: Sequence[TrainingJob], settings: SynergySettings
    ) -> None:
        self._settings = settings
        self._servers = servers_of(cluster)
        self._by_arrival = active_jobs(jobs, cluster)
        self._arrival_index = {job.request.job: at for at, job in enumerate(self._by_arrival)}
        self._arrived = 0
        self._active: dict[str, ActiveJob] = {}
        self._running: list[ActiveJob] = []
        self._decided: Sequence[SizingRequest] = ()
        arrivals = [job.source.arrival_seconds for job in self._by_arrival]
        event_driven = settings.round_seconds is None
        self._now_seconds = arrivals[0] if event_driven else first_round_seconds(arrivals)

    @property
    def is_over(self) -> bool:
        return not self._active and self._arrived == len(self._by_arrival)

    def step(self) -> list[FinishedTrainingJob]:
        """Assign servers, advance the time to the next assignment, and return the finished jobs."""
        self._admit()
        self._decide()
        until = self._next_decision_seconds()
        ended = [job for job in self._running if job.end_seconds <= until]
        for job in ended:
            del self._active[job.request.job]
        if ended:
            self._running = [job for job in self._running if job.end_seconds > until]
        for job in self._running:
            self._advance(job, until)
        self._now_seconds = until
        ended.sort(key=lambda job: job.end_seconds)
        return [
            FinishedTrainingJob(job.source.id, job.source.arrival_seconds, job.end_seconds)
            for job in ended
        ]

    def _advance(self, job: ActiveJob, until: float) -> None:
        job.work_left = (job.end_seconds - until) * job.throughput
        name, arrival, attained, _, alone = job.progress
        attained += (until - self._now_seconds) * job.source.gpus
        remaining = job.work_left / job.share_throughput
        job.progress = JobProgress(name, arrival, attained, remaining, alone)

    def _admit(self) -> None:
        while (job := self._next_arrival()) and job.source.arrival_seconds <= self._now_seconds:
            self._active[job.request.job] = job
            self._arrived += 1

    def _next_arrival(self) -> ActiveJob | None:
        at = self._arrived
        return self._by_arrival[at] if at < len(self._by_arrival) else None

    def _decide(self) -> None:
        """Assign servers to jobs if the requests have changed since the last assignment."""
        active = (job.progress for job in self._active.values())
        queue = sort_jobs(self._settings.order, active, self._now_seconds)
        requests = self._requests([self._active[each.job].request for each in queue])
        if requests != self._decided:
            self._decided = requests
            result = self._settings.mechanism(self._servers, requests)
            self._running = [self._active[each.job] for each in result.assignments]
            for job, assignment in zip(self._running, result.assignments, strict=True):
                job.throughput = assignment.throughput
        for job in self._running:
            job.end_seconds = self._now_seconds + job.work_left / job.throughput

    def _requests(self, queue: Sequence[SizingRequest]) -> Sequence[SizingRequest]:
        """Return the requests for the mechanism.

        With ``runnable_only``, these are the jobs that run now, sorted by arrival. If the queue
        order changes but these jobs do not, the list stays the same, so the mechanism does not run
        again.
        """
        if not self._settings.runnable_only:
            return queue
        return sorted(
            runnable(self._servers, queue), key=lambda each: self._arrival_index[each.job]
        )

    def _next_decision_seconds(self) -> float:
        """Return the time of the next assignment of servers.

        Raises:
            SimulationError: jobs wait forever, because no job runs and no further job arrives.
        """
        coming = self._next_arrival()
        if coming is None and not self._running:
            job = next(iter(self._active.values()))
            raise SimulationError(
                f"job {job.source.id}: gpus: {job.source.gpus}; the mechanism never assigns GPUs"
            )
        arrival = math.inf if coming is None else coming.source.arrival_seconds
        round_seconds = self._settings.round_seconds
        if round_seconds is None:
            return min([arrival, *(job.end_seconds for job in self._running)])
        if self._active:
            return self._now_seconds + round_seconds
        return next_round_seconds(self._now_seconds, arrival, round_seconds)
