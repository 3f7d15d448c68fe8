"""Job lists as the authors draw them (their section 5.1, and what their program makes of it).

Durations come first, from a generator of their own: theirs were drawn once, kept in a file and
read from there in the run that draws arrivals. With the same seed this gives their figure 9.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gputopo.sensitivity.models import Model
from gputopo_simulate.synergy.model import SECONDS_PER_HOUR, SynergyError, TrainingJob

_TASKS: Final[Sequence[Sequence[str]]] = (
    ("alexnet", "res18", "res50", "mobilenet", "shufflenet"),
    ("gnmt", "transformer", "lstm"),
    ("m5", "deepspeech"),
)
"""Image, language and speech models; each task's are dealt in turn."""

_LONG_SHARE: Final = 0.2
_SHORT_EXPONENTS: Final = (1.5, 3.0)
_LONG_EXPONENTS: Final = (3.0, 4.0)


@dataclass(frozen=True, slots=True)
class Load:
    """What is drawn.

    Attributes:
        split: per cent of image, language and speech jobs, 100 together.
    """

    jobs: int
    jobs_per_hour: float
    split: tuple[int, int, int] = (20, 70, 10)


def generate(seed: int, load: Load, models: Mapping[str, Model]) -> tuple[TrainingJob, ...]:
    """Return single-GPU jobs that come at random, the same for the same seed.

    Durations are 10^x minutes at the proportional share, x uniform in 1.5..3 for four jobs
    of five and in 3..4 for the fifth: log-uniform, not exponential as the paper calls them.

    Raises:
        SynergyError: the models lack one of those that are drawn.
    """
    missing = [name for task in _TASKS for name in task if name not in models]
    if missing:
        raise SynergyError(f"models: {missing[0]} is drawn and not among them")
    durations = random.Random(seed)  # noqa: S311 - a simulation
    arrivals = random.Random(seed)  # noqa: S311
    return tuple(
        TrainingJob(number, models[name], 1, arrival_s, _steps(durations, models[name]))
        for number, arrival_s, name in _stream(arrivals, load)
    )


def _stream(source: random.Random, load: Load) -> Iterator[tuple[int, float, str]]:
    """Yield number, arrival and model of each job; arrivals are whole seconds."""
    dealt = [0] * len(_TASKS)
    arrival_s = 0.0
    for number in range(load.jobs):
        hours = -math.log(1.0 - source.random()) / load.jobs_per_hour
        arrival_s += math.ceil(hours * SECONDS_PER_HOUR)
        source.randint(0, sum(map(len, _TASKS)) - 1)  # the program draws a model, and deals one
        task = _most_wanting(dealt, load.split)
        yield number, arrival_s, _TASKS[task][dealt[task] % len(_TASKS[task])]
        dealt[task] += 1


def _most_wanting(dealt: Sequence[int], split: Sequence[int]) -> int:
    """Return the task that has got least of its share so far, the first of several."""
    total = sum(dealt)
    behind = [
        percent / 100 - count / total if total else 0.0
        for percent, count in zip(split, dealt, strict=True)
    ]
    return behind.index(max(behind))


def _steps(source: random.Random, model: Model) -> int:
    long = source.random() >= 1 - _LONG_SHARE
    minutes = 10 ** source.uniform(*(_LONG_EXPONENTS if long else _SHORT_EXPONENTS))
    return int(60 * minutes / model.step_s)
