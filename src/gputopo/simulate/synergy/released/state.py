"""The program's jobs and servers while it runs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gputopo.simulate.synergy.model import ROUND_S, Cluster, TrainingJob


class Vector(NamedTuple):
    """GPUs, CPUs and GB: of a job, of a server, or of what is missing.

    The program has storage bandwidth and network as well; in its profiles a GPU goes with
    62.5 MB/s and no network, of 62.5 MB/s per GPU there are, so that neither ever decides.
    """

    gpus: float
    cpus: float
    memory_gb: float

    def times(self, factor: float) -> "Vector":
        """Return so many of it."""
        return Vector(self.gpus * factor, self.cpus * factor, self.memory_gb * factor)

    def within(self, other: Sequence[float]) -> bool:
        """Return whether another has as much of everything."""
        return all(mine <= theirs for mine, theirs in zip(self, other, strict=True))

    def beyond(self, other: Sequence[float]) -> "Vector":
        """Return by how much it exceeds another, 0 where it does not."""
        return Vector(*(max(0.0, a - b) for a, b in zip(self, other, strict=True)))


@dataclass(slots=True, eq=False)
class Job:
    """A job of the program.

    Attributes:
        demand: what it would have; with that it runs ``profiled`` times as fast.
        step_s: seconds of a step with the proportional share.
        speed: how many times as fast it goes, or went when it was last looked at.
        parts: what it holds now, by the number of the server.
        before: steps done when the round began.
        last_ran_s: when it last held anything; None before.
    """

    source: TrainingJob
    demand: Vector
    profiled: float
    step_s: float
    speed: float
    parts: dict[int, Vector] = field(default_factory=dict)
    done: int = 0
    before: int = 0
    attained_s: float = 0.0
    last_ran_s: float | None = None
    starved: bool = False

    @property
    def held(self) -> Vector:
        """What it holds on all servers together."""
        return Vector(*map(sum, zip(*self.parts.values(), strict=True)))

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
        free: by the number of the server.
        placed: jobs by the number of the server, in the order in which they came.
    """

    cluster: Cluster
    free: list[Vector]
    placed: list[list[Job]]

    @classmethod
    def idle(cls, cluster: Cluster) -> "Servers":
        """Return them with nothing on them."""
        whole = Vector(cluster.gpus, cluster.cpus, cluster.memory_gb)
        return cls(cluster, [whole] * cluster.servers, [[] for _ in range(cluster.servers)])

    @property
    def free_gpus(self) -> float:
        """GPUs that are free on all of them together."""
        return sum(vector.gpus for vector in self.free)

    @property
    def share(self) -> Vector:
        """The proportional share of one GPU."""
        return Vector(1, self.cluster.cpus_per_gpu, self.cluster.memory_gb_per_gpu)

    def hold(self, job: Job, parts: dict[int, Vector]) -> None:
        """Give a job what it gets."""
        job.parts = parts
        for number, part in parts.items():
            self.free[number] = Vector(*map(_minus, self.free[number], part))

    def release(self, job: Job) -> None:
        """Take from a job what it has."""
        for number, part in job.parts.items():
            self.free[number] = Vector(*map(_plus, self.free[number], part))
        job.parts = {}


def _minus(one: float, other: float) -> float:
    return one - other


def _plus(one: float, other: float) -> float:
    return one + other
