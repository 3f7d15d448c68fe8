"""Decide whether a job is bandwidth-sensitive."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SENSITIVE_FROM_PERCENT: Final = 10
"""A workload is sensitive if it loses at least this share of its speed on slow links."""


class Sensitivity(StrEnum):
    """The user's statement whether a job runs faster with more bandwidth between its GPUs."""

    SENSITIVE = "Sensitive"
    INSENSITIVE = "Insensitive"
    AUTO = "Auto"


@dataclass(frozen=True, slots=True)
class ResolvedSensitivity:
    """Whether a job is bandwidth-sensitive, and the reason.

    Attributes:
        reason: ``Declared`` (by the user), ``Profile`` (measured), ``SensitivityUnknown`` (neither;
            several GPUs are assumed to be sensitive) or ``SingleGpu`` (one GPU uses no links).
    """

    sensitive: bool
    reason: str


def resolve_sensitivity(
    declared: Sensitivity, *, gpus: int, profile_percent: int | None = None
) -> ResolvedSensitivity:
    """Return whether a job is bandwidth-sensitive (MAPA, section 2.3).

    The user's declaration has priority over the profile. A job with several GPUs is assumed to be
    sensitive if there is neither a declaration nor a profile. ``profile_percent`` is the measured
    loss of speed on slow links, 0..100, or None without a measurement.
    """
    if declared is not Sensitivity.AUTO:
        return ResolvedSensitivity(declared is Sensitivity.SENSITIVE, "Declared")
    if profile_percent is not None:
        return ResolvedSensitivity(profile_percent >= SENSITIVE_FROM_PERCENT, "Profile")
    if gpus > 1:
        return ResolvedSensitivity(sensitive=True, reason="SensitivityUnknown")
    return ResolvedSensitivity(sensitive=False, reason="SingleGpu")
