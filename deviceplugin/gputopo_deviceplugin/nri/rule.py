"""Decides whether the agent may set the CPUs of containers, and the condition. Pure functions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gputopo.alignment.model import MAX_NODES
from gputopo.api.names import CPUS_BOUND_CONDITION
from gputopo.runtime.messages import quoted
from gputopo.topology.model import Gpu, GpuUuid
from gputopo_deviceplugin.conditions import NodeCondition

_MOST_NAMES: Final = 8
"""Most containers in the message of the condition."""


@dataclass(frozen=True, slots=True)
class CpuManager:
    """The ``cpuManagerPolicy`` of kubelet; ``policy`` is None if it is unknown.

    Attributes:
        unknown: why the policy is unknown.
    """

    policy: str | None
    unknown: str = ""


NOT_READ: Final = CpuManager(None, "it was not read yet")


def cpu_manager(config: Mapping[str, Any]) -> CpuManager:
    """Return the policy in a ``KubeletConfiguration``."""
    policy = config.get("cpuManagerPolicy")
    if isinstance(policy, str) and policy:
        return CpuManager(policy)
    return CpuManager(None, f"cpuManagerPolicy: {quoted(policy)} is not a policy")


def obstacle(
    manager: CpuManager, gpus: Mapping[GpuUuid, Gpu], cpus_of: Mapping[int, frozenset[int]]
) -> NodeCondition | None:
    """Return why the agent must not set CPUs on this node, or has none to set; otherwise None.

    Args:
        manager: the CPU manager of kubelet.
        gpus: the GPUs of the node.
        cpus_of: the CPUs of each NUMA node that has some.
    """
    if manager.policy is None:
        text = f"kubelet's cpuManagerPolicy is unknown: {manager.unknown}"
        return _unbound("CPUManagerUnknown", text)
    if manager.policy != "none":
        text = f"with cpuManagerPolicy {quoted(manager.policy)}, kubelet sets the CPUs itself"
        return _unbound("CPUManagerNotNone", text)
    if len(cpus_of) == 1:
        return _unbound("OneNUMANode", "only one NUMA node has CPUs, so all CPUs are equally near")
    if not 0 < len(cpus_of) <= MAX_NODES:
        text = f"sysfs describes {len(cpus_of)} NUMA nodes with CPUs, not 1 to {MAX_NODES}"
        return _unbound("CPUsUnknown", text)
    if not any(gpu.numa_node in cpus_of for gpu in gpus.values()):
        return _unbound("CPUsUnknown", "the node has no GPU whose NUMA node is known and has CPUs")
    return None


def disconnected(reason: str) -> NodeCondition:
    """Return the condition without a connection to the container runtime."""
    return _unbound("NRIUnavailable", f"new containers may run on all CPUs: {reason}")


def connected(unbound: Mapping[str, str]) -> NodeCondition:
    """Return the condition with a connection; ``unbound`` has containers with the reasons."""
    text = "the container runtime limits containers with GPUs to the CPUs of their NUMA nodes"
    if unbound:
        named = [f"{name}: {reason}" for name, reason in sorted(unbound.items())]
        more = len(named) - _MOST_NAMES
        shown = [*named[:_MOST_NAMES], *([f"{more} more"] if more > 0 else [])]
        text = f"{text}; without a limit: {'; '.join(shown)}"
    return NodeCondition(CPUS_BOUND_CONDITION, holds=True, reason="Connected", message=text)


def _unbound(reason: str, message: str) -> NodeCondition:
    return NodeCondition(CPUS_BOUND_CONDITION, holds=False, reason=reason, message=message)
