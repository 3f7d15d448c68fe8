"""Simulate a list of jobs on nodes, event by event, without randomness."""

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from gputopo.bandwidth.model import BandwidthModel, require_supported
from gputopo.placement.model import Match, PolicyName
from gputopo.placement.place import ranking
from gputopo.topology.model import NodeTopology, mask_of
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.mapa.model import (
    FinishedSimulatedJob,
    GpusInUse,
    Queueing,
    SimulatedJob,
    SimulationResult,
    check_jobs,
)
from gputopo_simulate.mapa.nodes import NodePlacement, RunningJob, SimulatedNodes, request_of
from gputopo_simulate.mapa.queueing import JobQueue
from gputopo_simulate.mapa.timelaw import FixedTime, TimeLaw
from gputopo_simulate.mapa.waiting import WaitingRule, WaitingState
from gputopo_simulate.progress import ProgressCallback


@dataclass(frozen=True, slots=True)
class MapaSettings:
    """Settings of a run: how jobs are placed and how long they run.

    Attributes:
        model: bandwidth model of the policy; None for the default of the node and pattern.
        judge: bandwidth model for the results and the execution times; if None, ``model`` is used.
            Runs with different ``model`` can be compared only if they have the same judge.
        waiting: rule by which a sensitive job waits for better links; None if no job waits. A rule
            requires a single node and FIFO.
    """

    policy: PolicyName = PolicyName.PRESERVE
    model: BandwidthModel | None = None
    time_law: TimeLaw = field(default_factory=FixedTime)
    queueing: Queueing = Queueing.FIFO
    waiting: WaitingRule | None = None
    judge: BandwidthModel | None = None


def run(
    nodes: Mapping[str, NodeTopology],
    jobs: Sequence[SimulatedJob],
    settings: MapaSettings,
    progress: ProgressCallback | None = None,
    in_use: Sequence[GpusInUse] = (),
) -> SimulationResult:
    """Simulate ``jobs`` on ``nodes``; ``in_use`` are GPUs that other pods have at time 0.

    Jobs join the queue in the order of their arrival times, and at equal times in the order of the
    list. When a job ends, another job can start at the same time on the same GPUs.

    Raises:
        SimulationError: a job would never start or is invalid, or there is no node.
        ModelError: a bandwidth model cannot be used for a job.
    """
    check_jobs(jobs)
    _check_waiting(nodes, settings)
    simulation = _MapaSimulation(nodes, settings, in_use)
    simulation.check_fits(jobs)
    finished = simulation.finish(jobs, progress or (lambda _done, _total: None))
    return SimulationResult(
        policy=settings.policy,
        model="default" if settings.model is None else settings.model.name,
        time_law=settings.time_law.name,
        queueing=settings.queueing.value,
        waiting=settings.waiting is not None,
        jobs=tuple(finished[job.id] for job in jobs),
    )


def _check_waiting(nodes: Mapping[str, NodeTopology], settings: MapaSettings) -> None:
    if settings.waiting is None:
        return
    if len(nodes) > 1:
        raise SimulationError(
            f"wait: not possible with {len(nodes)} nodes; leave out --wait or use one node"
        )
    if settings.queueing is not Queueing.FIFO:
        raise SimulationError("wait: not possible with --backfill; leave out one of them")


class _MapaSimulation:
    def __init__(
        self,
        nodes: Mapping[str, NodeTopology],
        settings: MapaSettings,
        in_use: Sequence[GpusInUse],
    ) -> None:
        self._topologies = nodes
        self._settings = settings
        self._nodes = SimulatedNodes(nodes, settings.policy, settings.model, in_use)
        self._uses = deque(
            sorted((use for use in in_use if use.until < inf), key=lambda use: use.until)
        )
        self._queue = JobQueue(settings.queueing)
        self._running: list[tuple[float, int, RunningJob]] = []
        self._finished: dict[object, FinishedSimulatedJob] = {}
        self._waiting = WaitingState(settings.waiting, settings.time_law, self._nodes)

    def check_fits(self, jobs: Sequence[SimulatedJob]) -> None:
        """Check that the jobs can start at some time; check equal placement requests only once."""
        topologies = {topology.fingerprint: topology for topology in self._topologies.values()}
        for job in {(job.pattern, job.sensitive): job for job in reversed(jobs)}.values():
            self._nodes.check_fits(job)
            if (judge := self._settings.judge) is not None:
                for topology in topologies.values():
                    require_supported(judge, topology, job.pattern)

    def finish(
        self, jobs: Sequence[SimulatedJob], progress: ProgressCallback
    ) -> Mapping[object, FinishedSimulatedJob]:
        """Run until all jobs have ended. At equal times: ends, then arrivals, then starts."""
        by_arrival = sorted(jobs, key=lambda job: job.arrival)
        arrived = ended = 0
        while ended < len(jobs):
            now = self._next_time(by_arrival[arrived : arrived + 1])
            while self._uses and self._uses[0].until <= now:
                self._nodes.release_use(self._uses.popleft())
            while self._running and self._running[0][0] <= now:
                self._end_first()
                ended += 1
                progress(ended, len(jobs))
            while arrived < len(jobs) and by_arrival[arrived].arrival <= now:
                self._queue.add(by_arrival[arrived])
                arrived += 1
            self._start_all(now)
        return self._finished

    def _next_time(self, next_to_arrive: Sequence[SimulatedJob]) -> float:
        times = [job.arrival for job in next_to_arrive] + [end for end, _, _ in self._running[:1]]
        times += [self._uses[0].until] if self._uses else []
        if self._waiting.until is not None:
            times.append(self._waiting.until)
        return min(times)

    def _start_all(self, now: float) -> None:
        while (job := self._queue.first(self._nodes.max_free())) is not None:
            if self._waiting.waits(job, now, [each for _, _, each in self._running]):
                return
            self._queue.remove(job)
            self._start(job, now)

    def _end_first(self) -> None:
        end, _, ended = heapq.heappop(self._running)
        self._nodes.release(ended.placement)
        self._waiting.observe(end - ended.start)

    def _start(self, job: SimulatedJob, now: float) -> None:
        placement = self._nodes.take(job)
        match = self._judged(job, placement)
        end = now + self._settings.time_law.execution_time(job, match.effective_mb_per_s)
        heapq.heappush(self._running, (end, len(self._finished), RunningJob(placement, now)))
        self._finished[job.id] = FinishedSimulatedJob(
            job=job,
            node=placement.node,
            gpus=placement.match.gpus,
            start=now,
            end=end,
            aggregate_mb_per_s=match.aggregate_mb_per_s,
            effective_mb_per_s=match.effective_mb_per_s,
            model=match.model,
        )

    def _judged(self, job: SimulatedJob, placement: NodePlacement) -> Match:
        """Return the match of the job with the bandwidths that the judge model predicts.

        For this, the function places the job on an imagined node on which only the job's GPUs are
        free. So any policy chooses exactly these GPUs.
        """
        judge = self._settings.judge
        if judge is None:
            return placement.match
        topology, taken = self._topologies[placement.node], mask_of(placement.match.gpus)
        (match,) = ranking(topology, taken, request_of(job, PolicyName.BASELINE), judge, most=1)
        return match
