"""This node's pods as the API server knows them: listed, watched, and asked for when unknown."""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Protocol

from gputopo.runtime.log import fields
from gputopo_deviceplugin.kube import ApiServerError, PodChange
from gputopo_deviceplugin.pods import PodKey, PodRecord

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
    """The pods of this node by namespace and name."""

    def __init__(self, source: PodSource, *, silence_seconds: float) -> None:
        """Follow ``source``; a watch that is silent for ``silence_seconds`` is listed again.

        lightkube's watch has no read time-out, so a connection that died without a word looks
        like a quiet node.
        """
        self._source = source
        self._silence_seconds = silence_seconds
        self._delay_seconds = _FIRST_DELAY_SECONDS
        self._pods: dict[PodKey, PodRecord] = {}

    def __getitem__(self, key: PodKey) -> PodRecord:
        return self._pods[key]

    def __iter__(self) -> Iterator[PodKey]:
        return iter(self._pods)

    def __len__(self) -> int:
        return len(self._pods)

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
        else:
            self._pods[key] = record

    async def _follow(self) -> None:
        records, version = await self._source.pods()
        self._pods = {record.key: record for record in records}
        async with aclosing(self._source.changes(version)) as changes:
            while True:
                try:
                    async with asyncio.timeout(self._silence_seconds):
                        change = await anext(changes, None)
                except TimeoutError:
                    change = None
                # Only a watch that worked ends the delays, not each list before one is refused.
                self._delay_seconds = _FIRST_DELAY_SECONDS
                if change is None:
                    return
                self._fold(change)

    def _fold(self, change: PodChange) -> None:
        pod = change.pod
        if not change.deleted:
            self._pods[pod.key] = pod
        elif (known := self._pods.get(pod.key)) is not None and known.uid == pod.uid:
            del self._pods[pod.key]
