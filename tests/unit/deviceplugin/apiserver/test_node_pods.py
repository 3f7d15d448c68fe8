"""The version of the node's pods up to which a status accounts for changes."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

from gputopo_deviceplugin.apiserver.connection import ApiConnection
from gputopo_deviceplugin.apiserver.node_pods import NodePods, PodsVersion
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.client import Listing, WatchEvent
from gputopo_kube.document import ObjectKey
from gputopo_kube.gpu_containers import GpuContainer
from gputopo_kube.pods import PodView

SILENCE_SECONDS = 0.05


def pod(
    name: str, version: int, *, gpus: int = 1, live: bool = True, **annotations: str
) -> PodView:
    containers = (GpuContainer("main", gpus),) if gpus else ()
    phase, key = "Pending" if live else "Failed", ObjectKey("default", name)
    found = {f"gputopo.io/{each.replace('_', '-')}": text for each, text in annotations.items()}
    return PodView(f"uid-{name}", key, version, "n1", phase, containers, found)


class Source:
    """Lists and changes, one after the other, given by a test."""

    def __init__(self) -> None:
        self.listed: asyncio.Queue[Listing[PodView]] = asyncio.Queue()
        self.changed: asyncio.Queue[WatchEvent[PodView] | None] = asyncio.Queue()
        self.response: PodView | None = None

    async def list(self) -> Listing[PodView]:
        return await self.listed.get()

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[PodView], None]:  # noqa: ARG002
        while (change := await self.changed.get()) is not None:
            yield change

    async def find(self, name: str, namespace: str) -> PodView | None:
        assert self.response is None or self.response.key == ObjectKey(namespace, name)
        return self.response


class Watched:
    """The pods of a source."""

    def __init__(self, silence_seconds: float = 60.0) -> None:
        self.source = Source()
        self.changes = ChangeSignal()
        connection = ApiConnection(ChangeSignal())
        self.pods = NodePods(self.source, connection, self.changes, silence_seconds=silence_seconds)
        self.task = asyncio.create_task(self.pods.run())

    def state(self) -> tuple[PodsVersion | None, int]:
        """Return the version, and the number of signalled ends."""
        return self.pods.version, self.changes.count

    async def list(self, version: str, *records: PodView) -> None:
        await self.source.listed.put(Listing([*records], version))
        await self._wait()

    async def change(self, record: PodView | None, *, deleted: bool = False) -> None:
        await self.source.changed.put(None if record is None else WatchEvent(record, deleted))
        await self._wait()

    async def _wait(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def test_only_ends_of_pods_with_gpus_need_a_new_status() -> None:
    watched = Watched()
    assert watched.state() == (None, 0)
    await watched.list("10", pod("a", 5))
    assert watched.state() == (PodsVersion(10, 10), 1)
    await watched.change(pod("a", 11))
    await watched.change(pod("cpu", 12, gpus=0))
    await watched.change(pod("cpu", 13, gpus=0), deleted=True)
    assert watched.state() == (PodsVersion(13, 10), 1)
    await watched.change(pod("a", 14, live=False))
    assert watched.state() == (PodsVersion(14, 14), 2)
    await watched.change(pod("a", 15, live=False), deleted=True)
    assert watched.state() == (PodsVersion(15, 15), 3)
    await watched.change(pod("never-listed", 16), deleted=True)
    assert watched.state() == (PodsVersion(16, 16), 4)
    await watched.stop()


async def test_a_list_after_a_broken_watch_needs_a_new_status_even_if_it_is_older() -> None:
    watched = Watched()
    await watched.list("5000", pod("a", 5))
    await watched.change(None)
    await watched.list("300", pod("a", 5))  # etcd was restored
    assert watched.state() == (PodsVersion(300, 300), 2)
    await watched.stop()


async def test_a_list_after_silence_needs_a_new_status_only_where_it_shows_a_change() -> None:
    watched = Watched(SILENCE_SECONDS)
    await watched.list("10", pod("a", 5))
    await asyncio.sleep(2 * SILENCE_SECONDS)
    await watched.list("20", pod("a", 5))
    assert watched.state() == (PodsVersion(20, 10), 1)
    await asyncio.sleep(2 * SILENCE_SECONDS)
    await watched.list("30")
    assert watched.state() == (PodsVersion(30, 30), 2)
    await watched.stop()


def test_versions_may_decrease() -> None:
    assert PodsVersion(20, 10).later(25) == PodsVersion(25, 10)
    assert PodsVersion(20, 10).later(5) == PodsVersion(5, 5)


async def test_a_list_after_silence_and_a_lost_connection_needs_a_new_status() -> None:
    watched = Watched(SILENCE_SECONDS)
    await watched.list("10", pod("a", 5))
    await asyncio.sleep(2 * SILENCE_SECONDS)  # the reflector waits for the next list
    await watched.stop()
    watched.task = asyncio.create_task(watched.pods.run())
    await watched.list("20", pod("a", 5))
    assert watched.state() == (PodsVersion(20, 20), 2)
    await watched.stop()


async def test_a_late_response_does_not_restore_a_deleted_pod() -> None:
    watched = Watched()
    await watched.list("10", pod("a", 5))
    await watched.change(pod("a", 12), deleted=True)
    watched.source.response = pod("a", 11)
    assert await watched.pods.refresh([pod("a", 11).key], 1.0) == set()
    assert [*watched.pods] == []
    await watched.change(None)
    await watched.stop()


async def test_a_late_response_does_not_replace_a_later_state() -> None:
    watched = Watched()
    ended, running = pod("a", 12, live=False), pod("a", 11)
    await watched.list("10", pod("a", 5))
    await watched.change(ended)
    watched.source.response = running
    await watched.pods.refresh([running.key], 1.0)
    assert watched.pods[running.key] == ended
    watched.source.response = replace(running, uid="uid-of-the-next")
    await watched.pods.refresh([running.key], 1.0)
    assert watched.pods[running.key].uid == "uid-of-the-next"
    await watched.stop()


async def test_request_of_a_pod_stays_the_one_that_was_seen_first() -> None:
    """An older extender records no request in the Binding."""
    watched = Watched()
    await watched.list("10", pod("a", 5, profile="first", sharing_memory="1Gi"))
    key, seen = ObjectKey("default", "a"), []

    def note() -> None:
        seen.append(dict(watched.pods[key].annotations))

    await watched.change(pod("a", 11, profile="second", sharing_memory="9Gi"))
    note()
    await watched.change(pod("a", 12, steps_source="Log", avoid="[]"))
    note()
    watched.source.response = pod("a", 13, profile="third")
    assert await watched.pods.refresh([key], 1.0) == set()
    note()
    await watched.change(None)
    await watched.list("14", pod("a", 14, profile="fourth"))
    note()
    first = {"gputopo.io/profile": "first", "gputopo.io/sharing-memory": "1Gi"}
    assert seen == [first, first | {"gputopo.io/steps-source": "Log"}, first, first]
    assert watched.pods[key].version == 14
    await watched.change(replace(pod("a", 15, profile="another pod"), uid="new"))
    assert watched.pods[key].annotations == {"gputopo.io/profile": "another pod"}
    await watched.stop()
