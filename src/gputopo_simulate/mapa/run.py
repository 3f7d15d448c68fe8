"""The simulator: jobs arrive, wait, hold GPUs and end; nothing is random and no clock is read."""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gputopo.bandwidth.model import BandwidthModel, require_usable
from gputopo.placement.model import Match, PolicyName
from gputopo.placement.place import ranking
from gputopo.topology.model import NodeTopology, mask_of
from gputopo_simulate.mapa.fleet import Fleet, Placed, Running, request_of
from gputopo_simulate.mapa.model import (
    FinishedJob,
    Queueing,
    Result,
    SimulatedJob,
    SimulationError,
    require_sound,
)
from gputopo_simulate.mapa.patience import Patience
from gputopo_simulate.mapa.queueing import queue_of
from gputopo_simulate.mapa.timelaw import FixedService, TimeLaw
from gputopo_simulate.mapa.waiting import Waiting

Progress = Callable[[int, int], None]
"""Called after each job that has ended, with how many have and how many there are."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How jobs are placed and how long they run.

    Attributes:
        model: what the policy values GPUs by; None for the default of node and pattern.
        judge: what the outcome is valued by, execution times included; None for ``model``.
            With one judge, policies that go by different models compare.
        waiting: when a sensitive job waits for better links; None for never. For one node
            and FIFO.
    """

    policy: PolicyName = PolicyName.PRESERVE
    model: BandwidthModel | None = None
    time_law: TimeLaw = field(default_factory=FixedService)
    queueing: Queueing = Queueing.FIFO
    waiting: Waiting | None = None
    judge: BandwidthModel | None = None


def run(
    nodes: Mapping[str, NodeTopology],
    jobs: Sequence[SimulatedJob],
    settings: Settings,
    progress: Progress | None = None,
) -> Result:
    """Return what becomes of ``jobs`` on ``nodes``.

    Jobs queue by arrival, in the order of the list where they arrive together. GPUs that
    come free at some time can be taken at that same time.

    Raises:
        SimulationError: on a job that would never start or makes no sense, or no node.
        ModelError: where a bandwidth model may not be used for a job.
    """
    require_sound(jobs)
    _require_waiting_possible(nodes, settings)
    simulation = _Simulation(nodes, settings)
    simulation.require_room(jobs)
    finished = simulation.finish(jobs, progress or (lambda _done, _total: None))
    return Result(
        policy=settings.policy,
        model="default" if settings.model is None else settings.model.name,
        time_law=settings.time_law.name,
        queueing=settings.queueing.value,
        waiting=settings.waiting is not None,
        jobs=tuple(finished[job.id] for job in jobs),
    )


def _require_waiting_possible(nodes: Mapping[str, NodeTopology], settings: Settings) -> None:
    if settings.waiting is None:
        return
    if len(nodes) > 1:
        raise SimulationError(f"waiting: on {len(nodes)} nodes is not yet supported")
    if settings.queueing is not Queueing.FIFO:
        raise SimulationError(f"waiting: with {settings.queueing} is not yet supported")


class _Simulation:
    def __init__(self, nodes: Mapping[str, NodeTopology], settings: Settings) -> None:
        self._nodes = nodes
        self._settings = settings
        self._fleet = Fleet(nodes, settings.policy, settings.model)
        self._queue = queue_of(settings.queueing)
        self._running: list[tuple[float, int, Running]] = []
        self._finished: dict[object, FinishedJob] = {}
        self._patience = Patience(settings.waiting, settings.time_law, self._fleet)

    def require_room(self, jobs: Sequence[SimulatedJob]) -> None:
        """Ask once for each need; the first job of the list is the one named."""
        structures = {topology.fingerprint: topology for topology in self._nodes.values()}
        for job in {(job.pattern, job.sensitive): job for job in reversed(jobs)}.values():
            self._fleet.require_room(job)
            if (judge := self._settings.judge) is not None:
                for topology in structures.values():
                    require_usable(judge, topology, job.pattern)

    def finish(
        self, jobs: Sequence[SimulatedJob], progress: Progress
    ) -> Mapping[object, FinishedJob]:
        """Run until no job is left. The order of events at one time: ends, arrivals, starts."""
        arriving = sorted(jobs, key=lambda job: job.arrival)
        arrived = ended = 0
        while ended < len(jobs):
            now = self._next_time(arriving[arrived : arrived + 1])
            while self._running and self._running[0][0] <= now:
                self._end()
                ended += 1
                progress(ended, len(jobs))
            while arrived < len(jobs) and arriving[arrived].arrival <= now:
                self._queue.add(arrived, arriving[arrived])
                arrived += 1
            self._start_all(now)
        return self._finished

    def _next_time(self, next_to_arrive: Sequence[SimulatedJob]) -> float:
        times = [job.arrival for job in next_to_arrive] + [end for end, _, _ in self._running[:1]]
        if self._patience.until is not None:
            times.append(self._patience.until)
        return min(times)

    def _start_all(self, now: float) -> None:
        while (job := self._queue.first(self._fleet.most_free())) is not None:
            if self._patience.waits(job, now, [one for _, _, one in self._running]):
                return
            self._queue.remove(job)
            self._start(job, now)

    def _end(self) -> None:
        end, _, ended = heapq.heappop(self._running)
        self._fleet.give_back(ended.placed)
        self._patience.observe(end - ended.start)

    def _start(self, job: SimulatedJob, now: float) -> None:
        placed = self._fleet.take(job)
        match = self._judged(job, placed)
        end = now + self._settings.time_law.execution_time(job, match.effective_mb_per_s)
        heapq.heappush(self._running, (end, len(self._finished), Running(placed, now)))
        self._finished[job.id] = FinishedJob(
            job=job,
            node=placed.node,
            gpus=placed.match.gpus,
            start=now,
            end=end,
            aggregate_mb_per_s=match.aggregate_mb_per_s,
            effective_mb_per_s=match.effective_mb_per_s,
            model=match.model,
        )

    def _judged(self, job: SimulatedJob, placed: Placed) -> Match:
        """Return the figures that count: where nothing else is free, any policy takes the set."""
        judge = self._settings.judge
        if judge is None:
            return placed.match
        taken = mask_of(placed.match.gpus)
        (match,) = ranking(
            self._nodes[placed.node], taken, request_of(job, PolicyName.BASELINE), judge, most=1
        )
        return match
