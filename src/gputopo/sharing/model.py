"""The types of the sharing of GPUs: workloads, measured speeds and the jobs of one GPU.

A *normalised speed* is the rate of a job beside others, divided by its rate alone on such a GPU: 1
is as fast as alone, 0.5 half as fast.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Final

from gputopo.errors import InvalidInputError

MAX_SLOWDOWN_PERCENT: Final = 10_000
"""Highest limit for the slowdown of a job."""


class SharingError(InvalidInputError):
    """Input of the sharing of GPUs was rejected; the message names field and value."""


@dataclass(frozen=True, slots=True)
class StepLoad:
    """Load of one GPU in one step of a job that is alone (thesis, equations 4.2 and 4.3).

    Attributes:
        occupancy_us: C, the time integral of the SM occupancy over one step, in microseconds of
            full occupancy.
        dram_us: M, the same of the DRAM activity; None if unknown.
    """

    occupancy_us: float
    dram_us: float | None = None

    def __post_init__(self) -> None:
        for field, value in (("occupancy_us", self.occupancy_us), ("dram_us", self.dram_us or 0.0)):
            if not 0 <= value < inf:
                raise SharingError(f"{field}: {value}; must be a number of at least 0")


@dataclass(frozen=True, slots=True)
class SharingWorkload:
    """What is known of a workload alone on one GPU of the model for which it is predicted.

    Attributes:
        name: the GPUProfile, ``NAMESPACE/PROFILE``; empty if the pod names none.
        family: workloads of one family behave similarly, such as all with the same image; empty if
            unknown.
        steps_per_second: rate alone; None if it was not measured.
        load: load of one step alone; None if it was not measured.
    """

    name: str
    family: str = ""
    steps_per_second: float | None = None
    load: StepLoad | None = None

    def __post_init__(self) -> None:
        rate = self.steps_per_second
        if rate is not None and not 0 < rate < inf:
            raise SharingError(f"steps_per_second: {rate} of {self.name!r}; must be above 0")


@dataclass(frozen=True, slots=True)
class SharingJob:
    """A job that uses or wants a part of a GPU.

    Attributes:
        name: name of the job in messages, such as ``NAMESPACE/POD``.
        gpus: number of its GPUs; only jobs with one GPU can share it.
        max_slowdown_percent: how much longer its steps may take beside others; None without limit.
    """

    name: str
    workload: SharingWorkload
    gpus: int = 1
    max_slowdown_percent: int | None = None

    def __post_init__(self) -> None:
        limit = self.max_slowdown_percent
        if limit is not None and not 0 <= limit <= MAX_SLOWDOWN_PERCENT:
            raise SharingError(
                f"max_slowdown_percent: {limit} of {self.name!r}; must be in"
                f" 0..{MAX_SLOWDOWN_PERCENT}"
            )


@dataclass(frozen=True, slots=True)
class MeasuredSharing:
    """A fact: the normalised speeds of two or more workloads that shared one GPU.

    The workloads are sorted by name, so that equal facts are equal objects (:meth:`of`). Two jobs
    of one workload have two entries.

    Attributes:
        workloads: names of the workloads, ``NAMESPACE/PROFILE``.
        speeds: normalised speed of each, above 0.
        samples: number of measurements of which ``speeds`` are the mean.
    """

    workloads: tuple[str, ...]
    speeds: tuple[float, ...]
    samples: int = 1

    @classmethod
    def of(cls, speeds: Sequence[tuple[str, float]], samples: int = 1) -> "MeasuredSharing":
        """Return the fact of these workloads and speeds, in any order.

        Raises:
            SharingError: if there are less than two workloads, or a value is not possible.
        """
        if len(speeds) < 2:  # noqa: PLR2004 - one workload shares with none
            raise SharingError(f"workloads: {len(speeds)}; at least two share a GPU")
        for name, speed in speeds:
            if not name:
                raise SharingError("workloads: a name is empty")
            if not (speed > 0 and isfinite(speed)):
                raise SharingError(f"speeds: {speed} of {name!r}; must be above 0")
        if samples < 1:
            raise SharingError(f"samples: {samples}; must be at least 1")
        ordered = sorted(speeds)
        return cls(
            tuple(name for name, _ in ordered), tuple(speed for _, speed in ordered), samples
        )

    def merged(self, other: "MeasuredSharing") -> "MeasuredSharing":
        """Return the mean of two facts about the same workloads, weighted by their samples."""
        if self.workloads != other.workloads:
            raise SharingError(f"workloads: {other.workloads} are not {self.workloads}")
        samples = self.samples + other.samples
        means = (
            (mine * self.samples + its * other.samples) / samples
            for mine, its in zip(self.speeds, other.speeds, strict=True)
        )
        return MeasuredSharing(self.workloads, tuple(means), samples)
