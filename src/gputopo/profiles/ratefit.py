"""Fits all samples of a workload with one number of GPUs in one regression.

Samples rarely differ in one respect only: on a busy node, a run gets worse links and more
neighbours at the same time. So one model explains all samples::

    log time = base + curve(u) + neighbours + CPUs + drift + run + own error

- ``curve(u)`` depends on the slowness u of the links (:mod:`gputopo.profiles.linkcurve`).
- Each neighbour workload has one effect on the same socket, and one on other sockets of the node.
- Each CPU limit except the most frequent one has an effect.
- The drift is linear in the number of the run.
- All samples of a run share an error. GPUs of one model differ in speed by several percent (Sinha
  et al., "Not All GPUs Are Created Equal", SC '22), and data, clocks and storage differ from run to
  run.

Each effect has a normal prior distribution with the mean 0. Those of links and CPUs are so wide
that they hardly matter. Those of neighbours are as wide as the slowdowns that SC17 measured. No
neighbour makes a workload faster. So for the interval of the slowdown on slow links, the effects of
neighbours are not negative (:mod:`gputopo.profiles.linkcurve`). Example: a workload is equally
fast on bad links beside neighbours and on good links alone. If neighbours could make the workload
faster, bad links could still make it slower.

The scatter of samples and of runs is estimated, with an assumed scatter as a prior. Errors have
Student's t distribution, so outliers of samples and of runs have little weight (Lange, Little and
Taylor, "Robust Statistical Modeling Using the t Distribution", JASA 84, 1989).

Example: a run alone on the best links takes 0.10 s per step. Another run takes 0.15 s beside a
neighbour and on the worst links. Links or neighbour may be the cause, so the intervals of both
effects are wide. A third run, beside the neighbour on the best links, takes 0.12 s. Now the
neighbour causes 20 %, and the links 25 %, because 1.2 * 1.25 = 1.5.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from math import log
from typing import NamedTuple

from gputopo.api.profile import Sample
from gputopo.profiles.comparable import UNKNOWN, Demands, by_gpus, in_order, usable
from gputopo.profiles.linkcurve import LinkSlowdown, best_curve, slowdown_interval
from gputopo.profiles.ratemodel import (
    RateData,
    RateModel,
    better_scatter,
    first_scatter,
    misfit_of,
    model_of,
    rate_data,
)
from gputopo.profiles.regression import RunErrors
from gputopo.profiles.runs import newest_runs
from gputopo.profiles.slowness import sides
from gputopo.profiles.terms import Kind


class Effect(NamedTuple):
    """The logarithm of a factor of the time, with its standard deviation.

    Attributes:
        quantile: half of the width of the 95 % interval, in standard deviations.
    """

    value: float
    deviation: float
    quantile: float

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends of the 95 % interval."""
        half = self.quantile * self.deviation
        return self.value - half, self.value + half


class NamedEffect(NamedTuple):
    """The effect of one term."""

    kind: Kind
    name: str
    effect: Effect


class RateFit(NamedTuple):
    """The result of the regression.

    Attributes:
        samples: the samples that the regression used.
        links: slowdown from the best to the worst links; None if all samples have equally slow
            links.
        effects: effects of neighbours, CPUs and all other terms of the regression.
        log_seconds: logarithm of the seconds per step on the best links, without neighbours.
    """

    samples: Sequence[Sample]
    links: LinkSlowdown | None
    effects: Sequence[NamedEffect]
    log_seconds: Effect


def rate_fits(samples: Iterable[Sample], demands: Demands = UNKNOWN) -> dict[int, RateFit]:
    """Return the regression for each number of GPUs. All samples are of one GPU model and image."""
    return {
        gpus: fit_rates(counting)
        for gpus, group in by_gpus(samples).items()
        if (counting := counted(group, demands.get(gpus)))
    }


def counted(samples: Sequence[Sample], demand: int | None) -> list[Sample]:
    """Return the samples that the regression for one number of GPUs uses, ascending by time.

    They are the usable samples of the newest runs on fast links and of the newest on slow links.
    """
    return in_order(chain.from_iterable(map(newest_runs, sides(usable(samples, demand)))))


def fit_rates(samples: Sequence[Sample]) -> RateFit:
    """Return the regression of samples (at least 1) of one number of GPUs, ascending by time."""
    data = rate_data(samples)
    model = model_of(data, None)
    scatter = better_scatter(data, model, first_scatter(data))
    links = None
    if len(set(data.slowness)) > 1:
        model = model_of(data, best_curve(misfit_of(data, data.errors(scatter))))
        scatter = better_scatter(data, model, scatter)
        misfit = misfit_of(data, data.errors(scatter))
        curve = best_curve(misfit)
        model = model_of(data, curve)
        links = LinkSlowdown(curve.log_slowdown, slowdown_interval(misfit, curve, data.quantile**2))
    effects = _effects(data, model, data.errors(scatter))
    base = effects[0].effect
    first = log(1e6 / samples[0].micro_steps_per_second)
    return RateFit(samples, links, effects, base._replace(value=base.value + first))


def _effects(data: RateData, model: RateModel, errors: RunErrors) -> list[NamedEffect]:
    regression = model.regression(errors)
    values, deviations = regression.coefficients(model.targets), regression.standard_deviations()
    return [
        NamedEffect(term.kind, term.name, Effect(value, deviation, data.quantile))
        for term, value, deviation in zip(data.terms, values, deviations, strict=False)
    ]
