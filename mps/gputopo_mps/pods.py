"""The pods of this node that share a GPU, and when their clients must end."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gputopo.api.annotations import AnnotationError, parse_gpus
from gputopo.api.bound_request import with_bound_request
from gputopo.api.names import SHARING_TERMINATION_ANNOTATION
from gputopo.api.shares import gpu_of, parse_sharing
from gputopo.runtime.times import unix_seconds
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.client import ALL_NAMESPACES, AsyncApi, AsyncClient
from gputopo_kube.document import Document
from gputopo_kube.listwatch import Listing, WatchEvent
from gputopo_kube.podmodel import PodError, parse_pod_object
from gputopo_kube.podstatus import ENDED_PHASES
from gputopo_kube.reflector import ListWatchTiming, Reflector
from gputopo_kube.resources import PodDocument

FIRST_DELAY_SECONDS: Final = 1.0
BEFORE_KILL_SECONDS: Final = 2.0
"""How long before kubelet's SIGKILL the clients of a program that ends by itself are terminated."""

_BY_PROGRAM: Final = "Program"


@dataclass(frozen=True, slots=True)
class SharingPod:
    """A pod that shares a GPU.

    Attributes:
        uid: of the pod.
        kill_at: Unix time when kubelet kills the pod; None if the pod is not being deleted.
        ends_itself: whether its program ends its work on the GPU by itself after SIGTERM.
        ended: whether all of its containers have ended.
        gpus: the GPU of which it has a share; empty if that is unknown.
        memory_bytes: the GPU memory that it declares; None for an equal part.
    """

    uid: str
    kill_at: float | None = None
    ends_itself: bool = False
    ended: bool = False
    gpus: frozenset[str] = frozenset()
    memory_bytes: int | None = None

    @property
    def terminate_at(self) -> float | None:
        """Unix time when to terminate the pod's clients, 0 for at once; None for not yet known."""
        if self.kill_at is None:
            return None
        return self.kill_at - BEFORE_KILL_SECONDS if self.ends_itself else 0.0


def parse_sharing_pod(document: Document, resource: str) -> SharingPod | None:
    """Return a pod that requests ``resource``, or None for another or an invalid pod."""
    try:
        pod = parse_pod_object(document)
    except PodError:
        return None
    if resource not in pod.spec.resources():
        return None
    metadata = pod.metadata
    annotations = with_bound_request(metadata.annotations or {}, metadata.uid, pod.spec.node_name)
    mode = annotations.get(SHARING_TERMINATION_ANNOTATION)
    return SharingPod(
        uid=metadata.uid,
        kill_at=unix_seconds(metadata.deletion_timestamp),
        ends_itself=mode == _BY_PROGRAM,
        ended=(pod.status.phase or "") in ENDED_PHASES,
        gpus=_gpus(annotations, metadata.uid),
        memory_bytes=_memory(annotations),
    )


def _gpus(annotations: Mapping[str, str], uid: str) -> frozenset[str]:
    """Return the GPUs that the extender chose for this pod; empty if it chose none."""
    try:
        chosen = parse_gpus(annotations)
    except AnnotationError:
        return frozenset()
    if chosen is None or chosen.uid != uid:
        return frozenset()
    return frozenset(gpu_of(each) for devices in chosen.containers.values() for each in devices)


def _memory(annotations: Mapping[str, str]) -> int | None:
    try:
        return parse_sharing(annotations).memory_bytes
    except AnnotationError:
        return None


class SharingPods:
    """A copy of the pods of this node that share a GPU.

    Attributes:
        is_listed: whether the pods were listed since the start.
    """

    def __init__(
        self,
        client: AsyncClient,
        changes: ChangeSignal,
        *,
        node: str,
        resource: str,
        silence_seconds: float,
    ) -> None:
        """Watch the pods of ``node``. Notify ``changes`` after each list and each event."""
        self.is_listed = False
        self._changes = changes
        self._pods: dict[str, SharingPod] = {}
        source = AsyncApi(client).objects(
            PodDocument,
            lambda document: parse_sharing_pod(document, resource),
            namespace=ALL_NAMESPACES,
            fields={"spec.nodeName": node},
        )
        timing = ListWatchTiming(silence_seconds, first_delay_seconds=FIRST_DELAY_SECONDS)
        self._reflector: Reflector[SharingPod | None] = Reflector(
            "pods", source, timing=timing, on_list=self._replace, on_event=self._apply
        )

    async def run(self) -> None:
        """List and watch until cancelled."""
        await self._reflector.run()

    @property
    def running(self) -> int:
        """The number of pods of this node that share a GPU and have not ended."""
        return sum(not pod.ended for pod in self._pods.values())

    def declared(self, gpu: str) -> dict[str, int | None]:
        """Return the pods of a GPU that have not ended, and the memory that each declares."""
        pods = self._pods.values()
        return {pod.uid: pod.memory_bytes for pod in pods if gpu in pod.gpus and not pod.ended}

    def due(self, now: float) -> set[str]:
        """Return the UIDs of the pods whose clients must be terminated at ``now``."""
        pods = self._pods.values()
        return {pod.uid for pod in pods if pod.terminate_at is not None and pod.terminate_at <= now}

    def next_due(self, now: float) -> float | None:
        """Return when, after ``now``, the clients of the next pod must be terminated."""
        times = [pod.terminate_at for pod in self._pods.values() if pod.terminate_at is not None]
        return min((time for time in times if time > now), default=None)

    def _replace(self, listing: Listing[SharingPod | None]) -> None:
        self._pods = {pod.uid: pod for pod in listing.items if pod is not None}
        self.is_listed = True
        self._changes.notify()

    def _apply(self, event: WatchEvent[SharingPod | None]) -> None:
        if event.item is None:
            return
        if event.deleted:
            self._pods.pop(event.item.uid, None)
        else:
            self._pods[event.item.uid] = event.item
        self._changes.notify()
