"""The most that any estimator can find out from the samples: a bound for the estimators.

The reference knows everything but the slowdown itself and the speed on the best links: the shape of
the law between best and worst links, the effects of CPUs and neighbours, the drift, which samples
are outliers, and all standard deviations. What it leaves unknown, the samples do not show.

The log of the rate of run r has the mean z_r over its n_r samples, with variance
``(sample / 3)^2 + sample^2 / n_r``. Its expectation is ``a - log(1 + s * phi_r)``: s is the
slowdown on the worst links, and phi_r is the part of it that the GPU set of the run has, 0 to 1.
The 95 % interval has the values of s whose sum of squared, weighted residuals exceeds the least one
by at most 3.84 (chi-square with 1 degree of freedom), after minimising over a.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from benchmarks.workloads.draw import LIMIT, SimulatedWorkload
from benchmarks.workloads.samples import SampleNoise, SimulatedSample
from gputopo.api.profile import LinkFact

_CHI_SQUARE: Final = 3.841
_GRID: Final = np.concatenate([np.linspace(0, 0.5, 251), np.geomspace(0.502, 6, 150)])


@dataclass(frozen=True, slots=True)
class _RunMean:
    """Mean of the log of the rates of one run, its variance, and phi of its GPU set."""

    log_rate: float
    variance: float
    part: float


def attainable(
    workload: SimulatedWorkload, noise: SampleNoise, samples: Sequence[SimulatedSample]
) -> LinkFact | None:
    """Return the best possible fact, or None if all runs had sets of the same bandwidth."""
    runs = list(_run_means(workload, noise, samples))
    part = np.array([run.part for run in runs])
    if not runs or np.ptp(part) == 0:
        return None
    weight = 1 / np.array([run.variance for run in runs])
    residual = np.array([run.log_rate for run in runs]) + np.log1p(_GRID[:, None] * part)
    mean = (residual * weight).sum(axis=1) / weight.sum()
    misfit = ((residual - mean[:, None]) ** 2 * weight).sum(axis=1)
    inside = _GRID[misfit <= misfit.min() + _CHI_SQUARE]
    best, low, high = (float(each) for each in (_GRID[misfit.argmin()], inside[0], inside[-1]))
    return LinkFact(
        gpus=workload.gpus,
        percent=round(100 * best),
        low_percent=round(100 * low),
        high_percent=round(100 * high),
        samples=len(samples),
        sensitivity=_sensitivity(low, high),
    )


def _sensitivity(low: float, high: float) -> Literal["Sensitive", "Insensitive", "Unknown"]:
    if low >= LIMIT:
        return "Sensitive"
    return "Insensitive" if high < LIMIT else "Unknown"


def _run_means(
    workload: SimulatedWorkload, noise: SampleNoise, samples: Sequence[SimulatedSample]
) -> Iterator[_RunMean]:
    runs: dict[int, list[SimulatedSample]] = defaultdict(list)
    for each in samples:
        if each.sample.gpus == workload.gpus and not each.outlier:
            runs[each.run].append(each)
    for own in runs.values():
        part = _part(workload, own[0].sample.effective_mb_per_s or 0)
        error = sum(each.log_error for each in own) / len(own)
        variance = (noise.sample / 3) ** 2 + noise.sample**2 / len(own)
        yield _RunMean(error - math.log1p(workload.slowdown * part), variance, part)


def _part(workload: SimulatedWorkload, mb_per_s: int) -> float:
    """Return the part of the slowdown on a set; linear in the time per MB if there is none."""
    worst, best = workload.server.extremes_mb_per_s(workload.gpus)
    if workload.slowdown < 1e-6:  # noqa: PLR2004 - no slowdown
        return (1 / mb_per_s - 1 / best) / (1 / worst - 1 / best)
    seconds = workload.alone_seconds(workload.gpus, mb_per_s)
    return (seconds / workload.alone_seconds(workload.gpus) - 1) / workload.slowdown
