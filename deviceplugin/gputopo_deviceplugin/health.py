"""Which GPUs can be given out, and why the others cannot. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gputopo.topology.model import GpuUuid, NodeTopology
from gputopo_deviceplugin.readings import Readings

APPLICATION_XIDS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""XIDs that a faulty program causes: its own error, not the GPU's."""

Health = Mapping[GpuUuid, str | None]
"""Why each GPU cannot be given out; None for a healthy one."""


@dataclass(frozen=True, slots=True)
class XidMark:
    """The last critical XID of a GPU, and the monotonic time when it came."""

    code: int
    at_seconds: float


def health_of(
    topology: NodeTopology,
    readings: Readings,
    marks: Mapping[GpuUuid, XidMark],
    *,
    now_seconds: float,
    xid_quiet_seconds: float,
) -> Health:
    """Return the health of every GPU of the topology.

    A GPU is healthy when NVML answers for it, MIG mode is off and its last critical XID is
    ``xid_quiet_seconds`` old: a GPU that stays broken goes on failing NVML's calls, and one
    that was reset does not tell so.
    """
    answering = {reading.uuid: reading for reading in readings.gpus}
    health: dict[GpuUuid, str | None] = {}
    for gpu in topology.gpus:
        reading = answering.get(gpu.uuid)
        mark = marks.get(gpu.uuid)
        if reading is None:
            health[gpu.uuid] = readings.failures.get(gpu.index, "NVML: does not list this GPU")
        elif reading.mig:
            health[gpu.uuid] = "MIG mode is on: not yet supported"
        elif mark is not None and now_seconds - mark.at_seconds < xid_quiet_seconds:
            health[gpu.uuid] = f"XID {mark.code}"
        else:
            health[gpu.uuid] = None
    return health


def all_unhealthy(topology: NodeTopology, reason: str) -> Health:
    """Return the health of GPUs that NVML as a whole does not answer for."""
    return {gpu.uuid: reason for gpu in topology.gpus}


def is_critical(xid: int) -> bool:
    """Return whether an XID speaks of the GPU and not of the program on it."""
    return xid not in APPLICATION_XIDS
