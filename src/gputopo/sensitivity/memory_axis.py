"""The memory axis of the sensitivity matrix, for a MinIO cache (Synergy paper, section 3.1).

A MinIO cache never evicts data. If it contains m GB of a data set of D GB, then m/D of the reads of
every epoch are cache hits. All other reads come from storage. The slowest of GPUs, CPUs and storage
limits the speed of the job. This computation is not correct for a page cache, which evicts data
before the job reads the data again.

Example: a job with 100 GB of data has 50 GB of memory, and its processes need 10 GB. The cache has
40 GB, so 40 % of the reads are hits. A step reads 50 MB, 30 MB of them from storage. With 600 MB/s
of storage bandwidth, the job makes 600 / 30 = 20 steps per second.
"""

import math
from dataclasses import dataclass

_MB_PER_GB = 1000


@dataclass(frozen=True, slots=True)
class MinIOCache:
    """The MinIO cache, data set and reads of a job. Amounts are for all GPUs of the job together.

    Attributes:
        floor_gb: memory of the processes, which is not available for the cache.
        storage_mb_per_s: bandwidth of reads from storage.
        mb_per_step: data that a step reads.
    """

    dataset_gb: float
    floor_gb: float
    storage_mb_per_s: float
    mb_per_step: float

    def __post_init__(self) -> None:
        """Raise ``ValueError`` with the field and the value if a field is not a positive number."""
        for name in ("dataset_gb", "floor_gb", "storage_mb_per_s", "mb_per_step"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name}: {value} is not a positive number")

    def hit_rate(self, memory_gb: float) -> float:
        """Return the fraction of reads (0..1) that are cache hits if the job has this memory."""
        return min(1.0, max(0.0, memory_gb - self.floor_gb) / self.dataset_gb)

    def fetched_per_s(self, memory_gb: float) -> float:
        """Return the steps per second for which storage and cache can provide the data.

        The result is 0 if the memory is not enough for the processes, and infinite if all data is
        cached.
        """
        if memory_gb < self.floor_gb:
            return 0.0
        missed_mb = self.mb_per_step * (1 - self.hit_rate(memory_gb))
        return self.storage_mb_per_s / missed_mb if missed_mb else math.inf
