"""Sensitivity matrix: a job's throughput by CPUs and memory (Synergy paper, section 3.1)."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, Self

ROUNDING: Final = 1 + 1e-9
"""Tolerance for rounding errors: amounts that differ by at most this factor are equal."""


class Point(NamedTuple):
    """One cell of the matrix: CPUs and memory of all GPUs together, and the throughput."""

    cpus: float
    memory_gb: float
    throughput: float


@dataclass(frozen=True, slots=True)
class SensitivityMatrix:
    """Throughput of one job with a fixed number of GPUs, by CPUs and memory.

    Throughput does not decrease with more CPUs or memory, because a job can leave them unused.
    :meth:`rising` makes a matrix with this property from raw measurements.

    Attributes:
        cpus: numbers of CPUs for all GPUs together, ascending.
        memory_gb: amounts of memory for all GPUs together, ascending (10^9 bytes).
        throughput: one row for each number of CPUs, with one entry for each amount of memory. The
            unit is steps per second, or a multiple such as images per second.
        measured_gpus: number of GPUs during the measurement. In a scaled matrix, ``gpus`` differs.
    """

    gpus: int
    cpus: tuple[float, ...]
    memory_gb: tuple[float, ...]
    throughput: tuple[tuple[float, ...], ...]
    measured_gpus: int

    def __post_init__(self) -> None:
        """Raise ``ValueError`` with the field and the value if an axis or throughput is invalid."""
        for name, count in (("gpus", self.gpus), ("measured_gpus", self.measured_gpus)):
            if count < 1:
                raise ValueError(f"{name}: {count} is not at least 1")
        _check_axis("cpus", self.cpus)
        _check_axis("memory_gb", self.memory_gb)
        _check_throughput(self.throughput, len(self.cpus), len(self.memory_gb))

    @classmethod
    def rising(
        cls,
        gpus: int,
        cpus: Sequence[float],
        memory_gb: Sequence[float],
        throughput: Sequence[Sequence[float]],
    ) -> Self:
        """Return the matrix of raw measurements, with non-decreasing throughput.

        Each cell gets the highest throughput that was measured with at most these CPUs and memory.

        Raises:
            ValueError: on invalid axes or throughput.
        """
        rows: list[tuple[float, ...]] = []
        for measured in throughput:
            row: list[float] = []
            for column, value in enumerate(measured):
                fewer_cpus = rows[-1][column] if rows and column < len(rows[-1]) else 0.0
                row.append(max(value, row[-1] if row else 0.0, fewer_cpus))
            rows.append(tuple(row))
        return cls(gpus, tuple(cpus), tuple(memory_gb), tuple(rows), gpus)

    def at(self, cpus: float, memory_gb: float) -> float:
        """Return the throughput of the largest cell with at most these CPUs and this memory.

        The value is not interpolated, because the job might not reach an interpolated value. If
        even the smallest cell has more CPUs or memory, the result is 0: the job might not run.
        """
        row = bisect_right(self.cpus, cpus * ROUNDING) - 1
        column = bisect_right(self.memory_gb, memory_gb * ROUNDING) - 1
        return 0.0 if row < 0 or column < 0 else self.throughput[row][column]

    @property
    def best(self) -> float:
        """Throughput with the most CPUs and the most memory of the matrix."""
        return self.throughput[-1][-1]

    @property
    def is_scaled(self) -> bool:
        """Whether the matrix was scaled to a number of GPUs that was not measured."""
        return self.gpus != self.measured_gpus

    def scaled_to(self, gpus: int) -> Self:
        """Return the matrix of the same job with another number of GPUs.

        Each GPU has its own process, and all processes wait for each other (section 4.2). So the
        speed of the job depends on the CPUs and memory per GPU. With twice as many GPUs, the job
        needs twice as many CPUs and twice as much memory for the same steps per second. The time of
        communication is ignored.

        Raises:
            ValueError: on fewer than 1 GPU.
        """
        if gpus < 1:
            raise ValueError(f"gpus: {gpus} is not at least 1")
        factor = gpus / self.gpus
        return type(self)(
            gpus,
            tuple(count * factor for count in self.cpus),
            tuple(amount * factor for amount in self.memory_gb),
            self.throughput,
            self.measured_gpus,
        )


def _check_axis(name: str, axis: Sequence[float]) -> None:
    if not axis:
        raise ValueError(f"{name}: the list is empty")
    for value in axis:
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name}: {value} is not a positive number")
    for one, next_one in pairwise(axis):
        if next_one <= one:
            raise ValueError(f"{name}: {next_one} follows {one}; values must ascend")


def _check_throughput(rows: Sequence[Sequence[float]], cpus: int, amounts: int) -> None:
    if len(rows) != cpus or any(len(row) != amounts for row in rows):
        lengths = [len(row) for row in rows]
        raise ValueError(
            f"throughput: row lengths are {lengths}; expected {cpus} rows with {amounts} values"
        )
    for value in (value for row in rows for value in row):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"throughput: {value} is not a finite number that is at least 0")
    columns = zip(*rows, strict=True)
    for line in (*rows, *columns):
        for one, next_one in pairwise(line):
            if next_one < one:
                raise ValueError(f"throughput: {next_one} with more CPUs or memory is below {one}")
    if rows[-1][-1] == 0:
        raise ValueError("throughput: all values are 0")
