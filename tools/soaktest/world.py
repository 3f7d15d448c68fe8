"""All pods with GPUs from a watch, checked at every event. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gputopo.api.annotations import parse_gpus
from gputopo.api.names import JOB_LABEL, RESOURCE

_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class PodView:
    """The checked fields of one pod.

    Attributes:
        gpus: annotated UUIDs in rank order.
        why: reason and message of its end, or of the scheduler if it is not placed.
        job: the GPUJob it belongs to, or none.
        leaving: whether it is being deleted.
        nominated: the node of its nomination, or empty.
    """

    uid: str
    namespace: str
    name: str
    node: str
    phase: str
    gpus: tuple[str, ...]
    why: str
    job: str | None
    leaving: bool
    nominated: str

    @property
    def live(self) -> bool:
        """Whether its GPUs are its own."""
        return self.phase not in _ENDED


def view(pod: Mapping[str, Any]) -> PodView | None:
    """Return the checked fields of a pod; None for one without GPUs."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    if not any(
        RESOURCE in container.get("resources", {}).get("limits", {})
        for container in spec["containers"]
    ):
        return None
    gpus = parse_gpus(metadata.get("annotations", {}))
    return PodView(
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        node=spec.get("nodeName", ""),
        phase=status.get("phase", ""),
        gpus=tuple(uuid for uuids in gpus.containers.values() for uuid in uuids) if gpus else (),
        why=_why(status),
        job=metadata.get("labels", {}).get(JOB_LABEL),
        leaving="deletionTimestamp" in metadata,
        nominated=status.get("nominatedNodeName", ""),
    )


def _why(status: Mapping[str, Any]) -> str:
    unplaced = [
        one.get("message")
        for one in status.get("conditions", [])
        if (one["type"], one["status"]) == ("PodScheduled", "False")
    ]
    return " ".join(filter(None, (status.get("reason"), status.get("message"), *unplaced)))


@dataclass(slots=True)
class World:
    """Pods and the users of every GPU, by the annotations of live pods.

    Attributes:
        pods: by UID, without deleted ones.
        users: UID of the pod by UUID of the GPU.
    """

    pods: dict[str, PodView] = field(default_factory=dict)
    users: dict[str, str] = field(default_factory=dict)

    def replace(self, pods: Iterable[PodView]) -> list[str]:
        """Replace all pods by a list, and return its errors."""
        self.pods, self.users = {}, {}
        return [text for pod in pods for text in self.apply(pod, deleted=False)]

    def apply(self, pod: PodView, *, deleted: bool) -> list[str]:
        """Apply one change, and return the GPUs that two live pods then have."""
        if deleted or not pod.live:
            self.users = {gpu: uid for gpu, uid in self.users.items() if uid != pod.uid}
        if deleted:
            self.pods.pop(pod.uid, None)
            return []
        self.pods[pod.uid] = pod
        return self._take(pod) if pod.live else []

    def _take(self, pod: PodView) -> list[str]:
        twice = []
        for gpu in pod.gpus:
            user = self.users.setdefault(gpu, pod.uid)
            if user != pod.uid:
                other = self.pods[user]
                twice.append(f"{gpu} is annotated on {other.name} and on {pod.name} ({pod.node})")
        return twice
