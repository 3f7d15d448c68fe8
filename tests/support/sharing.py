"""Measured pairs and small jobs that share GPUs."""

from functools import cache
from importlib.resources import files

from gputopo.sharing.model import MeasuredSharing, SharingJob, SharingWorkload, StepLoad
from gputopo_simulate.sharing.measured import MeasuredPairs, parse_pairs

HEADER = "model_a,model_b,solo_a,solo_b,shared_a,shared_b\n"


@cache
def gavel() -> MeasuredPairs:
    data = files("gputopo_simulate.sharing") / "data" / "gavel_v100_pairs.csv"
    return parse_pairs(data.read_text(encoding="utf-8"))


@cache
def three() -> MeasuredPairs:
    """Return pairs of A (gains with all), B and C (lose with each other)."""
    return parse_pairs(
        f"{HEADER}A (x),A (x),10,10,10,10\nA (x),B,10,5,9,4\nA (x),C,10,2,10,1.2\n"
        "B,C,5,2,2,0.8\nC,C,2,2,0.8,0.8\n"
    )


def workload(
    name: str,
    rate: float | None = 10.0,
    family: str = "",
    occupancy: float | None = None,
    dram: float | None = None,
) -> SharingWorkload:
    """Return a workload that uses these shares of occupancy and DRAM, alone."""
    micro = 1e6 / (rate or 1)
    load = None
    if occupancy is not None:
        load = StepLoad(occupancy * micro, None if dram is None else dram * micro)
    return SharingWorkload(name, family, rate, load)


def sharing_job(known: SharingWorkload, limit: int | None = None, gpus: int = 1) -> SharingJob:
    return SharingJob(f"pod-{known.name}", known, gpus, limit)


def measured(*speeds: tuple[str, float], samples: int = 1) -> MeasuredSharing:
    return MeasuredSharing.of(speeds, samples)
