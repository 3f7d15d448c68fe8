"""Best-case demand of a job: the least CPUs and memory that saturate it (Synergy, section 3.2)."""

from typing import Final, NamedTuple

from gputopo.sensitivity.matrix import SensitivityMatrix

SATURATED: Final = 1.0
"""Share of the best throughput that counts as saturated: all of it."""


class Demand(NamedTuple):
    """CPUs and memory (10^9 bytes) of a job, for all its GPUs together."""

    cpus: float
    memory_gb: float


def saturating_demand(matrix: SensitivityMatrix, saturated: float = SATURATED) -> Demand:
    """Return the least CPUs, and with them the least memory, that saturate the job.

    CPUs are minimised first, because the profile is measured along them, at the most memory
    (section 3.1).

    Args:
        matrix: sensitivity matrix of the job.
        saturated: sufficient share of the best throughput, above 0 and at most 1.

    Raises:
        ValueError: if ``saturated`` is out of range.
    """
    if not 0 < saturated <= 1:
        raise ValueError(f"saturated: {saturated} is not in (0, 1]")
    enough = saturated * matrix.best
    row = next(row for row, values in enumerate(matrix.throughput) if values[-1] >= enough)
    values = matrix.throughput[row]
    column = next(column for column, value in enumerate(values) if value >= enough)
    return Demand(matrix.cpus[row], matrix.memory_gb[column])
