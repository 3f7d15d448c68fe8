"""Options of an experiment, and its name. Pure."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
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
        node: where the jobs run, for experiments on one node.
        kills: how often the operator is killed meanwhile, for experiments that can do this.
        profiles: file with GPUProfiles of an earlier run, which replace learning; it is written if
            it does not exist.
        parts: which parts the soak kills; all of its parts by default.
    """

    rounds: int | None = None
    seconds: float | None = None
    seed: int = 1
    node: str | None = None
    kills: int = 0
    profiles: Path | None = None
    parts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment.

    Attributes:
        name: for the command line.
        summary: one line.
        carry_out: runs jobs and compares what gputopo does with the truth.
    """

    name: str
    summary: str
    carry_out: Callable[["Bench", Options], None]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command line that all experiments have."""
    parser.add_argument("--seconds", type=float, help="how long one step of it lasts")
    parser.add_argument("--seed", type=int, default=1, help="what is drawn, and in which order")


def options_of(parsed: argparse.Namespace) -> Options:
    """Return the options that were set on the command line."""
    given = {name: value for name, value in vars(parsed).items() if name in Options.__slots__}
    return Options(**given)
