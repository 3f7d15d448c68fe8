"""The pattern of a container, by the votes of its windows."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from gputopo.counters.model import ObservedPattern
from gputopo.counters.shape import NoShape, Shape
from gputopo.patterns.model import PatternKind

LEAST_WINDOWS: Final = 5
"""Windows that a pattern needs."""

LEAST_QUIET_WINDOWS: Final = 8
"""Windows after which the GPUs of a container are said not to communicate."""

LEAST_PERMILLE: Final = 700
"""A pattern needs this share of the windows."""

LEAST_QUIET_PERMILLE: Final = 900
"""Without traffic in this share of the windows, the GPUs do not communicate."""


class UnknownReason(StrEnum):
    """Why a pattern is unknown."""

    SWITCH = "behind a switch"
    HIDDEN = "the driver does not report where the NVLinks end"
    NO_NVLINK = "no NVLink between some of the GPUs"
    ONLY_TOTALS = "no counters of single NVLinks"
    NO_STEPS = "no step counts"
    TOO_FEW = "too few windows"
    DISAGREE = "windows disagree"
    NO_PATTERN = "no known pattern"


def vote(shapes: Mapping[Shape, int]) -> ObservedPattern | UnknownReason:
    """Return the pattern of a container, or why it is unknown.

    Args:
        shapes: number of windows with steps that show each shape.
    """
    windows = sum(shapes.values())
    if windows < LEAST_WINDOWS:
        return UnknownReason.TOO_FEW
    shape = max(shapes, key=lambda each: shapes[each])
    permille = 1000 * shapes[shape] // windows
    if permille < (LEAST_QUIET_PERMILLE if shape is NoShape.QUIET else LEAST_PERMILLE):
        return UnknownReason.DISAGREE
    if isinstance(shape, PatternKind):
        return ObservedPattern(shape, permille, windows)
    if shape is NoShape.UNCLEAR:
        return UnknownReason.NO_PATTERN
    if windows < LEAST_QUIET_WINDOWS:
        return UnknownReason.TOO_FEW
    return ObservedPattern(None, permille, windows)
