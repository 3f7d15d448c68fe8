"""Detection of an API server that does not answer, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from gputopo_deviceplugin.contact import Contact
from gputopo_kube.errors import ApiError
from virtual_time import runner


class World:
    """An API server that answers heartbeats or not, and a watch of its pods.

    Attributes:
        answer: what a heartbeat does.
        heartbeats: when one was sent.
        changes: when ``connected`` changed, and to what.
        lists: when the pods were listed.
    """

    def __init__(self) -> None:
        self.answer: Callable[[], Awaitable[None]] = answers
        self.heartbeats: list[float] = []
        self.changes: list[tuple[float, bool]] = []
        self.lists: list[float] = []
        self.contact = Contact(self._changed)

    def _changed(self) -> None:
        self.changes.append((now(), self.contact.connected))

    async def _heartbeat(self) -> None:
        self.heartbeats.append(now())
        await self.answer()

    async def _pods(self) -> None:
        self.lists.append(now())
        self.contact.heard()
        self.contact.pods_listed()
        await asyncio.Event().wait()

    async def start(self, loops: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Start, and wait for the first list."""
        tasks = [
            loops.create_task(self.contact.run(self._heartbeat)),
            loops.create_task(self.contact.follow(self._pods)),
        ]
        await self.contact.wait_connected()
        return tasks


def now() -> float:
    return asyncio.get_running_loop().time()


async def answers() -> None:
    await asyncio.sleep(0.01)


async def refuses() -> None:
    raise ApiError("ConnectError: refused")


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


@pytest.mark.parametrize("failure", [drops, refuses])
def test_ten_seconds_without_an_answer_are_a_loss(failure: Callable[[], Awaitable[None]]) -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(60)
        world.answer = failure
        await asyncio.sleep(180)
        world.answer = answers
        await asyncio.sleep(3)

    world = run(scenario)
    (_, first), (lost_at, lost), (regained_at, regained) = world.changes
    assert (first, lost, regained) == (True, False, True)
    assert 64 < lost_at < 70
    assert 240 < regained_at < 243
    # The pods are listed again before the connection counts.
    assert len(world.lists) == 2
    assert 240 < world.lists[1] <= regained_at


def test_a_heartbeat_is_sent_only_where_nothing_else_is_heard() -> None:
    async def scenario(world: World) -> None:
        for _ in range(30):
            await asyncio.sleep(3)
            world.contact.heard()

    assert len(run(scenario).heartbeats) == 1
    quiet = run(lambda _: asyncio.sleep(100))
    assert 20 <= len(quiet.heartbeats) <= 26


def test_one_failed_heartbeat_is_not_a_loss() -> None:
    async def scenario(world: World) -> None:
        world.answer = refuses
        await asyncio.sleep(6)
        world.answer = answers
        await asyncio.sleep(30)

    assert run(scenario).changes == [(0.01, True)]


def test_a_pod_that_cannot_be_read_is_a_loss_where_the_heartbeat_fails_too() -> None:
    async def scenario(world: World) -> None:
        await asyncio.sleep(1)
        world.contact.doubt()
        await asyncio.sleep(1)
        assert world.contact.connected
        world.answer = drops
        world.contact.doubt()
        await asyncio.sleep(2.1)
        assert not world.contact.connected

    run(scenario)


def test_another_answer_outweighs_a_failed_heartbeat() -> None:
    async def scenario(world: World) -> None:
        world.answer = drops
        await asyncio.sleep(1)
        world.contact.doubt()
        await asyncio.sleep(1)
        world.contact.heard()
        await asyncio.sleep(1.5)
        assert world.contact.connected

    run(scenario)


def test_a_list_that_was_under_way_at_the_loss_does_not_count() -> None:
    async def scenario(world: World) -> None:
        world.answer = drops
        await asyncio.sleep(30)
        world.contact.pods_listed()
        assert not world.contact.connected

    run(scenario)


def test_an_error_of_a_follower_ends_the_agent() -> None:
    async def breaks() -> None:
        await asyncio.sleep(0)
        raise ValueError("a defect")

    async def whole() -> None:
        contact = Contact(lambda: None)
        contact.heard()
        await contact.follow(breaks)

    with runner() as loop, pytest.raises(ExceptionGroup):
        loop.run(whole())
