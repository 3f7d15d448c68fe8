"""The environment of a container: its GPUs, limits, image and neighbours. Pure functions.

If the environment changes, the agent begins a new measurement of the container's training speed.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gputopo.api.annotations import AnnotationError, parse_placement
from gputopo.api.profile import StepsSource
from gputopo.api.shares import gpu_of
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.usage import GpuUser
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.measure.containers import MeasuredContainer
from gputopo_kube.document import ObjectKey
from gputopo_kube.own_gpus import own_gpus
from gputopo_kube.podruntime import ContainerRuntime
from gputopo_kube.pods import PodView
from gputopo_kube.workload import workload_name

PHYSICAL_MODEL = "physical"
"""Name of the bandwidth model whose predictions the extender writes for every node."""


_MOST_MB_PER_S = 2**53 - 1


class Neighbour(NamedTuple):
    """Another pod that uses GPUs of the node.

    Attributes:
        workload: ``NAMESPACE/PROFILE``; ``NAMESPACE/`` if the profile is unknown.
        uid: UID of the pod, empty if unknown. Two pods of one workload are different neighbours.
    """

    workload: str
    uid: str


class LinkBandwidth(NamedTuple):
    """Predicted effective bandwidths in MB/s, for jobs with the communication ``pattern``.

    ``effective`` is the bandwidth of the container's GPUs. ``worst`` and ``best`` are the lowest
    and the highest bandwidth of any GPU set of the same size on the node.
    """

    pattern: str
    effective: int
    worst: int
    best: int


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of one container.

    Attributes:
        profile: GPUProfile of the workload. If it changes, a new measurement begins.
        gpu_model: models of the GPUs, separated by commas if they differ.
        bandwidth: the extender's prediction for the GPUs. None if the container has one GPU or has
            other GPUs than the extender chose, or if several containers of the pod have GPUs.
        runtime: limits and image that kubelet has applied.
        on_socket: other pods with GPUs on the same NUMA nodes, sorted.
        on_node: all other pods with GPUs, sorted.
        on_gpu: the pods that share the container's GPU, sorted. The other two lack these pods.
    """

    profile: str | None
    source: StepsSource
    gpus: frozenset[GpuUuid]
    gpu_model: str
    bandwidth: LinkBandwidth | None
    runtime: ContainerRuntime
    on_socket: tuple[Neighbour, ...]
    on_node: tuple[Neighbour, ...]
    on_gpu: tuple[Neighbour, ...] = ()


def environment_of(
    container: MeasuredContainer,
    users: Mapping[GpuUuid, GpuUser],
    pods: Mapping[ObjectKey, PodView],
    hardware: NodeHardware,
) -> Environment | None:
    """Return a container's environment, or None while one of its GPUs is unhealthy or unknown.

    An unhealthy GPU may be slow, and while NVML does not respond, all GPUs are unhealthy. So the
    agent takes no samples during this time.

    Args:
        container: the container.
        users: the pod and container that uses each GPU of this node.
        pods: this node's pods.
        hardware: GPUs of this node, and their health.
    """
    gpus, own_gpus = hardware.gpus, frozenset(map(gpu_of, container.gpus))
    # A GPU without an entry in the health is unknown.
    if any(hardware.health.get(gpu, "unknown") or gpu not in gpus for gpu in own_gpus):
        return None
    own = [gpus[gpu] for gpu in own_gpus]
    numa_nodes = {gpu.numa_node for gpu in own}
    on_socket = {gpu for gpu, each in gpus.items() if each.numa_node in numa_nodes}
    others = [
        (gpu_of(device), user) for device, user in users.items() if user.uid != container.pod.uid
    ]
    elsewhere = [(gpu, user) for gpu, user in others if gpu not in own_gpus]
    return Environment(
        profile=container.request.profile,
        source=container.request.source,
        gpus=own_gpus,
        gpu_model=", ".join(sorted({gpu.model for gpu in own})),
        bandwidth=_bandwidth(container),
        runtime=container.pod.runtime.containers.get(container.name, ContainerRuntime()),
        on_socket=_neighbours([user for gpu, user in elsewhere if gpu in on_socket], pods),
        on_node=_neighbours([user for _, user in elsewhere], pods),
        on_gpu=_neighbours([user for gpu, user in others if gpu in own_gpus], pods),
    )


def _neighbours(
    users: Collection[GpuUser], pods: Mapping[ObjectKey, PodView]
) -> tuple[Neighbour, ...]:
    return tuple(sorted({Neighbour(_workload(user, pods), user.uid or "") for user in users}))


def _workload(user: GpuUser, pods: Mapping[ObjectKey, PodView]) -> str:
    pod = pods.get(user.key)
    if pod is None or pod.uid != user.uid:  # the processes of a deleted pod still run
        return f"{user.key.namespace}/"
    return workload_name(pod)


def _bandwidth(container: MeasuredContainer) -> LinkBandwidth | None:
    """Return the extender's prediction for the container's GPUs, or None if there is none."""
    try:
        own, placement = own_gpus(container.pod), parse_placement(container.pod.annotations)
    except AnnotationError:
        return None
    if own is None or placement is None or len(container.gpus) == 1:
        return None
    if {name: {*gpus} for name, gpus in own.containers.items()} != {container.name: container.gpus}:
        return None
    effective = placement.physical_mb_per_s
    worst, best = placement.physical_worst_mb_per_s, placement.physical_best_mb_per_s
    if effective is None or worst is None or best is None:
        return None
    # Without the chart's admission policies, any user can write this annotation.
    if not all(0 <= each <= _MOST_MB_PER_S for each in (effective, worst, best)):
        return None
    return LinkBandwidth(placement.pattern, effective, worst, best)
