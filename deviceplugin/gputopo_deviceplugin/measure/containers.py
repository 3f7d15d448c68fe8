"""Finds the containers to measure, and what their pods request to measure. Pure functions."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gputopo.api.annotations import AnnotationError
from gputopo.api.measuring import MeasuringRequest, parse_measuring
from gputopo.api.names import STEPS_SOURCE_ANNOTATION
from gputopo.patterns.model import MAX_GPUS_PER_POD
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.usage import GpuUser, PodState
from gputopo_kube.document import ObjectKey
from gputopo_kube.pods import PodView


class ContainerKey(NamedTuple):
    """UID of a pod, and name of one of its containers."""

    uid: str
    container: str


@dataclass(frozen=True, slots=True)
class MeasuredContainer:
    """A container with GPUs whose pod has not ended.

    Attributes:
        fault: why the agent cannot measure as the pod's annotations request, for example because
            an annotation is not valid. None if the agent can.
    """

    pod: PodView
    name: str
    gpus: frozenset[GpuUuid]
    request: MeasuringRequest
    fault: str | None = None

    @property
    def key(self) -> ContainerKey:
        """The UID of the pod, and the name of the container."""
        return ContainerKey(self.pod.uid, self.name)

    @property
    def started(self) -> bool:
        """Whether kubelet has reported that the container itself was started."""
        runtime = self.pod.runtime.containers.get(self.name)
        return runtime is not None and bool(runtime.image_digest)


def measured_containers(
    users: Mapping[GpuUuid, GpuUser], pods: Mapping[ObjectKey, PodView], *, reads_logs: bool
) -> dict[ContainerKey, MeasuredContainer]:
    """Return the containers to measure: those that keep their GPUs until their pod ends.

    If a container has more or fewer GPUs in ``users`` than it requests, ``users`` must be wrong.
    The result does not contain this container.

    Args:
        users: the pod and container that uses each GPU of this node.
        pods: this node's pods.
        reads_logs: whether the agent may read the logs of containers.
    """
    gpus: defaultdict[tuple[ObjectKey, str], set[GpuUuid]] = defaultdict(set)
    for gpu, user in users.items():
        pod = pods.get(user.key)
        if pod is not None and pod.uid == user.uid and user.state is PodState.LIVE:
            gpus[user.key, user.container].add(gpu)
    found = [
        _container(pods[key], each.name, frozenset(gpus[key, each.name]), reads_logs=reads_logs)
        for key in dict.fromkeys(key for key, _ in gpus)
        for each in pods[key].gpu_keepers
        if len(gpus.get((key, each.name), ())) == each.gpus <= MAX_GPUS_PER_POD
    ]
    return {each.key: each for each in found}


def requested_measuring(pod: PodView) -> tuple[MeasuringRequest, str | None]:
    """Return what a pod requests to measure, and what is wrong with its annotations, if anything.

    If an annotation is not valid, the request has only default values: the rate of the pod is
    measured, but no samples are stored. The source ``Metrics`` is not valid if several containers
    have GPUs, because an endpoint does not show which of the containers made the steps.
    """
    try:
        request = parse_measuring(pod.annotations)
    except AnnotationError as error:
        return MeasuringRequest(), str(error)
    keepers = len(pod.gpu_keepers)
    if request.source == "Metrics" and keepers > 1:
        return MeasuringRequest(), (
            f"{STEPS_SOURCE_ANNOTATION}: Metrics, but {keepers} containers have GPUs; use SDK or "
            "Log, which count the steps of each container"
        )
    return request, None


def _container(
    pod: PodView, name: str, gpus: frozenset[GpuUuid], *, reads_logs: bool
) -> MeasuredContainer:
    request, fault = requested_measuring(pod)
    if request.source == "Log" and not reads_logs:
        fault = (
            f"{STEPS_SOURCE_ANNOTATION}: Log, but the node agent may not read the logs of pods; "
            "set the chart value devicePlugin.measuring.podLogs to true, or use SDK or Metrics"
        )
    return MeasuredContainer(pod, name, gpus, request, fault)
