"""From what is said and known of a job to sensitive or not."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SENSITIVE_FROM_PERCENT: Final = 10
"""A workload that loses at least this much of its speed on slow links is sensitive."""


class Sensitivity(StrEnum):
    """What the user declares: whether a job gains from bandwidth between its GPUs."""

    SENSITIVE = "Sensitive"
    INSENSITIVE = "Insensitive"
    AUTO = "Auto"


@dataclass(frozen=True, slots=True)
class Resolved:
    """The answer and where it comes from.

    Attributes:
        reason: ``Declared``, ``Profile``, ``SensitivityUnknown`` (several GPUs and
            nothing known: assumed sensitive) or ``SingleGpu`` (no links to be sensitive to).
    """

    sensitive: bool
    reason: str


def resolve(declared: Sensitivity, *, gpus: int, profile_percent: int | None = None) -> Resolved:
    """Return whether a job is bandwidth-sensitive (MAPA, section 2.3).

    The user's word wins, then the profile's; else a job of several GPUs counts as sensitive.

    Args:
        declared: what the job says.
        gpus: how many GPUs it asks for.
        profile_percent: speed lost on slow links, 0..100, None while not measured.
    """
    if declared is not Sensitivity.AUTO:
        return Resolved(declared is Sensitivity.SENSITIVE, "Declared")
    if profile_percent is not None:
        return Resolved(profile_percent >= SENSITIVE_FROM_PERCENT, "Profile")
    if gpus > 1:
        return Resolved(sensitive=True, reason="SensitivityUnknown")
    return Resolved(sensitive=False, reason="SingleGpu")
