"""Decide whether a job is bandwidth-sensitive."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SENSITIVE_FROM_PERCENT: Final = 10
"""A workload is sensitive if it loses at least this share of its speed on slow links."""


class Sensitivity(StrEnum):
    """What the user declares: whether a job runs faster with more bandwidth between its GPUs."""

    SENSITIVE = "Sensitive"
    INSENSITIVE = "Insensitive"
    AUTO = "Auto"


@dataclass(frozen=True, slots=True)
class ResolvedSensitivity:
    """Whether a job is bandwidth-sensitive, and the reason.

    Attributes:
        reason: ``Declared`` by the user, ``Profile`` (the GPUProfile of the workload decides),
            ``SensitivityUnknown`` (neither; a job of several GPUs is assumed to be sensitive) or
            ``SingleGpu`` (one GPU uses no links).
    """

    sensitive: bool
    reason: str


def resolve_sensitivity(
    declared: Sensitivity, *, gpus: int, percent_range: tuple[int, int] | None = None
) -> ResolvedSensitivity:
    """Return whether a job is bandwidth-sensitive (MAPA paper, section 2.3).

    The user's declaration has priority over the profile. ``percent_range`` is the 95 % interval of
    the slowdown on slow links in the profile; None if the profile has none. The limit is 10 %: an
    interval of 12..18 is sensitive, and 2..6 is insensitive. An interval of 4..25 decides nothing;
    then a job with several GPUs is assumed to be sensitive.
    """
    if declared is not Sensitivity.AUTO:
        return ResolvedSensitivity(declared is Sensitivity.SENSITIVE, "Declared")
    if percent_range is not None:
        low, high = (percent >= SENSITIVE_FROM_PERCENT for percent in percent_range)
        if low == high:
            return ResolvedSensitivity(low, "Profile")
    if gpus > 1:
        return ResolvedSensitivity(sensitive=True, reason="SensitivityUnknown")
    return ResolvedSensitivity(sensitive=False, reason="SingleGpu")
