"""Users of GPUs, from allocations, kubelet's list, the API server and processes."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Collection
from pathlib import Path

import pytest

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.identify import ContainerAllocation
from gputopo_deviceplugin.admit.tracker import UsageTracker
from gputopo_deviceplugin.admit.usage import GpuUser, PodState
from gputopo_deviceplugin.apiserver.connection import ApiConnection
from gputopo_deviceplugin.apiserver.node_pods import NodePods
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod
from gputopo_deviceplugin.statefile import StateFile
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.client import Listing, WatchEvent
from gputopo_kube.document import ObjectKey
from gputopo_kube.gpu_containers import GpuContainer
from gputopo_kube.pods import PodView

G0, G1, G2 = (GpuUuid(f"GPU-{index}") for index in range(3))
A = ObjectKey("default", "a")


def pod(uid: str, key: ObjectKey = A, *, live: bool = True) -> PodView:
    phase = "Pending" if live else "Failed"
    return PodView(uid, key, 1, "n1", phase, (GpuContainer("main", 1),))


def listed(*gpus: GpuUuid, key: ObjectKey = A, container: str = "main") -> ListedPod:
    return ListedPod(key, {container: frozenset(gpus)})


class Source:
    """The pods of the API server, set by a test."""

    def __init__(self) -> None:
        self.records: dict[ObjectKey, PodView] = {}

    async def list(self) -> Listing[PodView]:
        return Listing([*self.records.values()], "1")

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[PodView], None]:  # noqa: ARG002
        await asyncio.sleep(60)
        yield WatchEvent(pod("never"), deleted=False)

    async def find(self, name: str, namespace: str) -> PodView | None:
        return self.records.get(ObjectKey(namespace, name))


class Node:
    """A tracker and its inputs."""

    def __init__(self, folder: Path) -> None:
        self.available = True
        self.alive: set[str] = set()
        self.failures: list[str] = []
        self.source = Source()
        self.path = folder / "usage.json"
        changes = ChangeSignal()
        self.pods = NodePods(self.source, ApiConnection(changes), changes, silence_seconds=60.0)
        self.restart()

    def restart(self) -> None:
        self.tracker = UsageTracker(
            self.pods, self, StateFile(self.path), lambda what, _: self.failures.append(what)
        )

    def running(self, uids: Collection[str]) -> set[str]:
        return self.alive & {*uids}

    async def know(self, *records: PodView) -> None:
        """Set the pods of the API server, and let the agent list them."""
        self.source.records = {record.key: record for record in records}
        following = asyncio.create_task(self.pods.run())
        await asyncio.sleep(0)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    def allocate(self, record: PodView, *gpus: GpuUuid, container: str = "main") -> None:
        self.tracker.add_allocation(ContainerAllocation(record, container, gpus))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


DELETED = {G0: GpuUser(A, "main", "uid-1", PodState.DELETED)}


async def test_a_deleted_pod_uses_its_gpus_until_its_last_process_ends(node: Node) -> None:
    await node.know(pod("uid-1"))
    node.alive = {"uid-1"}
    node.allocate(pod("uid-1"), G0)
    node.tracker.update_listed([listed(G0)])
    assert node.tracker.all_users() == {G0: GpuUser(A, "main", "uid-1")}
    await node.know()
    node.tracker.update_listed([])
    assert (
        node.tracker.users_after_end()
        == node.tracker.all_users()
        == node.tracker.find_users([G0, G1])
        == DELETED
    )
    node.restart()
    assert node.tracker.all_users() == DELETED
    node.tracker.update_listed([])
    node.alive = set()
    assert node.tracker.find_users([G0]) == node.tracker.all_users() == {}
    node.restart()
    node.alive = {"uid-1"}
    assert node.tracker.all_users() == {}


async def test_a_pod_that_ended_by_its_phase_may_still_run(node: Node) -> None:
    await node.know(pod("uid-1"))
    node.alive = {"uid-1"}
    node.allocate(pod("uid-1"), G0)
    await node.know(pod("uid-1", live=False))
    node.tracker.update_listed([listed(G0)])
    assert node.tracker.all_users() == {G0: GpuUser(A, "main", "uid-1", PodState.ENDED)}
    node.alive = set()
    # Kubelets before 1.34 continue to list it.
    assert node.tracker.all_users() == node.tracker.find_users([G0]) == {}


async def test_a_pod_that_kubelet_still_lists_may_start_its_processes(node: Node) -> None:
    await node.know(pod("uid-1"))
    node.allocate(pod("uid-1"), G0)
    node.tracker.update_listed([listed(G0)])
    await node.know()
    assert node.tracker.all_users() == {G0: GpuUser(A, "main", "uid-1")}
    assert node.tracker.users_after_end() == {}
    node.alive = {"uid-1"}
    assert node.tracker.all_users() == DELETED
    node.alive = set()
    node.tracker.update_listed([])
    assert node.tracker.all_users() == {}


async def test_a_pod_deleted_right_after_its_allocation_uses_its_gpus_until_the_next_list(
    node: Node,
) -> None:
    await node.know(pod("uid-1"))
    node.tracker.update_listed([listed()])
    node.allocate(pod("uid-1"), G0)
    await node.know()
    assert node.tracker.all_users() == node.tracker.find_users([G0]) == DELETED
    node.alive = {"uid-1"}
    node.tracker.update_listed([])
    assert node.tracker.all_users() == DELETED
    node.alive = set()
    assert node.tracker.all_users() == {}


async def test_a_new_pod_of_the_same_name_is_another_user(node: Node) -> None:
    await node.know(pod("uid-1"))
    node.alive = {"uid-1"}
    node.allocate(pod("uid-1"), G0)
    await node.know(pod("uid-2"))
    node.tracker.update_listed([listed(G0)])  # of the former pod: the new one has no GPU yet
    assert node.tracker.all_users() == DELETED
    assert (A, "uid-1") in node.tracker.find_pods([G0])
    node.allocate(pod("uid-2"), G1)
    node.tracker.update_listed([listed(G1)])
    assert node.tracker.all_users() == {**DELETED, G1: GpuUser(A, "main", "uid-2")}
    node.alive = set()
    node.allocate(pod("uid-2"), G0)
    node.tracker.update_listed([listed(G0, G1)])
    own = GpuUser(A, "main", "uid-2")
    assert node.tracker.all_users() == node.tracker.find_users([G0, G1]) == {G0: own, G1: own}


async def test_an_allocation_removes_only_the_former_users_of_its_gpus(node: Node) -> None:
    await node.know(pod("uid-1"))
    node.alive = {"uid-1"}
    node.allocate(pod("uid-1"), G0, G1)
    other = pod("uid-2", ObjectKey("default", "b"))
    node.allocate(other, G1)
    await node.know(other)
    node.tracker.update_listed([])
    assert node.tracker.find_users([G0, G1, G2]) == {
        **DELETED,
        G1: GpuUser(other.key, "main", "uid-2"),
    }


async def test_the_user_is_the_container_that_got_the_gpu_last(node: Node) -> None:
    await node.know(pod("uid-1"))
    node.allocate(pod("uid-1"), G0, container="init")
    node.allocate(pod("uid-1"), G0, G1)
    await node.know()
    node.alive = {"uid-1"}
    assert {user.container for user in node.tracker.users_after_end().values()} == {"main"}


async def test_listed_gpus_of_known_pods_are_stored(node: Node) -> None:
    await node.know(pod("uid-1"))
    node.tracker.update_listed([listed(G0), listed(G1, key=ObjectKey("default", "unknown"))])
    assert node.tracker.all_users() == {
        G0: GpuUser(A, "main", "uid-1"),
        G1: GpuUser(ObjectKey("default", "unknown"), "main", None),
    }
    assert node.tracker.find_users([G0, G1]) == {G0: GpuUser(A, "main", "uid-1")}
    node.tracker.add_listed()
    node.alive = {"uid-1"}
    await node.know()
    node.tracker.update_listed([])
    assert node.tracker.all_users() == DELETED


async def test_before_the_pods_are_listed_no_pod_counts_as_deleted(node: Node) -> None:
    node.allocate(pod("uid-1"), G0)
    node.restart()
    assert node.tracker.users_after_end() == {}
    assert node.tracker.find_users([G0]) == {G0: GpuUser(A, "main", "uid-1")}
    await node.pods.refresh({A}, 1.0)  # it does not exist
    assert node.tracker.find_users([G0]) == {}


async def test_before_kubelet_has_listed_its_pods_no_pod_is_forgotten(node: Node) -> None:
    node.allocate(pod("uid-1"), G0)
    node.restart()
    assert node.tracker.all_users() == {G0: GpuUser(A, "main", "uid-1")}
    await node.know()
    assert node.tracker.all_users() == {}
    node.alive = {"uid-1"}
    assert node.tracker.all_users() == DELETED


@pytest.mark.parametrize("text", ["{", "7", '[{"uid": "a"}]'])
async def test_an_invalid_file_counts_as_empty(
    node: Node, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    node.path.write_text(text)
    node.restart()
    await node.know()
    assert node.tracker.users_after_end() == {}
    assert len(caplog.messages) == 1


async def test_a_failed_write_of_the_file_is_counted_and_rejects_no_pod(node: Node) -> None:
    node.path.mkdir()
    await node.know(pod("uid-1"))
    node.allocate(pod("uid-1"), G0)
    assert node.failures == ["state"]
    assert node.tracker.find_users([G0]) == {G0: GpuUser(A, "main", "uid-1")}


async def test_an_allocation_is_in_the_file_before_the_response(node: Node) -> None:
    node.allocate(pod("uid-1"), G0)
    assert json.loads(node.path.read_text()) == [
        {"uid": "uid-1", "namespace": "default", "name": "a", "gpus": {"GPU-0": "main"}}
    ]


async def test_a_gpu_is_assigned_from_its_allocation_until_kubelet_no_longer_lists_it(
    node: Node,
) -> None:
    await node.know(pod("uid-1"))
    node.allocate(pod("uid-1"), G0)
    node.tracker.update_listed([])
    assert node.tracker.assigned_gpus() == {G0}
    node.tracker.update_listed([listed(G0)])
    assert node.tracker.assigned_gpus() == {G0}
    node.tracker.update_listed([])
    assert node.tracker.assigned_gpus() == frozenset()
    node.allocate(pod("uid-1"), G1)
    await node.know()
    assert node.tracker.assigned_gpus() == frozenset()
