"""Random workloads whose slowdown on the worst links of their server is drawn first."""

import math
import random
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from benchmarks.workloads.law import RunConditions, WorkloadLaw
from benchmarks.workloads.server import NEIGHBOURS, SimulatedServer

SIZES: Final = {
    "dgx1-v100": (2, 4),
    "dgx1-p100": (2, 4),
    "summit": (2,),
    "pcie-8gpu": (2,),
    "cubemesh-16": (2, 4, 8),
}
"""Servers, and the numbers of GPUs whose sets differ on the server."""

LIMIT: Final = 0.10
"""A sensitive workload is at least this much slower on the worst links (docs/reference/api.md)."""

_FLAT, _HARD, _STEEP = (0.0, 0.05), (0.05, 0.20), (0.20, 2.0)
KINDS: Final = (_FLAT,) * 6 + (_HARD,) * 4 + (_STEEP,) * 10
"""Range of the slowdown of each of the 20 workloads of a fleet."""

_COUNTS: Final = (1, 2, 4, 8)
_MOST_INTERFERENCE: Final = 0.3
_REACHED: Final = 0.9
"""The slowdown of a workload that only communicates is not reached: at most 90 % of it is drawn."""


@dataclass(frozen=True)
class SimulatedWorkload:
    """A workload, and how its users run it.

    Attributes:
        gpus: number of GPUs of most runs.
        cpus_per_gpu: CPU limit of most runs, divided by the number of GPUs.
    """

    law: WorkloadLaw
    server: SimulatedServer
    gpus: int
    cpus_per_gpu: float

    @property
    def other_counts(self) -> tuple[int, ...]:
        """Numbers of GPUs of the other runs."""
        most = len(self.server.topology.gpus)
        return tuple(count for count in _COUNTS if count <= most and count != self.gpus)

    @cached_property
    def slowdown(self) -> float:
        """How much longer a step takes on the worst set than on the best; 0.2 is 20 %."""
        worst, best = self.server.extremes_mb_per_s(self.gpus)
        return self.alone_seconds(self.gpus, worst) / self.alone_seconds(self.gpus, best) - 1

    def alone_seconds(self, gpus: int, mb_per_s: float | None = None) -> float:
        """Return the seconds of a step alone with the usual CPUs; by default on the best set."""
        best = self.server.extremes_mb_per_s(gpus)[1]
        return self.law.seconds(
            RunConditions(gpus, best if mb_per_s is None else mb_per_s, self.cpus_per_gpu * gpus)
        )


def fleet(draw: random.Random) -> list[SimulatedWorkload]:
    """Return 20 random workloads."""
    return [_workload(draw, *kind) for kind in KINDS]


def _workload(draw: random.Random, low: float, high: float) -> SimulatedWorkload:
    """Return a workload with a slowdown from ``low`` to ``high``."""
    while True:
        server = SimulatedServer(draw.choice(list(SIZES)))
        gpus = draw.choice(SIZES[server.name])
        slowdown = draw.uniform(low, high)
        worst, best = server.extremes_mb_per_s(gpus)
        if slowdown < _REACHED * (best / worst - 1):
            break
    law = _law(draw)
    cpus = math.ceil(2 * law.cpus_per_gpu * draw.uniform(1, 2.5)) / 2
    return _with_slowdown(SimulatedWorkload(law, server, gpus, cpus), slowdown)


def _law(draw: random.Random) -> WorkloadLaw:
    """Return a workload without communication; interference is often small, at most 30 %."""
    on_socket = {name: _MOST_INTERFERENCE * draw.random() ** 2 for name in NEIGHBOURS}
    return WorkloadLaw(
        compute_seconds=_log_uniform(draw, 0.05, 2.0),
        megabytes=0.0,
        overlap=draw.random(),
        cpus_per_gpu=_log_uniform(draw, 0.5, 8.0),
        fixed_batch=draw.random() < 0.5,  # noqa: PLR2004 - half of them
        serial=draw.uniform(0.0, 0.05),
        on_socket=on_socket,
        on_node={name: slowdown * draw.uniform(0, 0.5) for name, slowdown in on_socket.items()},
    )


def _with_slowdown(workload: SimulatedWorkload, slowdown: float) -> SimulatedWorkload:
    """Return the workload with so much traffic that it has this slowdown, by bisection."""
    low, high = 0.0, 1e9
    for _ in range(60):
        middle = (low + high) / 2
        law = replace(workload.law, megabytes=middle)
        workload = replace(workload, law=law)
        low, high = (middle, high) if workload.slowdown < slowdown else (low, middle)
    return workload


def _log_uniform(draw: random.Random, low: float, high: float) -> float:
    return math.exp(draw.uniform(math.log(low), math.log(high)))
