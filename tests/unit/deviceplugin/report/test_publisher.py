"""The agent reads and writes the GPUTopology of its node."""

import asyncio
from collections.abc import Collection, Sequence
from copy import deepcopy
from typing import Any

import pytest

from gputopo.alignment.model import ManagerPolicy, ManagerScope
from gputopo.api.alignment import KubeletAlignment, NumaCpus
from gputopo.api.profile import Measurement, NodeSample, SampleLoad, SampleTraffic
from gputopo.api.v1alpha1 import CounterStatus, SharingCapacity, SizedCapacity
from gputopo.catalogue import named
from gputopo_deviceplugin.conditions import not_ready
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.measure.records import NodeMeasurements
from gputopo_deviceplugin.report.publisher import TopologyPublisher
from gputopo_deviceplugin.report.status import NodeObservation, observed_gpus
from gputopo_kube.document import Document
from gputopo_kube.errors import ConflictError, RejectedError, error_of_status
from support.api.rest import merge

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


MEASUREMENT = Measurement(
    namespace="team",
    pod="a",
    pod_uid="uid-a",
    container="main",
    gpus=1,
    source="SDK",
    state="NoData",
)


class StrictStore:
    """An API server with an old schema: it rejects measurements with ``status``.

    If ``status`` is None, it drops the fields ``newer`` instead.
    """

    def __init__(
        self,
        status: int | None,
        newer: Collection[str] = ("measurements", "samples", "sizedCapacity"),
    ) -> None:
        self.status = status
        self.newer = newer
        self.object: Document | None = None
        self.requests = 0
        self.written: list[Document] = []

    async def topology(self) -> Document | None:
        return self.object

    async def create_topology(self, metadata: Document, spec: Document) -> Document:
        self.object = {"metadata": metadata, "spec": spec}
        return self.object

    async def patch_topology(self, body: Document) -> Document:
        raise NotImplementedError

    async def patch_topology_status(self, status: Document, version: str | None = None) -> Document:
        assert version is None
        assert self.object is not None
        self.requests += 1
        if self.status is not None and "measurements" in status:
            raise error_of_status(self.status, "status.measurements[0].milliCPU: Invalid value")
        stored = {name: status[name] for name in status if name not in self.newer}
        self.object = deepcopy(self.object)
        merge(self.object.setdefault("status", {}), stored)
        self.written.append(self.object["status"])
        return self.object


class StoreWithoutCounters(StrictStore):
    """An API server with the schema of a release that had no counters."""

    def __init__(self) -> None:
        super().__init__(None, newer=["counters"])

    async def patch_topology_status(self, status: Document, version: str | None = None) -> Document:
        dropped = {"traffic", "load"}
        samples = [
            {name: value for name, value in sample.items() if name not in dropped}
            for sample in status.get("samples", ())
        ]
        known = {**status, "samples": samples} if "samples" in status else status
        return await super().patch_topology_status(known, version)


SAMPLE = NodeSample(
    namespace="default",
    profile="bert",
    pod_uid="uid-a",
    container="main",
    time="2026-01-01T00:00:00Z",
    seconds=60,
    source="SDK",
    micro_steps_per_second=1_000_000,
    ci_permille=10,
    gpu_model="Tesla V100",
    gpus=2,
    traffic=SampleTraffic(source="NVLinkPairs", bytes_per_step=10**9, pattern="Ring"),
    load=SampleLoad(source="GPM", occupancy_us=1000),
)


async def publish_with(
    publisher: TopologyPublisher,
    measurement: Measurement = MEASUREMENT,
    *samples: NodeSample,
    counters: Sequence[CounterStatus] | None = None,
    sharing: SharingCapacity | None = None,
    alignment: KubeletAlignment | None = None,
) -> bool:
    topology = named("dgx1-v100", node="n1")
    health = dict.fromkeys(gpu.uuid for gpu in topology.gpus)
    observation = NodeObservation(
        NodeHardware(topology, health, None),
        ready=not_ready("Test", "test"),
        gpus=observed_gpus(health, {}),
        differing=(),
        pods_version=None,
        processes_visible=True,
        measured=NodeMeasurements((measurement,), samples),
        counters=counters,
        sharing=sharing,
        alignment=alignment,
        sized_capacity=SizedCapacity(milli_cpu=8000, memory=2**30, gpus=8),
    )
    return await publisher.publish({"metadata": {"name": "n1", "uid": "u"}}, observation)


@pytest.mark.parametrize(("status", "requests"), [(422, 2), (413, 2), (None, 1)])
async def test_health_is_published_even_if_measurements_are_rejected(
    status: int | None, requests: int
) -> None:
    store = StrictStore(status)
    publisher = TopologyPublisher(store)
    assert await publish_with(publisher)
    assert [len(each["gpus"]) for each in store.written] == [8]
    assert not await publish_with(publisher)
    assert store.requests == requests, "the next report must not send the measurements again"
    await publisher.load()
    assert await publish_with(publisher), "the schema may have changed meanwhile"


async def test_rates_are_published_even_if_the_schema_has_no_capacity_for_sized_pods() -> None:
    store = StrictStore(None, newer=["sizedCapacity"])
    publisher = TopologyPublisher(store)
    for rate in (10, 20, 30):
        measurement = MEASUREMENT.model_copy(update={"micro_steps_per_second": rate})
        assert await publish_with(publisher, measurement)
        assert not await publish_with(publisher, measurement), "nothing has changed"
        assert store.written[-1]["measurements"][0]["microStepsPerSecond"] == rate
    assert store.requests == 3


async def test_rejected_rates_do_not_stop_the_capacity_for_sized_pods() -> None:
    store = StrictStore(422, newer=())
    publisher = TopologyPublisher(store)
    assert await publish_with(publisher)
    assert not await publish_with(publisher)
    assert store.written[-1]["sizedCapacity"]["milliCPU"] == 8000


async def test_other_rejections_fail() -> None:
    store = StrictStore(403)
    with pytest.raises(RejectedError):
        await publish_with(TopologyPublisher(store))
    assert store.written == []


COUNTERS = [CounterStatus(kind="NVLink", source="NVLinkFields", gpus=8)]


async def test_counters_are_published_and_withdrawn() -> None:
    store = StrictStore(None, newer=())
    publisher = TopologyPublisher(store)
    assert await publish_with(publisher, MEASUREMENT, SAMPLE, counters=COUNTERS)
    assert not await publish_with(publisher, MEASUREMENT, SAMPLE, counters=COUNTERS)
    assert store.written[-1]["counters"] == [
        {"kind": "NVLink", "source": "NVLinkFields", "gpus": 8, "message": ""}
    ]
    assert store.written[-1]["samples"][0]["traffic"]["pattern"] == "Ring"
    assert await publish_with(publisher, MEASUREMENT, SAMPLE)
    assert store.written[-1]["counters"] == []


async def test_what_the_agent_reports_no_more_is_removed() -> None:
    store = StrictStore(None, newer=())
    cpus = [NumaCpus(numa_node=0, total=8, allocatable=8, free=8)]
    exclusive = KubeletAlignment(
        policy=ManagerPolicy.RESTRICTED, scope=ManagerScope.CONTAINER, cpus=cpus
    )
    sharing = SharingCapacity(most_pods=4)
    publisher = TopologyPublisher(store)
    assert await publish_with(publisher, sharing=sharing, alignment=exclusive)
    after_restart = TopologyPublisher(store)
    without = exclusive.model_copy(update={"cpus": None})
    assert await publish_with(after_restart, alignment=without)
    assert store.written[-1]["alignment"] == without.to_json()
    assert "sharing" not in store.written[-1]
    assert await publish_with(after_restart)
    assert "alignment" not in store.written[-1]
    assert not await publish_with(after_restart), "nothing has changed"


async def test_what_another_client_has_written_is_replaced() -> None:
    store = StrictStore(None, newer=())
    publisher = TopologyPublisher(store)
    assert await publish_with(publisher)
    assert store.object is not None
    store.object["status"]["measurements"] = []
    assert await publish_with(publisher, sharing=SharingCapacity(most_pods=4))
    assert store.written[-1]["measurements"] == [MEASUREMENT.to_json()]
    assert publisher.stores("measured")


async def test_samples_are_published_even_if_the_schema_has_no_counters() -> None:
    store = StoreWithoutCounters()
    publisher = TopologyPublisher(store)
    for second in range(3):
        sample = SAMPLE.model_copy(update={"time": f"2026-01-01T00:00:0{second}Z"})
        assert await publish_with(publisher, MEASUREMENT, sample, counters=COUNTERS)
        assert not await publish_with(publisher, MEASUREMENT, sample, counters=COUNTERS)
        assert store.written[-1]["samples"][-1]["time"] == sample.time
    assert store.requests == 3
