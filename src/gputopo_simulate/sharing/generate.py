"""Generate jobs of one GPU: models in equal shares, log-uniform durations, Poisson arrivals.

The durations are those of Gavel and Synergy: 10^x minutes, for 80 % of the jobs with x uniform in
1.5..3, for all others in 3..4.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import log
from typing import Final

from gputopo_simulate.errors import SimulationError
from gputopo_simulate.sharing.model import OneGpuJob

_SECONDS_PER_MINUTE: Final = 60
_EXPONENTS: Final = ((0.8, 1.5, 3.0), (0.2, 3.0, 4.0))
"""Share of the jobs, and the range of x."""

MEAN_SECONDS: Final = sum(
    share * _SECONDS_PER_MINUTE * (10**most - 10**least) / ((most - least) * log(10))
    for share, least, most in _EXPONENTS
)
"""Mean execution time alone: 16.8 hours."""


@dataclass(frozen=True, slots=True)
class OneGpuLoad:
    """Parameters of a generated job list.

    Attributes:
        models: the models of the jobs, with their steps per second alone.
        load: mean number of GPUs that arriving jobs would use alone, relative to ``gpus``; 0 for
            jobs that all arrive at time 0.
        gpus: number of GPUs of the cluster.
        steps: steps of each job; None for random durations.
    """

    jobs: int
    models: Mapping[str, float]
    load: float
    gpus: int
    steps: int | None = None


def generate(seed: int, load: OneGpuLoad) -> tuple[OneGpuJob, ...]:
    """Return random jobs in the order of their arrival. Equal arguments give equal jobs.

    Raises:
        SimulationError: if there are no models.
    """
    if not load.models:
        raise SimulationError("models: the list is empty")
    return tuple(_draw(random.Random(seed), load))  # noqa: S311 - a simulation


def _draw(source: random.Random, load: OneGpuLoad) -> Iterator[OneGpuJob]:
    seconds = {name: load.steps / rate if load.steps else 0.0 for name, rate in load.models.items()}
    mean = sum(seconds.values()) / len(seconds) or MEAN_SECONDS
    arrival = 0.0
    for number, model in enumerate(_models(source, load)):
        # Always the same draws, so that the jobs of two loads differ only in their arrivals.
        gap = source.expovariate(1.0) * mean / load.gpus
        arrival += gap / load.load if load.load else 0.0
        duration = _duration(source)
        yield OneGpuJob(number, arrival, model, seconds[model] or duration)


def _models(source: random.Random, load: OneGpuLoad) -> list[str]:
    """Return the model of each job, in random order; each model has the same number of jobs."""
    names = sorted(load.models)
    found = [*names * (load.jobs // len(names)), *source.sample(names, load.jobs % len(names))]
    source.shuffle(found)
    return found


def _duration(source: random.Random) -> float:
    is_long = source.random() < _EXPONENTS[1][0]
    _, least, most = _EXPONENTS[is_long]
    minutes: float = 10 ** source.uniform(least, most)
    return _SECONDS_PER_MINUTE * minutes
