"""Describes decisions and checks of sharing in words, for events and command line."""

from collections.abc import Sequence
from typing import Final

from gputopo.sharing.speedup import GainMeasure, SharingGain

_MEASURES: Final = {
    GainMeasure.DELTA: "delta",
    GainMeasure.SUMMED_SPEED: "summed speed",
}


def gain_text(
    measure: GainMeasure, gain: SharingGain, least: SharingGain, most: SharingGain
) -> str:
    """Describe a predicted gain, for example ``summed speed 1.32 (1.10..1.45)``.

    The measure must be known.
    """
    value, low, high = (f"{each.by(measure) or 0:.2f}" for each in (gain, least, most))
    return f"{_MEASURES[measure]} {value} ({low}..{high})"


def measured_text(measure: GainMeasure, gain: SharingGain) -> str:
    """Describe a measured gain, for example ``measured summed speed 0.82``."""
    return f"measured {_MEASURES[measure]} {gain.by(measure) or 0:.2f}"


def slowdown_text(job: str, percent: float, limit: int | None) -> str:
    """Describe the slowdown of a job, for example ``a/b takes 25 % longer, at most 40 %``."""
    return f"{job} takes {percent:.0f} % longer" + ("" if limit is None else f", at most {limit} %")


def unknown_text(jobs: Sequence[str]) -> str:
    """Describe which jobs have no predicted gain."""
    return (
        f"gain of {', '.join(jobs)} unknown: no measured pair, no similar pair and no calibrated"
        " load, or no rate alone"
    )
