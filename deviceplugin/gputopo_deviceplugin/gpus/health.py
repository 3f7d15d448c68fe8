"""Decides which GPUs are healthy, from the data of NVML and earlier XIDs. Pure functions."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gputopo.topology.model import GpuUuid, NodeTopology
from gputopo_deviceplugin.gpus.snapshot import RECOVERY_NONE, NvmlGpu, NvmlSnapshot
from gputopo_deviceplugin.gpus.xid_marks import Marks, XidMark
from gputopo_deviceplugin.gpus.xids import explain, is_fatal

Health = Mapping[GpuUuid, str | None]
"""The reason why each GPU is unhealthy; None for a healthy GPU."""

_RECOVERY_ACTIONS: Final[Mapping[int, str]] = MappingProxyType(
    {
        1: "GPU_RESET: end all processes on the GPU and reset it",
        2: "NODE_REBOOT: reboot the node",
        3: "DRAIN_P2P: end all processes with peer-to-peer traffic on the GPU",
        4: "DRAIN_AND_RESET: wait for the processes on the GPU to end, then reset it",
        5: "RECOVER_IMEX_DOMAIN: recover the IMEX domain",
        6: "BUS_RESET: reset the PCIe bus of the GPU",
        7: "SYSTEM_REBOOT: reboot the system",
    }
)
"""Remedy for each ``NVML_GPU_RECOVERY_ACTION_*``. Source for 1 to 4:
https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/error-recovery-and-response-flags.html;
5 to 7 are in newer versions of ``nvml.h``."""


def evaluate_health(
    topology: NodeTopology, snapshot: NvmlSnapshot, marks: Marks, *, xid_quiet_seconds: float
) -> Health:
    """Return the health of every GPU of the topology.

    If a GPU has several faults, the result states the first fault in this order: a fatal XID; NVML
    cannot read or list the GPU; MIG mode is on; NVML reports a recovery action; another XID.

    Args:
        topology: the GPUs.
        snapshot: the data that NVML reports about the GPUs.
        marks: the XIDs that still make a GPU unhealthy; the caller has removed all others.
        xid_quiet_seconds: time after which a non-fatal XID expires. The fault's text states it.
    """
    readable = {gpu.uuid: gpu for gpu in snapshot.gpus}
    health: dict[GpuUuid, str | None] = {}
    for gpu in topology.gpus:
        mark = _decisive([mark for mark in marks.values() if mark.gpu == gpu.uuid])
        xid = explain(mark.code, xid_quiet_seconds) if mark else None
        if mark and is_fatal(mark.code):
            health[gpu.uuid] = xid
        elif gpu.uuid not in readable:
            missing = "NVML: does not list this GPU"
            health[gpu.uuid] = snapshot.failures.get(gpu.index, missing)
        else:
            health[gpu.uuid] = _fault(readable[gpu.uuid]) or xid
    return health


def all_unhealthy(topology: NodeTopology, reason: str) -> Health:
    """Return every GPU of the topology as unhealthy because of ``reason``."""
    return {gpu.uuid: reason for gpu in topology.gpus}


def _decisive(marks: list[XidMark]) -> XidMark | None:
    """Return the newest mark of a fatal XID. If no XID is fatal, return the newest mark."""
    return max(marks, key=lambda mark: (is_fatal(mark.code), mark.at_seconds), default=None)


def _fault(gpu: NvmlGpu) -> str | None:
    if gpu.mig:
        return "MIG mode is on: not yet supported"
    action = gpu.recovery_action
    if action in (None, RECOVERY_NONE):
        return None
    known = _RECOVERY_ACTIONS.get(action, f"{action}: see nvidia-smi -q, GPU Recovery Action")
    return f"NVML: recovery action {known}"
