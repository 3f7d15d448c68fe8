"""Letting jobs change places, so that one of them can have more."""

from collections.abc import Sequence

from gputopo.sizing.menu import Option
from gputopo.sizing.rooms import ROUNDING, Room, Tenant


def swap(tenants: Sequence[Tenant], rooms: Sequence[Room]) -> bool:
    """Let each job on one server change places with one as big, if it then has more.

    The other keeps what it has, so that every swap is a gain.

    Returns:
        whether any did.
    """
    swaps = sum(_swap_one(tenant, rooms) for tenant in tenants if len(tenant.slots) == 1)
    return swaps > 0


def _swap_one(tenant: Tenant, rooms: Sequence[Room]) -> bool:
    for option in tenant.menu.better(tenant.option):
        other = _partner(tenant, option, rooms)
        if other is not None:
            theirs = other.slots
            other.move(tenant.slots, other.option)
            tenant.move(theirs, option)
            return True
    return False


def _partner(tenant: Tenant, option: Option, rooms: Sequence[Room]) -> Tenant | None:
    """Return a job in whose place there is enough for an option, and which fits here."""
    here, now = tenant.slots[0][0], tenant.option
    cpus, memory_gb, storage = (
        here.cpus + now.cpus + ROUNDING,
        here.memory_gb + now.memory_gb + ROUNDING,
        here.storage_mb_per_s + now.storage_mb_per_s + ROUNDING,
    )
    for there in rooms:
        least_cpus = option.cpus - there.cpus - ROUNDING
        least_memory_gb = option.memory_gb - there.memory_gb - ROUNDING
        least_storage = option.storage_mb_per_s - there.storage_mb_per_s - ROUNDING
        for other in there.tenants:
            has = other.option
            if (
                least_cpus <= has.cpus <= cpus
                and least_memory_gb <= has.memory_gb <= memory_gb
                and least_storage <= has.storage_mb_per_s <= storage
                and len(other.slots) == 1
                and other.ask.gpus == tenant.ask.gpus
                and there is not here
            ):
                return other
    return None
