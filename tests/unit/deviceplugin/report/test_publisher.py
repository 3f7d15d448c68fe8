"""The agent reads and writes the GPUTopology of its node."""

import asyncio
from typing import Any

import pytest

from gputopo_deviceplugin.conditions import not_ready
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.report.publisher import TopologyPublisher
from gputopo_deviceplugin.report.status import NodeObservation, observed_gpus
from gputopo_kube.document import Document
from gputopo_kube.errors import ConflictError, RejectedError, error_of_status
from gputopo_topologies.catalogue import named

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


class StrictStore:
    """An API server that rejects measurements with ``status``, and has no GPUTopology yet."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.written: list[Document] = []

    async def topology(self) -> Document | None:
        return None

    async def create_topology(self, metadata: Document, spec: Document) -> Document:
        return {"metadata": metadata, "spec": spec}

    async def patch_topology(self, body: Document) -> Document:
        raise NotImplementedError

    async def patch_topology_status(self, status: Document, version: str | None = None) -> Document:
        assert version is None
        if "measurements" in status:
            raise error_of_status(self.status, "status.measurements[0].milliCPU: Invalid value")
        self.written.append(status)
        return {"metadata": {}, "status": status}


async def publish_to(store: StrictStore) -> bool:
    topology = named("dgx1-v100", node="n1")
    health = dict.fromkeys(gpu.uuid for gpu in topology.gpus)
    observation = NodeObservation(
        NodeHardware(topology, health, None),
        ready=not_ready("Test", "test"),
        gpus=observed_gpus(health, {}),
        differing=(),
        pods_version=None,
        processes_visible=True,
    )
    return await TopologyPublisher(store).publish(
        {"metadata": {"name": "n1", "uid": "u"}}, observation
    )


@pytest.mark.parametrize("status", [422, 413])
async def test_health_is_published_even_if_measurements_are_rejected(status: int) -> None:
    store = StrictStore(status)
    assert await publish_to(store)
    assert [len(each["gpus"]) for each in store.written] == [8]
    assert "samples" not in store.written[0]


async def test_other_rejections_fail() -> None:
    store = StrictStore(403)
    with pytest.raises(RejectedError):
        await publish_to(store)
    assert store.written == []
