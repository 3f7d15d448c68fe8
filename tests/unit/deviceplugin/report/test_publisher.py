"""The agent reads and writes the GPUTopology of its node."""

import asyncio
from typing import Any

import pytest

from gputopo_deviceplugin.report.publisher import TopologyPublisher
from gputopo_kube.document import Document
from gputopo_kube.errors import ConflictError

OWN: Document = {"metadata": {"name": "n1", "resourceVersion": "1"}, "spec": {}, "status": {}}
SUCCESSORS: Document = {
    "metadata": {"name": "n1", "resourceVersion": "2"},
    "spec": {},
    "status": {"gpus": [{"uuid": "GPU-a", "healthy": True}]},
}


class SlowStore:
    """An API server whose responses to reads wait until the test allows them."""

    def __init__(self) -> None:
        self.object = OWN
        self.respond = asyncio.Event()
        self.respond.set()
        self.written: list[Document] = []

    async def topology(self) -> Document | None:
        await self.respond.wait()
        return self.object

    async def create_topology(self, metadata: Document, spec: Document) -> Document:
        raise NotImplementedError

    async def patch_topology(self, body: Document) -> Document:
        raise NotImplementedError

    async def patch_topology_status(self, status: Document, version: str | None = None) -> Document:
        if version != self.object["metadata"]["resourceVersion"]:
            raise ConflictError("the object has changed", 409)
        self.written.append(status)
        return self.object


async def publish_the_end_during_a_load(stop: bool) -> SlowStore:  # noqa: FBT001
    """Let a read end after the successor has written, and publish the end of the agent."""
    store: Any = SlowStore()
    publisher = TopologyPublisher(store)
    await publisher.load()
    store.respond.clear()
    loading = asyncio.create_task(publisher.load())
    await asyncio.sleep(0)
    if stop:
        publisher.stop_loading()
    store.object = SUCCESSORS
    store.respond.set()
    assert await loading is None or not stop
    await publisher.withdraw()
    return store  # type: ignore[no-any-return]


@pytest.mark.parametrize("stop", [True, False])
async def test_stopped_agent_does_not_take_the_status_of_its_successor_for_its_own(
    *, stop: bool
) -> None:
    store = await publish_the_end_during_a_load(stop)
    assert bool(store.written) is not stop
