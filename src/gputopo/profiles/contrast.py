"""The difference between two settings, such as beside a neighbour and alone.

A run that was in both settings shows the difference best, because what makes this run fast or slow
is in both. Runs that were in one setting only are compared by their means.
"""

from collections.abc import Mapping
from statistics import median
from typing import TypeAlias

from gputopo.profiles.estimate import Estimate, combined, difference
from gputopo.profiles.runs import level, without_outliers

Runs: TypeAlias = Mapping[str, Estimate]
"""Means of runs by pod UID; their variance is that within the run."""


def contrast(one: Runs, other: Runs) -> Estimate | None:
    """Return ``one - other``, None if no runs show it."""
    parts = [part for part in (paired(one, other), unpaired(one, other)) if part]
    return combined(parts) if parts else None


def paired(one: Runs, other: Runs) -> Estimate | None:
    """Return ``one - other`` from the runs that were in both settings, None without any."""
    found = [difference(mean, other[run]) for run, mean in one.items() if run in other]
    if not found:
        return None
    centre = median(each.value for each in found)
    keep = without_outliers([each.value - centre for each in found])
    return combined(each for each, kept in zip(found, keep, strict=True) if kept)


def unpaired(one: Runs, other: Runs) -> Estimate | None:
    """Return ``one - other`` from the runs in only one setting, None unless both have some."""
    only_one = [mean for run, mean in one.items() if run not in other]
    only_other = [mean for run, mean in other.items() if run not in one]
    return difference(level(only_one), level(only_other)) if only_one and only_other else None
