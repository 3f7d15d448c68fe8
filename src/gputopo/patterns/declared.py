"""The communication pattern that a user declares, and how it becomes the pattern of a job."""

from enum import StrEnum
from typing import NamedTuple

from gputopo.patterns.model import PatternKind


class DeclaredPattern(StrEnum):
    """A pattern, or AUTO: the pattern that the hardware counters showed of the workload."""

    RING = PatternKind.RING.value
    TREE = PatternKind.TREE.value
    RING_TREE = PatternKind.RING_TREE.value
    CHAIN = PatternKind.CHAIN.value
    STAR = PatternKind.STAR.value
    ALL_TO_ALL = PatternKind.ALL_TO_ALL.value
    CUSTOM = PatternKind.CUSTOM.value
    AUTO = "Auto"


class ResolvedPattern(NamedTuple):
    """The pattern of a job, and the reason.

    Attributes:
        reason: ``Declared`` by the user, ``Profile`` (the GPUProfile of the workload decides) or
            ``Default`` (neither).
    """

    kind: PatternKind
    reason: str


def resolve_pattern(
    declared: DeclaredPattern, learnt: PatternKind | None = None
) -> ResolvedPattern:
    """Return the pattern of a job. What the user declares has priority over the profile.

    ``learnt`` is the pattern in the GPUProfile of the workload; None if it is unknown. Then the
    pattern is Ring, the most frequent pattern of NCCL.
    """
    if declared is not DeclaredPattern.AUTO:
        return ResolvedPattern(PatternKind(declared.value), "Declared")
    if learnt is not None:
        return ResolvedPattern(learnt, "Profile")
    return ResolvedPattern(PatternKind.RING, "Default")
