"""A user who changes a pod between its Binding and its admission harms no other pod.

The agent and kubelet use the real protocol. Kubelet's status of each pod goes to the ledger of the
extender, which pauses a node after a rejection.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gputopo.api.names import (
    GPUS_ANNOTATION,
    RESOURCE,
    SHARING_MEMORY_ANNOTATION,
    STEPS_SOURCE_ANNOTATION,
)
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_cluster.usage import NodeUsage
from gputopo_deviceplugin.sharing import coordinator
from gputopo_extender.state.ledger import Ledger
from gputopo_kube.pods import parse_gpu_pod
from support.agent.sharing import SharingWorld, sharing_world
from support.api.store import PODS, Document
from support.builders.shares import sharing_pod, sharing_topology
from support.kubelet.device_manager import AdmissionRejectedError

TRIES = 200
FORGED = [None, "900Gi", "31Gi", "1Ki", "0", "much", "9" * 1000]


@pytest.fixture
async def world(
    short_directory: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SharingWorld]:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")  # so that it is unset after the test
    monkeypatch.setattr(coordinator, "_CHECK_SECONDS", 0.05)
    async with sharing_world(short_directory, library_dir) as found:
        yield found


class Cluster:
    """The node as the extender knows it; the time stands still, so a pause never ends.

    Attributes:
        pauses: tries after which the extender avoided the node.
    """

    def __init__(self, world: SharingWorld) -> None:
        self.world = world
        self.pauses = 0
        self.rejections = 0
        self.limits: set[str] = set()
        self._topology = parse_gpu_node(sharing_topology("n1", world.node.topology))

    async def try_change(self, number: int, *, recorded: bool) -> None:
        """Bind a pod, change its annotation, and let kubelet admit it."""
        ledger = Ledger(lambda: 0.0)
        ledger.put_topology(self._topology)
        bound = self._bound(f"p{number}", recorded=recorded)
        show(ledger, bound)
        change(bound, FORGED[number % len(FORGED)])
        self.world.node.api.put(PODS, bound)
        name = bound["metadata"]["name"]
        try:
            given = await self.world.admit(name)
            self.limits.add(given.envs["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"])
        except AdmissionRejectedError as error:
            self.rejections += 1
            show(ledger, {**bound, "status": error.status})
        usage = ledger.usage("n1")
        assert isinstance(usage, NodeUsage)
        self.pauses += usage.not_ready is not None
        await self.world.end(name)

    def _bound(self, name: str, *, recorded: bool) -> Document:
        found = sharing_pod(name, memory="6Gi", share=self.world.share(3))
        annotations = found["metadata"]["annotations"]
        if recorded:
            written = json.loads(annotations[GPUS_ANNOTATION])
            written["request"] = {"sharing-memory": "6Gi"}
            annotations[GPUS_ANNOTATION] = json.dumps(written, separators=(",", ":"))
        return found


def show(ledger: Ledger, document: Document) -> None:
    view = parse_gpu_pod(document, RESOURCE)
    assert view is not None
    ledger.put_pod(view)


def change(document: Document, memory: str | None) -> None:
    annotations = document["metadata"]["annotations"]
    del annotations[SHARING_MEMORY_ANNOTATION]
    annotations[STEPS_SOURCE_ANNOTATION] = "no such source"
    if memory is not None:
        annotations[SHARING_MEMORY_ANNOTATION] = memory


async def test_memory_that_is_changed_after_the_binding_changes_nothing(
    world: SharingWorld,
) -> None:
    async with world.node.agent():
        await world.served()
        cluster = Cluster(world)
        for number in range(TRIES):
            await cluster.try_change(number, recorded=True)
    assert (cluster.rejections, cluster.pauses) == (0, 0)
    assert cluster.limits == {"0=6144M"}


async def test_without_a_record_only_the_changed_pod_is_rejected(world: SharingWorld) -> None:
    async with world.node.agent():
        await world.served()
        cluster = Cluster(world)
        for number in range(len(FORGED)):
            await cluster.try_change(number, recorded=False)
    assert cluster.rejections == 4
    assert cluster.pauses == 0


async def test_a_client_that_causes_a_fault_of_its_gpu_pauses_no_node(world: SharingWorld) -> None:
    async with world.node.agent():
        await world.served()
        cluster, pauses = Cluster(world), []
        for state in ("Fault", "Failed"):
            world.mps.serve(world.node.uuids[3], state, "a client caused a fault")
            await cluster.try_change(0, recorded=True)
            pauses.append(cluster.pauses)
    assert (cluster.rejections, pauses) == (2, [0, 1])
