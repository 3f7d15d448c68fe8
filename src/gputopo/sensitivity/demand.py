"""Demand of a job: the least CPUs and memory for its best speed (Synergy paper, section 3.2)."""

from typing import NamedTuple

from gputopo.sensitivity.matrix import SensitivityMatrix


class Demand(NamedTuple):
    """CPUs and memory (10^9 bytes) of a job, for all its GPUs together."""

    cpus: float
    memory_gb: float


def saturating_demand(matrix: SensitivityMatrix) -> Demand:
    """Return the fewest CPUs with the best throughput, and the least memory for these CPUs.

    Example: if 2 CPUs with 64 GB and 4 CPUs with 32 GB have the best throughput, the result is 2
    CPUs with 64 GB. Fewer CPUs have priority, as in the Synergy paper (section 3.1).
    """
    best = matrix.best
    row = next(row for row, values in enumerate(matrix.throughput) if values[-1] == best)
    column = matrix.throughput[row].index(best)
    return Demand(matrix.cpus[row], matrix.memory_gb[column])
