"""Computes throughput by number of CPUs, and how many CPUs a workload needs (Synergy).

The *demand* is the lowest CPU limit above which more CPUs raise throughput by less than 10 %, as in
:mod:`gputopo.sensitivity.planner`. The gain of a limit is the rise of throughput from this limit to
a reference limit (:mod:`gputopo.profiles.cpucurve`). A limit is the demand if the whole 95 %
interval of its gain is below 10 %, and the whole interval of each lower limit is 10 % or more. If
no limit meets this rule, or a limit above the reference gains 10 % or more, the demand is unknown.

Example: a workload makes 40, 79, 100 and 102 steps per second with 2, 4, 8 and 16 CPUs, each known
to 1 %. The gains to 16 CPUs are 155 %, 29 % and 2 %, so the demand is 8 CPUs.
"""

from collections.abc import Iterable, Sequence
from math import expm1

from gputopo.api.profile import MAX_SAMPLES, CpuFact, CpuPoint, Sample
from gputopo.profiles.comparable import alone_on_socket, by_gpus, first_enough
from gputopo.profiles.cpucurve import CpuCurve, cpu_curve
from gputopo.profiles.estimate import Estimate, total
from gputopo.profiles.rates import to_rate
from gputopo.sensitivity.planner import MIN_GAIN


def cpu_facts(samples: Iterable[Sample]) -> list[CpuFact]:
    """Return throughput by CPU limit, and the demand for CPUs, for each number of GPUs.

    All ``samples`` are of one GPU model and image. Samples without a CPU limit are ignored. Samples
    beside a neighbour on the socket are used only if all other samples have the same CPU limit.
    """
    limited = [sample for sample in samples if sample.milli_cpu is not None]
    return [_fact(gpus, group) for gpus, group in by_gpus(limited).items()]


def _fact(gpus: int, group: list[Sample]) -> CpuFact:
    curve = cpu_curve(first_enough((alone_on_socket(group), group), _has_two_limits))
    levels = {limit: total(curve.level, loss) for limit, loss in curve.losses.items()}
    levels[curve.reference] = curve.level
    points = [_point(limit, levels[limit]) for limit in sorted(levels)[-MAX_SAMPLES:]]
    return CpuFact(gpus=gpus, demand_milli_cpu=_demand(curve), points=points)


def _has_two_limits(samples: Sequence[Sample]) -> bool:
    return len({sample.milli_cpu for sample in samples}) > 1


def _point(limit: int, log_time: Estimate) -> CpuPoint:
    rate = to_rate(log_time)
    return CpuPoint(
        milli_cpu=limit,
        micro_steps_per_second=rate.micro_steps_per_second,
        ci_permille=rate.ci_permille,
    )


def _demand(curve: CpuCurve) -> int | None:
    intervals = sorted((limit, loss.interval) for limit, loss in curve.losses.items())
    if any(limit > curve.reference and expm1(-high) >= MIN_GAIN for limit, (_, high) in intervals):
        return None
    for limit, (low, high) in intervals:
        if limit < curve.reference and expm1(high) < MIN_GAIN:
            return limit
        if expm1(low) < MIN_GAIN:
            break
    return None
