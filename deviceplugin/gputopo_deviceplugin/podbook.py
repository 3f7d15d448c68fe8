"""This node's pods as the API server knows them: listed, watched, and asked for when unknown."""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Protocol

from gputopo.runtime.log import fields
from gputopo_deviceplugin.kube import ApiServerError, PodChange
from gputopo_deviceplugin.pods import PodKey, PodRecord, PodsVersion, version_number

_FIRST_DELAY_SECONDS = 1.0
_LONGEST_DELAY_SECONDS = 15.0

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
    """The pods of this node by namespace and name.

    Attributes:
        version: None until the pods were listed.
    """

    def __init__(
        self,
        source: PodSource,
        *,
        silence_seconds: float,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """Follow ``source``; a watch that is silent for ``silence_seconds`` is listed again.

        lightkube's watch has no read time-out, so a connection that died without a word looks
        like a quiet node. ``on_end`` is called when a pod with GPUs has ended or was deleted.
        """
        self._source = source
        self._silence_seconds = silence_seconds
        self._on_end = on_end
        self._delay_seconds = _FIRST_DELAY_SECONDS
        self._pods: dict[PodKey, PodRecord] = {}
        self._absent: set[PodKey] = set()
        self._was_silent = False
        self.version: PodsVersion | None = None

    def __getitem__(self, key: PodKey) -> PodRecord:
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
        while True:
            try:
                await self._follow()
            except ApiServerError as error:
                _log.warning("pods not watched, listing again %s", fields(reason=error))
                # Jitter, so that the agents of all nodes do not come in step.
                await asyncio.sleep(self._delay_seconds * random.uniform(0.5, 1.0))  # noqa: S311
                self._delay_seconds = min(2 * self._delay_seconds, _LONGEST_DELAY_SECONDS)

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
        else:
            self._pods[key] = record

    async def _follow(self) -> None:
        records, version = await self._source.pods()
        self._replace(records, version_number(version))
        self._was_silent = False
        async with aclosing(self._source.changes(version)) as changes:
            while True:
                try:
                    async with asyncio.timeout(self._silence_seconds):
                        change = await anext(changes, None)
                except TimeoutError:
                    self._was_silent = True
                    change = None
                # Only a watch that worked ends the delays, not each list before one is refused.
                self._delay_seconds = _FIRST_DELAY_SECONDS
                if change is None:
                    return
                self._fold(change)

    def _replace(self, records: Iterable[PodRecord], version: int) -> None:
        """Take a list over; after a watch that broke, changes may have been missed.

        A list after a silent watch changes nothing in most cases, and must then not make every
        agent write its status once a minute.
        """
        before, self._pods = self._pods, {record.key: record for record in records}
        self._absent.clear()
        unchanged = _with_gpus(before) == _with_gpus(self._pods)
        if self.version is not None and self._was_silent and unchanged:
            self.version = self.version.later(version)
        else:
            self._need(version)

    def _fold(self, change: PodChange) -> None:
        pod, known = change.pod, self._pods.get(change.pod.key)
        if not change.deleted:
            self._pods[pod.key] = pod
        elif known is not None and known.uid == pod.uid:
            del self._pods[pod.key]
        version = pod.resource_version
        if pod.asks and (change.deleted or not pod.live):
            self._need(version)
        elif self.version is not None:
            self.version = self.version.later(version)

    def _need(self, version: int) -> None:
        self.version = PodsVersion(version, version)
        self._on_end()


def _with_gpus(pods: Mapping[PodKey, PodRecord]) -> set[tuple[str, bool]]:
    return {(pod.uid, pod.live) for pod in pods.values() if pod.asks}
