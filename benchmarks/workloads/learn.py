"""Runs of a workload one after the other, and its GPUProfile after some of them."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from benchmarks.workloads.draw import SimulatedWorkload
from benchmarks.workloads.samples import (
    Distortion,
    RunHistory,
    SampleNoise,
    SimulatedSample,
    honest,
)
from benchmarks.workloads.server import Load, RunPlace
from gputopo.api.profile import GPUProfileSpec, GPUProfileStatus, LinkFact, Sample, WorkloadFacts
from gputopo.placement.model import PolicyName
from gputopo.profiles.update import updated_status

CHECKPOINTS: Final = (2, 4, 8, 16)
_OTHER_COUNT: Final = 0.4
"""Probability that a run with another number of GPUs follows a run."""

_PRESERVE, _WEAKEST = PolicyName.PRESERVE, PolicyName.WEAKEST
_SPREAD: Final = (
    (True, _PRESERVE, Load.LIGHT),
    (False, _PRESERVE, Load.BUSY),
    (False, _WEAKEST, Load.LIGHT),
)
_ON_PURPOSE: Final = ((True, _PRESERVE, Load.IDLE), (False, _WEAKEST, Load.IDLE))

_ON_PURPOSE_CPUS: Final = {0: (1.0,) * 3, 1: (1.0,) * 3, 2: (1.0, 2.0, 0.5, 0.25, 0.75, 0.375, 1.0)}
"""CPU limits of the samples of the runs on purpose, relative to the usual limit."""


class Sets(Enum):
    """How GPU sets are chosen for runs.

    SPREAD: good, middling and bad sets in equal parts. AUTO: policy Preserve on a busy server, by
    the facts of the runs before; unknown counts as sensitive. PROFILED: the first two runs measure
    on purpose, with three samples on the best and three on the worst set of an idle server. The
    third run measures its CPU curve. Then as AUTO.
    """

    SPREAD = auto()
    AUTO = auto()
    PROFILED = auto()


@dataclass(frozen=True, slots=True)
class Scenario:
    """How a workload is run.

    Attributes:
        insensitive_runs: the first runs are placed as insensitive, whatever the facts say.
        other_counts: whether some runs have other numbers of GPUs.
    """

    noise: SampleNoise
    sets: Sets = Sets.SPREAD
    distortion: Distortion = honest
    insensitive_runs: int = 0
    other_counts: bool = True


class Checkpoint(NamedTuple):
    """What is known after a number of runs.

    Attributes:
        runs: number of runs with the usual number of GPUs.
        drift: mean of the factor by which drift has changed the rates of these runs.
        samples: all samples until now, also those that the GPUProfile has dropped.
    """

    workload: SimulatedWorkload
    runs: int
    drift: float
    status: GPUProfileStatus
    samples: Sequence[SimulatedSample]

    @property
    def facts(self) -> WorkloadFacts:
        """All facts."""
        return self.status.facts or WorkloadFacts(gpu_model="")

    @property
    def link_fact(self) -> LinkFact | None:
        """The fact for the usual number of GPUs."""
        return _link_fact(self.status, self.workload.gpus)


def learn(
    workload: SimulatedWorkload,
    scenario: Scenario,
    draw: random.Random,
    checkpoints: Sequence[int] = CHECKPOINTS,
) -> Iterator[Checkpoint]:
    """Yield what is known after each number of runs in ``checkpoints``.

    The GPUProfile gets the samples of all runs since the checkpoint before, in one update.
    """
    history = RunHistory(workload, scenario.noise, draw, scenario.distortion)
    status, samples = GPUProfileStatus(), list[SimulatedSample]()
    new: list[Sample] = []
    for number in range(checkpoints[-1]):
        fact = _link_fact(status, workload.gpus)
        place = _place(workload, scenario, draw, number, fact)
        on_purpose = _ON_PURPOSE_CPUS.get(number, ()) if scenario.sets is Sets.PROFILED else ()
        found = history.run(number, workload.gpus, place, on_purpose)
        if scenario.other_counts and draw.random() < _OTHER_COUNT:
            found += _other_run(history, number)
        samples += found
        new += [each.sample for each in found]
        if number + 1 in checkpoints:
            status, new = _updated(status, new), []
            drift = history.drift(number / 2)
            yield Checkpoint(workload, number + 1, drift, status, list(samples))


def _place(
    workload: SimulatedWorkload,
    scenario: Scenario,
    draw: random.Random,
    number: int,
    fact: LinkFact | None,
) -> RunPlace:
    """Return the place of a run with the usual number of GPUs."""
    sensitive, policy, load = (
        fact is None or fact.sensitivity != "Insensitive",
        _PRESERVE,
        Load.BUSY,
    )
    if number < scenario.insensitive_runs:
        sensitive = False
    elif scenario.sets is Sets.SPREAD:
        sensitive, policy, load = draw.choice(_SPREAD)
    elif scenario.sets is Sets.PROFILED and number < len(_ON_PURPOSE):
        sensitive, policy, load = _ON_PURPOSE[number]
    return workload.server.place(draw, workload.gpus, sensitive=sensitive, policy=policy, load=load)


def _other_run(history: RunHistory, number: int) -> list[SimulatedSample]:
    """Return the samples of a run with another number of GPUs."""
    gpus = history.draw.choice(history.workload.other_counts)
    place = history.workload.server.place(history.draw, gpus, sensitive=True)
    return history.run(number, gpus, place)


def _link_fact(status: GPUProfileStatus, gpus: int) -> LinkFact | None:
    links = status.facts.links if status.facts else []
    return next((fact for fact in links if fact.gpus == gpus), None)


def _updated(status: GPUProfileStatus, new: Sequence[Sample]) -> GPUProfileStatus:
    """Return the status after an update with the samples of finished runs."""
    return updated_status(status, GPUProfileSpec(), new, name="w", generation=1, now=new[-1].time)
