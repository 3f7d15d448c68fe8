"""Compares the speed of a workload in two settings, for example with two CPU limits.

A run (one pod) that was in both settings shows the difference best, because everything else that
makes this run fast or slow is equal in both settings. Runs that were in only one setting are
compared by the mean of each setting.
"""

from collections.abc import Mapping
from statistics import median
from typing import TypeAlias

from gputopo.profiles.estimate import Estimate, combined, difference
from gputopo.profiles.runs import level, without_outliers

Runs: TypeAlias = Mapping[str, Estimate]
"""The mean of each run, by pod UID; its variance counts only the differences within the run."""


def paired(one: Runs, other: Runs) -> Estimate | None:
    """Estimate ``one - other`` from runs that were in both settings; None if no run was in both."""
    found = [difference(mean, other[run]) for run, mean in one.items() if run in other]
    if not found:
        return None
    centre = median(each.value for each in found)
    keep = without_outliers([each.value - centre for each in found])
    return combined(each for each, kept in zip(found, keep, strict=True) if kept)


def unpaired(one: Runs, other: Runs) -> Estimate | None:
    """Estimate ``one - other`` from runs in only one setting; None if a setting has no such run."""
    only_one = [mean for run, mean in one.items() if run not in other]
    only_other = [mean for run, mean in other.items() if run not in one]
    return difference(level(only_one), level(only_other)) if only_one and only_other else None
