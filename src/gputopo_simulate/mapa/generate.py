"""Generate random job lists. A seed gives the same list in every version of Python.

Jobs are like those of MAPA's evaluation (section 4): a random workload, 1 to 5 GPUs and a Ring
pattern. The service time is a random whole number from 5 to 24, as in MAPA's job generator.
"""

import math
from collections.abc import Mapping
from random import Random
from types import MappingProxyType
from typing import Final

from gputopo.patterns.model import ring
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

_GPUS: Final = (1, 5)
_SERVICE: Final = (5, 24)


def generate(
    seed: int, count: int, arrivals_per_time: float | None = None
) -> tuple[SimulatedJob, ...]:
    """Return ``count`` jobs with IDs from 0.

    Arrivals are a Poisson process with the rate ``arrivals_per_time``. If the rate is None, all
    jobs arrive at time 0.

    Each job draws its GPUs, workload and service time from ``Random(seed).random()``. With a rate,
    it then draws u, and arrives ``-log(1 - u) / rate`` after the previous job. No other method of
    ``Random`` is used, because Python guarantees equal numbers only for ``random``.

    Raises:
        SimulationError: ``count`` is below 1, or the rate is not above 0.
    """
    if count < 1:
        raise SimulationError(f"count: {count}; must be at least 1")
    if arrivals_per_time is not None and not 0 < arrivals_per_time < math.inf:
        raise SimulationError(f"arrivals_per_time: {arrivals_per_time}; must be more than 0")
    draw, arrival, jobs = Random(seed).random, 0.0, []  # noqa: S311 - a simulation
    workloads = list(GENERATOR_WORKLOADS.items())
    for position in range(count):
        pattern = ring(_between(draw(), *_GPUS))
        workload, sensitive = workloads[int(draw() * len(workloads))]
        service = float(_between(draw(), *_SERVICE))
        if arrivals_per_time is not None:
            arrival -= math.log(1 - draw()) / arrivals_per_time
        jobs.append(SimulatedJob(position, pattern, arrival, service, sensitive, workload))
    return tuple(jobs)


def _between(fraction: float, least: int, most: int) -> int:
    return least + int(fraction * (most - least + 1))
