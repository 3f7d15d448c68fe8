"""The program's jobs and servers while it runs."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from gputopo_simulate.synergy.model import ROUND_S, Cluster, TrainingJob


class PerGpu(NamedTuple):
    """What goes with each GPU of a job.

    The program has storage bandwidth and network as well. In its profiles of one GPU the former
    is memory, number for number, as it is of its servers, and the latter is 0: neither decides.
    """

    cpus: float
    memory_gb: float


@dataclass(slots=True, eq=False)
class Job:
    """A job of the program.

    Attributes:
        demand: what it would have; with that it runs ``profiled`` times as fast.
        step_s: seconds of a step with the proportional share.
        speed: how many times as fast it goes, or went when it was last looked at.
        per_gpu: what it holds with each GPU.
        parts: the GPUs it holds now, by the number of the server.
        before: steps done when the round began.
        last_ran_s: when it last held anything, or came.
    """

    source: TrainingJob
    demand: PerGpu
    profiled: float
    step_s: float
    speed: float
    per_gpu: PerGpu
    last_ran_s: float
    parts: dict[int, int] = field(default_factory=dict)
    done: int = 0
    before: int = 0
    attained_s: float = 0.0
    starved: bool = False

    @property
    def is_done(self) -> bool:
        """Whether it has made all its steps."""
        return self.done >= self.source.iterations

    def remaining_s(self, *, by_share: bool) -> float:
        """Return how long it still runs, at its share's speed or at the one it last had."""
        seconds = self.step_s * (self.source.iterations - self.done)
        return seconds if by_share else seconds / self.speed

    def run(self, speed: float) -> None:
        """Let it do in advance what it does in a round: whole steps, the rest is lost."""
        self.before = self.done
        self.attained_s += ROUND_S
        steps = math.floor(ROUND_S / (self.step_s / speed))
        self.done = min(self.done + steps, self.source.iterations)

    def take_back(self) -> None:
        """Undo :meth:`run`."""
        self.attained_s -= ROUND_S
        self.done = self.before


@dataclass(slots=True)
class Servers:
    """What is free, and who was put where in this round.

    Attributes:
        gpus: free ones by the number of the server; so ``cpus`` and ``memory_gb``.
        placed: jobs by the number of the server, in the order in which they came.
        running: all of them.
    """

    share: PerGpu
    gpus: list[int]
    cpus: list[float]
    memory_gb: list[float]
    placed: list[list[Job]]
    running: list[Job]

    @classmethod
    def idle(cls, cluster: Cluster) -> "Servers":
        """Return them with nothing on them."""
        count = cluster.servers
        return cls(
            share=PerGpu(cluster.cpus_per_gpu, cluster.memory_gb_per_gpu),
            gpus=[cluster.gpus] * count,
            cpus=[cluster.cpus] * count,
            memory_gb=[cluster.memory_gb] * count,
            placed=[[] for _ in range(count)],
            running=[],
        )

    def hold(self, job: Job, parts: dict[int, int], per_gpu: PerGpu) -> None:
        """Give a job GPUs and what goes with each."""
        job.parts, job.per_gpu = parts, per_gpu
        for number, gpus in parts.items():
            self._take(number, gpus, per_gpu)

    def release(self, job: Job) -> dict[int, int]:
        """Take from a job what it has, and return which GPUs that were."""
        parts, job.parts = job.parts, {}
        for number, gpus in parts.items():
            self._take(number, -gpus, job.per_gpu)
        return parts

    def _take(self, number: int, gpus: int, per_gpu: PerGpu) -> None:
        self.gpus[number] -= gpus
        self.cpus[number] -= gpus * per_gpu.cpus
        self.memory_gb[number] -= gpus * per_gpu.memory_gb
