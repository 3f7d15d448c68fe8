"""Generate random job lists; a seed gives the same list in every version of Python.

The defaults are those of MAPA's evaluation (section 4): 300 jobs, workloads and 1 to 5 GPUs drawn
uniformly, ring patterns. The service time is uniform from 5 to 24, as in its job generator.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Final

from gputopo.patterns.model import PatternKind, build
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.mapa.model import SimulatedJob

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
"""The six workloads of MAPA's job generator, and whether each is sensitive (figure 5)."""


@dataclass(frozen=True, slots=True)
class JobMix:
    """What to generate.

    Attributes:
        gpus: fewest and most GPUs of a job.
        service: shortest and longest service time; times are whole numbers.
        arrivals_per_time: rate of a Poisson process of arrivals; None if all jobs arrive at
            time 0.
        workloads: by name, whether each is sensitive.
    """

    count: int = 300
    gpus: tuple[int, int] = (1, 5)
    service: tuple[int, int] = (5, 24)
    pattern: PatternKind = PatternKind.RING
    arrivals_per_time: float | None = None
    workloads: Mapping[str, bool] = field(default_factory=lambda: GENERATOR_WORKLOADS)


def generate(seed: int, mix: JobMix) -> tuple[SimulatedJob, ...]:
    """Return ``mix.count`` jobs with ids from 0.

    Each job uses ``Random(seed).random()`` for GPUs, workload, service and, with a rate, the
    time since the job before, ``-log(1 - u) / rate``. No other method of ``random`` is used:
    Python guarantees the same numbers only for this one.

    Raises:
        SimulationError: a range is empty, there is no workload, or the rate is not above 0.
        PatternError: a number of GPUs is out of range, or the pattern needs edges.
    """
    _check_mix(mix)
    draw, arrival, jobs = Random(seed).random, 0.0, []  # noqa: S311 - a simulation
    workloads = list(mix.workloads.items())
    for position in range(mix.count):
        pattern = build(mix.pattern, _between(draw(), *mix.gpus))
        workload, sensitive = workloads[int(draw() * len(workloads))]
        service = float(_between(draw(), *mix.service))
        if mix.arrivals_per_time is not None:
            arrival -= math.log(1 - draw()) / mix.arrivals_per_time
        jobs.append(SimulatedJob(position, pattern, arrival, service, sensitive, workload))
    return tuple(jobs)


def _between(fraction: float, least: int, most: int) -> int:
    return least + int(fraction * (most - least + 1))


def _check_mix(mix: JobMix) -> None:
    if mix.count < 1:
        raise SimulationError(f"count: {mix.count}; must be at least 1")
    for name, (least, most) in (("gpus", mix.gpus), ("service", mix.service)):
        if not 1 <= least <= most:
            raise SimulationError(f"{name}: {least}..{most}; must be a range of numbers from 1 on")
    rate = mix.arrivals_per_time
    if rate is not None and not (math.isfinite(rate) and rate > 0):
        raise SimulationError(f"arrivals_per_time: {rate}; must be more than 0")
    if not mix.workloads:
        raise SimulationError("workloads: none given; at least one is needed")
