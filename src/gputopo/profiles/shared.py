"""Computes how fast a workload runs while other pods share its GPU.

The speed beside a set of workloads is the mean rate beside them, divided by the mean rate alone on
the GPU. Only samples count whose CPU limit is that of most samples, so that a difference in CPUs is
not mistaken for the effect of sharing. The rate alone needs enough samples. One sample beside a set
is enough, so that a set that does not pay is not tried a second time.

Example: alone, 9.9, 10.0 and 10.1 steps/s; beside one pod of another workload, 7.9, 8.0 and 8.1.
The speed is 8.0 / 10.0, thus 800 thousandths.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import sqrt
from typing import NamedTuple

from gputopo.api.profile import MAX_SHARING_FACTS, AloneFact, Sample, SharingFact
from gputopo.profiles.amounts import MeanAmount, mean_amount
from gputopo.profiles.comparable import enough, with_enough_cpus

_PERMILLE = 1000
_MOST = 10_000


class OneGpuFacts(NamedTuple):
    """The rate alone on a GPU, and the speeds beside other workloads on it.

    Attributes:
        alone: None without enough samples; then ``beside`` is empty.
        beside: if there are too many sets, those with the most samples.
    """

    alone: AloneFact | None
    beside: list[SharingFact]


def gpu_facts(samples: Iterable[Sample]) -> OneGpuFacts:
    """Return what the samples with one GPU show, without and with other pods on this GPU."""
    by_neighbours = _by_neighbours(samples)
    alone = by_neighbours.pop((), [])
    if not enough(alone):
        return OneGpuFacts(None, [])
    solo = _rate(alone)
    found = [
        _fact(beside, group, solo)
        for beside, group in sorted(by_neighbours.items())
        if not any(name.endswith("/") for name in beside)
    ]
    kept = sorted(found, key=lambda fact: -fact.samples)[:MAX_SHARING_FACTS]
    own = AloneFact(
        micro_steps_per_second=solo.value,
        ci_permille=round(_PERMILLE * _error(solo)),
        samples=len(alone),
    )
    return OneGpuFacts(own, sorted(kept, key=lambda fact: fact.beside))


def alone_on_gpu(samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples taken while no other pod shared the GPUs."""
    return [sample for sample in samples if not sample.gpu_neighbours]


def _by_neighbours(samples: Iterable[Sample]) -> dict[tuple[str, ...], list[Sample]]:
    """Group the samples with one GPU and enough CPUs by the workloads on the same GPU."""
    usable = with_enough_cpus([sample for sample in samples if sample.gpus == 1], None)
    found = defaultdict[tuple[str, ...], list[Sample]](list)
    for sample in usable:
        found[tuple(sorted(sample.gpu_neighbours or ()))].append(sample)
    return found


def _fact(beside: Sequence[str], samples: Sequence[Sample], solo: MeanAmount) -> SharingFact:
    shared = _rate(samples)
    error = sqrt(_error(shared) ** 2 + _error(solo) ** 2)
    return SharingFact(
        beside=[*beside],
        speed_permille=min(_MOST, max(1, round(_PERMILLE * shared.value / solo.value))),
        ci_permille=round(_PERMILLE * error),
        samples=len(samples),
    )


def _rate(samples: Sequence[Sample]) -> MeanAmount:
    return mean_amount([sample.micro_steps_per_second for sample in samples])


def _error(mean: MeanAmount) -> float:
    """Return half the width of the interval, relative to the mean."""
    return (mean.high - mean.low) / (2 * mean.value)
