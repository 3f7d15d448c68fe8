"""The containers of a pod for which kubelet's topology manager takes NUMA nodes."""

from dataclasses import dataclass

from gputopo.api.quantity import parse_thousandths
from gputopo_kube.gpu_containers import ContainerKind, GpuContainer, gpu_containers
from gputopo_kube.podmodel import Container, PodObject
from gputopo_kube.podstatus import ContainerResources

_MILLI = 1000


@dataclass(frozen=True, slots=True)
class AlignedContainer:
    """A container with GPUs or exclusive CPUs.

    Attributes:
        cpus: CPUs that kubelet's static CPU manager gives to this container alone.
    """

    name: str
    gpus: int
    cpus: int
    kind: ContainerKind = ContainerKind.APPLICATION


def without_cpus(container: GpuContainer) -> AlignedContainer:
    """Return a container that gets GPUs, and CPUs of the shared pool."""
    return AlignedContainer(container.name, container.gpus, 0, container.kind)


def exclusive_containers(pod: PodObject, resource: str) -> tuple[AlignedContainer, ...]:
    """Return the containers with GPUs or exclusive CPUs, in the order in which kubelet allocates.

    The result is empty if no container can get exclusive CPUs. A container can get them if it
    requests whole CPUs, and the pod is of the class Guaranteed and has no resources of its own.
    """
    if pod.status.qos_class != "Guaranteed" or pod.spec.pod_resources is not None:
        return ()
    # kubelet knows no NUMA nodes of shares.
    of_name = {each.name: each for each in gpu_containers(pod, resource) if not each.shared}
    found = [
        AlignedContainer(each.name, gpus, cpus, _kind(each, is_init=is_init))
        for is_init, containers in ((True, pod.spec.init_containers), (False, pod.spec.containers))
        for each in containers or ()
        for gpus in [of_name[each.name].gpus if each.name in of_name else 0]
        for cpus in [_whole_cpus(each)]
        if gpus or cpus
    ]
    return tuple(found) if any(each.cpus for each in found) else ()


def _whole_cpus(container: Container) -> int:
    quantity = (container.resources or ContainerResources()).quantity("cpu")
    milli = None if quantity is None else parse_thousandths(quantity)
    return milli // _MILLI if milli and milli % _MILLI == 0 else 0


def _kind(container: Container, *, is_init: bool) -> ContainerKind:
    if not is_init:
        return ContainerKind.APPLICATION
    return ContainerKind.SIDECAR if container.is_sidecar else ContainerKind.INIT
