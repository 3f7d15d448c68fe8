"""Selects samples of a workload whose speeds can be compared."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from math import inf
from types import MappingProxyType
from typing import Final, TypeAlias

from gputopo.api.profile import Sample

SIMILAR: Final = 1.25
"""Two bandwidths are similar if the higher one is less than the lower one times this factor."""

MIN_SAMPLES: Final = 3
"""This number of samples is enough, even if all are of one run; see :func:`enough`."""

Demands: TypeAlias = Mapping[int, int | None]
"""For each number of GPUs: the CPUs that the workload needs, in thousandths of a CPU; None if
unknown."""

UNKNOWN: Final[Demands] = MappingProxyType({})

ALONE: Final = ""
"""Stands for the name of the neighbouring workload if a sample has no neighbour."""

BandwidthKey: TypeAlias = tuple[str, int]
"""Bandwidth model and pattern for which a bandwidth was computed, and the bandwidth in MB/s."""


def in_order(samples: Iterable[Sample]) -> list[Sample]:
    """Return samples ascending by time; samples of equal time ascend by pod UID and container."""
    return sorted(samples, key=lambda sample: (sample.time, sample.key))


def by_gpus(samples: Iterable[Sample]) -> dict[int, list[Sample]]:
    """Group samples by number of GPUs. The numbers ascend, and each list ascends by time."""
    ordered = sorted(in_order(samples), key=lambda sample: sample.gpus)
    return {gpus: list(group) for gpus, group in groupby(ordered, lambda sample: sample.gpus)}


def enough(samples: Sequence[Sample]) -> bool:
    """Return whether there are three samples, or samples of two runs (pods).

    One wrong sample then does little harm: three samples have a median, and two runs that differ
    much give a wide confidence interval.
    """
    return len(samples) >= MIN_SAMPLES or len({sample.pod_uid for sample in samples}) > 1


def first_enough(
    choices: Iterable[list[Sample]], is_enough: Callable[[Sequence[Sample]], bool]
) -> list[Sample]:
    """Return the first list for which ``is_enough`` is true, or the last list if there is none."""
    chosen: list[Sample] = []
    for chosen in choices:
        if is_enough(chosen):
            break
    return chosen


def with_known_bandwidth(samples: Sequence[Sample]) -> list[Sample]:
    """Return samples with a known bandwidth, all of one bandwidth model and one pattern.

    The newest sample with a known bandwidth determines both. ``samples`` ascend by time.
    """
    known = [sample for sample in samples if sample.effective_mb_per_s]
    return [sample for sample in known if bandwidth_key(sample)[0] == bandwidth_key(known[-1])[0]]


def alone_on_socket(samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples taken while no other pod had GPUs on the same CPU socket."""
    return [sample for sample in samples if not sample.socket_neighbours]


def usable(samples: Sequence[Sample], demand: int | None) -> list[Sample]:
    """Return the samples that the regression uses (see :mod:`gputopo.profiles.ratefit`).

    ``samples`` ascend by time and have the same number of GPUs. Samples without a bandwidth are
    left out, unless no sample has one. Samples with too few CPUs are left out, because a workload
    that waits for CPUs does not wait for links.
    """
    return with_enough_cpus(with_known_bandwidth(samples) or samples, demand)


def with_enough_cpus(samples: Sequence[Sample], demand: int | None) -> list[Sample]:
    """Return the samples whose CPU limit is at least ``demand``, in thousandths of a CPU.

    If ``demand`` is None, the most frequent CPU limit is assumed to be enough.
    """
    if demand is not None:
        return [sample for sample in samples if cpu_limit(sample) >= demand]
    counts = Counter(map(cpu_limit, samples))
    usual = max(counts, key=lambda limit: (counts[limit], limit), default=inf)
    return [sample for sample in samples if cpu_limit(sample) >= usual]


def neighbour_on_socket(sample: Sample) -> str | None:
    """Return the one other workload that had GPUs on the same CPU socket during the sample.

    Return ``ALONE`` if no other pod had GPUs on the socket. Return None if there were several
    workloads, or if the workload is unknown because a pod has no GPUProfile.
    """
    return _only(sample.socket_neighbours)


def neighbour_on_node(sample: Sample) -> str | None:
    """Return the one other workload that had GPUs on the same node, but on other CPU sockets.

    Return ``ALONE`` if no other pod had GPUs on the node. Return None if another pod had GPUs on
    the same socket, if there were several workloads, or if the workload is unknown.
    """
    return None if sample.socket_neighbours else _only(sample.node_neighbours)


def cpu_limit(sample: Sample) -> float:
    """Return the CPU limit of a sample in thousandths of a CPU, or infinity if it has no limit."""
    return inf if sample.milli_cpu is None else sample.milli_cpu


def bandwidth_key(sample: Sample) -> BandwidthKey:
    """Return the bandwidth model with the pattern, and the bandwidth in MB/s (0 if unknown)."""
    kind = " ".join(filter(None, (sample.model, sample.pattern)))
    return kind, sample.effective_mb_per_s or 0


def bandwidth_classes(samples: Iterable[Sample]) -> dict[BandwidthKey, BandwidthKey]:
    """Group similar bandwidths. Return for each bandwidth the lowest one of its group."""
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
