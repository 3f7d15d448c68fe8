"""Estimates the time per training step with each CPU limit, relative to a reference limit.

The reference is the highest CPU limit of the runs whose limit changed during the run. If no run
changed its limit, the reference is the highest limit of all runs. Each other limit is compared with
the reference, within runs that had both limits. If no run had both, different runs are compared.
Only samples with similar links are compared.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from gputopo.api.profile import Sample
from gputopo.profiles.comparable import BandwidthKey, bandwidth_classes, bandwidth_key
from gputopo.profiles.contrast import Runs, paired, unpaired
from gputopo.profiles.estimate import Estimate, combined
from gputopo.profiles.runs import SAMPLE_SCATTER, Cells, cells_of, level, repeats, run_means

_CURVE_FREEDOM: Final = 1
"""Weight of the scatter that is assumed within a run, in degrees of freedom, in addition to
``ASSUMED_FREEDOM``. This scatter differs less from workload to workload than the scatter between
runs."""


class CpuSetting(NamedTuple):
    """Conditions that all samples of a group share: bandwidth class of the links, and CPU limit."""

    links: BandwidthKey
    milli_cpu: int


class CpuCurve(NamedTuple):
    """The time per step by CPU limit; all times are natural logarithms.

    Attributes:
        reference: the reference limit, in thousandths of a CPU.
        level: time per step with the reference limit.
        losses: for each other limit, the time per step minus ``level``.
    """

    reference: int
    level: Estimate
    losses: dict[int, Estimate]


_Means: TypeAlias = Mapping[CpuSetting, Runs]


def cpu_curve(samples: Iterable[Sample]) -> CpuCurve:
    """Return the curve from samples with equal numbers of GPUs; at least one has a CPU limit."""
    limited = [(sample, sample.milli_cpu) for sample in samples if sample.milli_cpu is not None]
    classes = bandwidth_classes(sample for sample, _ in limited)
    cells = cells_of(
        (sample, CpuSetting(classes[bandwidth_key(sample)], limit)) for sample, limit in limited
    )
    means = defaultdict[CpuSetting, dict[str, Estimate]](dict)
    for (run, setting), mean in run_means(cells).items():
        means[setting][run] = mean
    reference = _reference(cells)
    return CpuCurve(reference, _level(means, reference), _losses(means, reference, cells))


def _reference(cells: Cells[CpuSetting]) -> int:
    counts = Counter(run for run, _ in cells)
    changed = [setting.milli_cpu for run, setting in cells if counts[run] > 1]
    return max(changed or [setting.milli_cpu for _, setting in cells])


def _level(means: _Means, reference: int) -> Estimate:
    """Return the time per step with the reference limit, in the bandwidth class with most runs."""
    _, _, runs = max(
        (len(runs), setting.links, list(runs.values()))
        for setting, runs in means.items()
        if setting.milli_cpu == reference
    )
    return level(runs)


def _losses(means: _Means, reference: int, cells: Cells[CpuSetting]) -> dict[int, Estimate]:
    within: dict[int, Estimate] = {}
    between: dict[int, Estimate] = {}
    for limit in sorted({setting.milli_cpu for setting in means} - {reference}):
        if loss := _compared(paired, means, limit, reference):
            within[limit] = loss
        elif loss := _compared(unpaired, means, limit, reference):
            between[limit] = loss
    scatter = _scatter(cells, [loss for limit, loss in within.items() if limit < reference])
    return between | {limit: loss.plus(*scatter) for limit, loss in within.items()}


def _compared(
    compare: Callable[[Runs, Runs], Estimate | None], means: _Means, limit: int, reference: int
) -> Estimate | None:
    found = [
        compare(runs, means[CpuSetting(links, reference)])
        for (links, each), runs in means.items()
        if each == limit and CpuSetting(links, reference) in means
    ]
    known = [each for each in found if each]
    return combined(known) if known else None


def _scatter(cells: Cells[CpuSetting], losses: Sequence[Estimate]) -> tuple[float, int]:
    """Return how much times scatter within runs, as ``squares`` and ``freedom`` of an Estimate.

    Scatter is visible in two ways. First, samples of a run with an unchanged limit differ. Second,
    a higher limit can have a higher loss, although more CPUs make no step slower. A loss is the
    difference of two times, so half of its variance is the variance of one time.
    """
    squares, repeated = repeats(cells)
    points = [(loss.value, loss.variance / 2) for loss in losses]
    points.append((0.0, min((variance for _, variance in points), default=1.0)))
    rise, shape = scatter_about_falling(points)
    return (
        _CURVE_FREEDOM + min(repeated, squares / SAMPLE_SCATTER**2) + rise,
        _CURVE_FREEDOM + repeated + shape,
    )


def scatter_about_falling(points: Sequence[tuple[float, float]]) -> tuple[float, int]:
    """Return squared residuals from the best falling sequence, and their degrees of freedom.

    Each point is a value and its variance; the squared residual is divided by this variance. If a
    value is higher than the value before it, the pool-adjacent-violators algorithm (Barlow et al.
    1972) replaces both values by their mean.

    >>> scatter_about_falling([(2.0, 1.0), (0.0, 1.0), (1.0, 1.0)])
    (0.5, 1)
    """
    blocks: list[Estimate] = []
    for value, variance in points:
        blocks.append(Estimate(value, variance))
        while len(blocks) > 1 and blocks[-2].value < blocks[-1].value:
            blocks[-2:] = [combined(blocks[-2:])]
    return sum(block.squares for block in blocks), sum(block.freedom for block in blocks)
