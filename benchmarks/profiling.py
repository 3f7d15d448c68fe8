"""The CPU counts that must be measured, and the error of the curve (Synergy, section 3.1)."""

import statistics
from collections.abc import Sequence
from typing import Final

from benchmarks.contention import measured
from benchmarks.options import Options
from benchmarks.table import show
from gputopo.sensitivity.matrix import SensitivityMatrix
from gputopo.sensitivity.planner import Curve, ProfilingPlan, interpolated, next_cpus

_SHARE_CPUS: Final = 3
"""CPUs of one GPU, on the servers of the authors."""


def run(options: Options) -> None:  # noqa: ARG001 - it is quick
    """Profile every model that the authors measured, by their matrices, and print the points."""
    head = ["model", "points", "of", "largest error", "mean error", "in this order"]
    rows = [_row(name, matrix) for name, matrix in measured().items()]
    show("Optimistic profiling: CPU counts measured, and errors of the curve", head, rows)


def _row(name: str, matrix: SensitivityMatrix) -> Sequence[str]:
    """Return the cells of one model.

    Errors are those at the CPU counts that the authors measured; between those their curve is
    interpolated for the planner.
    """
    columns = zip(matrix.cpus, matrix.throughput, strict=True)
    truth = {int(cpus): row[-1] for cpus, row in columns}
    points = _points(interpolated(truth))
    found = interpolated(points)
    errors = [abs(found[cpus] - rate) / rate for cpus, rate in truth.items()]
    return [
        name,
        *(str(len(points)), str(max(truth))),
        *(f"{error:.1%}" for error in (max(errors), statistics.mean(errors))),
        ", ".join(map(str, points)),
    ]


def _points(truth: Curve) -> Curve:
    """Return the points that the planner has measured, in its order."""
    plan = ProfilingPlan(most_cpus=max(truth), share_cpus=_SHARE_CPUS)
    points: dict[int, float] = {}
    while (cpus := next_cpus(plan, points)) is not None:
        points[cpus] = truth[cpus]
    return points
