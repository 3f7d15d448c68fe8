"""Options of one job: its proportional share, its demand, and useful sizes between them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from gputopo.sensitivity.demand import saturating_demand
from gputopo.sensitivity.matrix import ROUNDING, Point, SensitivityMatrix
from gputopo.sizing.model import (
    ResourceAmounts,
    ServerCapacity,
    SizingRequest,
    proportional_share,
    throughput_with,
)


class Option(NamedTuple):
    """One possible size of a job: the resources for all its GPUs together, and the throughput.

    Attributes:
        throughput: predicted throughput, in the unit of the job's matrix.
        value: throughput divided by the throughput with the proportional share, to compare jobs.
            If the throughput with the share is 0, the divisor is the job's best throughput.
    """

    cpus: float
    memory_gb: float
    storage_mb_per_s: float
    throughput: float
    value: float


@dataclass(frozen=True, slots=True, eq=False)
class JobOptions:
    """The options of one job: its proportional share, its demand, and useful sizes between them.

    Example: the share is 3 CPUs and 60 GB. With 12 CPUs and 20 GB the job has its best throughput,
    twice the throughput with the share. Then share = (3, 60), trimmed share = (3, 20) and
    demand = (12, 20).

    Attributes:
        share: the resources of a server in proportion to the job's GPUs, but no more storage
            bandwidth than the job can use. Sizing guarantees the throughput with the share.
        trimmed_share: the share without the amounts that exceed the demand. It gives the same
            throughput as the share.
        demand: the least resources with the best throughput, but at least ``trimmed_share``.
        efficient: the Pareto-optimal cells of the matrix with at least the throughput of the share,
            by ascending throughput. The first of these options does not exceed the share.
    """

    share: Option
    trimmed_share: Option
    demand: Option
    efficient: tuple[Option, ...]

    @property
    def least(self) -> Option:
        """The slowest efficient option. It never exceeds the proportional share."""
        return self.efficient[0]

    @property
    def demand_exceeds_share(self) -> bool:
        """Whether the demand exceeds the proportional share in any resource."""
        return self.demand[:3] != self.trimmed_share[:3]

    def better_than(self, option: Option) -> list[Option]:
        """Return the job's options with a higher value than ``option``, the highest value first."""
        return [other for other in reversed(self.efficient) if other.value > option.value]


class OptionChoice(NamedTuple):
    """A job that has no server yet, and the option that was chosen for it."""

    request: SizingRequest
    options: JobOptions
    option: Option


class OptionsCache:
    """Cache of job options in one sizing call. Jobs with the same matrix object share an entry."""

    def __init__(self, servers: Sequence[ServerCapacity]) -> None:
        self._share_per_gpu = proportional_share(servers, 1)
        self._known: dict[tuple[int, float], JobOptions] = {}

    def get(self, request: SizingRequest) -> JobOptions:
        """Return the options of a job.

        The cache key has the ``id`` of the matrix, because a hash of the matrix takes longer to
        compute than the options.
        """
        key = id(request.matrix), request.storage_mb_per_s
        options = self._known.get(key)
        if options is None:
            anonymous = SizingRequest("", request.matrix, request.storage_mb_per_s)
            options = self._known[key] = options_of(anonymous, self._share_per_gpu)
        return options


@lru_cache(maxsize=4096)
def options_of(request: SizingRequest, share_per_gpu: ResourceAmounts) -> JobOptions:
    """Return the options of a job, given the proportional share of one GPU."""
    cpus, memory_gb, storage = (amount * request.gpus for amount in share_per_gpu)
    share = ResourceAmounts(cpus, memory_gb, min(storage, request.storage_mb_per_s))
    demand = ResourceAmounts(*saturating_demand(request.matrix), request.storage_mb_per_s)
    trimmed = ResourceAmounts(*map(min, share, demand))
    if throughput_with(request, trimmed) < throughput_with(request, share):
        # With these few CPUs the job needs more memory than its demand has: do not trim.
        trimmed, demand = share, ResourceAmounts(*map(max, share, demand))
    guaranteed = throughput_with(request, share)
    scale = guaranteed or request.matrix.best
    of_share = _option(request, share, scale)
    return JobOptions(
        of_share,
        _option(request, trimmed, scale),
        _option(request, demand, scale),
        _efficient(request, of_share, scale),
    )


def _option(request: SizingRequest, resources: ResourceAmounts, scale: float) -> Option:
    throughput = throughput_with(request, resources)
    return Option(*resources, throughput, throughput / scale)


def _efficient(request: SizingRequest, share: Option, scale: float) -> tuple[Option, ...]:
    """Return the Pareto-optimal options with at least the share's throughput, slowest first."""
    guaranteed, matrix = share.throughput, request.matrix
    storage_per_step = request.storage_mb_per_s / matrix.best
    points = [*_corners(matrix, guaranteed), *_corners(matrix, matrix.best)]
    candidates = {
        Option(cpus, memory_gb, storage_per_step * throughput, throughput, throughput / scale)
        for cpus, memory_gb, throughput in points
        if throughput >= guaranteed
    }
    if guaranteed == 0:
        candidates.add(share)
    kept = [one for one in candidates if not any(_dominates(other, one) for other in candidates)]
    return tuple(sorted(kept, key=lambda one: (one.throughput, not _within(one, share), one)))


def _corners(matrix: SensitivityMatrix, max_throughput: float) -> Iterator[Point]:
    """Yield the cells that need all of their CPUs and memory: with less, throughput is lower.

    Before the comparison, throughputs above ``max_throughput`` are reduced to ``max_throughput``.
    """
    columns = range(len(matrix.memory_gb))
    fewer_cpus = [0.0] * len(columns)
    for cpus, row in zip(matrix.cpus, matrix.throughput, strict=True):
        capped = [min(throughput, max_throughput) for throughput in row]
        for column in columns:
            less_memory = capped[column - 1] if column else 0.0
            if capped[column] > max(fewer_cpus[column], less_memory):
                yield Point(cpus, matrix.memory_gb[column], capped[column])
        fewer_cpus = capped


def _dominates(one: Option, other: Option) -> bool:
    no_more = all(ours <= theirs for ours, theirs in zip(one[:3], other[:3], strict=True))
    return one != other and no_more and one.throughput >= other.throughput


def _within(one: Option, other: Option) -> bool:
    return all(ours <= theirs * ROUNDING for ours, theirs in zip(one[:3], other[:3], strict=True))
