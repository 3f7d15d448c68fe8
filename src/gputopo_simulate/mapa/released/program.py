"""Run the authors' simulator, cycle by cycle."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from gputopo.patterns.model import PatternKind
from gputopo.placement.model import PolicyName
from gputopo.topology.model import GpuMask, mask_of
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.mapa.model import (
    FinishedSimulatedJob,
    SimulatedJob,
    SimulationResult,
    check_jobs,
)
from gputopo_simulate.mapa.released.policies import POLICIES, PolicyInput
from gputopo_simulate.mapa.released.scores import ScoredRing, scores_of
from gputopo_simulate.mapa.released.servers import SERVERS, MapaServer
from gputopo_simulate.mapa.timelaw import FixedTime

MODEL: Final = "eq2"
QUEUEING: Final = "as-released"


def find_server(name: str) -> MapaServer:
    """Return the server with this name in the catalogue or in the program.

    Raises:
        SimulationError: the program has no such server.
    """
    for catalogue_name, server in SERVERS.items():
        if name.lower() in {catalogue_name, server.name.lower()}:
            return server
    known = ", ".join(SERVERS)
    raise SimulationError(f"topology: {name!r} is not one of the released servers: {known}")


def run_as_released(
    name: str, jobs: Sequence[SimulatedJob], policy: PolicyName
) -> SimulationResult:
    """Simulate ``jobs`` on one of the servers of the authors' program.

    Times are in cycles of the program. Arrivals are ignored, and every job runs for its service
    time. As in the program, a job of one GPU has an effective bandwidth of 12.34 GB/s.

    Raises:
        SimulationError: the program does not have the topology or policy, or does not support a
            job.
    """
    server = find_server(name)
    if policy not in POLICIES:
        raise SimulationError(f"policy: {policy}; --as-released allows {', '.join(POLICIES)}")
    check_jobs(jobs)
    for job in jobs:
        _check_supported(job, server)
    finished = dict(_cycles(server, jobs, policy))
    return SimulationResult(
        policy=policy,
        model=MODEL,
        time_law=FixedTime().name,
        queueing=QUEUEING,
        waiting=False,
        jobs=tuple(finished[job.id] for job in jobs),
    )


def _check_supported(job: SimulatedJob, server: MapaServer) -> None:
    if job.pattern.kind is not PatternKind.RING:
        raise SimulationError(
            f"job {job.id!r}: pattern: {job.pattern.kind}; --as-released needs Ring"
        )
    if job.pattern.size > server.max_job_gpus:
        raise SimulationError(
            f"job {job.id!r}: gpus: {job.pattern.size}; --as-released allows at most"
            f" {server.max_job_gpus} on {server.name}"
        )
    if job.service != int(job.service):
        raise SimulationError(
            f"job {job.id!r}: service: {job.service}; --as-released needs whole cycles"
        )


def _cycles(
    server: MapaServer, jobs: Sequence[SimulatedJob], policy: PolicyName
) -> Iterator[tuple[object, FinishedSimulatedJob]]:
    """Place jobs cycle by cycle. Cycles in which no job can start or end are skipped.

    The authors' program removes a started job from the list while it iterates over this list. So it
    skips the next job of the list in this cycle. This function does the same.
    """
    simulated = _SimulatedServer(server, policy)
    waiting, now = list(jobs), 0
    while waiting:
        simulated.release(now)
        place, before = 0, len(waiting)
        while place < len(waiting) and (ring := simulated.allocate(waiting[place], now)):
            job = waiting.pop(place)
            yield job.id, _finished(job, server, ring, now)
            place += 1
        if len(waiting) == before:
            now = simulated.next_end()
        else:
            now += 1


class _SimulatedServer:
    def __init__(self, server: MapaServer, policy: PolicyName) -> None:
        self._server = server
        self._policy = policy
        self._scores = scores_of(server)
        self._free = GpuMask((1 << server.gpus) - 1)
        self._running: list[tuple[int, GpuMask]] = []
        self._chosen: dict[tuple[GpuMask, int, bool], ScoredRing | None] = {}

    def release(self, now: int) -> None:
        while self._running and self._running[0][0] <= now:
            self._free = GpuMask(self._free | heapq.heappop(self._running)[1])

    def allocate(self, job: SimulatedJob, now: int) -> ScoredRing | None:
        key = self._free, job.pattern.size, job.sensitive
        if key not in self._chosen:
            self._chosen[key] = self._choose(*key)
        ring = self._chosen[key]
        if ring is not None:
            taken = mask_of(ring.gpus)
            self._free = GpuMask(self._free & ~taken)
            heapq.heappush(self._running, (now + int(job.service), taken))
        return ring

    def next_end(self) -> int:
        """Return the cycle in which the next job ends; at least one job runs."""
        return self._running[0][0]

    def _choose(self, free: GpuMask, size: int, sensitive: bool) -> ScoredRing | None:  # noqa: FBT001
        gpu_sets = [each for each in self._scores.gpu_sets(size) if not each.mask & ~free]
        if not gpu_sets:
            return None
        preserved = self._scores.preserved_gb_per_s
        return POLICIES[self._policy](
            PolicyInput(gpu_sets, size, sensitive, free, self._server.domain, preserved)
        )


def _finished(
    job: SimulatedJob, server: MapaServer, ring: ScoredRing, now: int
) -> FinishedSimulatedJob:
    return FinishedSimulatedJob(
        job=replace(job, arrival=0.0),
        node=server.name,
        gpus=ring.gpus,
        start=float(now),
        end=now + job.service,
        aggregate_mb_per_s=1000 * ring.aggregate_gb_per_s,
        effective_mb_per_s=1000 * ring.effective_gb_per_s,
        model=MODEL,
    )
