"""Rates, quantiles and processor time from raw counts. Pure except for reading /proc."""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_BUCKET = re.compile(
    r'^gputopo_extender_request_duration_seconds_bucket\{le="([^"]+)".*verb="([^"]+)"\} (\S+)$',
    re.MULTILINE,
)
# What to look for in command lines, the first that fits.
_PROCESSES = {
    "kube-apiserver": "kube-apiserver",
    "etcd": "etcd",
    "extender": "gputopo-extender",
    "do-nothing extender": "scaletest.nothing",
    "kube-scheduler": "kube-scheduler",
    "kube-controller-manager": "kube-controller-manager",
    "kwok": "kwok",
    "kubelet": "kubelet",
    "containerd": "containerd",
    "client": "scaletest",
}

OTHERS = "others"
"""The name for all else on the machine."""

Buckets = Mapping[str, Mapping[float, float]]
"""Cumulative counts by verb and upper bound in seconds."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds of one verb, measured in the extender."""

    p50: float
    p99: float


def rate(times: Sequence[float]) -> float:
    """Return bindings per second, from the first to the last; 0 for fewer than two."""
    return (len(times) - 1) / (max(times) - min(times)) if len(times) > 1 else 0.0


def of_samples(milliseconds: Sequence[float]) -> Latency:
    """Return the quantiles of all samples."""
    ordered = sorted(milliseconds)

    def quantile(share: float) -> float:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    return Latency(quantile(0.5), quantile(0.99))


def buckets(metrics: str) -> Buckets:
    """Return the extender's request histogram, its outcomes added up."""
    found: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for bound, verb, count in _BUCKET.findall(metrics):
        found[verb][float(bound)] += float(count)
    return found


def added(several: Iterable[Buckets]) -> Buckets:
    """Return the histograms of several processes as one."""
    found: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for one in several:
        for verb, counts in one.items():
            for bound, count in counts.items():
                found[verb][bound] += count
    return found


def of_buckets(counted: Buckets) -> dict[str, Latency]:
    """Return the quantiles of a histogram, linear within a bucket as in Prometheus."""
    return {
        verb: Latency(_quantile(counts, 0.5), _quantile(counts, 0.99))
        for verb, counts in counted.items()
        if max(counts.values()) > 0
    }


def _quantile(cumulative: Mapping[float, float], share: float) -> float:
    bounds = sorted(cumulative)
    wanted = share * cumulative[bounds[-1]]
    below, low = 0.0, 0.0
    for bound in bounds:
        count = cumulative[bound]
        if count >= wanted:
            if bound == float("inf"):
                return low * 1000
            return (low + (bound - low) * (wanted - below) / (count - below)) * 1000
        below, low = count, bound
    return low * 1000


def processor_seconds() -> dict[str, float]:
    """Return the processor time that each part has used since its start, and all others together.

    Where the machine is a container, the others are those of all its machine.
    """
    used = parts_seconds()
    busy = busy_ticks(Path("/proc/stat").read_text()) / _TICKS
    return {**used, OTHERS: busy - sum(used.values())}


def parts_seconds() -> dict[str, float]:
    """Return the processor time that each part of the cluster has used since its start."""
    used: dict[str, float] = defaultdict(float)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_text().split("\0")
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if part := part_of(words):
            used[part] += (int(fields[11]) + int(fields[12])) / _TICKS
    return used


def busy_ticks(stat: str) -> int:
    """Return the busy time of the processors from /proc/stat, in clock ticks."""
    user, nice, system, _idle, _waiting, irq, soft_irq = map(int, stat.split()[1:8])
    return user + nice + system + irq + soft_irq


def part_of(command_line: Sequence[str]) -> str | None:
    """Return the part that a process belongs to; None for other processes."""
    names = [Path(word).name for word in command_line[:4]]
    return next((part for part, name in _PROCESSES.items() if name in names), None)
