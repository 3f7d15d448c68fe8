"""Which samples to compare: those whose surroundings differ in one respect only."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from math import inf
from types import MappingProxyType
from typing import Final, TypeAlias

from gputopo.api.profile import Sample

SIMILAR: Final = 1.25
"""Bandwidths are similar if the higher one is below the lower one times this factor."""

MIN_SAMPLES: Final = 3
"""Samples of one run that are enough; see :func:`enough`."""

Demands: TypeAlias = Mapping[int, int | None]
"""CPUs that the workload needs, in thousandths, by number of GPUs; None if unknown."""

UNKNOWN: Final[Demands] = MappingProxyType({})

ALONE: Final = ""
"""Instead of the workload of a neighbour: there is none."""

BandwidthKey: TypeAlias = tuple[str, int]
"""The model with the pattern of a bandwidth, and the bandwidth in MB/s."""


def in_order(samples: Iterable[Sample]) -> list[Sample]:
    """Return samples ascending by time; samples of one time by pod and container."""
    return sorted(samples, key=lambda sample: (sample.time, sample.key))


def by_gpus(samples: Iterable[Sample]) -> dict[int, list[Sample]]:
    """Return samples by number of GPUs, ascending, each list ascending by time."""
    ordered = sorted(in_order(samples), key=lambda sample: sample.gpus)
    return {gpus: list(group) for gpus, group in groupby(ordered, lambda sample: sample.gpus)}


def enough(samples: Sequence[Sample]) -> bool:
    """Return whether a wild sample would be noticed: in three samples, or in those of two runs.

    Three samples have a median, and two runs that differ much give a wide interval.
    """
    return len(samples) >= MIN_SAMPLES or len({sample.pod_uid for sample in samples}) > 1


def first_enough(
    choices: Iterable[list[Sample]], is_enough: Callable[[Sequence[Sample]], bool]
) -> list[Sample]:
    """Return the first list that has enough samples, otherwise the last list."""
    chosen: list[Sample] = []
    for chosen in choices:
        if is_enough(chosen):
            break
    return chosen


def with_known_bandwidth(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples with a bandwidth, of the model and the pattern of the newest of them.

    ``samples`` ascend by time.
    """
    known = [sample for sample in samples if sample.effective_mb_per_s]
    return [sample for sample in known if bandwidth_key(sample)[0] == bandwidth_key(known[-1])[0]]


def alone_on_socket(samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples without neighbours on the socket."""
    return [sample for sample in samples if not sample.socket_neighbours]


def with_enough_cpus(samples: Sequence[Sample], demand: int | None) -> list[Sample]:
    """Return the samples whose CPU limit is at least the demand.

    If the demand is unknown, these are the samples with the most frequent CPU limit, because the
    rate may depend on the limit.
    """
    if demand is not None:
        return [sample for sample in samples if cpu_limit(sample) >= demand]
    counts = Counter(map(cpu_limit, samples))
    usual = max(counts, key=lambda limit: (counts[limit], limit), default=inf)
    return [sample for sample in samples if cpu_limit(sample) == usual]


def neighbour_on_socket(sample: Sample) -> str | None:
    """Return the only workload beside the sample on its socket.

    The result is ``ALONE`` without neighbours, and None if there are several, or if neighbours have
    no profile (``NAMESPACE/``), because these may be several.
    """
    return _only(sample.socket_neighbours)


def neighbour_on_node(sample: Sample) -> str | None:
    """Return the only workload on the node, if there is none on the socket; see the function above.

    None if there are neighbours on the socket.
    """
    return None if sample.socket_neighbours else _only(sample.node_neighbours)


def cpu_limit(sample: Sample) -> float:
    """Return the CPU limit in thousandths of a CPU, infinite without a limit."""
    return inf if sample.milli_cpu is None else sample.milli_cpu


def bandwidth_key(sample: Sample) -> BandwidthKey:
    """Return the key of the sample's bandwidth; an unknown bandwidth is 0 MB/s."""
    kind = " ".join(filter(None, (sample.model, sample.pattern)))
    return kind, sample.effective_mb_per_s or 0


def bandwidth_classes(samples: Iterable[Sample]) -> dict[BandwidthKey, BandwidthKey]:
    """Return for each bandwidth the lowest one of its class; those of one class are similar."""
    classes: dict[BandwidthKey, BandwidthKey] = {}
    start = ("", -1)
    for key in sorted(set(map(bandwidth_key, samples))):
        if key[0] != start[0] or key[1] >= SIMILAR * start[1]:
            start = key
        classes[key] = start
    return classes


def _only(workloads: Iterable[str]) -> str | None:
    different = set(workloads)
    if not different:
        return ALONE
    if len(different) > 1:
        return None
    (workload,) = different
    return None if workload.endswith("/") else workload
