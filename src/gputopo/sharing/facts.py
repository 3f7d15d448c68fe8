"""Converts the facts of a GPUProfile to what is known of a workload that shares a GPU."""

from gputopo.api.profile import WorkloadFacts
from gputopo.counters.model import LoadSource
from gputopo.sharing.model import SharingWorkload, StepLoad

_MEASURES_OCCUPANCY = (LoadSource.GPM, LoadSource.DCGM)
_MICRO = 1e-6


def sharing_workload(name: str, facts: WorkloadFacts | None) -> SharingWorkload:
    """Return what the facts of a GPUProfile show about a workload alone on one GPU.

    Workloads with the same container image are one family. A rate that was computed from other
    numbers of GPUs is not used, and neither is a load by NVML's utilisation: this is the share of
    time in which any kernel runs, and shows nothing about the occupancy.

    Args:
        name: ``NAMESPACE/PROFILE``.
        facts: ``GPUProfile.status.facts``; None if there are none.
    """
    if facts is None:
        return SharingWorkload(name)
    rates = [
        fact.micro_steps_per_second * _MICRO
        for fact in facts.scaling
        if fact.gpus == 1 and not fact.extrapolated
    ]
    loads = [
        StepLoad(fact.occupancy_us, fact.dram_us)
        for fact in facts.load
        if fact.gpus == 1 and fact.source in _MEASURES_OCCUPANCY
    ]
    return SharingWorkload(
        name,
        facts.image_digest,
        next((rate for rate in rates if rate > 0), None),
        next(iter(loads), None),
    )
