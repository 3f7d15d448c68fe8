"""Generate job lists as the authors' program does (section 5.1 of the paper).

The durations and the arrivals of jobs are drawn from two random generators with the same seed,
because the authors drew durations and arrivals in separate runs of their program. With the authors'
seed, the jobs are those of their figure 9.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gputopo_simulate.errors import SimulationError
from gputopo_simulate.synergy.measured import MeasuredModel
from gputopo_simulate.synergy.model import SECONDS_PER_HOUR, TrainingJob

_TASKS: Final[Sequence[Sequence[str]]] = (
    ("alexnet", "res18", "res50", "mobilenet", "shufflenet"),
    ("gnmt", "transformer", "lstm"),
    ("m5", "deepspeech"),
)
"""Models of the tasks image, language and speech. Jobs of a task use its models in turn."""

_LONG_SHARE: Final = 0.2
_SHORT_EXPONENTS: Final = (1.5, 3.0)
_LONG_EXPONENTS: Final = (3.0, 4.0)


@dataclass(frozen=True, slots=True)
class JobLoad:
    """Parameters of a generated job list.

    Attributes:
        split: percentages of image, language and speech jobs; their sum is 100.
    """

    jobs: int
    jobs_per_hour: float
    split: tuple[int, int, int] = (20, 70, 10)


def generate(
    seed: int, load: JobLoad, models: Mapping[str, MeasuredModel]
) -> tuple[TrainingJob, ...]:
    """Return random jobs of one GPU each. Equal seeds give equal jobs.

    A job takes 10^x minutes with its proportional share. For 80 % of the jobs x is uniform in
    1.5..3, for all other jobs in 3..4. The paper calls this log-uniform distribution exponential.

    Raises:
        SimulationError: a model of :data:`_TASKS` is missing.
    """
    missing = [name for task in _TASKS for name in task if name not in models]
    if missing:
        raise SimulationError(f"models: {missing[0]} is missing; generated jobs use this model")
    durations = random.Random(seed)  # noqa: S311 - a simulation
    arrivals = random.Random(seed)  # noqa: S311
    return tuple(
        TrainingJob(number, models[name], 1, arrival, _draw_steps(durations, models[name]))
        for number, arrival, name in _draw_arrivals(arrivals, load)
    )


def _draw_arrivals(source: random.Random, load: JobLoad) -> Iterator[tuple[int, float, str]]:
    """Yield the number, arrival time in whole seconds and model of each job."""
    counts = [0] * len(_TASKS)
    arrival_seconds = 0.0
    for number in range(load.jobs):
        hours = -math.log(1.0 - source.random()) / load.jobs_per_hour
        arrival_seconds += math.ceil(hours * SECONDS_PER_HOUR)
        # The program draws a model here and ignores it. This draw keeps the random sequence equal.
        source.randint(0, sum(map(len, _TASKS)) - 1)
        task = _most_behind(counts, load.split)
        yield number, arrival_seconds, _TASKS[task][counts[task] % len(_TASKS[task])]
        counts[task] += 1


def _most_behind(counts: Sequence[int], split: Sequence[int]) -> int:
    """Return the index of the task (such as speech) furthest below its percentage of jobs."""
    total = sum(counts)
    behind = [
        percent / 100 - count / total if total else 0.0
        for percent, count in zip(split, counts, strict=True)
    ]
    return behind.index(max(behind))


def _draw_steps(source: random.Random, model: MeasuredModel) -> int:
    is_long = source.random() >= 1 - _LONG_SHARE
    minutes = 10 ** source.uniform(*(_LONG_EXPONENTS if is_long else _SHORT_EXPONENTS))
    return int(60 * minutes / model.step_seconds)
