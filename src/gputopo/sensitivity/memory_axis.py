"""The memory axis of W, derived: what a cache of known hit rate does to a job (section 3.1).

MinIO keeps what it once cached: a cache that holds m of a data set of D answers m/D of the
reads in every epoch, whoever else runs. The other reads come at the rate of the storage, and
the job goes at the least of what its GPUs, its CPUs and its storage let it. A page cache
thrashes instead; with one, amounts of memory have to be measured (``Plan.memory_gb``).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.sensitivity.planner import Curve, interpolated

_MB_PER_GB = 1000


@dataclass(frozen=True, slots=True)
class MinIOCache:
    """A job's data set and how it is read; all its GPUs together.

    Attributes:
        dataset_gb: size of the data set.
        floor_gb: memory that the processes need before anything is left to cache.
        storage_mb_per_s: rate of reads that are not answered from the cache.
        mb_per_step: what a step reads.
    """

    dataset_gb: float
    floor_gb: float
    storage_mb_per_s: float
    mb_per_step: float

    def __post_init__(self) -> None:
        """Refuse amounts that are none.

        Raises:
            ValueError: naming the field and the value.
        """
        for name in ("dataset_gb", "floor_gb", "storage_mb_per_s", "mb_per_step"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name}: {value} is not a positive number")

    def hit_rate(self, memory_gb: float) -> float:
        """Return the share of reads that a job with so much memory has cached, 0..1."""
        return min(1.0, max(0.0, memory_gb - self.floor_gb) / self.dataset_gb)

    def fetched_per_s(self, memory_gb: float) -> float:
        """Return the steps per second that storage and cache let the job do.

        0 with less than the processes need, infinite where everything is cached.
        """
        if memory_gb < self.floor_gb:
            return 0.0
        missed_mb = self.mb_per_step * (1 - self.hit_rate(memory_gb))
        return self.storage_mb_per_s / missed_mb if missed_mb else math.inf


def derived_matrix(
    gpus: int, curve: Curve, memory_gb: Sequence[float], cache: MinIOCache
) -> SensitivityMatrix:
    """Return the whole matrix of a job that was measured at full memory only.

    Args:
        gpus: GPUs of the job.
        curve: steps per second by CPUs, with the data set cached.
        memory_gb: the amounts of memory to tell, ascending.
        cache: how it reads.

    Raises:
        ValueError: no curve, or amounts of memory that are none or too little to run with.
    """
    rows = [
        [min(rate, cache.fetched_per_s(amount)) for amount in memory_gb]
        for rate in interpolated(curve).values()
    ]
    return SensitivityMatrix.rising(gpus, list(interpolated(curve)), memory_gb, rows)
