"""Options of an experiment, and its name. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from learntest.bench import Bench


@dataclass(frozen=True, slots=True)
class Options:
    """Length of an experiment; None stands for its own default.

    Attributes:
        rounds: how often it repeats its steps.
        seconds: length of one run of a job, or of one measurement.
        seed: what is drawn, and in which order.
    """

    rounds: int | None = None
    seconds: float | None = None
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment.

    Attributes:
        name: for the command line.
        summary: one line.
        carry_out: runs jobs and compares what gputopo has learnt with the truth.
    """

    name: str
    summary: str
    carry_out: Callable[["Bench", Options], None]
