"""The types of a decision whether a job shares a GPU."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gputopo.sharing.estimate import SpeedSource
from gputopo.sharing.model import SharingError
from gputopo.sharing.speedup import GainMeasure, SharingGain

_ROUNDING: Final = 1e-9


class SharingChoice(StrEnum):
    """Whether the newcomer gets a part of the GPU."""

    SHARE = "Share"
    DO_NOT_SHARE = "DoNotShare"


class SharingReason(StrEnum):
    """Why a job shares a GPU or not."""

    EMPTY_GPU = "EmptyGpu"
    GAIN = "Gain"
    SEVERAL_GPUS = "SeveralGpus"
    MPS_NOT_AVAILABLE = "MpsNotAvailable"
    TOO_MANY_JOBS = "TooManyJobs"
    UNKNOWN_SPEED = "UnknownSpeed"
    NO_GAIN = "NoGain"
    TOO_SLOW = "TooSlow"


@dataclass(frozen=True, slots=True)
class SharingSettings:
    """Settings of an installation.

    Attributes:
        margin: factor by which a newcomer must raise the predicted gain.
        measure: measure of the gain. The summed speed minimises completion times in the simulator
            (docs/studies/sharing.md).
        max_jobs: most jobs of one GPU.
    """

    margin: float = 1.05
    measure: GainMeasure = GainMeasure.SUMMED_SPEED
    max_jobs: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.margin <= 100:  # noqa: PLR2004 - also rejects NaN
            raise SharingError(f"margin: {self.margin}; must be in 1..100")
        if self.max_jobs < 1:
            raise SharingError(f"max_jobs: {self.max_jobs}; must be at least 1")


@dataclass(frozen=True, slots=True)
class JobSlowdown:
    """Predicted slowdown of one job, in percent of the time of a step alone.

    Attributes:
        job: name of the job.
        low: lower end of the 95 % interval.
        high: upper end.
        limit: the job's own limit; None without limit.
        source: where the prediction comes from.
    """

    job: str
    percent: float
    low: float
    high: float
    limit: int | None
    source: SpeedSource

    @property
    def exceeds_limit(self) -> bool:
        """Whether the predicted slowdown is above the limit of the job."""
        return self.limit is not None and self.percent > self.limit + _ROUNDING


@dataclass(frozen=True, slots=True)
class SharingDecision:
    """Whether a job shares a GPU, and why.

    Attributes:
        gain: predicted gain; None if it is unknown or was not needed.
        least: gain at the lower ends of the speeds' 95 % intervals.
        most: gain at the upper ends.
        slowdowns: predicted slowdown of each job, the newcomer last; empty if not needed.
        text: the reason in words, with the values that decided.
    """

    choice: SharingChoice
    reason: SharingReason
    text: str
    gain: SharingGain | None = None
    least: SharingGain | None = None
    most: SharingGain | None = None
    slowdowns: tuple[JobSlowdown, ...] = ()

    @property
    def shares(self) -> bool:
        """Whether the newcomer gets a part of the GPU."""
        return self.choice is SharingChoice.SHARE
