"""The conditions of the node in the status of the GPUTopology. Pure functions."""

from collections.abc import Sequence

from gputopo.api.names import MPS_READY_CONDITION, READY_CONDITION
from gputopo_deviceplugin.conditions import NodeCondition, not_ready
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.health import Health
from gputopo_deviceplugin.gpus.state import MpsFaults


def gpus_healthy(health: Health) -> NodeCondition:
    """Return the condition ``GPUsHealthy``, with the reason of each unhealthy GPU."""
    faults = [f"{uuid}: {fault}" for uuid, fault in health.items() if fault is not None]
    reason = "SomeUnhealthy" if faults else "AllHealthy"
    message = "; ".join(faults) or "every GPU can be allocated"
    return NodeCondition("GPUsHealthy", not faults, reason, message)


def allocations_as_placed(differing: Sequence[str]) -> NodeCondition:
    """Return the condition ``AllocationsAsPlaced``; ``differing`` are messages."""
    message = "; ".join(differing) or "every container has its intended GPUs"
    reason = "SomeDiffer" if differing else "AllAsPlaced"
    return NodeCondition("AllocationsAsPlaced", not differing, reason, message)


def processes_tracked(*, visible: bool) -> NodeCondition:
    """Return the condition ``ProcessesTracked``: whether processes of deleted pods are visible."""
    if visible:
        message = "GPUs of a deleted pod are in use until its last process has ended"
        return NodeCondition("ProcessesTracked", holds=True, reason="CgroupsFound", message=message)
    message = (
        "no cgroup of kubelet was found, so GPUs of a deleted pod are free at once; mount the "
        "host's /sys/fs/cgroup at --cgroup-dir"
    )
    return NodeCondition("ProcessesTracked", holds=False, reason="CgroupsNotFound", message=message)


def ready_condition(
    hardware: NodeHardware, withheld: NodeCondition | None, *, registered: bool, watched: bool
) -> NodeCondition:
    """Return the condition ``Ready``: whether kubelet may give GPUs to new containers."""
    if withheld is not None:
        return withheld
    if hardware.fault is not None:
        return not_ready("NVMLUnavailable", hardware.fault)
    if not registered:
        return not_ready("NotRegistered", "kubelet has not registered the agent yet")
    if not watched:
        return not_ready("NotHeard", "kubelet does not watch the agent's devices")
    return NodeCondition(READY_CONDITION, holds=True, reason="Serving", message="kubelet is served")


def mps_condition(faults: MpsFaults) -> NodeCondition:
    """Return the condition ``MPSReady``: whether MPS can start and end on the GPUs of the node."""
    if faults.outage is None:
        return NodeCondition(
            MPS_READY_CONDITION, holds=True, reason="Responding", message="MPS can start"
        )
    return NodeCondition(
        MPS_READY_CONDITION, holds=False, reason="NotResponding", message=faults.outage
    )
