"""pydantic models of the CPU and memory of a GPUJob: what the user requests, and what it has."""

from typing import Annotated, Literal

from pydantic import Field

from gputopo.api.model import ApiModel, ContainerName, CpuAmount, Memory, MemoryAmount


class ResourceBound(ApiModel):
    """``GPUJob.spec.resources.min`` or ``max``, as Kubernetes quantities; None without a bound."""

    cpu: CpuAmount | None = None
    memory: MemoryAmount | None = None


class ResourcesSpec(ApiModel):
    """``GPUJob.spec.resources``: the container that gets the GPUs, and its CPU and memory.

    Attributes:
        min: requests and limits with which the pod is created, instead of those of the template.
        max: the most that the container gets while it runs.
    """

    mode: Literal["Fixed", "Proportional", "Auto"] = "Fixed"
    container: ContainerName | None = None
    min: ResourceBound | None = None
    max: ResourceBound | None = None


class JobResources(ApiModel):
    """``GPUJob.status.resources``: CPU and memory of the current pod, if the operator sets them.

    Attributes:
        milli_cpu: CPU limit that kubelet has applied.
        memory: memory limit that kubelet has applied; None without a limit.
        reason: why the container has these amounts, in words.
        gain_percent: how much faster the pod is than before its last resize; None if unknown.
    """

    milli_cpu: Annotated[int, Field(alias="milliCPU", ge=1)]
    memory: Memory | None = None
    reason: Annotated[str, Field(max_length=1024)]
    gain_percent: Annotated[int, Field(ge=-100)] | None = None
