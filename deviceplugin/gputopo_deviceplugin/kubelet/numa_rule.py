"""Decides whether kubelet gets the NUMA nodes of the GPUs. Pure functions.

With NUMA nodes and a topologyManagerPolicy other than ``none``, kubelet chooses devices by NUMA
node. The extender must then predict its choice. With the policy ``none``, the NUMA nodes change no
choice. Programs that read kubelet's pod-resources API, such as exporters of
NodeResourceTopology and NRI plugins, can then place CPUs near the GPUs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gputopo.alignment.model import MAX_NODES, ManagerPolicy, ManagerScope
from gputopo.api.names import NUMA_PUBLISHED_CONDITION
from gputopo.runtime.messages import quoted
from gputopo.topology.model import Gpu, GpuUuid
from gputopo_deviceplugin.conditions import NodeCondition


@dataclass(frozen=True, slots=True)
class TopologyPolicy:
    """The ``topologyManagerPolicy`` of kubelet; ``name`` is None if it is unknown.

    Attributes:
        unknown: why the policy is unknown.
        scope: ``topologyManagerScope``.
        exclusive_cpus: whether the CPU manager gives containers exclusive CPUs.
        unpredictable: the setting of kubelet because of which the agent cannot predict which NUMA
            nodes kubelet takes; empty if it can.
    """

    name: str | None
    unknown: str = ""
    scope: str = "container"
    exclusive_cpus: bool = False
    unpredictable: str = ""


UNREGISTERED: Final = TopologyPolicy(None, "kubelet has not registered the agent yet")

_PREDICTED_OPTIONS: Final = {
    "topologyManagerPolicyOptions": {"max-allowable-numa-nodes"},
    "cpuManagerPolicyOptions": {"strict-cpu-reservation"},
}
"""Options that do not change which NUMA nodes kubelet takes."""

_PREDICTED_VALUES: Final = {
    "topologyManagerPolicy": {policy.value for policy in ManagerPolicy},
    "topologyManagerScope": {scope.value for scope in ManagerScope},
    "cpuManagerPolicy": {"none", "static"},
    "memoryManagerPolicy": {"none"},
}


def topology_policy(config: Mapping[str, Any]) -> TopologyPolicy:
    """Return the policy in a ``KubeletConfiguration``."""
    name = config.get("topologyManagerPolicy")
    if not isinstance(name, str) or not name:
        return TopologyPolicy(None, f"topologyManagerPolicy: {quoted(name)} is not a policy")
    return TopologyPolicy(
        name,
        scope=str(config.get("topologyManagerScope") or "container"),
        exclusive_cpus=config.get("cpuManagerPolicy") == "static",
        unpredictable=_unpredictable(config),
    )


def _unpredictable(config: Mapping[str, Any]) -> str:
    """Return the first setting that the prediction does not know; empty if there is none."""
    for field, known in _PREDICTED_VALUES.items():
        value = config.get(field)
        if value and str(value).lower() not in known:
            return f"{field}: {quoted(value)}"
    for field, harmless in _PREDICTED_OPTIONS.items():
        options = config.get(field) or {}
        for option, value in options.items() if isinstance(options, dict) else ():
            if option not in harmless and value != "false":
                return f"{field}: {quoted(option)}"
    return ""


def numa_to_report(
    gpus: Mapping[GpuUuid, Gpu],
    policy: TopologyPolicy,
    *,
    any_policy: bool = False,
    host_nodes: int = 0,
) -> tuple[Mapping[GpuUuid, int], NodeCondition]:
    """Return the NUMA nodes that kubelet gets, and the condition with the reason.

    Kubelet gets the NUMA nodes of all GPUs or of none. If only some devices of a resource have
    NUMA nodes, kubelet counts the others on no NUMA node.

    Args:
        gpus: the GPUs of the node.
        policy: kubelet's policy.
        any_policy: whether kubelet gets the NUMA nodes also with a policy other than ``none``.
        host_nodes: number of NUMA nodes of the host, also of those without GPUs.
    """
    known = {uuid: gpu.numa_node for uuid, gpu in gpus.items() if gpu.numa_node is not None}
    if obstacle := _obstacle(policy, host_nodes, any_policy=any_policy):
        return {}, obstacle
    if unknown := sorted(gpus.keys() - known.keys()):
        text = f"NVML reports no NUMA node for {' '.join(unknown)}"
        return {}, _condition("NUMANodeUnknown", text)
    if policy.name == "none":
        text = (
            "topologyManagerPolicy is none, so NUMA nodes do not change which GPUs kubelet chooses"
        )
        return known, _condition("PolicyNone", text, holds=True)
    text = (
        f"with topologyManagerPolicy {quoted(policy.name)}, kubelet takes GPUs by NUMA node, and "
        "gputopo chooses only among these GPUs"
    )
    return known, _condition("PolicyPredicted", text, holds=True)


def _obstacle(policy: TopologyPolicy, host_nodes: int, *, any_policy: bool) -> NodeCondition | None:
    """Return why kubelet gets no NUMA nodes, whatever the GPUs are."""
    if policy.name is None:
        return _condition("PolicyUnknown", f"kubelet's policy is unknown: {policy.unknown}")
    if policy.name == "none":
        return None
    if not any_policy:
        text = f"with topologyManagerPolicy {quoted(policy.name)}, kubelet would choose the GPUs"
        return _condition("PolicyNotNone", text)
    many = f"{host_nodes} NUMA nodes, at most {MAX_NODES}" if host_nodes > MAX_NODES else ""
    if cause := policy.unpredictable or many:
        text = f"which GPUs kubelet chooses cannot be predicted with {cause}"
        return _condition("PolicyNotPredicted", text)
    return None


def _condition(reason: str, message: str, *, holds: bool = False) -> NodeCondition:
    return NodeCondition(NUMA_PUBLISHED_CONDITION, holds=holds, reason=reason, message=message)
