"""Predicted speeds of workloads that share a GPU, with their intervals and sources."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LEAST_SPEED: Final = 0.01
"""Lower end of all predictions, so that the time of a step stays finite."""

QUANTILE: Final = 1.96
"""Half of the width of a 95 % interval in standard deviations."""


class SpeedSource(StrEnum):
    """Where a predicted speed comes from, the best first.

    MEASURED: these workloads were measured together.
    PAIRS: each pair of these workloads was measured, but not all together.
    SIMILAR: similar workloads were measured together.
    LOAD: computed from the loads of the workloads alone.
    UNKNOWN: there is no prediction.
    """

    MEASURED = "Measured"
    PAIRS = "Pairs"
    SIMILAR = "Similar"
    LOAD = "Load"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class SpeedEstimate:
    """Normalised speed of a workload beside others, with its 95 % interval.

    The value of an unknown speed is the best guess; no decision uses it.
    """

    value: float
    low: float
    high: float
    source: SpeedSource

    @classmethod
    def of(cls, value: float, deviation: float, source: SpeedSource) -> "SpeedEstimate":
        """Return an estimate with this standard deviation; all values are limited to 0.01..1."""
        half = QUANTILE * deviation
        return cls(_limited(value), _limited(value - half), _limited(value + half), source)

    @property
    def is_known(self) -> bool:
        """Whether a decision may use the speed."""
        return self.source is not SpeedSource.UNKNOWN


def _limited(speed: float) -> float:
    return min(1.0, max(LEAST_SPEED, speed))
