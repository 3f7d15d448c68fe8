"""The possible sizes of one job: proportional share, demand, and the useful points between."""

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
    """One possible size of a job: resources of all its GPUs together, and the throughput.

    Attributes:
        throughput: in the unit of the job's matrix.
        value: throughput relative to the guaranteed one, so that jobs can be compared. A job
            that does not run with its share has no such ratio: it is relative to its best.
    """

    cpus: float
    memory_gb: float
    storage_mb_per_s: float
    throughput: float
    value: float


@dataclass(frozen=True, slots=True, eq=False)
class JobOptions:
    """The options of one job, for one proportional share.

    Attributes:
        share: the proportional share; its throughput is guaranteed. It has no more storage
            bandwidth than the job can use.
        trimmed_share: the share without what exceeds the demand; its throughput is the same.
        demand: the least resources that saturate the job, and at least the trimmed share.
        efficient: the Pareto-optimal points of the matrix that keep the guarantee, by
            ascending throughput. The first one is within the share.
    """

    share: Option
    trimmed_share: Option
    demand: Option
    efficient: tuple[Option, ...]

    @property
    def least(self) -> Option:
        """The efficient option that is within the share, so that it always fits."""
        return self.efficient[0]

    @property
    def demand_exceeds_share(self) -> bool:
        """Whether the demand has more than the share of any resource."""
        return self.demand[:3] != self.trimmed_share[:3]

    def better_than(self, option: Option) -> list[Option]:
        """Return the efficient options of higher value, by descending value."""
        return [other for other in reversed(self.efficient) if other.value > option.value]


class OptionChoice(NamedTuple):
    """The option that a job should get, before it has a server."""

    request: SizingRequest
    options: JobOptions
    option: Option


class OptionsCache:
    """Options of the jobs of one call. Requests with the same matrix object share them."""

    def __init__(self, servers: Sequence[ServerCapacity]) -> None:
        """Begin empty, for the proportional share of ``servers``."""
        self._share_per_gpu = proportional_share(servers, 1)
        self._known: dict[tuple[int, float], JobOptions] = {}

    def get(self, request: SizingRequest) -> JobOptions:
        """Return the options of a job.

        The key is the matrix's identity: to hash a matrix costs more than to size a job.
        """
        key = id(request.matrix), request.storage_mb_per_s
        options = self._known.get(key)
        if options is None:
            anonymous = SizingRequest("", request.matrix, request.storage_mb_per_s)
            options = self._known[key] = options_of(anonymous, self._share_per_gpu)
        return options


@lru_cache(maxsize=4096)
def options_of(request: SizingRequest, share_per_gpu: ResourceAmounts) -> JobOptions:
    """Return the options of a job, given the proportional share of one GPU.

    Example: 3 CPUs and 60 GB are the share; 12 CPUs with 20 GB saturate the job, which then
    runs twice as fast. Share: (3, 60), trimmed share: (3, 20), demand: (12, 20).
    """
    cpus, memory_gb, storage = (amount * request.gpus for amount in share_per_gpu)
    share = ResourceAmounts(cpus, memory_gb, min(storage, request.storage_mb_per_s))
    demand = ResourceAmounts(*saturating_demand(request.matrix), request.storage_mb_per_s)
    trimmed = ResourceAmounts(*map(min, share, demand))
    if throughput_with(request, trimmed) < throughput_with(request, share):
        # With few CPUs the job needs more memory than at its demand: trim nothing.
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
    """Return the Pareto-optimal options that keep the guarantee, by ascending throughput."""
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
    """Yield the cells where less CPU or less memory would lower the throughput.

    Throughputs above ``max_throughput`` count as that: the job needs no more.
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
