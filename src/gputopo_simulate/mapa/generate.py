"""Job lists drawn at random, the same for a seed in every version of Python.

After MAPA's evaluation (section 4): 300 jobs, uniform over the workloads, 1 to 5 GPUs, in
rings, service uniform from 5 to 24 as its job generator draws it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Final

from gputopo.patterns.model import PatternKind, build
from gputopo_simulate.mapa.model import SimulatedJob, SimulationError

GENERATOR_WORKLOADS: Final[Mapping[str, bool]] = MappingProxyType(
    {
        "alexnet": True,
        "googlenet": False,
        "caffenet": False,
        "inception-v3": True,
        "resnet-50": True,
        "vgg16": True,
    }
)
"""The six of MAPA's job generator, and whether each is sensitive (figure 5)."""


@dataclass(frozen=True, slots=True)
class Mix:
    """What is drawn from.

    Attributes:
        gpus: fewest and most of a job.
        service: shortest and longest; whole numbers between them are drawn.
        arrivals_per_time: jobs per unit of time, arriving as a Poisson process; None for all
            at time 0.
        workloads: each with whether it is sensitive.
    """

    count: int = 300
    gpus: tuple[int, int] = (1, 5)
    service: tuple[int, int] = (5, 24)
    pattern: PatternKind = PatternKind.RING
    arrivals_per_time: float | None = None
    workloads: Mapping[str, bool] = field(default_factory=lambda: GENERATOR_WORKLOADS)


def generate(seed: int, mix: Mix) -> tuple[SimulatedJob, ...]:
    """Return ``mix.count`` jobs with ids from 0.

    ``Random(seed).random()`` is drawn for each job in turn: GPUs, workload, service and, with
    a rate, the time since the job before, as ``-log(1 - u) / rate``. Nothing else of ``random``
    is used: only this method's numbers are promised to stay.

    Raises:
        SimulationError: on a range without a number in it, no workload, or no rate above 0.
        PatternError: on a number of GPUs out of range, or a pattern that needs edges.
    """
    _require_drawable(mix)
    draw, arrival, jobs = Random(seed).random, 0.0, []  # noqa: S311 - no secrets are drawn
    workloads = list(mix.workloads.items())
    for position in range(mix.count):
        pattern = build(mix.pattern, _between(draw(), *mix.gpus))
        workload, sensitive = workloads[int(draw() * len(workloads))]
        service = float(_between(draw(), *mix.service))
        if mix.arrivals_per_time is not None:
            arrival -= math.log(1 - draw()) / mix.arrivals_per_time
        jobs.append(SimulatedJob(position, pattern, arrival, service, sensitive, workload))
    return tuple(jobs)


def _between(share: float, least: int, most: int) -> int:
    return least + int(share * (most - least + 1))


def _require_drawable(mix: Mix) -> None:
    if mix.count < 1:
        raise SimulationError(f"count: {mix.count} is below 1")
    for name, (least, most) in (("gpus", mix.gpus), ("service", mix.service)):
        if not 1 <= least <= most:
            raise SimulationError(f"{name}: {least}..{most} is no range from 1 on")
    rate = mix.arrivals_per_time
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        raise SimulationError(f"arrivals_per_time: {rate} is no rate above 0")
    if not mix.workloads:
        raise SimulationError("workloads: there is none")
