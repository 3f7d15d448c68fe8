"""The sensitivity matrix W[c, m] of one job (Synergy, section 3.1)."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple, Self

ROUNDING: Final = 1 + 1e-9
"""A share that arithmetic left a hair under a measured point still reaches it."""


class Point(NamedTuple):
    """One cell: what a job is given in all its GPUs together, and how fast it is with that."""

    cpus: float
    memory_gb: float
    throughput: float


@dataclass(frozen=True, slots=True)
class SensitivityMatrix:
    """Throughput of one job at its GPU count, against the CPUs and the memory it is given.

    More of either never slows a job down, since it may leave the rest unused: rows and
    columns ascend. :meth:`rising` makes a matrix of raw measurements so.

    Attributes:
        gpus: GPUs of the job.
        cpus: the CPU counts, all GPUs together, ascending.
        memory_gb: the amounts of memory, all GPUs together, ascending (10^9 bytes).
        throughput: one row per CPU count, one entry per amount of memory: steps per second,
            or any multiple of it that is the same in the whole matrix.
        measured_gpus: GPUs it was measured with; other than ``gpus`` where it was scaled.
    """

    gpus: int
    cpus: tuple[float, ...]
    memory_gb: tuple[float, ...]
    throughput: tuple[tuple[float, ...], ...]
    measured_gpus: int

    def __post_init__(self) -> None:
        """Refuse what is no matrix.

        Raises:
            ValueError: naming the field and the value.
        """
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
        """Return the matrix of raw measurements, each cell raised to the best below it.

        Raises:
            ValueError: the axes or the throughputs are no matrix.
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
        """Return the throughput with so much: that of the largest measured point within it.

        Nothing is interpolated, so a promise made from it is kept. Below the smallest
        point the job is not known to run: 0.
        """
        row = bisect_right(self.cpus, cpus * ROUNDING) - 1
        column = bisect_right(self.memory_gb, memory_gb * ROUNDING) - 1
        return 0.0 if row < 0 or column < 0 else self.throughput[row][column]

    @property
    def best(self) -> float:
        """The throughput with the most CPUs and memory measured."""
        return self.throughput[-1][-1]

    @property
    def is_scaled(self) -> bool:
        """Whether it stands for a GPU count that was not measured."""
        return self.gpus != self.measured_gpus

    def scaled_to(self, gpus: int) -> Self:
        """Return the matrix of the same job with another GPU count, not measured but scaled.

        Each GPU has a process of its own, which goes as fast as its share of CPUs and
        memory lets it, and all wait for each other (section 4.2): the axes scale with the
        GPUs, steps per second stay. What their talking costs is not in it.

        Raises:
            ValueError: fewer than 1 GPU.
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
        raise ValueError(f"{name}: no point at all")
    for value in axis:
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name}: {value} is not a positive number")
    for one, next_one in pairwise(axis):
        if next_one <= one:
            raise ValueError(f"{name}: {next_one} after {one} does not ascend")


def _check_throughput(rows: Sequence[Sequence[float]], cpus: int, amounts: int) -> None:
    if len(rows) != cpus or any(len(row) != amounts for row in rows):
        shape = [len(row) for row in rows]
        raise ValueError(f"throughput: rows of {shape} for {cpus} CPU counts by {amounts} amounts")
    for value in (value for row in rows for value in row):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"throughput: {value} is not a finite number of at least 0")
    columns = zip(*rows, strict=True)
    for line in (*rows, *columns):
        for one, next_one in pairwise(line):
            if next_one < one:
                raise ValueError(f"throughput: {next_one} after {one}, where more was given")
    if rows[-1][-1] == 0:
        raise ValueError("throughput: 0 everywhere")
