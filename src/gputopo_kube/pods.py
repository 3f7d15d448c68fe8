"""``PodView``: the fields of a pod that gputopo uses. All components use this class.

The extender keeps the views of all GPU pods of the cluster in memory. A view has a few hundred
bytes, a complete pod object several thousand bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import Any, Final

from gputopo.api.bound_request import with_bound_request
from gputopo.api.names import GROUP, RESOURCE
from gputopo.api.shares import share_resource
from gputopo.runtime.times import unix_seconds
from gputopo.topology.model import MAX_INDEX
from gputopo_kube.aligned_containers import (
    AlignedContainer,
    exclusive_containers,
    without_cpus,
)
from gputopo_kube.document import ObjectKey
from gputopo_kube.gpu_containers import ContainerKind, GpuContainer, gpu_containers, is_number
from gputopo_kube.podmodel import PodError, PodObject, parse_pod_object
from gputopo_kube.podruntime import PodRuntime
from gputopo_kube.podstatus import ENDED_PHASES

NO_RUNTIME: Final = PodRuntime()

_MOST_VERSION_DIGITS = 19
_SHARED_LABELS: Final = 4096


@dataclass(frozen=True, slots=True)
class PodView:
    """The fields of a pod that gputopo uses.

    Attributes:
        version: resource version, which every change increases; 0 if it is not a number.
        node: the node to which the pod is bound; None if the pod is not bound.
        containers: containers that request GPUs, in the order in which kubelet allocates: init
            containers and sidecars, then application containers.
        annotations: the ``gputopo.io/*`` annotations. Of a bound pod, those of the request have the
            values at the time of the Binding (:mod:`gputopo.api.bound_request`).
        labels: all labels: names and values, sorted by name. Pods with equal labels share them.
        deleting: whether the pod has a ``deletionTimestamp``.
        priority: scheduling priority. Pods of lower priority may be preempted for this pod.
        prefers_nodes: whether the pod prefers some nodes, for example by affinity.
        preempts: whether other pods may be preempted for this pod.
        grouped: whether the pod has a ``schedulingGroup``.
        created: Unix time of the creation in seconds; None if it is unknown.
        gated: whether a scheduling gate keeps the scheduler from placing the pod.
        started: whether kubelet has reported that a container was started.
        stopped: whether kubelet has reported that no container runs any more.
        rejected: kubelet's reason and message if it rejected the pod, else None.
        rejected_for_gpus: whether kubelet rejected the pod because of the GPU resource, judged by
            kubelet's message.
        exclusive: the containers with GPUs or exclusive CPUs, in the order in which kubelet
            allocates; empty if no container can get exclusive CPUs.
        runtime: limits and images that kubelet has applied; only the node agent fills this field.
    """

    uid: str
    key: ObjectKey
    version: int = 0
    node: str | None = None
    phase: str = "Pending"
    containers: tuple[GpuContainer, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: tuple[tuple[str, str], ...] = ()
    deleting: bool = False
    priority: int = 0
    prefers_nodes: bool = False
    preempts: bool = True
    grouped: bool = False
    created: float | None = None
    gated: bool = False
    started: bool = False
    stopped: bool = False
    rejected: str | None = None
    rejected_for_gpus: bool = False
    exclusive: tuple[AlignedContainer, ...] = ()
    runtime: PodRuntime = NO_RUNTIME

    @property
    def namespace(self) -> str:
        """Namespace of the pod."""
        return self.key.namespace

    @property
    def name(self) -> str:
        """Name of the pod."""
        return self.key.name

    @property
    def live(self) -> bool:
        """Whether the phase is neither Succeeded nor Failed."""
        return self.phase not in ENDED_PHASES

    @property
    def running(self) -> bool:
        """Whether the phase is Running."""
        return self.phase == "Running"

    @property
    def aligned(self) -> tuple[AlignedContainer, ...]:
        """The containers for which kubelet's topology manager takes NUMA nodes, in its order."""
        whole = (each for each in self.containers if not each.shared)
        return self.exclusive or tuple(map(without_cpus, whole))

    @property
    def shares(self) -> bool:
        """Whether the pod requests shares of GPUs."""
        return any(each.shared for each in self.containers)

    @property
    def gpu_keepers(self) -> tuple[GpuContainer, ...]:
        """The containers that keep their GPUs until the pod ends, in rank order.

        The application containers come first, then the sidecars. Ordinary init containers are left
        out.
        """
        keepers = [each for each in self.containers if each.keeps_gpus]
        return tuple(sorted(keepers, key=lambda each: each.kind is ContainerKind.SIDECAR))

    def keeper_of(self, container: GpuContainer) -> GpuContainer | None:
        """Return the sidecar or application container that keeps the GPUs of ``container``.

        An ordinary init container shares the GPUs of the next sidecar or application container. For
        example, the init container A with 2 GPUs comes before the application container B with 4
        GPUs. The result for A is B. The result for B is B. The result is None if no sidecar or
        application container with GPUs follows an init container.

        Raises:
            ValueError: if the pod does not have ``container``.
        """
        following = self.containers[self.containers.index(container) :]
        return next((each for each in following if each.keeps_gpus), None)

    @property
    def most_gpus(self) -> int:
        """The highest number of GPUs that the pod can use at one time; 64 if it is higher.

        Sidecars run all the time. Init containers run one after another, before the application
        containers. Example: a sidecar with 1 GPU, init containers with 2 and 4 GPUs and an
        application container with 3 GPUs use at most 1 + max(2, 4, 3) = 5 GPUs.
        """
        application, sidecars, largest_init = 0, 0, 0
        for each in self.containers:
            if each.kind is ContainerKind.APPLICATION:
                application += each.gpus
            elif each.kind is ContainerKind.SIDECAR:
                sidecars += each.gpus
            else:
                largest_init = max(largest_init, each.gpus)
        return min(sidecars + max(application, largest_init), MAX_INDEX + 1)


def parse_pod(document: Mapping[str, Any], resource: str = RESOURCE) -> PodView:
    """Return the view of a pod object.

    Args:
        document: the JSON of the pod.
        resource: extended resource that counts the GPUs.

    Raises:
        PodError: if the object is not a valid pod; the message names the field.
    """
    return view_of(parse_pod_object(document), resource)


def parse_gpu_pod(document: Mapping[str, Any], resource: str) -> PodView | None:
    """Return the view of a pod that requests GPUs, or None for any other pod.

    Raises:
        PodError: if the object is not a valid pod, or its resource version is not a number.
    """
    if not may_request(document, resource):
        return None
    pod = parse_pod(document, resource)
    if not pod.version:
        version = document["metadata"].get("resourceVersion")
        raise PodError(f"pod metadata.resourceVersion: {version!r} is not a number")
    return pod if pod.containers else None


def view_of(pod: PodObject, resource: str = RESOURCE) -> PodView:
    """Return the view of a parsed pod; ``resource`` is the name of the GPU resource."""
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    containers = gpu_containers(pod, resource)
    # Many pods share these names. An interned name is in memory only once.
    annotations = {
        intern(name): text
        for name, text in (metadata.annotations or {}).items()
        if name.startswith(f"{GROUP}/")
    }
    return PodView(
        uid=metadata.uid,
        key=ObjectKey(intern(metadata.namespace), metadata.name),
        version=version_number(metadata.resource_version),
        node=intern(spec.node_name) if spec.node_name else None,
        phase=intern(status.phase or "Pending"),
        containers=containers,
        annotations=with_bound_request(annotations, metadata.uid, spec.node_name),
        labels=_shared_labels(tuple(sorted((metadata.labels or {}).items()))),
        deleting=metadata.deletion_timestamp is not None,
        priority=spec.priority or 0,
        prefers_nodes=spec.prefers_nodes,
        preempts=spec.preemption_policy != "Never",
        grouped=spec.scheduling_group is not None,
        created=unix_seconds(metadata.creation_timestamp),
        # The condition of a gated pod stays until kube-scheduler tries the pod.
        gated=bool(spec.scheduling_gates),
        started=status.has_started,
        stopped=status.has_stopped(len(spec.containers)),
        rejected=status.rejection,
        rejected_for_gpus=status.is_rejected_for(
            _requested(resource, containers), spec.resources()
        ),
        exclusive=exclusive_containers(pod, resource),
    )


def _requested(resource: str, containers: tuple[GpuContainer, ...]) -> str:
    """Return the resource of GPUs, or that of shares if the containers request only shares."""
    only_shares = bool(containers) and all(each.shared for each in containers)
    return share_resource(resource) if only_shares else resource


@lru_cache(_SHARED_LABELS)
def _shared_labels(labels: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return one object for equal labels, such as those of the pods of a Deployment."""
    return tuple((intern(name), intern(value)) for name, value in labels)


def version_number(text: str | None) -> int:
    """Return a resource version as a number, or 0 for other text (valid before Kubernetes 1.35)."""
    return int(text) if text and is_number(text, _MOST_VERSION_DIGITS) else 0


def may_request(document: Mapping[str, Any], resource: str) -> bool:
    """Return False if no container of the pod requests the resource or shares, otherwise True.

    Most pods request no GPU. For them this check replaces parsing, which takes ten times as long.
    The result is true for a malformed pod, so that the parser reports the error.
    """
    try:
        spec, shares = document["spec"], share_resource(resource)
        containers = (*spec["containers"], *(spec.get("initContainers") or ()))
        return any(
            resource in (amounts or ()) or shares in (amounts or ())
            for container in containers
            for amounts in (container.get("resources") or {}).values()
        )
    except (AttributeError, KeyError, TypeError):
        return True
