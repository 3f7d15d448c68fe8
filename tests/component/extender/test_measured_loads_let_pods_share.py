"""From hardware counters to a share: workloads of low load share a GPU, as the load capacity says.

No pair was measured together, and unknown pairs do not share: a fresh cluster.
"""

import json

import pytest

from gputopo.api.names import PLACEMENT_ANNOTATION
from gputopo.api.profile import Sample, SampleLoad
from gputopo.api.shares import gpu_of
from gputopo.counters.load import LoadCollector
from gputopo.counters.model import GpuCounters, LoadReading, LoadSource
from gputopo.profiles.facts import workload_facts
from gputopo.topology.model import GpuIndex
from support.api.server import ApiServer
from support.api.store import PODS, TOPOLOGIES
from support.builders.objects import Document
from support.builders.samples import sample
from support.builders.shares import sharing_pod, sharing_topology
from support.builders.topologies import node
from support.extender.service import Extender, Start, uuids_of

TOPOLOGY = node(0, 1, name="s1")
MODEL = TOPOLOGY.gpus[0].model
CAPACITY = {"sharing_load_capacity": f"Other GPU=90,{MODEL}=50"}
STEPS_PER_SECOND = 10
SECONDS = 60
UNKNOWN = "no idle GPU, and on shared GPUs the speed of the pod beside the others is unknown"


def measured_load(occupancy: float) -> SampleLoad:
    """Return the load of one minute that the counters of a Hopper GPU show."""
    gpu = GpuIndex(0)
    collector = LoadCollector([gpu])
    for second in range(SECONDS + 1):
        begin, end = second * 10**6, (second + 1) * 10**6
        reading = LoadReading(LoadSource.GPM, occupancy, 0.1, begin, end)
        collector.add({gpu: GpuCounters(load=reading)}, alone=True)
    found = collector.take(SECONDS, SECONDS * STEPS_PER_SECOND)
    assert found is not None
    return SampleLoad(source=found.source, occupancy_us=found.occupancy_us, dram_us=found.dram_us)


def profile(name: str, occupancy: float, model: str = MODEL) -> Document:
    """Return the GPUProfile of a workload that has run alone three times."""
    load = measured_load(occupancy).to_json()
    samples: list[Sample] = [
        sample(
            number,
            gpus=1,
            gpuModel=model,
            imageDigest=f"sha256:{name}",
            microStepsPerSecond=STEPS_PER_SECOND * 10**6 + number,
            load=load,
        )
        for number in range(3)
    ]
    facts = workload_facts(samples)
    assert facts is not None
    return {
        "metadata": {"namespace": "default", "name": name},
        "spec": {},
        "status": {"facts": facts.to_json()},
    }


@pytest.fixture(autouse=True)
def shared_node(api: ApiServer) -> None:
    """Add a node that offers shares, and workloads that never shared a GPU."""
    api.put(TOPOLOGIES, sharing_topology("s1", TOPOLOGY))
    for document in (
        *(profile("light", 0.2), profile("small", 0.25), profile("heavy", 0.9)),
        profile("elsewhere", 0.1, "Other GPU"),
    ):
        api.create("gpuprofiles", document)


async def bind(extender: Extender, api: ApiServer, name: str, workload: str) -> str:
    """Bind a pod; return its GPU."""
    document = sharing_pod(name, workload)
    api.put(PODS, document)
    assert await extender.scheduler().bind(document, "s1") == ""
    (device,) = uuids_of(api.pod(name))
    return gpu_of(device)


async def test_pods_of_low_load_share_a_gpu_on_a_fresh_cluster(
    start: Start, api: ApiServer
) -> None:
    async with start(**CAPACITY) as extender:
        await extender.profiled()
        first = await bind(extender, api, "x", "light")
        assert await bind(extender, api, "y", "small") == first
        # 0.2 + 0.25 + 0.9 exceeds what a GPU can do, so three pods do less than two.
        assert await bind(extender, api, "z", "heavy") != first
        metric = 'gputopo_extender_placed_shares_total{kind="predicted"}'
        assert await extender.metric(metric) == 1
    annotation = api.pod("y")["metadata"]["annotations"][PLACEMENT_ANNOTATION]
    figures = json.loads(annotation)["sharing"]
    assert figures["summedSpeedPermille"] == 2000
    assert figures["slowdownPercents"] == [0, 0]


async def test_without_a_capacity_of_the_gpu_model_nothing_is_shared(
    start: Start, api: ApiServer
) -> None:
    async with start(sharing_load_capacity="Other GPU=90") as extender:
        await extender.profiled()
        first = await bind(extender, api, "x", "light")
        assert await bind(extender, api, "y", "small") != first
        found = await extender.scheduler().filter(sharing_pod("new", "light"), ["s1"])
    assert found.failed == {"s1": UNKNOWN}


async def test_load_on_another_gpu_model_does_not_count(start: Start, api: ApiServer) -> None:
    async with start(**CAPACITY) as extender:
        await extender.profiled()
        first = await bind(extender, api, "x", "light")
        assert await bind(extender, api, "y", "elsewhere") != first
