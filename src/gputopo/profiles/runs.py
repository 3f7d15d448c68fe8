"""Computes the mean of each run. All samples of one run (one pod) count as one value.

Samples of one run are more similar than samples of different runs: GPUs of one model differ in
speed by several percent (Sinha et al., "Not All GPUs Are Created Equal", SC '22), and data, clocks
and storage differ from run to run. So confidence intervals are computed from the differences
between runs. Intervals from the differences between single samples would be too narrow.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import inf, log
from statistics import fmean, median, median_low
from typing import Final, NamedTuple, TypeAlias, TypeVar

from gputopo.api.profile import Sample
from gputopo.profiles.estimate import Estimate, combined

RUN_SCATTER: Final = 0.02
"""Assumed standard deviation between runs in one setting, of the logarithm of the time per step."""

SAMPLE_SCATTER: Final = 0.01
"""Assumed standard deviation between parts of one run, of the logarithm of the time per step. More
samples do not lower it, because successive samples have common causes of error."""

MAX_RUNS: Final = 16
"""Number of the newest runs that count on each side of a comparison. So the facts follow a workload
whose speed changes over time."""

_OUTLIER: Final = 5.0  # in standard deviations
_LEAST_OUTLIER: Final = 0.15
_MIN_CELL: Final = 3  # observations
_MAX_OUTLIERS: Final = 0.25  # share of all runs
_MIN_RUNS: Final = 6  # fewer runs do not show which of them is the outlier
DEVIATION_PER_MAD: Final = 1.4826  # from the median of absolute values, for a normal distribution
CI_TO_DEVIATION: Final = 1 / 1960  # from half the width of a 95 % interval, in permille

_LOG_MICRO: Final = log(1e6)

Setting = TypeVar("Setting")


class Observation(NamedTuple):
    """The logarithm of the seconds per step in one sample, and its reported standard deviation."""

    log_time: float
    deviation: float


Cells: TypeAlias = Mapping[tuple[str, Setting], Sequence[Observation]]
"""Observations by pod UID and setting. One cell has the observations of one run in one setting."""


def newest_runs(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples of the newest ``MAX_RUNS`` runs (pods); ``samples`` ascend by time."""
    runs = list(dict.fromkeys(sample.pod_uid for sample in reversed(samples)))
    kept = set(runs[:MAX_RUNS])
    return [sample for sample in samples if sample.pod_uid in kept]


def cells_of(samples: Iterable[tuple[Sample, Setting]]) -> Cells[Setting]:
    """Group samples by run (pod) and setting, and remove outliers.

    A group of one or two samples has no outliers. In other groups, an outlier differs from the
    median by more than 15 % and by more than five standard deviations, which are estimated from all
    groups. If half of a group or more would be outliers, none of the group is removed.
    """
    cells = defaultdict[tuple[str, Setting], list[Observation]](list)
    for sample, setting in samples:
        cells[sample.pod_uid, setting].append(
            Observation(
                _LOG_MICRO - log(sample.micro_steps_per_second),
                sample.ci_permille * CI_TO_DEVIATION,
            )
        )
    distances = {
        key: _distances(values) for key, values in cells.items() if len(values) >= _MIN_CELL
    }
    # The least distance of a cell is that of the median itself, so it is left out. Of two others,
    # the lower one counts, because the higher one may be that of an outlier.
    others = list(chain.from_iterable(sorted(each)[1:] for each in distances.values()))
    limit = _limit(median_low(others)) if others else inf
    return {
        key: _majority(values, distances[key], limit) if key in distances else values
        for key, values in cells.items()
    }


def repeats(cells: Cells[Setting]) -> tuple[float, int]:
    """Return the sum of squared deviations from each cell's mean, and its degrees of freedom."""
    squares = sum(
        (each.log_time - mean) ** 2
        for values in cells.values()
        for mean in [fmean(each.log_time for each in values)]
        for each in values
    )
    return squares, sum(len(values) - 1 for values in cells.values())


def run_means(cells: Cells[Setting]) -> dict[tuple[str, Setting], Estimate]:
    """Return the mean of each cell (one run in one setting), with its variance within the run.

    The variance of one sample is estimated in two ways: from the differences between samples of one
    cell, and from the deviations that the samples report. The larger estimate counts.
    """
    squares, freedom = repeats(cells)
    variance = squares / freedom if freedom else 0.0
    return {
        key: Estimate(
            fmean(each.log_time for each in values),
            SAMPLE_SCATTER**2
            + max(variance, fmean(each.deviation**2 for each in values)) / len(values),
        )
        for key, values in cells.items()
    }


def across_runs(mean: Estimate) -> Estimate:
    """Return the mean of one run as an estimate for all runs: add the variance between runs."""
    return mean._replace(variance=mean.variance + RUN_SCATTER**2)


def level(means: Iterable[Estimate]) -> Estimate:
    """Return the mean of several runs in one setting, without outliers."""
    runs = [across_runs(mean) for mean in means]
    centre = median(run.value for run in runs)
    keep = without_outliers([run.value - centre for run in runs])
    return combined(run for run, kept in zip(runs, keep, strict=True) if kept)


def without_outliers(residuals: Sequence[float]) -> list[bool]:
    """Return for each run whether to keep it. ``residuals`` come from a robust fit to the runs.

    If more than a quarter of the runs are outliers, probably the workload itself has changed. Then
    all runs are kept, and the confidence interval is wide.
    """
    count = len(residuals)
    if count < _MIN_RUNS:
        return [True] * count
    # The fit has two parameters and makes residuals smaller: by 6 / 4 with six runs.
    limit = _limit(median(map(abs, residuals))) * count / (count - 2)
    keep = [abs(residual) <= limit for residual in residuals]
    return keep if keep.count(False) <= _MAX_OUTLIERS * count else [True] * count


def _limit(median_distance: float) -> float:
    return max(_LEAST_OUTLIER, _OUTLIER * DEVIATION_PER_MAD * median_distance)


def _distances(values: Sequence[Observation]) -> list[float]:
    centre = median(each.log_time for each in values)
    return [abs(each.log_time - centre) for each in values]


def _majority(values: list[Observation], distances: list[float], limit: float) -> list[Observation]:
    kept = [each for each, far in zip(values, distances, strict=True) if far <= limit]
    return kept if 2 * len(kept) > len(values) else values
