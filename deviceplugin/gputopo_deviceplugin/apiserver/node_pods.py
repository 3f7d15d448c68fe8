"""Keeps a copy of this node's pods. A watch and reads of single pods update the copy."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from gputopo.api.bound_request import with_request
from gputopo.runtime.log import fields
from gputopo_deviceplugin.apiserver.connection import ApiConnection
from gputopo_deviceplugin.apiserver.node_api import FIRST_DELAY_SECONDS
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.document import ObjectKey
from gputopo_kube.errors import ApiError
from gputopo_kube.listwatch import Listing, ListWatchSource, WatchEvent
from gputopo_kube.pods import PodView, version_number
from gputopo_kube.reflector import ListWatchTiming, Reflector

_MOST_DELETED: Final = 1_000
"""Number of deleted pods to remember. A late response must not add a deleted pod again."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PodsVersion:
    """The range of resource versions that the agent may publish as ``observedPodsVersion``.

    Attributes:
        newest: highest version. This is the version of the last change or list that has arrived.
        needed: lowest version, at which GPUs may have become free for the last time. Either a pod
            with GPUs ended or was deleted, or the agent may have missed changes. The extender gives
            free GPUs to new pods only after the agent has published this version or a higher one.
    """

    newest: int
    needed: int

    def later(self, version: int) -> "PodsVersion":
        """Return the range from ``needed`` to ``version``, after a change that frees no GPUs.

        Versions decrease only when etcd is restored from a backup. So if ``version`` is below
        ``needed``, the old range is not valid any more, and both ends become ``version``.
        """
        return PodsVersion(version, min(version, self.needed))


class PodSource(ListWatchSource[PodView], Protocol):
    """Reads, lists and watches pods at the API server; ``NodeApi.pods`` implements this."""

    async def find(self, name: str, namespace: str) -> PodView | None:
        """Return one pod, or None if it does not exist."""
        ...


class NodePods(Mapping[ObjectKey, PodView]):
    """The pods of this node by namespace and name.

    Attributes:
        version: resource versions of this copy of the pods; None before the first list.
    """

    def __init__(
        self,
        source: PodSource,
        connection: ApiConnection,
        changes: ChangeSignal,
        *,
        silence_seconds: float,
    ) -> None:
        """Keep the pods of ``source``.

        Args:
            source: the pods at the API server.
            connection: informed about each list of pods and each failed read of a pod.
            changes: notified when a pod with GPUs has ended or was deleted.
            silence_seconds: time without an event after which the agent lists the pods again.
        """
        self._source = source
        self._connection = connection
        self._changes = changes
        self._reflector = Reflector(
            "pods",
            source,
            timing=ListWatchTiming(silence_seconds, first_delay_seconds=FIRST_DELAY_SECONDS),
            on_list=self._replace,
            on_event=self._apply,
        )
        self._pods: dict[ObjectKey, PodView] = {}
        self._absent: set[ObjectKey] = set()
        self._deleted: deque[str] = deque(maxlen=_MOST_DELETED)
        self.version: PodsVersion | None = None

    def __getitem__(self, key: ObjectKey) -> PodView:
        return self._pods[key]

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._pods)

    def __len__(self) -> int:
        return len(self._pods)

    def knows(self, key: ObjectKey) -> bool:
        """Return whether the agent has read this pod, or knows that the pod does not exist."""
        return self.version is not None or key in self._pods or key in self._absent

    async def run(self) -> None:
        """List and watch the pods until cancelled."""
        await self._reflector.run()

    async def refresh(self, keys: Iterable[ObjectKey], timeout_seconds: float) -> set[ObjectKey]:
        """Read the pods ``keys`` again. ``timeout_seconds`` limits the time for all pods together.

        Returns:
            The pods that could not be read. The last known state of these pods is kept.
        """
        unread = set(keys)
        try:
            async with asyncio.timeout(timeout_seconds):
                await asyncio.gather(*(self._refresh(key, unread) for key in list(unread)))
        except TimeoutError:
            _log.warning("pods not read %s", fields(reason="timeout"))
        if unread:
            self._connection.record_unread_pod()
        return unread

    async def _refresh(self, key: ObjectKey, unread: set[ObjectKey]) -> None:
        try:
            pod = await self._source.find(key.name, key.namespace)
        except ApiError as error:
            _log.warning("pod not read %s", fields(pod=key, reason=error))
            return
        unread.discard(key)
        if pod is None:
            self._pods.pop(key, None)
            self._absent.add(key)
        elif not self._is_outdated(pod):
            self._pods[key] = with_first_request(pod, self._pods.get(key))

    def _is_outdated(self, pod: PodView) -> bool:
        """Return whether the watch has shown a newer state than ``pod``, or the pod's deletion."""
        known = self._pods.get(pod.key)
        newer = known is not None and known.uid == pod.uid and known.version > pod.version
        return newer or pod.uid in self._deleted

    def _replace(self, listing: Listing[PodView]) -> None:
        """Replace all pods by those of a new list, and decide whether to write a new status.

        After a failed watch the agent may have missed changes, so it must write a new status. The
        agent also lists the pods after each minute without a watch event. If such a list shows no
        change, the agent writes no status, so an idle node causes no writes.
        """
        version = version_number(listing.resource_version)
        before = self._pods
        self._pods = {
            pod.key: with_first_request(pod, before.get(pod.key)) for pod in listing.items
        }
        self._absent.clear()
        self._deleted.clear()
        unchanged = _with_gpus(before) == _with_gpus(self._pods)
        if self.version is not None and self._reflector.was_silent and unchanged:
            self.version = self.version.later(version)
        else:
            self._need(version)
        self._connection.record_pod_list()

    def _apply(self, event: WatchEvent[PodView]) -> None:
        pod, known = event.item, self._pods.get(event.item.key)
        if not event.deleted:
            self._pods[pod.key] = with_first_request(pod, known)
        else:
            self._deleted.append(pod.uid)
            if known is not None and known.uid == pod.uid:
                del self._pods[pod.key]
        version = pod.version
        ended = pod.containers and (event.deleted or not pod.live)
        if ended or self.version is None:
            self._need(version)
        else:
            self.version = self.version.later(version)

    def _need(self, version: int) -> None:
        self.version = PodsVersion(version, version)
        self._changes.notify()


def with_first_request(pod: PodView, known: PodView | None) -> PodView:
    """Return the pod with the request that the agent has seen first.

    All pods of this node are bound. The view of a pod has the request that was recorded at its
    Binding. An older extender records none. Its pods keep the request until the agent restarts.
    """
    if known is None or known.uid != pod.uid or known.annotations == pod.annotations:
        return pod
    return replace(pod, annotations=with_request(pod.annotations, known.annotations))


def _with_gpus(pods: Mapping[ObjectKey, PodView]) -> set[tuple[str, bool]]:
    return {(pod.uid, pod.live) for pod in pods.values() if pod.containers}
