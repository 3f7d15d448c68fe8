"""This node's pods as the API server knows them: listed, watched, and asked for when unknown."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

from gputopo.runtime.log import fields
from gputopo_deviceplugin.kube import ApiServerError, PodChange
from gputopo_deviceplugin.listwatch import ListWatch
from gputopo_deviceplugin.pods import PodsVersion
from gputopo_kube.pods import PodKey, PodView, version_number

_MOST_DELETED: Final = 1_000
"""Pods that are remembered as deleted, so that a late answer does not bring one back."""

_log = logging.getLogger(__name__)


class PodSource(Protocol):
    """Where pods come from."""

    async def pods(self) -> tuple[list[PodView], str]:
        """Return all and the list's resource version."""
        ...

    def changes(self, resource_version: str) -> AsyncGenerator[PodChange, None]:
        """Yield the changes since a list."""
        ...

    async def pod(self, key: PodKey) -> PodView | None:
        """Return one as it is now."""
        ...


class PodBook(Mapping[PodKey, PodView]):
    """The pods of this node by namespace and name.

    Attributes:
        version: None until the pods were listed.
    """

    def __init__(
        self,
        source: PodSource,
        *,
        silence_seconds: float,
        on_list: Callable[[], None] = lambda: None,
        on_unread: Callable[[], None] = lambda: None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """Follow ``source``; a watch that is silent for ``silence_seconds`` is listed again.

        Args:
            source: the API server.
            silence_seconds: longest silence of a watch.
            on_list: called after each new list.
            on_unread: called where a pod could not be read.
            on_end: called when a pod with GPUs has ended or was deleted.
        """
        self._source = source
        self._on_list = on_list
        self._on_unread = on_unread
        self._on_end = on_end
        self._list_watch = ListWatch(
            "pods",
            source.pods,
            source.changes,
            silence_seconds=silence_seconds,
            on_list=self._replace,
            on_change=self._fold,
        )
        self._pods: dict[PodKey, PodView] = {}
        self._absent: set[PodKey] = set()
        self._deleted: deque[str] = deque(maxlen=_MOST_DELETED)
        self.version: PodsVersion | None = None

    def __getitem__(self, key: PodKey) -> PodView:
        return self._pods[key]

    def __iter__(self) -> Iterator[PodKey]:
        return iter(self._pods)

    def __len__(self) -> int:
        return len(self._pods)

    def knows(self, key: PodKey) -> bool:
        """Return whether the API server has said which pod has this name, or that none has."""
        return self.version is not None or key in self._pods or key in self._absent

    async def run(self) -> None:
        """Follow the API server until cancelled."""
        await self._list_watch.run()

    async def refresh(self, keys: Iterable[PodKey], timeout_seconds: float) -> set[PodKey]:
        """Read these pods anew, all within the time.

        Returns:
            Those that could not be read; the book has them as they were.
        """
        unread = set(keys)
        try:
            async with asyncio.timeout(timeout_seconds):
                await asyncio.gather(*(self._refresh(key, unread) for key in list(unread)))
        except TimeoutError:
            _log.warning("pods not read %s", fields(reason="timeout"))
        if unread:
            self._on_unread()
        return unread

    async def _refresh(self, key: PodKey, unread: set[PodKey]) -> None:
        try:
            record = await self._source.pod(key)
        except ApiServerError as error:
            _log.warning("pod not read %s", fields(pod=key, reason=error))
            return
        unread.discard(key)
        if record is None:
            self._pods.pop(key, None)
            self._absent.add(key)
        elif not self._is_outdated(record):
            self._pods[key] = record

    def _is_outdated(self, record: PodView) -> bool:
        """Return whether the watch has shown a later state of the pod while it was read."""
        known = self._pods.get(record.key)
        newer = known is not None and known.uid == record.uid and known.version > record.version
        return newer or record.uid in self._deleted

    def _replace(self, records: Iterable[PodView], resource_version: str) -> None:
        """Take a list over; after a watch that broke, changes may have been missed.

        A list after a silent watch changes nothing in most cases, and must then not make every
        agent write its status once a minute.
        """
        version = version_number(resource_version)
        before, self._pods = self._pods, {record.key: record for record in records}
        self._absent.clear()
        self._deleted.clear()
        unchanged = _with_gpus(before) == _with_gpus(self._pods)
        if self.version is not None and self._list_watch.was_silent and unchanged:
            self.version = self.version.later(version)
        else:
            self._need(version)
        self._on_list()

    def _fold(self, change: PodChange) -> None:
        pod, known = change.pod, self._pods.get(change.pod.key)
        if not change.deleted:
            self._pods[pod.key] = pod
        else:
            self._deleted.append(pod.uid)
            if known is not None and known.uid == pod.uid:
                del self._pods[pod.key]
        version = pod.version
        ended = pod.containers and (change.deleted or not pod.live)
        if ended or self.version is None:
            self._need(version)
        else:
            self.version = self.version.later(version)

    def _need(self, version: int) -> None:
        self.version = PodsVersion(version, version)
        self._on_end()


def _with_gpus(pods: Mapping[PodKey, PodView]) -> set[tuple[str, bool]]:
    return {(pod.uid, pod.live) for pod in pods.values() if pod.containers}
