"""Measures of how much several jobs gain if they share one GPU, from the speeds of their steps.

There are two measures. The thesis' delta (equation 4.1) is the sum of the solo step times divided
by the longest shared step time. The summed normalised speed is the throughput of the shared GPU in
units of one GPU for one job. Above 1, both mean that sharing pays.

Example: jobs with steps of 100 ms and 10 ms alone slow each other down to 110 ms and 20 ms. In
110 ms, delta counts one step of each: 110 / 110 = 1.00. But the second job makes 5.5 steps in this
time. The summed normalised speed is 100 / 110 + 10 / 20 = 1.41: the GPU does the work of 1.41 GPUs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gputopo.sharing.model import SharingError


class GainMeasure(StrEnum):
    """The measure by which a decision compares sharing with one job after the other."""

    DELTA = "Delta"
    SUMMED_SPEED = "SummedSpeed"


@dataclass(frozen=True, slots=True)
class SharingGain:
    """Gain of a set of jobs on one GPU over the same jobs one after the other; 1 is no gain.

    Attributes:
        summed_speed: sum of the normalised speeds.
        delta: the thesis' delta; None if a solo rate is unknown.
    """

    summed_speed: float
    delta: float | None

    def by(self, measure: GainMeasure) -> float | None:
        """Return one of the two measures."""
        return self.delta if measure is GainMeasure.DELTA else self.summed_speed


def delta(solo_seconds: Sequence[float], shared_seconds: Sequence[float]) -> float:
    """Return the thesis' delta: sum of the solo step times over the longest shared step time.

    >>> delta([0.1, 0.1], [0.125, 0.16])
    1.25

    Raises:
        SharingError: if there are no jobs, or a time is not above 0.
    """
    if not solo_seconds or len(solo_seconds) != len(shared_seconds):
        raise SharingError(
            f"step times: {len(solo_seconds)} alone and {len(shared_seconds)} together; both must"
            " have one for each job"
        )
    least = min(*solo_seconds, *shared_seconds)
    if least <= 0:
        raise SharingError(f"step times: {least:g}; must be above 0")
    return sum(solo_seconds) / max(shared_seconds)


def gain_of(speeds: Sequence[float], solo_rates: Sequence[float | None]) -> SharingGain:
    """Return the gain of jobs with these normalised speeds and steps per second alone."""
    known = [rate for rate in solo_rates if rate is not None]
    if len(known) < len(solo_rates):
        return SharingGain(sum(speeds), None)
    solo = [1 / rate for rate in known]
    shared = [seconds / speed for seconds, speed in zip(solo, speeds, strict=True)]
    return SharingGain(sum(speeds), delta(solo, shared))


def slowdown_percent(speed: float) -> float:
    """Return how much longer a step takes at this normalised speed, in percent.

    >>> slowdown_percent(0.8)
    25.0
    """
    return 100 * (1 / speed - 1)
