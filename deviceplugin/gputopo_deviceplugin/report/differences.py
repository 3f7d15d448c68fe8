"""Where kubelet's books differ from what gputopo chose. Pure.

Kubelet's books are what the container has; the annotation is what it should have.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod
from gputopo_deviceplugin.pods import PlacementError, placed_gpus
from gputopo_kube.pods import PodKey, PodView


@dataclass(frozen=True, slots=True)
class AllocationDifference:
    """A live container that has other GPUs than it was given; ``message`` names both.

    Attributes:
        missing: the GPUs that it was given where kubelet has no record of any.
    """

    pod: PodView = field(compare=False)
    uid: str
    message: str
    container: str
    missing: frozenset[GpuUuid] = frozenset()


def differences(
    listed: Sequence[ListedPod], pods: Mapping[PodKey, PodView], node: str
) -> list[AllocationDifference]:
    """Return every container whose GPUs differ, in the order of the books.

    A container without GPUs counts once its pod runs: before, kubelet is still admitting it.
    Of a pod that the API server does not know nobody can say what it should have.

    Args:
        listed: kubelet's books.
        pods: this node's pods.
        node: this node's name.
    """
    known = [(entry, pods[entry.key]) for entry in listed if entry.key in pods]
    return [
        difference for entry, pod in known if pod.live for difference in _of_pod(entry, pod, node)
    ]


def restored(listed: Sequence[ListedPod], lost: Sequence[AllocationDifference]) -> list[ListedPod]:
    """Return kubelet's list with the GPUs of which it lost the record."""
    missing = {(each.pod.key, each.container): each.missing for each in lost}
    return [
        ListedPod(
            entry.key,
            {
                container: held or missing.get((entry.key, container), held)
                for container, held in entry.containers.items()
            },
        )
        for entry in listed
    ]


def _of_pod(entry: ListedPod, pod: PodView, node: str) -> Iterator[AllocationDifference]:
    try:
        placed, reason = placed_gpus(pod, node), ""
    except PlacementError as error:
        placed, reason = {}, f" ({error})"
    for container, held in entry.containers.items():
        given = frozenset(placed.get(container, ()))
        if held != given and (held or pod.running):
            text = (
                f"container {container} has {_names(held)} by kubelet's books, and was given "
                f"{_names(given)}{reason}"
            )
            missing = frozenset() if held else given
            yield AllocationDifference(pod, pod.uid, f"pod {pod.key}: {text}", container, missing)


def _names(gpus: Collection[GpuUuid]) -> str:
    return " ".join(sorted(gpus)) or "none"
