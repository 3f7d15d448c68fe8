"""What one job could be given: its share, its demand, and the points worth having between."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from gputopo.allocation.model import Ask, Resources, Server, proportional_share, throughput_of
from gputopo.sensitivity.demand import saturating_demand
from gputopo.sensitivity.matrix import ROUNDING


class Option(NamedTuple):
    """What a job would be given, all its GPUs together, and its throughput with that."""

    cpus: float
    memory_gb: float
    storage_mb_per_s: float
    throughput: float


@dataclass(frozen=True, slots=True)
class Menu:
    """The options of one job on servers of one kind.

    Attributes:
        share: the proportional share, and the throughput that is promised. Of storage
            bandwidth no more than the job can use: it cannot be hoarded.
        cut: that share, less what the demand does not ask for; as fast as the share.
        demand: the least that saturates the job; nothing in it is less than in the cut.
        options: points of the matrix that keep the promise, of which none has less of
            everything than another and is as fast; by ascending throughput. The first
            is within the share.
    """

    share: Option
    cut: Option
    demand: Option
    options: tuple[Option, ...]

    @property
    def promised(self) -> float:
        """The throughput below which the job never falls."""
        return self.share.throughput

    @property
    def scale(self) -> float:
        """What throughputs of this job are told relative to: the promised one.

        A job that does not run at all with its share has only its best to compare with.
        """
        return self.share.throughput or self.demand.throughput

    @property
    def over_share(self) -> bool:
        """Whether the demand asks for more than the share in any way."""
        return self.demand[:3] != self.cut[:3]


class Menus:
    """The menus of jobs on given servers."""

    def __init__(self, servers: Sequence[Server]) -> None:
        """Take the servers that shares are of."""
        self._per_gpu = proportional_share(servers, 1)
        self._known: dict[tuple[int, float], Menu] = {}

    def __getitem__(self, ask: Ask) -> Menu:
        """Return a job's menu. Jobs of one model share a matrix: it is looked at once."""
        key = id(ask.matrix), ask.storage_mb_per_s
        menu = self._known.get(key)
        if menu is None:
            menu = self._known[key] = menu_of(
                Ask("", ask.matrix, ask.storage_mb_per_s), self._per_gpu
            )
        return menu


@lru_cache(maxsize=4096)
def menu_of(ask: Ask, share_per_gpu: Resources) -> Menu:
    """Return what a job can be given where one GPU's share is so much."""
    gpus = ask.gpus
    cpus, memory_gb, storage = (amount * gpus for amount in share_per_gpu)
    share = _option(ask, Resources(cpus, memory_gb, min(storage, ask.storage_mb_per_s)))
    wanted = saturating_demand(ask.matrix)
    demand = _option(ask, Resources(wanted.cpus, wanted.memory_gb, ask.storage_mb_per_s))
    cut = _option(ask, Resources(*map(min, share[:3], demand[:3])))
    if cut.throughput < share.throughput:
        cut, demand = share, _option(ask, Resources(*map(max, share[:3], demand[:3])))
    return Menu(share, cut, demand, _worth_having(ask, share))


def _option(ask: Ask, given: Resources) -> Option:
    return Option(*given, throughput_of(ask, given))


def _worth_having(ask: Ask, share: Option) -> tuple[Option, ...]:
    """Return the options that keep the promise and that nothing beats, the least one in front."""
    per_throughput = ask.storage_mb_per_s / ask.matrix.best
    candidates = {share} if share.throughput == 0 else set[Option]()
    for point in ask.matrix.points():
        if point.throughput >= share.throughput:
            for throughput in (share.throughput, point.throughput):
                read = throughput * per_throughput
                candidates.add(Option(point.cpus, point.memory_gb, read, throughput))
    kept = [one for one in candidates if not any(_beats(other, one) for other in candidates)]
    return tuple(sorted(kept, key=lambda one: (one.throughput, not _within(one, share), one)))


def _beats(one: Option, other: Option) -> bool:
    no_more = all(ours <= theirs for ours, theirs in zip(one[:3], other[:3], strict=True))
    return one != other and no_more and one.throughput >= other.throughput


def _within(one: Option, other: Option) -> bool:
    return all(ours <= theirs * ROUNDING for ours, theirs in zip(one[:3], other[:3], strict=True))
