"""The authors' simulator, cycle by cycle."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from gputopo.patterns.model import PatternKind
from gputopo.placement.model import PolicyName
from gputopo.topology.model import GpuMask, mask_of
from gputopo_simulate.mapa.model import (
    FinishedJob,
    Result,
    SimulatedJob,
    SimulationError,
    require_sound,
)
from gputopo_simulate.mapa.released.offers import Ring, scores_of
from gputopo_simulate.mapa.released.policies import POLICIES, Situation
from gputopo_simulate.mapa.released.servers import SERVERS, Server
from gputopo_simulate.mapa.timelaw import FixedService

MODEL: Final = "eq2"
QUEUEING: Final = "as-released"


def server_named(name: str) -> Server:
    """Return the program's server, by the catalogue's name or by its own.

    Raises:
        SimulationError: on a topology that the program does not have.
    """
    for ours, server in SERVERS.items():
        if name.lower() in {ours, server.name.lower()}:
            return server
    known = ", ".join(SERVERS)
    raise SimulationError(f"topology: as released there are only {known}, not {name!r}")


def run_as_released(name: str, jobs: Sequence[SimulatedJob], policy: PolicyName) -> Result:
    """Return what the authors' program makes of ``jobs`` on one of its servers.

    Times are its cycles, arrivals are not looked at, and a job takes its service time
    whatever it is given. One GPU has 12.34 GB/s.

    Raises:
        SimulationError: on a topology that the program does not have, and on a job that it
            cannot read or never ends with; the message names the job.
    """
    server = server_named(name)
    require_sound(jobs)
    for job in jobs:
        _require_possible(job, server)
    finished = dict(_cycles(server, jobs, policy))
    return Result(
        policy=policy,
        model=MODEL,
        time_law=FixedService().name,
        queueing=QUEUEING,
        waiting=False,
        jobs=tuple(finished[job.id] for job in jobs),
    )


def _require_possible(job: SimulatedJob, server: Server) -> None:
    if job.pattern.kind is not PatternKind.RING:
        raise SimulationError(f"job {job.id!r}: pattern: {job.pattern.kind}: as released only Ring")
    if job.pattern.size > server.most:
        raise SimulationError(
            f"job {job.id!r}: gpus: {job.pattern.size}: as released at most {server.most}"
            f" on {server.name}"
        )
    if job.service != int(job.service):
        raise SimulationError(
            f"job {job.id!r}: service: {job.service}: as released in whole cycles"
        )


def _cycles(
    server: Server, jobs: Sequence[SimulatedJob], policy: PolicyName
) -> Iterator[tuple[object, FinishedJob]]:
    """Place jobs cycle by cycle; cycles in which nothing can change are left out.

    The program takes a job out of the list that it is walking, so that it steps over the
    next one, which has its turn a cycle later and behind those that started before it.
    """
    machine = _Machine(server, policy)
    waiting, now = list(jobs), 0
    while waiting:
        machine.release(now)
        place, before = 0, len(waiting)
        while place < len(waiting) and (ring := machine.allocate(waiting[place], now)):
            job = waiting.pop(place)
            yield job.id, _finished(job, server, ring, now)
            place += 1
        if len(waiting) == before:
            now = machine.next_end()
        else:
            now += 1


class _Machine:
    def __init__(self, server: Server, policy: PolicyName) -> None:
        self._server = server
        self._policy = policy
        self._scores = scores_of(server)
        self._free = GpuMask((1 << server.gpus) - 1)
        self._running: list[tuple[int, GpuMask]] = []
        self._answers: dict[tuple[GpuMask, int, bool], Ring | None] = {}

    def release(self, now: int) -> None:
        while self._running and self._running[0][0] <= now:
            self._free = GpuMask(self._free | heapq.heappop(self._running)[1])

    def allocate(self, job: SimulatedJob, now: int) -> Ring | None:
        key = self._free, job.pattern.size, job.sensitive
        if key not in self._answers:
            self._answers[key] = self._choose(*key)
        ring = self._answers[key]
        if ring is not None:
            taken = mask_of(ring.gpus)
            self._free = GpuMask(self._free & ~taken)
            heapq.heappush(self._running, (now + int(job.service), taken))
        return ring

    def next_end(self) -> int:
        """Return the cycle of the next end; an idle server always has something good enough."""
        return self._running[0][0]

    def _choose(self, free: GpuMask, size: int, sensitive: bool) -> Ring | None:  # noqa: FBT001
        offers = [offer for offer in self._scores.offers(size) if not offer.mask & ~free]
        if not offers:
            return None
        preserved = self._scores.preserved_gb_per_s
        return POLICIES[self._policy](
            Situation(offers, size, sensitive, free, self._server.domain, preserved)
        )


def _finished(job: SimulatedJob, server: Server, ring: Ring, now: int) -> FinishedJob:
    return FinishedJob(
        job=replace(job, arrival=0.0),
        node=server.name,
        gpus=ring.gpus,
        start=float(now),
        end=now + job.service,
        aggregate_mb_per_s=1000 * ring.aggregate_gb_per_s,
        effective_mb_per_s=1000 * ring.effective_gb_per_s,
        model=MODEL,
    )
