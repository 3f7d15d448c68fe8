"""Preserve: good links for those who need them, kept whole by those who do not.

MAPA, algorithm 1, as meant: every set is scored by its best embedding, and one on
offer is always taken. (The authors' program compares orders of one set, and leaves a
job waiting that no set gives more than an empty match's 12.34 GB/s.)
"""

from gputopo.placement.options import Options
from gputopo.topology.model import GpuMask


def choose(options: Options) -> GpuMask:
    """Return the set of the highest effective bandwidth, or of the highest preserved.

    Sensitive: effective, ties by preserved. Insensitive: preserved, ties by aggregate.
    """

    def for_itself(gpus: GpuMask) -> tuple[int, int]:
        return options.effective_mb_per_s(gpus), options.preserved_mb_per_s(gpus)

    def for_others(gpus: GpuMask) -> tuple[int, int]:
        return options.preserved_mb_per_s(gpus), options.embedding(gpus).aggregate_mb_per_s

    return max(options.sets(), key=for_itself if options.request.sensitive else for_others)
