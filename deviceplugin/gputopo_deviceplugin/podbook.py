"""This node's pods as the API server knows them: listed, watched, and asked for when unknown."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from typing import Protocol

from gputopo.runtime.log import fields
from gputopo_deviceplugin.kube import ApiServerError, PodChange
from gputopo_deviceplugin.listwatch import ListWatch
from gputopo_deviceplugin.pods import PodKey, PodRecord

_log = logging.getLogger(__name__)


class PodSource(Protocol):
    """Where pods come from."""

    async def pods(self) -> tuple[list[PodRecord], str]:
        """Return all and the list's resource version."""
        ...

    def changes(self, resource_version: str) -> AsyncGenerator[PodChange, None]:
        """Yield the changes since a list."""
        ...

    async def pod(self, key: PodKey) -> PodRecord | None:
        """Return one as it is now."""
        ...


class PodBook(Mapping[PodKey, PodRecord]):
    """The pods of this node by namespace and name."""

    def __init__(
        self,
        source: PodSource,
        *,
        silence_seconds: float,
        on_list: Callable[[], None] = lambda: None,
        on_unread: Callable[[], None] = lambda: None,
    ) -> None:
        """Follow ``source``; a watch that is silent for ``silence_seconds`` is listed again.

        ``on_list`` is called after each new list, ``on_unread`` where a pod could not be read.
        """
        self._source = source
        self._on_list = on_list
        self._on_unread = on_unread
        self._list_watch = ListWatch(
            "pods",
            source.pods,
            source.changes,
            silence_seconds=silence_seconds,
            on_list=self._replace,
            on_change=self._fold,
        )
        self._pods: dict[PodKey, PodRecord] = {}

    def __getitem__(self, key: PodKey) -> PodRecord:
        return self._pods[key]

    def __iter__(self) -> Iterator[PodKey]:
        return iter(self._pods)

    def __len__(self) -> int:
        return len(self._pods)

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
        else:
            self._pods[key] = record

    def _replace(self, records: list[PodRecord], version: str) -> None:  # noqa: ARG002
        self._pods = {record.key: record for record in records}
        self._on_list()

    def _fold(self, change: PodChange) -> None:
        pod = change.pod
        if not change.deleted:
            self._pods[pod.key] = pod
        elif (known := self._pods.get(pod.key)) is not None and known.uid == pod.uid:
            del self._pods[pod.key]
