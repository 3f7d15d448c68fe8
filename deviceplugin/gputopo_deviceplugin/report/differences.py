"""Compares kubelet's pod-resources list with the intended GPUs. Pure functions.

The list has the observed GPUs of each container. The pod's annotation has the intended GPUs.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.placement import PlacementError, intended_gpus
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod
from gputopo_kube.document import ObjectKey
from gputopo_kube.pods import PodView


@dataclass(frozen=True, slots=True)
class AllocationDifference:
    """A container of a live pod whose observed GPUs are not the intended GPUs.

    Attributes:
        missing: the intended GPUs if kubelet lists no GPUs for the container, else empty.
    """

    pod: PodView = field(compare=False)
    uid: str
    message: str
    container: str
    missing: frozenset[GpuUuid] = frozenset()


def find_differences(
    listed: Sequence[ListedPod], pods: Mapping[ObjectKey, PodView], node: str
) -> list[AllocationDifference]:
    """Return every container whose observed GPUs are not the intended GPUs, in list order.

    A container that kubelet lists without GPUs is a difference only if its pod runs. Until the pod
    runs, kubelet may not have allocated its GPUs. Pods that are missing in ``pods`` are skipped.

    Args:
        listed: kubelet's pod-resources list.
        pods: this node's pods.
        node: this node's name.
    """
    known = [(entry, pods[entry.key]) for entry in listed if entry.key in pods]
    return [
        difference
        for entry, pod in known
        if pod.live
        for difference in _compare_pod(entry, pod, node)
    ]


def _compare_pod(entry: ListedPod, pod: PodView, node: str) -> Iterator[AllocationDifference]:
    try:
        intended, reason = intended_gpus(pod, node), ""
    except PlacementError as error:
        intended, reason = {}, f" ({error})"
    for container, observed in entry.containers.items():
        given = frozenset(intended.get(container, ()))
        if observed != given and (observed or pod.running):
            text = (
                f"container {container} should have {_join(given)}, but kubelet lists "
                f"{_join(observed)}{reason}"
            )
            missing = frozenset() if observed else given
            yield AllocationDifference(pod, pod.uid, f"pod {pod.key}: {text}", container, missing)


def _join(gpus: Collection[GpuUuid]) -> str:
    return " ".join(sorted(gpus)) or "none"
