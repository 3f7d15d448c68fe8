"""What one job could be given: its share, its demand, and the points worth having between."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from gputopo.sensitivity.demand import saturating_demand
from gputopo.sensitivity.matrix import ROUNDING, Point, SensitivityMatrix
from gputopo.sizing.model import Ask, Resources, Server, proportional_share, throughput_of


class Option(NamedTuple):
    """What a job would be given, all its GPUs together, and what it makes of that.

    Attributes:
        throughput: in the unit of the job's matrix.
        worth: throughput relative to the promised one, so that jobs compare; relative to
            the best one for a job that does not run at all with its share.
    """

    cpus: float
    memory_gb: float
    storage_mb_per_s: float
    throughput: float
    worth: float


@dataclass(frozen=True, slots=True, eq=False)
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
    def over_share(self) -> bool:
        """Whether the demand asks for more than the share in any way."""
        return self.demand[:3] != self.cut[:3]

    def better(self, than: Option) -> list[Option]:
        """Return the options that are worth more than one, the most worth in front."""
        return [option for option in reversed(self.options) if option.worth > than.worth]


class Target(NamedTuple):
    """A job, and what it should have."""

    ask: Ask
    menu: Menu
    option: Option


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
    """Return what a job can be given.

    Args:
        ask: the job.
        share_per_gpu: the proportional share of one GPU.
    """
    cpus, memory_gb, storage = (amount * ask.gpus for amount in share_per_gpu)
    right = Resources(cpus, memory_gb, min(storage, ask.storage_mb_per_s))
    wanted = Resources(*saturating_demand(ask.matrix), ask.storage_mb_per_s)
    needed = Resources(*map(min, right, wanted))
    if throughput_of(ask, needed) < throughput_of(ask, right):
        needed, wanted = right, Resources(*map(max, right, wanted))
    promised = throughput_of(ask, right)
    scale = promised or ask.matrix.best
    share, cut, demand = (_option(ask, given, scale) for given in (right, needed, wanted))
    return Menu(share, cut, demand, _worth_having(ask, share, promised, scale))


def _option(ask: Ask, given: Resources, scale: float) -> Option:
    throughput = throughput_of(ask, given)
    return Option(*given, throughput, throughput / scale)


def _worth_having(ask: Ask, share: Option, promised: float, scale: float) -> tuple[Option, ...]:
    """Return the options that keep the promise and that nothing beats, the least one in front."""
    read = ask.storage_mb_per_s / ask.matrix.best
    points = [*_corners(ask.matrix, promised), *_corners(ask.matrix, ask.matrix.best)]
    candidates = {
        Option(cpus, memory_gb, read * throughput, throughput, throughput / scale)
        for cpus, memory_gb, throughput in points
        if throughput >= promised
    }
    if promised == 0:
        candidates.add(share)
    kept = [one for one in candidates if not any(_beats(other, one) for other in candidates)]
    return tuple(sorted(kept, key=lambda one: (one.throughput, not _within(one, share), one)))


def _corners(matrix: SensitivityMatrix, most: float) -> Iterator[Point]:
    """Yield the cells with less of which a job is slower, where it needs no more than ``most``."""
    columns = range(len(matrix.memory_gb))
    lower = [0.0] * len(columns)
    for cpus, row in zip(matrix.cpus, matrix.throughput, strict=True):
        capped = [min(throughput, most) for throughput in row]
        for column in columns:
            less_memory = capped[column - 1] if column else 0.0
            if capped[column] > max(lower[column], less_memory):
                yield Point(cpus, matrix.memory_gb[column], capped[column])
        lower = capped


def _beats(one: Option, other: Option) -> bool:
    no_more = all(ours <= theirs for ours, theirs in zip(one[:3], other[:3], strict=True))
    return one != other and no_more and one.throughput >= other.throughput


def _within(one: Option, other: Option) -> bool:
    return all(ours <= theirs * ROUNDING for ours, theirs in zip(one[:3], other[:3], strict=True))
