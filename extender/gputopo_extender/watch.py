"""Keeps the ledger's copy of one kind of object: list, watch, and list again."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Generic, Protocol, TypeVar

from gputopo.runtime.log import fields
from gputopo_extender.cluster import RefusedError, UnansweredError
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.topologies import PublishedNode, UnreadableTopology
from gputopo_extender.watched import Event, Listing, Watched
from gputopo_kube.pods import PodView

_FIRST_DELAY_SECONDS = 0.2
_LONGEST_DELAY_SECONDS = 15.0

_log = logging.getLogger(__name__)

Record = TypeVar("Record")
Fold = Callable[[Event[Record]], None]
Refold = Callable[[], Callable[[Listing[Record]], None]]


class Follower(Protocol):
    """What readiness and metrics know of a cache.

    Attributes:
        lists: full lists since the start.
    """

    lists: int

    @property
    def name(self) -> str:
        """Plural of the kind."""
        ...

    def age_seconds(self) -> float | None:
        """Return the time since the API server was heard last, None before the first list."""
        ...

    async def run(self) -> None:
        """Follow the API server until cancelled."""
        ...


class Reflector(Generic[Record]):
    """Lists, then folds changes in, for ever.

    lightkube's watch has no read time-out, so a connection that died without a word looks like
    a quiet cluster. Silence therefore ends in a new list, which does time out. In a large
    cluster there is no silence; in a small one a list is cheap. And whatever is heard, now and
    then everything is listed again: nothing depends on one event alone.
    """

    def __init__(
        self,
        watched: Watched[Record],
        *,
        refold: Refold[Record],
        fold: Fold[Record],
        silence_seconds: float,
        relist_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Fold lists with what ``refold`` returns just before each list, changes with ``fold``."""
        self._watched = watched
        self._refold = refold
        self._fold = fold
        self._silence_seconds = silence_seconds
        self._relist_seconds = relist_seconds
        self._clock = clock
        self._heard_at: float | None = None
        self._delay_seconds = _FIRST_DELAY_SECONDS
        self._silence: asyncio.Timeout | None = None
        self.lists = 0

    @property
    def name(self) -> str:
        """Plural of the kind."""
        return self._watched.name

    def age_seconds(self) -> float | None:
        """Return the time since the API server was heard last, None before the first list."""
        return None if self._heard_at is None else self._clock() - self._heard_at

    def list_again(self) -> None:
        """End the watch now: it began at a version that the API server no longer has.

        A watch from a version of the future shows nothing until that version is reached.
        """
        if self._silence is not None:
            self._silence.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Follow the API server until cancelled."""
        while True:
            try:
                await self._follow()
            except (RefusedError, UnansweredError) as error:
                _log.warning(
                    "watch lost, listing again %s", fields(kind=self.name, reason=str(error))
                )
            # Jitter, so that restarted components do not come in step.
            await asyncio.sleep(self._delay_seconds * random.uniform(0.5, 1.0))  # noqa: S311
            self._delay_seconds = min(2 * self._delay_seconds, _LONGEST_DELAY_SECONDS)

    async def _follow(self) -> None:
        refold = self._refold()
        listing = await self._watched.list()
        refold(listing)
        self.lists += 1
        self._heard_at = listed_at = self._clock()
        _log.debug("listed %s", fields(kind=self.name, count=len(listing.records)))
        async with aclosing(self._watched.watch(listing.resource_version)) as events:
            while (event := await self._next(events)) is not None:
                self._fold(event)
                self._heard_at = self._clock()
                self._delay_seconds = _FIRST_DELAY_SECONDS
                if self._heard_at - listed_at >= self._relist_seconds:
                    return
        # Only a watch that worked ends the delays: a list of all pods for each that is refused
        # would be a burden to a server in trouble.
        self._delay_seconds = _FIRST_DELAY_SECONDS

    async def _next(self, events: AsyncGenerator[Event[Record], None]) -> Event[Record] | None:
        try:
            async with asyncio.timeout(self._silence_seconds) as self._silence:
                return await anext(events, None)
        except TimeoutError:
            return None
        finally:
            self._silence = None


def pod_reflector(
    watched: Watched[PodView], ledger: Ledger, silence_seconds: float, relist_seconds: float
) -> Reflector[PodView]:
    """Return what keeps the ledger's pods."""

    def refold() -> Callable[[Listing[PodView]], None]:
        epoch = ledger.begin_pod_list()
        return lambda listing: ledger.replace_pods(
            listing.records, epoch=epoch, version=int(listing.resource_version)
        )

    def fold(event: Event[PodView]) -> None:
        if event.deleted:
            ledger.drop_pod(event.key, event.record)
        elif event.record is not None:
            ledger.put_pod(event.record)

    return Reflector(
        watched,
        refold=refold,
        fold=fold,
        silence_seconds=silence_seconds,
        relist_seconds=relist_seconds,
    )


def topology_reflector(
    watched: Watched[PublishedNode | UnreadableTopology],
    ledger: Ledger,
    silence_seconds: float,
    relist_seconds: float,
) -> Reflector[PublishedNode | UnreadableTopology]:
    """Return what keeps the ledger's topologies."""

    def fold(event: Event[PublishedNode | UnreadableTopology]) -> None:
        if event.deleted:
            ledger.drop_topology(event.key)
        elif event.record is not None:
            ledger.put_topology(event.record)

    return Reflector(
        watched,
        refold=lambda: lambda listing: ledger.replace_topologies(listing.records),
        fold=fold,
        silence_seconds=silence_seconds,
        relist_seconds=relist_seconds,
    )
