"""Parses what kubelet reports about a pod: its address, and its containers' limits and images."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gputopo.api.quantity import parse_thousandths
from gputopo.api.tuning import Amounts
from gputopo_kube.podmodel import Container, PodObject
from gputopo_kube.podstatus import ContainerStatus

_NOTHING: Final = Amounts(0, 0)
_MOST: Final = 2**53 - 1
"""Most thousandths of a CPU, and most bytes of memory, that count as a limit.

Kubernetes accepts a limit of ``9E`` CPUs. The status of a GPUTopology has 64 bits for thousandths
of a CPU, and the API server rejects the whole status if one number has more.
"""


@dataclass(frozen=True, slots=True)
class ContainerRuntime:
    """Limits and image of one container.

    Attributes:
        milli_cpu: CPU limit in thousandths of a CPU, None without a limit.
        memory_bytes: memory limit, None without a limit.
        image_digest: digest of the image, empty before the container was started.
    """

    milli_cpu: int | None = None
    memory_bytes: int | None = None
    image_digest: str = ""


@dataclass(frozen=True, slots=True)
class PodRuntime:
    """Address of a pod, its containers and init containers by name, and its counted requests.

    Attributes:
        ip: IP address of the pod; None before kubelet has reported the address.
        held: CPUs and memory that kube-scheduler counts for the pod, without those of the container
            that gputopo sizes.
        sized: whether gputopo sizes the pod.
    """

    ip: str | None = None
    containers: Mapping[str, ContainerRuntime] = field(default_factory=dict)
    held: Amounts = _NOTHING
    sized: bool = False


def runtime_of(pod: PodObject) -> PodRuntime:
    """Return the limits and images that kubelet has applied to the containers of a pod."""
    statuses = {status.name: status for status in pod.status.containers}
    of_pod = pod.spec.pod_resources
    shared = (of_pod.limits or {}) if of_pod else {}
    return PodRuntime(
        pod.status.pod_ip,
        {
            each.name: _container(each, statuses.get(each.name), shared)
            for each in (*pod.spec.containers, *(pod.spec.init_containers or ()))
        },
    )


def _container(
    container: Container, status: ContainerStatus | None, shared: Mapping[str, Any]
) -> ContainerRuntime:
    """Return a container's image and limits. A container without a limit has the pod's limit.

    Limits in the status have priority over those in the spec: after an in-place resize, only the
    status has the limits that kubelet has applied.
    """
    resources = (status.resources if status else None) or container.resources
    limits = {**shared, **((resources.limits or {}) if resources else {})}
    cpu, memory = parse_thousandths(limits.get("cpu")), parse_thousandths(limits.get("memory"))
    return ContainerRuntime(
        milli_cpu=_limit(cpu),
        memory_bytes=_limit(None if memory is None else -(-memory // 1000)),
        image_digest=((status.image_id if status else None) or "").rpartition("@")[2],
    )


def _limit(amount: int | None) -> int | None:
    # A limit of 0 means no limit.
    return amount if amount and amount <= _MOST else None
