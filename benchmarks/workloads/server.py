"""GPU sets of a server that a simulated run gets: places among random other jobs."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache, cached_property
from typing import Final

from gputopo.bandwidth.effective import effective_table
from gputopo.bandwidth.models import PHYSICAL
from gputopo.catalogue import named
from gputopo.patterns.embedding import embeddings
from gputopo.patterns.model import ring
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo.placement.place import ranking
from gputopo.topology.model import GpuIndex, GpuMask, NodeTopology, indices_of, mask_of

NEIGHBOURS: Final = ("team/bert", "team/gmm", "team/resnet50", "team/vgg16", "other/")
"""Workloads of the other jobs; the last is that of jobs without a profile."""

_JOB_SIZES: Final = (1, 1, 2, 2, 4)

_BUSY: Final = 0.6
"""On a busy server, part of the runs for which other jobs end only until enough GPUs are free."""

_STATES: Final = 300
"""Number of full servers from which a run draws its own."""


class Load(Enum):
    """How many GPUs of a server other jobs use when a run starts.

    IDLE: none. LIGHT: any number that leaves enough for the run. BUSY: mostly all but those that
    the run needs.
    """

    IDLE = auto()
    LIGHT = auto()
    BUSY = auto()


@dataclass(frozen=True, slots=True)
class OtherJob:
    """Another job on the node."""

    workload: str
    gpus: GpuMask


@dataclass(frozen=True, slots=True)
class RunPlace:
    """The GPU set of one run, and the other jobs when the run starts.

    Attributes:
        mb_per_s: effective bandwidth of the set by the physical model; 0 for one GPU.
        socket_jobs: other jobs with GPUs on the same sockets.
        node_jobs: other jobs with GPUs on other sockets only.
    """

    gpus: GpuMask
    mb_per_s: int
    socket_jobs: tuple[OtherJob, ...]
    node_jobs: tuple[OtherJob, ...]


@dataclass(frozen=True)
class SimulatedServer:
    """One server of the catalogue; runs see it with random other jobs."""

    name: str

    @cached_property
    def topology(self) -> NodeTopology:
        """The topology of the server."""
        return named(self.name)

    def extremes_mb_per_s(self, gpus: int) -> tuple[int, int]:
        """Return the lowest and the highest effective bandwidth of the idle server."""
        return _extremes(self, gpus)

    def place(
        self,
        draw: random.Random,
        gpus: int,
        *,
        sensitive: bool,
        policy: PolicyName = PolicyName.PRESERVE,
        load: Load = Load.BUSY,
    ) -> RunPlace:
        """Place a run among random other jobs."""
        jobs, free = self._other_jobs(draw, gpus, load)
        own = _chosen(self.topology, free, PlacementRequest(ring(gpus), sensitive, policy))
        sockets = self._sockets(own)
        near = [bool(self._sockets(job.gpus) & sockets) for job in jobs]
        return RunPlace(
            own,
            _bandwidths(self, gpus)[own],
            tuple(job for job, beside in zip(jobs, near, strict=True) if beside),
            tuple(job for job, beside in zip(jobs, near, strict=True) if not beside),
        )

    def _other_jobs(
        self, draw: random.Random, gpus: int, load: Load
    ) -> tuple[list[OtherJob], GpuMask]:
        """Return jobs of a full server of which some have ended, and the free GPUs."""
        jobs, free = list(draw.choice(_full_servers(self))), GpuMask(0)
        draw.shuffle(jobs)
        size = len(self.topology.gpus)
        wanted = {
            Load.IDLE: size,
            Load.LIGHT: draw.randint(gpus, size),
            Load.BUSY: gpus if draw.random() < _BUSY else draw.randint(gpus, size),
        }[load]
        while free.bit_count() < wanted:
            jobs.pop()
            free = _free(self.topology, jobs)
        return jobs, free

    def _sockets(self, gpus: GpuMask) -> set[int | None]:
        members = set(indices_of(gpus))
        return {gpu.numa_node for gpu in self.topology.gpus if gpu.index in members}


def _free(topology: NodeTopology, jobs: Sequence[OtherJob]) -> GpuMask:
    return GpuMask(topology.mask - sum(job.gpus for job in jobs))


@cache
def _full_servers(server: SimulatedServer) -> list[tuple[OtherJob, ...]]:
    """Return the jobs of full servers on which many jobs have ended; equal in every process."""
    draw = random.Random(f"other jobs of {server.name}")  # noqa: S311 - a simulation
    jobs: list[OtherJob] = []
    full = []
    for _ in range(_STATES):
        jobs = draw.sample(jobs, len(jobs) // 2)
        while free := _free(server.topology, jobs):
            jobs.append(_other_job(server.topology, free, draw))
        full.append(tuple(jobs))
    return full


def _other_job(topology: NodeTopology, free: GpuMask, draw: random.Random) -> OtherJob:
    """Place one job by the policy Preserve."""
    size = min(draw.choice(_JOB_SIZES), free.bit_count())
    request = PlacementRequest(ring(size), sensitive=draw.choice((False, True)))
    return OtherJob(draw.choice(NEIGHBOURS), _chosen(topology, free, request))


@cache
def _chosen(topology: NodeTopology, free: GpuMask, request: PlacementRequest) -> GpuMask:
    """Return the GPUs that the policy chooses; at least as many as it requests are free."""
    return mask_of(ranking(topology, free, request, most=1)[0].gpus)


@cache
def _extremes(server: SimulatedServer, gpus: int) -> tuple[int, int]:
    values = _bandwidths(server, gpus).values()
    return min(values), max(values)


@cache
def _bandwidths(server: SimulatedServer, gpus: int) -> dict[GpuMask, int]:
    if gpus == 1:
        return {mask_of([GpuIndex(gpu.index)]): 0 for gpu in server.topology.gpus}
    values = effective_table(server.topology, ring(gpus), PHYSICAL).mb_per_s
    sets = embeddings(server.topology, ring(gpus)).sets
    return {GpuMask(int(each)): int(value) for each, value in zip(sets, values, strict=True)}
