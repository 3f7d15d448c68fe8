"""Reads from a container of the runtime what decides its CPUs. Pure functions."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

from gputopo.alignment.cpuset import GpuContainerCpus
from gputopo.api.annotations import AnnotationError, parse_gpus
from gputopo.api.names import CUDA_VISIBLE_DEVICES
from gputopo.api.shares import gpu_of
from gputopo.topology.model import Gpu, GpuUuid
from gputopo_deviceplugin.gpus.cpulist import CpuListError, parse_cpu_list
from gputopo_deviceplugin.gpus.numa import numa_nodes_of
from gputopo_deviceplugin.nri.v1alpha1 import api_pb2 as api

_SHARES_OF_CPU: Final = 1024
_LEAST_SHARES: Final = 2
"""kubelet's value for a container without a CPU request."""

RUNNING: Final = frozenset({api.CONTAINER_CREATED, api.CONTAINER_PAUSED, api.CONTAINER_RUNNING})
"""States of containers that have processes, or will have some."""


@dataclass(frozen=True, slots=True)
class RuntimeContainer:
    """A container with GPUs of gputopo.

    Attributes:
        instance: ID of the container at the runtime. A restarted container has another ID.
        pod_uid: UID of its pod.
        name: ``NAMESPACE/POD/CONTAINER``, for messages.
        cpus: what decides its CPUs.
    """

    instance: str
    pod_uid: str
    name: str
    cpus: GpuContainerCpus


def parse_container(
    pod: api.PodSandbox, container: api.Container, gpus: Mapping[GpuUuid, Gpu]
) -> RuntimeContainer | None:
    """Return a container with GPUs; None if it has no GPUs from gputopo.

    Args:
        pod: its pod.
        container: as the runtime describes it.
        gpus: the GPUs of the node.
    """
    uuids = _gpus_of(pod, container)
    if not uuids:
        return None
    known = [gpus[uuid] for uuid in uuids if uuid in gpus]
    nodes = frozenset(numa_nodes_of(known)) if len(known) == len(uuids) else frozenset[int]()
    cpu = container.linux.resources.cpu
    return RuntimeContainer(
        container.id,
        pod.uid,
        f"{pod.namespace}/{pod.name}/{container.name}",
        GpuContainerCpus(nodes, milli_cpu(cpu.shares.value), _cpuset(cpu.cpus)),
    )


def milli_cpu(shares: int) -> int:
    """Return the CPU request in thousandths from which kubelet has computed ``shares``.

    kubelet rounds down: 333 thousandths are 340 shares, and 340 shares are 332.03 thousandths.
    """
    return ceil(shares * 1000 / _SHARES_OF_CPU) if shares > _LEAST_SHARES else 0


def _gpus_of(pod: api.PodSandbox, container: api.Container) -> tuple[GpuUuid, ...]:
    """Return the GPUs of a container, from the annotation that the extender wrote to its pod.

    An init container is not in the annotation: it uses GPUs of a later container of its pod. Its
    GPUs are in its environment. A copy of the annotation on another pod has another UID.
    """
    try:
        annotation = parse_gpus(pod.annotations)
    except AnnotationError:
        return ()
    if annotation is None or annotation.uid != pod.uid:
        return ()
    placed = annotation.containers
    if container.name in placed:
        return tuple(map(gpu_of, placed[container.name]))
    variable = f"{CUDA_VISIBLE_DEVICES}="
    values = [entry.removeprefix(variable) for entry in container.env if entry.startswith(variable)]
    own = values[-1].split(",") if values else []
    of_pod = {gpu_of(device) for devices in placed.values() for device in devices}
    return tuple(map(GpuUuid, own)) if of_pod.issuperset(own) else ()


def _cpuset(cpus: str) -> frozenset[int] | None:
    """Return the limit of a container; without CPUs if the text is not a list of CPUs."""
    try:
        return parse_cpu_list(cpus) or None
    except CpuListError:
        return frozenset()
