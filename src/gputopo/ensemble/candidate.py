"""A member that waits for a flotilla, with its pace for each number of GPUs that it can get."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from gputopo.ensemble.model import EnsembleMember, EnsembleSettings, NodeGpuCount, PaceMeasure
from gputopo.ensemble.rates import MemberRates


@dataclass(frozen=True, slots=True, eq=False)
class FlotillaCandidate:
    """A member with known rates.

    The pace of a member is its rate, or its rate relative to the items that it has left.

    Attributes:
        rates: items per second.
        gpus: numbers of GPUs that it can get, ascending; each has a higher pace than all smaller
            ones. A number that is not faster than a smaller one is missing.
        paces: pace of each number.
        limit: what limits the member to its largest number of GPUs.
    """

    name: str
    rates: MemberRates
    gpus: tuple[int, ...]
    paces: tuple[float, ...]
    limit: str

    def pace(self, gpus: int) -> float:
        """Return the pace of one of the numbers of GPUs."""
        return self.paces[bisect_left(self.gpus, gpus)]

    def rate(self, gpus: int) -> float:
        """Return the items per second with this number of GPUs."""
        return self.rates.at(gpus)

    def nearest(self, reference: float, most: int) -> int | None:
        """Return the number of GPUs up to ``most`` whose pace is nearest to ``reference``.

        The fewest if two are equally near; None if ``most`` is not enough.
        """
        count = bisect_right(self.gpus, most)
        above = bisect_left(self.paces, reference, 0, count)
        near = range(max(0, above - 1), min(above + 1, count))
        place = min(near, key=lambda at: abs(self.paces[at] - reference), default=None)
        return None if place is None else self.gpus[place]

    def faster_than(self, gpus: int, most: int) -> int | None:
        """Return the next larger number of GPUs, up to ``most``, with its higher pace."""
        place = bisect_right(self.gpus, gpus)
        more = self.gpus[place] if place < len(self.gpus) else None
        return None if more is None or more > most else more


def candidates(
    members: Sequence[EnsembleMember], nodes: Sequence[NodeGpuCount], settings: EnsembleSettings
) -> list[FlotillaCandidate]:
    """Return the members with known rates that fit on these nodes, in the given order."""
    found = []
    longest = max((member.items_left or 0.0 for member in members), default=0.0)
    for member in members:
        most, limit = member_limit(member, nodes, settings)
        if member.rates is None or most < member.rates.least:
            continue
        weight = 1.0
        if settings.pace is PaceMeasure.END and member.items_left:
            weight = longest / member.items_left
        rising = _rising(member.rates, most)
        paces = tuple(weight * rate for _, rate in rising)
        gpus = tuple(gpus for gpus, _ in rising)
        found.append(FlotillaCandidate(member.name, member.rates, gpus, paces, limit))
    return found


def _rising(rates: MemberRates, most: int) -> list[tuple[int, float]]:
    """Return the numbers of GPUs that are faster than all smaller ones, with their rates."""
    found: list[tuple[int, float]] = []
    highest = 0.0
    for gpus, rate in enumerate(rates.values[: most - rates.least + 1], rates.least):
        if rate > highest:
            highest = rate
            found.append((gpus, rate))
    return found


def member_limit(
    member: EnsembleMember, nodes: Sequence[NodeGpuCount], settings: EnsembleSettings
) -> tuple[int, str]:
    """Return the most GPUs that a member can get, and what limits it to them."""
    sizes = [node.gpus for node in nodes]
    largest = max(sizes, default=0)
    limits: list[tuple[int, str]] = []
    if settings.one_node:
        text = f"limited to {largest} GPUs, those of the largest node: a member has one pod"
        limits.append((largest, text))
    else:
        limits.append((sum(sizes), f"limited to {sum(sizes)} GPUs, those of all nodes"))
    for field, limit in (
        ("max_gpus of the ensemble", settings.max_gpus),
        ("max_gpus_per_member", settings.max_gpus_per_member),
        ("max_gpus of the member", member.max_gpus),
    ):
        if limit is not None:
            limits.append((limit, f"limited to {limit} GPUs by {field}"))
    if member.rates is not None:
        most = member.rates.fastest(min(limit for limit, _ in limits))
        limits.append((most, f"not faster with more than {most} GPUs, or no rates are known"))
    return min(limits, key=lambda limit: limit[0])
