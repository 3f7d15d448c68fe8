"""Converts the facts of a GPUProfile to what is known of a workload that shares a GPU."""

from gputopo.api.profile import WorkloadFacts
from gputopo.counters.model import LoadSource
from gputopo.sharing.model import SharingWorkload, StepLoad

_MEASURES_OCCUPANCY = (LoadSource.GPM, LoadSource.DCGM)
_MICRO = 1e-6


def sharing_workload(name: str, facts: WorkloadFacts | None) -> SharingWorkload:
    """Return what the facts of a GPUProfile show about a workload alone on one GPU.

    Workloads with the same container image are one family. A load by NVML's utilisation is not
    used: this is the share of time in which any kernel runs, and shows nothing about the occupancy.

    Args:
        name: ``NAMESPACE/PROFILE``.
        facts: ``GPUProfile.status.facts``; None if there are none.
    """
    if facts is None:
        return SharingWorkload(name)
    rate = facts.alone.micro_steps_per_second * _MICRO if facts.alone else None
    loads = [
        StepLoad(fact.occupancy_us, fact.dram_us)
        for fact in facts.load
        if fact.gpus == 1 and fact.source in _MEASURES_OCCUPANCY
    ]
    return SharingWorkload(
        name,
        facts.image_digest,
        rate or None,
        next(iter(loads), None),
    )
