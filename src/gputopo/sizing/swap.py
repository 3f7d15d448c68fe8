"""Swap two jobs of equal size between servers, so that one of them gets a better option."""

from collections.abc import Sequence

from gputopo.sizing.options import Option
from gputopo.sizing.server_state import TOLERANCE, PlacedJob, ServerState


def swap_jobs(jobs: Sequence[PlacedJob], servers: Sequence[ServerState]) -> bool:
    """Let two jobs with equally many GPUs swap servers if one of them then gets a better option.

    The other job keeps its option, so every swap is a gain. Return whether any jobs were swapped.
    """
    swaps = sum(_swap_one(job, servers) for job in jobs if len(job.slots) == 1)
    return swaps > 0


def _swap_one(job: PlacedJob, servers: Sequence[ServerState]) -> bool:
    for option in job.options.better_than(job.option):
        partner = _find_partner(job, option, servers)
        if partner is not None:
            slots = partner.slots
            partner.move(job.slots, partner.option)
            job.move(slots, option)
            return True
    return False


def _find_partner(
    job: PlacedJob, option: Option, servers: Sequence[ServerState]
) -> PlacedJob | None:
    """Find a job to swap servers with, so that ``job`` gets ``option``; None if there is none."""
    here, now = job.slots[0][0], job.option
    max_cpus = here.cpus + now.cpus + TOLERANCE
    max_memory_gb = here.memory_gb + now.memory_gb + TOLERANCE
    max_storage = here.storage_mb_per_s + now.storage_mb_per_s + TOLERANCE
    for there in servers:
        min_cpus = option.cpus - there.cpus - TOLERANCE
        min_memory_gb = option.memory_gb - there.memory_gb - TOLERANCE
        min_storage = option.storage_mb_per_s - there.storage_mb_per_s - TOLERANCE
        for other in there.jobs:
            has = other.option
            if (
                min_cpus <= has.cpus <= max_cpus
                and min_memory_gb <= has.memory_gb <= max_memory_gb
                and min_storage <= has.storage_mb_per_s <= max_storage
                and len(other.slots) == 1
                and other.request.gpus == job.request.gpus
                and there is not here
            ):
                return other
    return None
