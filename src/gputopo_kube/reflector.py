"""The list-and-watch loop that keeps a local copy of one kind of object up to date."""

import asyncio
import logging
import math
import random
import time
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from gputopo.runtime.log import fields
from gputopo_kube.errors import ApiError
from gputopo_kube.listwatch import Listing, ListWatchSource, WatchEvent

FIRST_DELAY_SECONDS: Final = 0.2
LONGEST_DELAY_SECONDS: Final = 15.0
UNSUPPORTED_SECONDS: Final = 600.0
"""Delay before the next list if the API server does not serve or permit this kind."""

_log = logging.getLogger(__name__)

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class ListWatchTiming:
    """When a reflector lists the objects again.

    Attributes:
        silence_seconds: the reflector lists again after this time without an event.
        relist_seconds: if the last list is older than this time, the next event causes a new list.
        first_delay_seconds: delay after the first failure; each further failure doubles it.
    """

    silence_seconds: float
    relist_seconds: float = math.inf
    first_delay_seconds: float = FIRST_DELAY_SECONDS


class Reflector(Generic[Item]):
    """Lists the objects of one kind, then watches their changes, until cancelled.

    lightkube's watch has no read timeout. So if the connection is lost, the watch yields no events
    and no error. For this reason the reflector lists again after ``silence_seconds`` without an
    event; a list has a timeout. In a large cluster this happens rarely, because events are
    frequent. In a small cluster the list is short. The reflector also lists again after
    ``relist_seconds``, so that a lost event has no lasting effect.

    Attributes:
        lists: number of successful lists since the start.
        was_silent: whether the last watch ended because no event arrived.
        tried: an event that is set after the first attempt to list, also if the attempt failed.
    """

    def __init__(
        self,
        name: str,
        source: ListWatchSource[Item],
        *,
        on_list: Callable[[Listing[Item]], None],
        on_event: Callable[[WatchEvent[Item]], None],
        timing: ListWatchTiming,
        before_list: Callable[[], None] = lambda: None,
        unsupported: Collection[int] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Pass every list to ``on_list`` and every change to ``on_event``.

        Args:
            name: plural of the kind, for the log and metrics.
            source: lists and watches the objects.
            on_list: receives every list.
            on_event: receives every change.
            timing: how often to list.
            before_list: called immediately before each list.
            unsupported: HTTP statuses after which the next list waits for ``UNSUPPORTED_SECONDS``.
            clock: returns monotonic seconds.
        """
        self.name = name
        self.lists = 0
        self.was_silent = False
        self.tried = asyncio.Event()
        self._source = source
        self._on_list = on_list
        self._on_event = on_event
        self._timing = timing
        self._before_list = before_list
        self._unsupported = unsupported
        self._clock = clock
        self._delay_seconds = timing.first_delay_seconds
        self._heard_at: float | None = None
        self._silence: asyncio.Timeout | None = None
        self._logged_status: int | None = None

    def age_seconds(self) -> float | None:
        """Return the seconds since the last list or event, or None before the first list."""
        return None if self._heard_at is None else self._clock() - self._heard_at

    def list_again(self) -> None:
        """End the watch and list again, for example after a restore of etcd from a backup.

        Resource versions are then lower than before. A watch that began at a higher version yields
        no event until the API server reaches that version.
        """
        if self._silence is not None and not self._silence.expired():
            self._silence.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """List and watch until cancelled; retry after failures."""
        self._delay_seconds = self._timing.first_delay_seconds
        self.was_silent = False
        while True:
            try:
                await self._follow()
            except ApiError as error:
                self.tried.set()
                self.was_silent = False
                await asyncio.sleep(self._delay_after(error))

    async def _follow(self) -> None:
        self._before_list()
        listing = await self._source.list()
        self._on_list(listing)
        self.lists += 1
        self.was_silent = False
        self.tried.set()
        self._heard_at = listed_at = self._clock()
        _log.debug("listed %s", fields(kind=self.name, count=len(listing.items)))
        async with aclosing(self._source.watch(listing.resource_version)) as events:
            while (event := await self._next(events)) is not None:
                self._on_event(event)
                self._heard_at = self._clock()
                self._reset_delay()
                if self._heard_at - listed_at >= self._timing.relist_seconds:
                    return
        self._reset_delay()

    def _reset_delay(self) -> None:
        """Reset the delay before a retry. Call this after a watch has worked, not after a list.

        So if the API server rejects all watches, the delays between the full lists still grow.
        """
        self._delay_seconds = self._timing.first_delay_seconds
        self._logged_status = None

    async def _next(
        self, events: AsyncGenerator[WatchEvent[Item], None]
    ) -> WatchEvent[Item] | None:
        try:
            async with asyncio.timeout(self._timing.silence_seconds) as self._silence:
                return await anext(events, None)
        except TimeoutError:
            self.was_silent = True
            return None
        finally:
            self._silence = None

    def _delay_after(self, error: ApiError) -> float:
        if error.status in self._unsupported:
            if error.status != self._logged_status:
                _log.info("not watched %s", fields(kind=self.name, reason=error))
            self._logged_status = error.status
            return UNSUPPORTED_SECONDS
        _log.warning("watch failed, listing again %s", fields(kind=self.name, reason=error))
        # The delay is random, so that restarted components do not list at the same time.
        seconds = self._delay_seconds * random.uniform(0.5, 1.0)  # noqa: S311
        self._delay_seconds = min(2 * self._delay_seconds, LONGEST_DELAY_SECONDS)
        return seconds
