"""Makes the sensitivity matrix of a running pod from the facts of its workload.

The facts contain the throughput with a few CPU limits. Between two limits the throughput is
interpolated linearly. Below the lowest limit it falls linearly to 0; above the highest limit it
does not rise. Throughput with less memory is computed from the data set (Synergy, section 3.1).
The matrix ends at what the node has, so its size is bounded for any facts and any data set.

Example: a workload makes 10, 20 and 20.1 steps per second with 1, 2 and 4 CPUs. The last rise is
too small to be certain. So the matrix has 15 steps per second with 1.5 CPUs, and 20 with 2 or more.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import isfinite
from typing import Final, NamedTuple

from gputopo.api.profile import CpuFact
from gputopo.api.tuning import Amounts, ResourcesMode
from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.sensitivity.memory_axis import MinIOCache
from gputopo.tuning.model import Dataset, TunedPod
from gputopo.tuning.pods import tunes_memory
from gputopo.tuning.shares import MEBIBYTE

ANY_MEMORY: Final = (1e-9,)
"""Memory axis of a matrix that applies to any amount of memory."""

_MOST: Final = Amounts(milli_cpu=10**7, memory=2**50)
"""More than any node has: a matrix has no larger amounts."""

_MAX_CPU_STEPS: Final = 100
_FINE_STEPS: Final = (10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 4000, 8000)
_STEPS_MILLI_CPU: Final = (*_FINE_STEPS, 20_000, 50_000, _MOST.milli_cpu // _MAX_CPU_STEPS)
_MEMORY_STEPS: Final = 16
_LEAST_RISE: Final = 0.02
"""Smaller rises of throughput are ignored: they are within the error of most measurements.

Otherwise a job that does not need its CPUs would keep them for a rise of 0.1 %.
"""


class CurvePoint(NamedTuple):
    """Steps per second with one CPU limit."""

    milli_cpu: int
    rate: float


def sensitivity_of(
    pod: TunedPod, also: Iterable[Amounts] = (), storage: float = 1.0, most: Amounts = _MOST
) -> SensitivityMatrix | None:
    """Return the throughput of a pod by CPUs and memory, or None if it is unknown.

    The throughput is unknown unless the facts have rates with two CPU limits for the pod's number
    of GPUs. The matrix has a row for the CPUs, and a column for the memory, of each amount in
    ``also``. If the memory of the pod is not tuned, or its processes need more than the node has,
    the matrix has one column, which applies to any amount of memory.

    Args:
        pod: the pod.
        also: amounts of which the matrix has cells.
        storage: the part of the storage bandwidth that the pod gets.
        most: what the node has; other cells have at most this.
    """
    if pod.mode is not ResourcesMode.AUTO or pod.facts is None:
        return None
    also, most = list(also), Amounts(*map(min, most, _MOST))
    fact = next((each for each in pod.facts.cpus if each.gpus == pod.gpus), None)
    if fact is None:
        return None
    by_cpus = matrix_of_fact(fact, (each.milli_cpu for each in also), most.milli_cpu)
    data = pod.dataset if tunes_memory(pod) else None
    if by_cpus is None or data is None or data.memory_floor > most.memory:
        return by_cpus
    memory = _memory_levels(data, also, most.memory)
    rates = [rate for (rate,) in by_cpus.throughput]
    rows = _rows(rates, memory, pod.gpus, data, storage)
    return SensitivityMatrix.rising(pod.gpus, by_cpus.cpus, [level / 1e9 for level in memory], rows)


def matrix_of_fact(
    fact: CpuFact, also: Iterable[int] = (), most: int = _MOST.milli_cpu
) -> SensitivityMatrix | None:
    """Return the throughput by CPUs, in one column for any amount of memory.

    The result is None unless the fact has rates with two CPU limits. The matrix has a row for each
    of the CPU limits ``also``, in thousandths of a CPU. All other rows have at most ``most``.
    """
    curve = _rising_curve(fact)
    if len(curve) < 2:  # noqa: PLR2004 (the two ends of a line)
        return None
    limits = [limit for limit in sorted({*_grid(curve, most), *also}) if limit > 0]
    rows = [[_interpolated(curve, limit)] for limit in limits]
    if not any(rate for [rate] in rows):
        return None
    return SensitivityMatrix.rising(fact.gpus, [limit / 1000 for limit in limits], ANY_MEMORY, rows)


def _rising_curve(fact: CpuFact) -> Sequence[CurvePoint]:
    """Return the measured points by ascending limit; falls and small rises become level."""
    rates = [
        (point.milli_cpu, point.micro_steps_per_second / 1e6)
        for point in fact.points
        if isfinite(point.micro_steps_per_second)
    ]
    curve: dict[int, float] = {}
    level = 0.0
    for milli_cpu, rate in sorted(rates):
        if rate > level * (1 + _LEAST_RISE):
            level = rate
        curve[milli_cpu] = level
    return [CurvePoint(*point) for point in curve.items()]


def _grid(curve: Sequence[CurvePoint], most: int) -> Iterable[int]:
    """Return the measured limits up to ``most``, and multiples of a round amount between them.

    If a measured limit is above ``most``, the last row has ``most`` CPUs.
    """
    first, last = curve[0].milli_cpu, min(curve[-1].milli_cpu, most)
    step = next(each for each in _STEPS_MILLI_CPU if each >= (last - first) / _MAX_CPU_STEPS)
    between = range(first // step * step + step, last, step)
    return (*between, *(point.milli_cpu for point in curve if point.milli_cpu < last), last)


def _interpolated(curve: Sequence[CurvePoint], milli_cpu: int) -> float:
    for low, high in pairwise((CurvePoint(0, 0.0), *curve)):
        if milli_cpu <= high.milli_cpu:
            part = (milli_cpu - low.milli_cpu) / (high.milli_cpu - low.milli_cpu)
            return low.rate + part * (high.rate - low.rate)
    return curve[-1].rate


def _memory_levels(dataset: Dataset, also: Iterable[Amounts], most: int) -> list[int]:
    """Return amounts of memory in bytes: from an empty cache to all data, but at most ``most``."""
    steps = (dataset.size * step // _MEMORY_STEPS for step in range(_MEMORY_STEPS + 1))
    whole = (-(-(dataset.memory_floor + step) // MEBIBYTE) * MEBIBYTE for step in steps)
    levels = {min(level, most) for level in whole}
    return sorted(levels | {amounts.memory for amounts in also if amounts.memory > 0})


def _rows(
    rates: Sequence[float], memory: Sequence[int], gpus: int, dataset: Dataset, storage: float
) -> list[list[float]]:
    cache = MinIOCache(
        dataset_gb=dataset.size / 1e9,
        floor_gb=dataset.memory_floor / 1e9,
        storage_mb_per_s=dataset.storage_mb_per_s * storage,
        mb_per_step=dataset.bytes_per_step * gpus / 1e6,
    )
    fetched = [cache.fetched_per_s(level / 1e9) for level in memory]
    return [[min(rate, most) for most in fetched] for rate in rates]
