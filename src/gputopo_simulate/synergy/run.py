"""The simulator: who runs, with what, until when, as the paper's text has it.

A decision is made anew for all jobs that are there, running or not, by the same functions
that decide for a live cluster. It holds for a round; or, event-driven, until a job comes or
ends. Jobs go at the throughput that their sensitivity matrix has for what they are given, and
to be given something else costs nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.sizing.model import (
    ServerCapacity,
    SizingMechanism,
    SizingRequest,
    proportional_throughput,
)
from gputopo.sizing.orders import JobProgress, OrderKey, sort_jobs
from gputopo.sizing.requests import runnable
from gputopo_simulate.synergy.model import (
    ROUND_S,
    Cluster,
    FinishedJob,
    Progress,
    SynergyError,
    TrainingJob,
    first_round_s,
    next_round_s,
    require_fitting,
)


@dataclass(frozen=True, slots=True)
class Settings:
    """How jobs are queued and servers are given away.

    Attributes:
        in_turn: whether the allocation runs just those whose turn it is by GPUs and order;
            then it is not asked about the others.
        round_s: how long a decision holds; None: until a job comes or ends.
    """

    order: OrderKey
    allocation: SizingMechanism
    in_turn: bool
    round_s: float | None = ROUND_S


@dataclass(slots=True, eq=False)
class _Job:
    """A job on its way.

    Attributes:
        share: its throughput with the proportional share.
        left: what is still to do, in seconds at the throughput 1 of its matrix.
        rate: its throughput now.
    """

    source: TrainingJob
    request: SizingRequest
    standing: JobProgress
    share: float
    left: float
    rate: float = 0.0
    ends_s: float = math.inf


def run(
    cluster: Cluster,
    jobs: Sequence[TrainingJob],
    settings: Settings,
    progress: Progress | None = None,
) -> tuple[FinishedJob, ...]:
    """Return what becomes of ``jobs``, each by the time of its end.

    In rounds a job that ends keeps what it has to the end of the round. The first round
    begins when a list is there whose jobs all come at once, else at the first multiple of
    the length of a round that knows of a job.

    Args:
        cluster: all servers.
        jobs: in any order.
        settings: queue order, allocation and rounds.
        progress: told as jobs end.

    Raises:
        SynergyError: on jobs that would never end or are none.
    """
    require_fitting(jobs, cluster)
    simulation = _Simulation(cluster, jobs, settings)
    finished: list[FinishedJob] = []
    while not simulation.is_over:
        finished += simulation.step()
        if progress is not None:
            progress(len(finished), len(jobs))
    return tuple(finished)


class _Simulation:
    def __init__(self, cluster: Cluster, jobs: Sequence[TrainingJob], settings: Settings) -> None:
        self._settings = settings
        self._servers = servers_of(cluster)
        self._coming = _asking(jobs, cluster)
        self._places = {job.request.job: place for place, job in enumerate(self._coming)}
        self._arrived = 0
        self._here: dict[str, _Job] = {}
        self._running: list[_Job] = []
        self._decided: Sequence[SizingRequest] = ()
        arrivals_s = [job.source.arrival_s for job in self._coming]
        self._now_s = arrivals_s[0] if settings.round_s is None else first_round_s(arrivals_s)

    @property
    def is_over(self) -> bool:
        return not self._here and self._arrived == len(self._coming)

    def step(self) -> list[FinishedJob]:
        """Decide, let that hold as long as it does, and return who ended."""
        self._admit()
        self._decide()
        until_s = self._until_s()
        ended = [job for job in self._running if job.ends_s <= until_s]
        for job in ended:
            del self._here[job.request.job]
        if ended:
            self._running = [job for job in self._running if job.ends_s > until_s]
        for job in self._running:
            job.left = (job.ends_s - until_s) * job.rate
            name, arrival_s, attained_s, _, alone_s = job.standing
            attained_s += (until_s - self._now_s) * job.source.gpus
            job.standing = JobProgress(name, arrival_s, attained_s, job.left / job.share, alone_s)
        self._now_s = until_s
        ended.sort(key=lambda job: job.ends_s)
        return [FinishedJob(job.source.id, job.source.arrival_s, job.ends_s) for job in ended]

    def _admit(self) -> None:
        while (job := self._next()) is not None and job.source.arrival_s <= self._now_s:
            self._here[job.request.job] = job
            self._arrived += 1

    def _next(self) -> _Job | None:
        return self._coming[self._arrived] if self._arrived < len(self._coming) else None

    def _decide(self) -> None:
        """Give the servers away anew; a decision on the same requests would be the same."""
        standings = (job.standing for job in self._here.values())
        queue = sort_jobs(self._settings.order, standings, self._now_s)
        requests = self._asks([self._here[standing.job].request for standing in queue])
        if requests != self._decided:
            self._decided = requests
            result = self._settings.allocation(self._servers, requests)
            self._running = [self._here[assignment.job] for assignment in result.assignments]
            for job, assignment in zip(self._running, result.assignments, strict=True):
                job.rate = assignment.throughput
        for job in self._running:
            job.ends_s = self._now_s + job.left / job.rate

    def _asks(self, queue: Sequence[SizingRequest]) -> Sequence[SizingRequest]:
        """Return who is to be decided about.

        Those whose turn it is stand in the order of their arrival then, whatever made it
        their turn: the same jobs are so given the same.
        """
        if not self._settings.in_turn:
            return queue
        return sorted(runnable(self._servers, queue), key=lambda request: self._places[request.job])

    def _until_s(self) -> float:
        """Return when the next decision is due.

        Raises:
            SynergyError: there are jobs, and nothing ever happens.
        """
        coming = self._next()
        if coming is None and not self._running:
            job = next(iter(self._here.values()))
            raise SynergyError(f"job {job.source.id}: gpus: it is never given any")
        arrival_s = math.inf if coming is None else coming.source.arrival_s
        if self._settings.round_s is None:
            return min([arrival_s, *(job.ends_s for job in self._running)])
        if self._here:
            return self._now_s + self._settings.round_s
        return next_round_s(self._now_s, arrival_s, self._settings.round_s)


def servers_of(cluster: Cluster) -> tuple[ServerCapacity, ...]:
    """Return the servers of a cluster as allocations take them."""
    size = cluster.gpus, cluster.cpus, cluster.memory_gb, cluster.storage_mb_per_s
    return tuple(ServerCapacity(f"s{number}", *size) for number in range(cluster.servers))


def sensitivity(job: TrainingJob, cluster: Cluster) -> SensitivityMatrix:
    """Return what was measured with so many GPUs, if that knows of so small a share; else scaled.

    Raises:
        SynergyError: neither knows the job to run with its proportional share.
    """
    gpus, cpus, memory_gb = job.gpus, cluster.cpus_per_gpu, cluster.memory_gb_per_gpu
    for matrix in (job.model.matrix(gpus), job.model.matrices[1].scaled_to(gpus)):
        if matrix.at(cpus * gpus, memory_gb * gpus) > 0:
            return matrix
    raise SynergyError(
        f"job {job.id}: model: {job.model.name} is not known to run with its share of"
        f" {cpus:g} CPUs and {memory_gb:g} GB per GPU"
    )


def _asking(jobs: Sequence[TrainingJob], cluster: Cluster) -> list[_Job]:
    """Return jobs as they come; those of one model and size have one matrix between them."""
    known: dict[tuple[str, int], SensitivityMatrix] = {}
    coming = sorted(jobs, key=lambda job: (job.arrival_s, job.id))
    for job in coming:
        kind = job.model.name, job.gpus
        if kind not in known:
            known[kind] = sensitivity(job, cluster)
    one_server = servers_of(replace(cluster, servers=1))
    return [_job(job, known[job.model.name, job.gpus], one_server) for job in coming]


def _job(job: TrainingJob, matrix: SensitivityMatrix, servers: Sequence[ServerCapacity]) -> _Job:
    name = f"{job.id:012}"  # jobs that are equal by every order go by number
    lacks = servers[0].storage_mb_per_s < math.inf
    request = SizingRequest(
        name, matrix, job.model.storage_mb_per_s_per_gpu * job.gpus if lacks else 0.0
    )
    left, share = job.iterations * job.model.step_s, proportional_throughput(servers, request)
    alone_s = left / share
    standing = JobProgress(name, job.arrival_s, 0.0, alone_s, alone_s)
    return _Job(job, request, standing, share, left)
