"""The list-and-watch loop."""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gputopo_kube import reflector as module
from gputopo_kube.client import Listing, WatchEvent
from gputopo_kube.errors import RejectedError, UnavailableError
from gputopo_kube.reflector import LONGEST_DELAY_SECONDS, ListWatchTiming, Reflector

LOST = UnavailableError("connection lost")


class Source:
    """A source whose lists and watches fail as a test wants.

    Attributes:
        listings: number of lists.
        list_error: raised by the next lists, None if they succeed.
        watch_error: raised by each watch after its events.
        events: of the open watch; None ends the watch.
    """

    def __init__(self) -> None:
        self.listings = 0
        self.list_error: Exception | None = None
        self.watch_error: Exception | None = None
        self.watched_from: list[str] = []
        self.events: asyncio.Queue[str | None] = asyncio.Queue()

    async def list(self) -> Listing[str]:
        self.listings += 1
        if self.list_error is not None:
            raise self.list_error
        return Listing(["a"], str(self.listings))

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[str], None]:
        self.watched_from.append(resource_version)
        if self.watch_error is not None:
            raise self.watch_error
        while (item := await self.events.get()) is not None:
            yield WatchEvent(item, deleted=False)


class Followed:
    """A reflector, what it passed on, and the time."""

    def __init__(self, timing: ListWatchTiming, unsupported: frozenset[int]) -> None:
        self.source = Source()
        self.calls: list[object] = []
        self.now = 0.0
        self.reflector = Reflector(
            "things",
            self.source,
            before_list=lambda: self.calls.append("before"),
            on_list=lambda listing: self.calls.append(listing.items),
            on_event=lambda event: self.calls.append(event.item),
            timing=timing,
            unsupported=unsupported,
            clock=lambda: self.now,
        )

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.001)


@asynccontextmanager
async def following(
    silence_seconds: float = 60.0,
    unsupported: frozenset[int] = frozenset(),
    prepare: Callable[[Source], Any] = lambda _: None,
    **timing: float,
) -> AsyncIterator[Followed]:
    followed = Followed(ListWatchTiming(silence_seconds, **timing), unsupported)
    prepare(followed.source)
    task = asyncio.create_task(followed.reflector.run())
    try:
        yield followed
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the delays after failures, each of which passes at once."""
    found: list[float] = []
    sleep = asyncio.sleep

    async def record(seconds: float) -> None:
        if seconds > 0.01:
            found.append(seconds)
        await sleep(0.001)

    monkeypatch.setattr(asyncio, "sleep", record)
    monkeypatch.setattr(random, "uniform", lambda _, high: high)
    return found


async def test_a_list_and_then_its_changes_are_passed_on() -> None:
    async with following() as followed:
        assert followed.reflector.age_seconds() is None
        await followed.until(lambda: followed.source.watched_from)
        assert followed.calls == ["before", ["a"]]
        assert followed.source.watched_from == ["1"]
        assert followed.reflector.lists == 1
        assert followed.reflector.tried.is_set()
        followed.now = 3.0
        assert followed.reflector.age_seconds() == 3.0
        await followed.source.events.put("b")
        await followed.until(lambda: followed.calls[-1] == "b")
        await followed.until(lambda: followed.reflector.age_seconds() == 0.0)


async def test_silence_ends_in_a_new_list() -> None:
    async with following(silence_seconds=0.02) as followed:
        silent: list[bool] = []
        followed.reflector._on_list = lambda _: silent.append(followed.reflector.was_silent)
        await followed.until(lambda: followed.reflector.lists >= 2)
        assert silent[-1]


async def test_everything_is_listed_again_now_and_then_though_events_arrive() -> None:
    async with following(relist_seconds=10.0) as followed:
        await followed.until(lambda: followed.source.watched_from)
        followed.now = 9.0
        await followed.source.events.put("b")
        await followed.until(lambda: followed.calls[-1] == "b")
        assert followed.reflector.lists == 1
        followed.now = 10.0
        await followed.source.events.put("c")
        await followed.until(lambda: followed.reflector.lists == 2)
        assert not followed.reflector.was_silent


async def test_a_watch_from_a_version_of_the_future_is_ended_on_demand() -> None:
    async with following() as followed:
        followed.reflector.list_again()  # no watch is open yet
        await followed.until(lambda: followed.source.watched_from)
        await asyncio.sleep(0.01)
        followed.reflector.list_again()
        await followed.until(lambda: followed.reflector.lists == 2)


@pytest.mark.parametrize("gap", range(4))
async def test_two_demands_for_a_list_may_be_close_together(gap: int) -> None:
    async with following() as followed:
        await followed.until(lambda: followed.source.watched_from)
        await asyncio.sleep(0.01)
        followed.reflector.list_again()
        for _ in range(gap):
            await asyncio.sleep(0)
        followed.reflector.list_again()
        await followed.until(lambda: followed.reflector.lists >= 2)


async def test_delays_double_until_a_watch_works(delays: list[float]) -> None:
    async with following(first_delay_seconds=1.0) as followed:
        followed.source.watch_error = LOST
        await followed.until(lambda: len(delays) >= 6)
        assert delays[:6] == [1.0, 2.0, 4.0, 8.0, LONGEST_DELAY_SECONDS, LONGEST_DELAY_SECONDS]
        followed.source.watch_error = None
        # A list alone does not reset the delay; the end of a watch that worked does.
        await followed.source.events.put(None)
        await followed.until(followed.source.events.empty)
        followed.source.watch_error = LOST
        await followed.source.events.put(None)
        count = len(delays)
        await followed.until(lambda: len(delays) > count)
        assert delays[count] == 1.0


async def test_a_version_that_is_too_old_is_listed_again(delays: list[float]) -> None:
    def expire(source: Source) -> None:
        source.watch_error = RejectedError("too old", 410)

    async with following(prepare=expire) as followed:
        await followed.until(lambda: followed.reflector.lists >= 2)
        assert delays


async def test_a_failed_list_counts_as_tried(delays: list[float]) -> None:
    def fail(source: Source) -> None:
        source.list_error = LOST

    async with following(prepare=fail) as followed:
        await followed.until(followed.reflector.tried.is_set)
        assert followed.reflector.lists == 0
        assert followed.calls[0] == "before"
        followed.source.list_error = None
        await followed.until(lambda: followed.reflector.lists == 1)
        assert delays


async def test_a_kind_that_is_not_served_is_tried_rarely_and_logged_once(
    delays: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    def reject(source: Source) -> None:
        source.list_error = RejectedError("not found", 404)

    caplog.set_level("INFO")
    async with following(unsupported=frozenset({404}), prepare=reject) as followed:
        await followed.until(lambda: len(delays) >= 3)
        assert set(delays) == {module.UNSUPPORTED_SECONDS}
        assert len([line for line in caplog.messages if "not watched kind=things" in line]) == 1
        followed.source.list_error = None
        await followed.until(lambda: followed.reflector.lists == 1)
