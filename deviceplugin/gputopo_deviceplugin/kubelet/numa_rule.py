"""Decides whether kubelet gets the NUMA nodes of the GPUs. Pure functions.

With NUMA nodes and a topologyManagerPolicy other than ``none``, kubelet would choose devices by
NUMA node, and reject or ignore the GPUs that the extender has chosen. With the policy ``none``, the
NUMA nodes change no choice. Programs that read kubelet's pod-resources API, such as exporters of
NodeResourceTopology and NRI plugins, can then place CPUs near the GPUs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gputopo.api.names import NUMA_PUBLISHED_CONDITION
from gputopo.runtime.messages import quoted
from gputopo.topology.model import Gpu, GpuUuid
from gputopo_deviceplugin.conditions import NodeCondition


@dataclass(frozen=True, slots=True)
class TopologyPolicy:
    """The ``topologyManagerPolicy`` of kubelet; ``name`` is None if it is unknown.

    Attributes:
        unknown: why the policy is unknown.
    """

    name: str | None
    unknown: str = ""


UNREGISTERED: Final = TopologyPolicy(None, "kubelet has not registered the agent yet")


def topology_policy(config: Mapping[str, Any]) -> TopologyPolicy:
    """Return the policy in a ``KubeletConfiguration``."""
    name = config.get("topologyManagerPolicy")
    if isinstance(name, str) and name:
        return TopologyPolicy(name)
    return TopologyPolicy(None, f"topologyManagerPolicy: {quoted(name)} is not a policy")


def numa_to_report(
    gpus: Mapping[GpuUuid, Gpu], policy: TopologyPolicy
) -> tuple[Mapping[GpuUuid, int], NodeCondition]:
    """Return the NUMA nodes that kubelet gets, and the condition with the reason.

    Kubelet gets the NUMA nodes of all GPUs or of none. If only some devices of a resource have
    NUMA nodes, kubelet counts the others on no NUMA node.
    """
    known = {uuid: gpu.numa_node for uuid, gpu in gpus.items() if gpu.numa_node is not None}
    kind = NUMA_PUBLISHED_CONDITION
    if policy.name is None:
        text = f"kubelet's policy is unknown: {policy.unknown}"
        return {}, NodeCondition(kind, holds=False, reason="PolicyUnknown", message=text)
    if policy.name != "none":
        text = f"with topologyManagerPolicy {quoted(policy.name)}, kubelet would choose the GPUs"
        return {}, NodeCondition(kind, holds=False, reason="PolicyNotNone", message=text)
    if unknown := sorted(gpus.keys() - known.keys()):
        text = f"NVML reports no NUMA node for {' '.join(unknown)}"
        return {}, NodeCondition(kind, holds=False, reason="NUMANodeUnknown", message=text)
    text = "topologyManagerPolicy is none, so NUMA nodes do not change which GPUs kubelet chooses"
    return known, NodeCondition(kind, holds=True, reason="PolicyNone", message=text)
