"""The capacity of a GPU model that measured speeds of shared jobs show."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from gputopo.sharing.loadlaw import LoadCapacity, LoadShare

_LEAST_SETS: Final = 5
_CAPACITIES: Final = tuple(step / 20 for step in range(1, 41))


class SharedLoads(NamedTuple):
    """A measured set of jobs: the share of each job alone, and its normalised speed in the set."""

    shares: tuple[LoadShare, ...]
    speeds: tuple[float, ...]


def calibrate_capacity(measured: Sequence[SharedLoads]) -> LoadCapacity | None:
    """Return the capacity whose speeds have the least squared error, in steps of 0.05.

    Returns:
        None with less than 5 measured sets.
    """
    if len(measured) < _LEAST_SETS:
        return None
    return min(
        map(LoadCapacity, _CAPACITIES),
        key=lambda capacity: sum(_squares(capacity, each) for each in measured),
    )


def _squares(capacity: LoadCapacity, measured: SharedLoads) -> float:
    predicted = capacity.speed(measured.shares)
    return sum((predicted - min(1.0, speed)) ** 2 for speed in measured.speeds)
