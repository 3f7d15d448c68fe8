"""pydantic models of ``GPUTopology.status.alignment``: how kubelet takes NUMA nodes."""

from typing import Annotated

from pydantic import Field

from gputopo.alignment.model import ManagerPolicy, ManagerScope
from gputopo.api.model import ApiModel, NumaNodeId, PodUid

_Count = Annotated[int, Field(ge=0, le=2**16)]


class NumaCpus(ApiModel):
    """``GPUTopology.status.alignment.cpus[]``: CPUs of a NUMA node, for the static CPU manager.

    Attributes:
        total: online CPUs, with those that kubelet reserves for the system.
        allocatable: CPUs that containers can get exclusively.
        free: allocatable CPUs that no container has exclusively.
    """

    numa_node: NumaNodeId
    total: _Count
    allocatable: _Count
    free: _Count


class KubeletAlignment(ApiModel):
    """``GPUTopology.status.alignment``: what the choice of GPUs must follow on this node.

    Attributes:
        cpus: None if kubelet gives no container exclusive CPUs.
        admitted: UIDs of the pods that have all of their GPUs and exclusive CPUs, also of ended
            pods until kubelet releases them. If these are the bound pods, kubelet will count the
            same GPUs and CPUs as free for the next pod.
    """

    policy: ManagerPolicy
    scope: ManagerScope
    cpus: Annotated[list[NumaCpus], Field(max_length=16)] | None = None
    admitted: Annotated[list[PodUid], Field(max_length=256)] = []
