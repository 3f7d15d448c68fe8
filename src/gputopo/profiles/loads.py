"""Computes the load that a workload puts on each of its GPUs in one step."""

from collections.abc import Iterable, Sequence
from typing import Final

from gputopo.api.profile import LoadFact, Sample, SampleLoad
from gputopo.counters.model import LoadSource
from gputopo.profiles.amounts import mean_amount
from gputopo.profiles.comparable import by_gpus

_BEST_FIRST: Final = (LoadSource.GPM, LoadSource.DCGM, LoadSource.UTILIZATION)


def load_facts(samples: Iterable[Sample]) -> list[LoadFact]:
    """Return the load for each number of GPUs that has samples with a known source.

    Two sources measure different things, so only the samples of the best source are used.
    """
    facts = (_fact(gpus, group) for gpus, group in by_gpus(samples).items())
    return [fact for fact in facts if fact]


def _fact(gpus: int, samples: Sequence[Sample]) -> LoadFact | None:
    loads = [sample.load for sample in samples if sample.load]
    for source in _BEST_FIRST:
        if used := [load for load in loads if load.source == source]:
            return _mean(gpus, source, used)
    return None


def _mean(gpus: int, source: LoadSource, loads: Sequence[SampleLoad]) -> LoadFact:
    dram = [load.dram_us for load in loads if load.dram_us is not None]
    return LoadFact(
        gpus=gpus,
        source=source,
        samples=len(loads),
        occupancy_us=mean_amount([load.occupancy_us for load in loads]).value,
        dram_us=mean_amount(dram).value if dram else None,
    )
