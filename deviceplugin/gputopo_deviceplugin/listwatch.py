"""Lists the objects of one kind, then watches their changes, again and again."""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import aclosing
from typing import Final, Generic, TypeVar

from gputopo.runtime.log import fields
from gputopo_deviceplugin.kube import ApiServerError

FIRST_DELAY_SECONDS: Final = 1.0
LONGEST_DELAY_SECONDS: Final = 15.0
UNAVAILABLE_SECONDS: Final = 600.0
"""Pause after the API server has said that it does not serve, or does not permit, this kind."""

Item = TypeVar("Item")
Change = TypeVar("Change")

_log = logging.getLogger(__name__)


class ListWatch(Generic[Item, Change]):
    """Keeps a copy of some objects up to date through callbacks.

    Attributes:
        tried: set after the first list, also where that failed.
        was_silent: whether the watch before the list was replaced because of its silence.
    """

    def __init__(
        self,
        what: str,
        items: Callable[[], Awaitable[tuple[list[Item], str]]],
        changes: Callable[[str], AsyncGenerator[Change]],
        *,
        silence_seconds: float,
        on_list: Callable[[list[Item], str], None],
        on_change: Callable[[Change], None],
        unavailable: Collection[int] = (),
    ) -> None:
        """List with ``items`` and watch with ``changes`` from the version of the list.

        A watch that is silent for ``silence_seconds`` is replaced by a new list: lightkube's
        watch has no read time-out.

        Args:
            what: the objects, for the log.
            items: returns all objects and the resource version of the list.
            changes: yields the changes since a version.
            silence_seconds: longest silence of a watch.
            on_list: receives every list.
            on_change: receives every change.
            unavailable: HTTP statuses after which it is tried again only rarely.
        """
        self._what = what
        self._items = items
        self._changes = changes
        self._silence_seconds = silence_seconds
        self._on_list = on_list
        self._on_change = on_change
        self._unavailable = unavailable
        self._reported: int | None = None
        self.tried = asyncio.Event()
        self.was_silent = False
        self._delay_seconds = FIRST_DELAY_SECONDS

    async def run(self) -> None:
        """Follow the API server until cancelled."""
        self._delay_seconds = FIRST_DELAY_SECONDS
        while True:
            try:
                await self._follow()
            except ApiServerError as error:
                self.tried.set()
                await asyncio.sleep(self._failed(error))

    def _failed(self, error: ApiServerError) -> float:
        """Log the error and return the seconds until the next list."""
        if error.status in self._unavailable:
            if error.status != self._reported:
                _log.info("%s not watched %s", self._what, fields(reason=error))
            self._reported = error.status
            return UNAVAILABLE_SECONDS
        _log.warning("%s not watched, listing again %s", self._what, fields(reason=error))
        # Jitter, so that the agents of all nodes do not list in step.
        seconds = self._delay_seconds * random.uniform(0.5, 1.0)  # noqa: S311
        self._delay_seconds = min(2 * self._delay_seconds, LONGEST_DELAY_SECONDS)
        return seconds

    async def _follow(self) -> None:
        items, version = await self._items()
        self._on_list(items, version)
        self.was_silent = False
        self.tried.set()
        async with aclosing(self._changes(version)) as changes:
            while True:
                try:
                    async with asyncio.timeout(self._silence_seconds):
                        change = await anext(changes, None)
                except TimeoutError:
                    self.was_silent = True
                    change = None
                # Only a watch that worked ends the delays, not each list before a failed watch.
                self._delay_seconds = FIRST_DELAY_SECONDS
                self._reported = None
                if change is None:
                    return
                self._on_change(change)
