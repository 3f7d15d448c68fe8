"""Generate job lists as the paper describes them (sections 5.3 and 5.5).

The paper names the distributions, but not their parameters; these are those of the authors'
program. CaffeRef is never drawn, because it has no measured times.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gputopo_simulate.sc17.model import CaffeJob
from gputopo_simulate.sc17.profiles import BATCH_GROUPS

_BATCHES: Final[Sequence[int]] = tuple(BATCH_GROUPS)
_BATCH_PROBABILITY: Final = 0.1
_NETS: Final[Sequence[str]] = ("bvlc_alexnet", "bvlc_googlenet")
_NET_PROBABILITY: Final = 0.2
_GPU_PROBABILITY: Final = 0.39
_MOST_ADDITIONAL_GPUS: Final = 2
_MIN_UTILITIES: Final = (0.30, 0.52)
_SECONDS_PER_MINUTE: Final = 60


@dataclass(frozen=True, slots=True)
class CaffeLoad:
    """Parameters of a generated job list: arrivals are a Poisson process."""

    jobs: int
    jobs_per_minute: float = 10.0


def generate(seed: int, load: CaffeLoad) -> tuple[CaffeJob, ...]:
    """Return random jobs of 1 to 3 GPUs in the order of their arrival.

    Equal arguments give equal jobs. Batch sizes are binomial: most are tiny.
    """
    return tuple(_draw(random.Random(seed), load))  # noqa: S311 - a simulation


def _draw(source: random.Random, load: CaffeLoad) -> Iterator[CaffeJob]:
    arrival = 0.0
    for number in range(load.jobs):
        arrival += source.expovariate(load.jobs_per_minute / _SECONDS_PER_MINUTE)
        yield CaffeJob(
            id=number,
            arrival=arrival,
            net=_NETS[_binomial(source, len(_NETS) - 1, _NET_PROBABILITY)],
            batch=_BATCHES[_binomial(source, len(_BATCHES) - 1, _BATCH_PROBABILITY)],
            gpus=1 + _binomial(source, _MOST_ADDITIONAL_GPUS, _GPU_PROBABILITY),
            min_utility=source.uniform(*_MIN_UTILITIES),
        )


def _binomial(source: random.Random, trials: int, probability: float) -> int:
    return sum(source.random() < probability for _ in range(trials))
