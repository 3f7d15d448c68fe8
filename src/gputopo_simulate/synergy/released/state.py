"""Jobs and servers of the authors' program during a run."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from gputopo_simulate.synergy.model import ROUND_SECONDS, SimulatedCluster, TrainingJob


class ResourcesPerGpu(NamedTuple):
    """CPUs and memory for each GPU of a job.

    The authors' program also has storage bandwidth and network. They are left out, because they
    change no result: the number for storage bandwidth always equals that for memory, and the number
    for network is 0.
    """

    cpus: float
    memory_gb: float


@dataclass(slots=True, eq=False)
class ReleasedJob:
    """A job in the authors' program.

    Attributes:
        demand: CPUs and memory for each GPU with which the job has its ``profiled_speed``.
        profiled_speed: speed with the demand; 1 is the speed with the proportional share.
        step_seconds: time of one step with the proportional share.
        speed: speed in the last round in which the job ran.
        held: CPUs and memory that the job has now for each GPU.
        parts: number of GPUs on each server, by server number.
        steps_before: steps done when the round began.
        last_ran_seconds: end of the last round in which the job ran; its arrival if it never ran.
    """

    source: TrainingJob
    demand: ResourcesPerGpu
    profiled_speed: float
    step_seconds: float
    speed: float
    held: ResourcesPerGpu
    last_ran_seconds: float
    parts: dict[int, int] = field(default_factory=dict)
    steps: int = 0
    steps_before: int = 0
    attained_seconds: float = 0.0
    starved: bool = False

    @property
    def is_done(self) -> bool:
        """Whether all steps are done."""
        return self.steps >= self.source.iterations

    def remaining_seconds(self, *, by_share: bool) -> float:
        """Return the remaining run time at ``speed``, or at speed 1 (the share) if ``by_share``."""
        seconds = self.step_seconds * (self.source.iterations - self.steps)
        return seconds if by_share else seconds / self.speed

    def run_round(self, speed: float) -> None:
        """Add the steps that the job completes in a round. Time for an incomplete step is lost."""
        self.steps_before = self.steps
        self.attained_seconds += ROUND_SECONDS
        steps = math.floor(ROUND_SECONDS / (self.step_seconds / speed))
        self.steps = min(self.steps + steps, self.source.iterations)

    def undo_round(self) -> None:
        """Undo the last :meth:`run_round`."""
        self.attained_seconds -= ROUND_SECONDS
        self.steps = self.steps_before


@dataclass(slots=True)
class ReleasedServers:
    """Free resources of the servers, and the jobs placed in this round.

    Attributes:
        gpus: free GPUs by server number; ``cpus`` and ``memory_gb`` likewise.
        placed: jobs on each server, by server number, in the order of placement.
        running: all placed jobs.
    """

    share: ResourcesPerGpu
    gpus: list[int]
    cpus: list[float]
    memory_gb: list[float]
    placed: list[list[ReleasedJob]]
    running: list[ReleasedJob]

    @classmethod
    def idle(cls, cluster: SimulatedCluster) -> "ReleasedServers":
        """Return the state of servers without jobs."""
        count = cluster.servers
        return cls(
            share=ResourcesPerGpu(cluster.cpus_per_gpu, cluster.memory_gb_per_gpu),
            gpus=[cluster.gpus] * count,
            cpus=[cluster.cpus] * count,
            memory_gb=[cluster.memory_gb] * count,
            placed=[[] for _ in range(count)],
            running=[],
        )

    def assign(self, job: ReleasedJob, parts: dict[int, int], held: ResourcesPerGpu) -> None:
        """Assign GPUs to a job, and the CPUs and memory ``held`` for each of these GPUs."""
        job.parts, job.held = parts, held
        for number, gpus in parts.items():
            self._take(number, gpus, held)

    def release(self, job: ReleasedJob) -> dict[int, int]:
        """Release all resources of a job and return its GPUs by server number."""
        parts, job.parts = job.parts, {}
        for number, gpus in parts.items():
            self._take(number, -gpus, job.held)
        return parts

    def _take(self, number: int, gpus: int, per_gpu: ResourcesPerGpu) -> None:
        self.gpus[number] -= gpus
        self.cpus[number] -= gpus * per_gpu.cpus
        self.memory_gb[number] -= gpus * per_gpu.memory_gb
