"""Chooses members that train together, and their numbers of GPUs (FLEET, algorithm 1).

A *flotilla* is a group of members that train at the same time at about the same pace:

1. It begins with the member that is fastest with its least number of GPUs, usually one. The pace of
   this member is the reference.
2. :func:`find_next` adds members, one after the other, until no GPU is left or none fits.
3. Left-over GPUs go to the slowest member, one after the other.

The paper does not describe ``findNext``. Here it takes the member, and its number of GPUs, whose
pace is nearest to the reference. Members whose pace would be too far below it wait for the next
flotilla; otherwise, the last free GPUs would go to a slow member that everybody then waits for.

There are two more differences to the paper. A GPU is not given to a member that would not get
faster; such GPUs stay idle. And a member may be limited, for instance to the GPUs of one node: it
joins with as many GPUs as it can get, although its pace is low, and the plan states the reason.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from gputopo.ensemble.candidate import FlotillaCandidate, candidates
from gputopo.ensemble.model import EnsembleMember, EnsembleSettings, NodeGpuCount
from gputopo.ensemble.packing import fits


@dataclass(frozen=True, slots=True)
class FlotillaMember:
    """A member of a flotilla.

    Attributes:
        rate: planned items per second; None if unknown.
        reason: why it has not the GPUs that the pace needs; empty if it has.
    """

    name: str
    gpus: int
    rate: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Flotilla:
    """Members that train together.

    Attributes:
        members: in the order in which they were added.
        reference: pace of the member that is fastest with its least number of GPUs; 0 if no rate is
            known.
        spread: ``1 - lowest / highest`` pace of the members with known rates; 0 if all are equal.
        idle: GPUs that no member uses.
    """

    members: tuple[FlotillaMember, ...]
    reference: float
    spread: float
    idle: int

    @property
    def gpus(self) -> int:
        """The number of GPUs of all members."""
        return sum(member.gpus for member in self.members)


def find_next(
    reference: float, waiting: Sequence[FlotillaCandidate], most: int, spread: float
) -> tuple[FlotillaCandidate, int] | None:
    """Return the member to add, and its number of GPUs up to ``most``; None if there is none.

    The pace is the nearest to ``reference``, and not below it by more than ``spread``. A member
    that can never be fast enough is accepted if it is near its own highest pace. Of equal ones, the
    member with fewer GPUs and then the first one is returned.
    """
    best: tuple[float, int, int] | None = None
    for position, candidate in enumerate(waiting):
        gpus = candidate.nearest(reference, most)
        if gpus is None:
            continue
        pace = candidate.pace(gpus)
        least, highest = (1 - spread) * reference, candidate.paces[-1]
        if pace < (least if highest >= least else (1 - spread) * highest):
            continue
        found = abs(pace - reference), gpus, position
        best = found if best is None else min(best, found)
    return None if best is None else (waiting[best[2]], best[1])


def create_flotilla(
    members: Sequence[EnsembleMember],
    nodes: Sequence[NodeGpuCount],
    settings: EnsembleSettings,
    reference_part: float = 1.0,
) -> Flotilla | None:
    """Return the first flotilla of members that wait, on nodes whose GPUs are all free for it.

    Members without rates come first, with one GPU each. The cost is about 10 ms for 100 members on
    400 GPUs.

    Args:
        members: members that wait, in the order of the ensemble.
        nodes: nodes with the numbers of GPUs that the ensemble may use.
        settings: limits and the spread.
        reference_part: the reference, relative to that of the paper.

    Returns:
        None if there is no member that fits.
    """
    builder = _Builder([node.gpus for node in nodes], settings, reference_part)
    builder.add_unknown([member for member in members if member.rates is None])
    builder.add_candidates(candidates(members, nodes, settings))
    builder.add_left_over()
    if settings.lockstep:
        builder.give_back()
    return builder.flotilla()


@dataclass(slots=True)
class _Builder:
    free: list[int]
    settings: EnsembleSettings
    reference_part: float
    reference: float = 0.0
    unknown: list[str] = field(default_factory=list)
    chosen: list[tuple[FlotillaCandidate, int]] = field(default_factory=list)

    @property
    def available(self) -> int:
        total = sum(self.free)
        return total if self.settings.max_gpus is None else min(total, self.settings.max_gpus)

    @property
    def left(self) -> int:
        return self.available - len(self.unknown) - sum(gpus for _, gpus in self.chosen)

    def add_unknown(self, members: Sequence[EnsembleMember]) -> None:
        self.unknown += [member.name for member in members[: self.available]]

    def add_candidates(self, waiting: list[FlotillaCandidate]) -> None:
        """Add members while there are GPUs and one of them is near enough to the reference."""
        most = self.left
        if not waiting or not most:
            return
        self.reference = self.reference_part * max(each.paces[0] for each in waiting)
        while waiting and (most := min(most, self.left)):
            # With the reference of the paper, the fastest member is the nearest one, and first.
            found = find_next(self.reference, waiting, most, self.settings.spread)
            if found is None:
                return
            candidate, gpus = found
            if not self._fits([gpus]):
                most = gpus - 1  # no larger one fits either
                continue
            self.chosen.append(found)
            waiting.remove(candidate)

    def add_left_over(self) -> None:
        """Give GPUs to the slowest member, one step after the other, as long as it gets faster."""
        slowest = [
            (candidate.pace(gpus), place) for place, (candidate, gpus) in enumerate(self.chosen)
        ]
        heapq.heapify(slowest)
        while slowest and (left := self.left):
            _, place = heapq.heappop(slowest)
            candidate, gpus = self.chosen[place]
            more = candidate.faster_than(gpus, gpus + left)
            if more is None or not self._fits([more], without=place):
                continue
            self.chosen[place] = candidate, more
            heapq.heappush(slowest, (candidate.pace(more), place))

    def give_back(self) -> None:
        """Leave each member the fewest GPUs with which it is not slower than the slowest one."""
        lowest = min((candidate.pace(gpus) for candidate, gpus in self.chosen), default=0.0)
        fewest = [
            (candidate, next(fewer for fewer in candidate.gpus if candidate.pace(fewer) >= lowest))
            for candidate, _ in self.chosen
        ]
        sizes = [*[1] * len(self.unknown), *(gpus for _, gpus in fewest)]
        # Best-fit decreasing need not fit smaller members where it fits larger ones.
        still_fit = fits(sizes, self.free, one_node=self.settings.one_node)
        self.chosen = fewest if still_fit else self.chosen

    def _fits(self, more: Sequence[int], without: int | None = None) -> bool:
        sizes = [gpus for place, (_, gpus) in enumerate(self.chosen) if place != without]
        one_each = [1] * len(self.unknown)
        return fits([*one_each, *sizes, *more], self.free, one_node=self.settings.one_node)

    def flotilla(self) -> Flotilla | None:
        if not (self.unknown or self.chosen):
            return None
        paces = [candidate.pace(gpus) for candidate, gpus in self.chosen]
        one_gpu = "no rates are known: one GPU until they are measured"
        least = (1 - self.settings.spread) * self.reference
        return Flotilla(
            (
                *(FlotillaMember(name, 1, None, one_gpu) for name in self.unknown),
                *(_member(candidate, gpus, least) for candidate, gpus in self.chosen),
            ),
            self.reference,
            1 - min(paces) / max(paces) if paces else 0.0,
            self.left,
        )


def _member(candidate: FlotillaCandidate, gpus: int, least: float) -> FlotillaMember:
    reason = candidate.limit if candidate.paces[-1] < least else ""
    return FlotillaMember(candidate.name, gpus, candidate.rate(gpus), reason)
