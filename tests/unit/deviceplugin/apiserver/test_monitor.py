"""Detection of an API server that does not respond, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from http import HTTPStatus
from typing import Any

import pytest

from gputopo_deviceplugin.apiserver.connection import ApiConnection
from gputopo_deviceplugin.apiserver.monitor import ConnectionMonitor
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.errors import ApiError
from support.virtual_time import runner


class ConnectionChanges(ChangeSignal):
    """Records when ``connected`` changed, and to which value."""

    def __init__(self) -> None:
        super().__init__()
        self.connection: ApiConnection | None = None
        self.seen: list[tuple[float, bool]] = []

    def notify(self) -> None:
        super().notify()
        assert self.connection is not None
        self.seen.append((now(), self.connection.connected))


class World:
    """An API server that responds to heartbeats or not, and a watch of its pods.

    Attributes:
        response: what a heartbeat does.
        heartbeats: when each was sent.
        lists: when the pods were listed.
        abandoned: how often all requests were made to fail.
    """

    def __init__(self) -> None:
        self.response: Callable[[], Awaitable[None]] = responds
        self.heartbeats: list[float] = []
        self.lists: list[float] = []
        self.abandoned = 0
        self.changes = ConnectionChanges()
        self.connection = self.changes.connection = ApiConnection(self.changes)
        self.monitor = ConnectionMonitor(self.connection, self)

    async def heartbeat(self) -> None:
        self.heartbeats.append(now())
        await self.response()

    def abandon(self) -> None:
        self.abandoned += 1

    async def _pods(self) -> None:
        self.lists.append(now())
        self.connection.record_response()
        self.connection.record_pod_list()
        await asyncio.Event().wait()

    async def start(self, loops: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Start, and wait for the first list."""
        tasks = [
            loops.create_task(self.monitor.run()),
            loops.create_task(self.monitor.run_while_responding(self._pods)),
        ]
        await self.connection.wait_connected()
        return tasks


def now() -> float:
    return asyncio.get_running_loop().time()


async def responds() -> None:
    await asyncio.sleep(0.01)


async def rejects() -> None:
    raise ApiError("ConnectError: refused")


async def throttles() -> None:
    raise ApiError("too many requests", HTTPStatus.TOO_MANY_REQUESTS)


async def drops() -> None:
    await asyncio.sleep(3600)


def run(scenario: Callable[[World], Coroutine[Any, Any, None]]) -> World:
    world = World()

    async def whole() -> None:
        async with asyncio.TaskGroup() as loops:
            tasks = await world.start(loops)
            await scenario(world)
            for task in tasks:
                task.cancel()

    with runner() as loop:
        loop.run(whole())
    return world


@pytest.mark.parametrize("failure", [drops, rejects])
def test_ten_seconds_without_a_response_are_a_loss(failure: Callable[[], Awaitable[None]]) -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(60)
        world.response = failure
        await asyncio.sleep(180)
        world.response = responds
        await asyncio.sleep(3)

    world = run(scenario)
    (_, first), (lost_at, lost), (regained_at, regained) = world.changes.seen
    assert (first, lost, regained) == (True, False, True)
    assert 64 < lost_at < 70
    assert 240 < regained_at < 243
    assert world.abandoned == 1
    # The pods are listed again before the connection counts.
    assert len(world.lists) == 2
    assert 240 < world.lists[1] <= regained_at


def test_a_heartbeat_is_sent_only_without_other_responses() -> None:
    async def scenario(world: World) -> None:
        for _ in range(30):
            await asyncio.sleep(3)
            world.connection.record_response()

    assert len(run(scenario).heartbeats) == 1
    quiet = run(lambda _: asyncio.sleep(100))
    assert 20 <= len(quiet.heartbeats) <= 26


def test_one_failed_heartbeat_is_not_a_loss() -> None:
    async def scenario(world: World) -> None:
        world.response = rejects
        await asyncio.sleep(6)
        world.response = responds
        await asyncio.sleep(30)

    assert run(scenario).changes.seen == [(0.01, True)]


def test_throttled_heartbeats_are_a_loss_after_a_minute_only() -> None:
    async def scenario(world: World) -> None:
        world.response = throttles
        await asyncio.sleep(50)
        # As many requests as without throttling, so that they add no load.
        assert len(world.heartbeats) <= 13
        await asyncio.sleep(20)
        throttled = len(world.heartbeats)
        await asyncio.sleep(20)
        assert len(world.heartbeats) - throttled <= 5
        world.response = responds
        await asyncio.sleep(5)

    world = run(scenario)
    assert [connected for _, connected in world.changes.seen] == [True, False, True]
    assert 60 <= world.changes.seen[1][0] < 66
    assert world.abandoned == 1


def test_event_of_a_watch_begins_the_minute_again() -> None:
    async def scenario(world: World) -> None:
        world.response = throttles
        await asyncio.sleep(50)
        world.connection.record_response()
        await asyncio.sleep(50)
        assert world.connection.connected

    run(scenario)


def test_silence_after_throttled_heartbeats_is_a_loss_as_soon_as_without_them() -> None:
    async def scenario(world: World) -> None:
        world.response = throttles
        await asyncio.sleep(30)
        world.response = drops
        silent_at = now()
        await world.connection.lost.wait()
        # The first heartbeat may begin 4 s later, and the second one ends 5 s after its begin.
        assert 5 <= now() - silent_at <= 9.1

    run(scenario)


def test_one_failed_heartbeat_between_throttled_ones_is_not_a_loss() -> None:
    async def scenario(world: World) -> None:
        world.response = throttles
        await asyncio.sleep(20)
        world.response = rejects
        await asyncio.sleep(4.5)
        world.response = throttles
        await asyncio.sleep(20)
        assert world.connection.connected

    run(scenario)


def test_pod_that_cannot_be_read_is_a_loss_if_the_heartbeat_is_throttled() -> None:
    async def scenario(world: World) -> None:
        world.response = throttles
        await asyncio.sleep(10)
        world.connection.record_unread_pod()
        await asyncio.sleep(0.1)
        assert not world.connection.connected

    run(scenario)


def test_a_pod_that_cannot_be_read_is_a_loss_where_the_heartbeat_fails_too() -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(1)
        world.connection.record_unread_pod()
        await asyncio.sleep(1)
        assert world.connection.connected
        world.response = drops
        world.connection.record_unread_pod()
        await asyncio.sleep(2.1)
        assert not world.connection.connected

    run(scenario)


def test_another_response_outweighs_a_failed_heartbeat() -> None:
    async def scenario(world: World) -> None:
        world.response = drops
        await asyncio.sleep(1)
        world.connection.record_unread_pod()
        await asyncio.sleep(1)
        world.connection.record_response()
        await asyncio.sleep(1.5)
        assert world.connection.connected

    run(scenario)


def test_a_list_in_flight_at_the_loss_does_not_count() -> None:
    async def scenario(world: World) -> None:
        world.response = drops
        await asyncio.sleep(30)
        world.connection.record_pod_list()
        assert not world.connection.connected

    run(scenario)


def test_an_error_of_a_reflector_ends_the_agent() -> None:
    async def breaks() -> None:
        await asyncio.sleep(0)
        raise ValueError("a defect")

    async def whole() -> None:
        world = World()
        world.connection.record_response()
        await world.monitor.run_while_responding(breaks)

    with runner() as loop, pytest.raises(ExceptionGroup):
        loop.run(whole())
