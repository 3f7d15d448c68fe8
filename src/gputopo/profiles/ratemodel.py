"""Prepares the regression of rates: columns, scatter and errors (:mod:`ratefit` explains them)."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from math import exp, log, sqrt
from operator import sub
from statistics import median
from typing import Final, NamedTuple

from gputopo.api.profile import Sample
from gputopo.profiles.estimate import student_t
from gputopo.profiles.linkcurve import CurveMisfit, LinkCurve, log_times
from gputopo.profiles.regression import Column, Regression, RunErrors
from gputopo.profiles.runs import (
    CI_TO_DEVIATION,
    DEVIATION_PER_MAD,
    RUN_SCATTER,
    SAMPLE_SCATTER,
)
from gputopo.profiles.slowness import slowness_of
from gputopo.profiles.terms import NEIGHBOURS, Term, nested, runs_of, terms_of

RUN_SHARE: Final = 0.7
"""Assumed standard deviation of the error of runs relative to that of samples, in addition to
:data:`gputopo.profiles.runs.RUN_SCATTER`: half of the variance, because what disturbs samples
disturbs whole runs too."""

RUN_FREEDOM: Final = 2
"""The assumed scatter of runs counts as much as the scatter of so many runs."""

SAMPLE_FREEDOM: Final = 4
"""The assumed scatter of samples counts as much as the scatter of so many samples."""

MAX_NONNEGATIVE: Final = 16
"""Number of neighbours whose effects are known not to be negative. More would take too much time;
the effects of further neighbours can have any sign."""

_T_FREEDOM: Final = 4.0  # of the distribution of errors
_STEPS: Final = 3
_SLOWDOWN: Final = 2.0  # prior deviation of a logarithm, a factor of 7
_MOST_SCATTER: Final = 1.0


class Scatter(NamedTuple):
    """Variances of errors.

    Attributes:
        scale: squared scale of the t distribution of the errors of runs.
        runs: variance of the error of each run. An outlier has a larger variance, so less weight.
        samples: variance of the own error of each sample, larger for an outlier, too.
    """

    scale: float
    runs: Column
    samples: Column


class RateData(NamedTuple):
    """Samples as numbers.

    Attributes:
        log_times: logarithm of the seconds per step, relative to the first sample.
        runs: positions of the samples of each run.
        scatter: standard deviation of the own error of a sample.
    """

    log_times: Column
    slowness: Column
    runs: Sequence[Sequence[int]]
    terms: Sequence[Term]
    scatter: float

    @property
    def run_variance(self) -> float:
        """Assumed variance of the error of runs."""
        return RUN_SCATTER**2 + (RUN_SHARE * self.scatter) ** 2

    def errors(self, scatter: Scatter) -> RunErrors:
        """Return the covariance of the errors."""
        return RunErrors(self.runs, scatter.samples, scatter.runs)

    @property
    def quantile(self) -> float:
        """Half the width of a 95 % interval in standard deviations.

        The base and the slowdown are fitted to the runs, which costs two degrees of freedom.
        """
        return student_t(RUN_FREEDOM + max(0, len(self.runs) - 2))


class RateModel(NamedTuple):
    """The model ``targets = sum of coefficient * column + error``.

    The prior of each coefficient has the mean 0 and its standard deviation in ``deviations``.
    """

    columns: Sequence[Column]
    deviations: Sequence[float]
    targets: Column

    def regression(self, errors: RunErrors) -> Regression:
        """Return the regression with these errors."""
        return Regression(self.columns, self.deviations, errors)


def rate_data(samples: Sequence[Sample]) -> RateData:
    """Convert samples (at least 1) of one number of GPUs, ascending by time, to numbers."""
    # A ratio of integers does not change, even by rounding, if the unit of all rates changes.
    first = samples[0].micro_steps_per_second
    logarithms = [log(first / sample.micro_steps_per_second) for sample in samples]
    return RateData(
        logarithms,
        slowness_of(samples),
        runs_of(samples),
        terms_of(samples),
        _sample_scatter(samples, logarithms),
    )


def model_of(data: RateData, curve: LinkCurve | None) -> RateModel:
    """Return the model of the log times minus ``curve``, with columns of all terms and one more.

    The additional column is the derivative of the curve by ``log_slowdown``. With this column, an
    uncertain slowdown makes the other effects uncertain, too. Without a curve, the additional
    column is the slowness: the logarithm of the time is assumed to be linear in the slowness.
    """
    columns = [term.column for term in data.terms]
    deviations = [*(term.deviation for term in data.terms), _SLOWDOWN]
    if curve is None:
        return RateModel([*columns, data.slowness], deviations, data.log_times)
    expected = log_times(data.slowness, *curve)
    changes = [
        exp(curve.log_slowdown - time) * curve.shape.rise(slowness)
        for slowness, time in zip(data.slowness, expected, strict=True)
    ]
    return RateModel([*columns, changes], deviations, list(map(sub, data.log_times, expected)))


def first_scatter(data: RateData) -> Scatter:
    """Return the scatter with which the estimation starts.

    The variance of runs deliberately starts too high. :func:`better_scatter` lowers it as far as
    the samples show that it is lower. So with few samples it is rather too high than too low.
    """
    own = data.scatter**2
    runs = data.run_variance + own
    return Scatter(runs, [runs] * len(data.runs), [own] * len(data.log_times))


def better_scatter(data: RateData, model: RateModel, scatter: Scatter) -> Scatter:
    """Return better estimates of the variances.

    These are steps of expectation maximisation: errors of runs and of samples have t distributions.
    The scale of the errors of samples is known, that of runs is estimated. The base and the
    slowdown are fitted to the runs, which costs two degrees of freedom.
    """
    for _ in range(_STEPS):
        errors = data.errors(scatter)
        residuals = model.regression(errors).residuals(model.targets)
        parts = errors.run_parts(residuals)
        squares = [part**2 + each for part, each in zip(parts, errors.run_variances, strict=True)]
        weighted = sum(scatter.scale * each / _wider(scatter.scale, each) for each in squares)
        scale = (RUN_FREEDOM * data.run_variance + weighted) / (
            RUN_FREEDOM + max(1, len(squares) - 2)
        )
        scatter = Scatter(
            scale,
            [_wider(scale, each) for each in squares],
            [_wider(data.scatter**2, each**2) for each in errors.own_parts(residuals, parts)],
        )
    return scatter


def _wider(scale: float, square: float) -> float:
    """Return the variance of one error. It grows with the square, so a large error counts little.

    Example: most runs differ by 2 %, so ``scale`` is 0.0004. A run that differs by 20 % has the
    square 0.04 and the variance (4 * 0.0004 + 0.04) / 5 = 0.0083. Its weight is 0.0004 / 0.0083 =
    5 %.
    """
    return (_T_FREEDOM * scale + square) / (_T_FREEDOM + 1)


def misfit_of(data: RateData, errors: RunErrors) -> CurveMisfit:
    """Return the misfit of curves. For each curve, other terms have their most probable effects."""
    neighbours = nested([term for term in data.terms if term.kind in NEIGHBOURS])
    bounded, unbounded = neighbours[:MAX_NONNEGATIVE], neighbours[MAX_NONNEGATIVE:]
    free = [*(term for term in data.terms if term.kind not in NEIGHBOURS), *unbounded]
    regression = Regression(
        [term.column for term in free], [term.deviation for term in free], errors
    )
    levels = sorted(set(data.slowness))
    indicators = [[float(each == level) for each in data.slowness] for level in levels]
    columns = [data.log_times, *indicators, *(term.column for term in bounded)]
    return CurveMisfit(levels, regression.products(columns), [each.deviation for each in bounded])


def _sample_scatter(samples: Sequence[Sample], log_times: Sequence[float]) -> float:
    """Return the standard deviation of samples of one run in equal surroundings."""
    cells = defaultdict[Hashable, list[float]](list)
    for sample, log_time in zip(samples, log_times, strict=True):
        neighbours = (*sorted(sample.socket_neighbours), "", *sorted(sample.node_neighbours))
        cells[sample.pod_uid, sample.milli_cpu, neighbours].append(log_time)
    distances = [
        abs(each - median(cell)) * sqrt(len(cell) / (len(cell) - 1))
        for cell in cells.values()
        if len(cell) > 1
        for each in cell
    ]
    found = DEVIATION_PER_MAD * median(distances) if distances else 0.0
    reported = CI_TO_DEVIATION * median(sample.ci_permille for sample in samples)
    squares = SAMPLE_FREEDOM * (SAMPLE_SCATTER**2 + reported**2) + len(distances) * found**2
    return min(_MOST_SCATTER, sqrt(squares / (SAMPLE_FREEDOM + len(distances))))
