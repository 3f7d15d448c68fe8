"""A node whose kubelet rejected a pod is paused."""

from typing import Any

import pytest

from gputopo.api.annotations import GpusAnnotation
from gputopo.api.names import GPUS_ANNOTATION, RESOURCE
from gputopo.catalogue import named
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_cluster.usage import NodeUsage
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.rejections import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
from gputopo_kube.pods import PodView, parse_gpu_pod
from support.builders.objects import container_states, pod, topology_object

DGX = named("dgx1-v100", node="n1")
UUID = DGX.gpus[0].uuid
REJECTED: dict[str, Any] = {
    "phase": "Failed",
    "reason": "UnexpectedAdmissionError",
    "message": "Pod was rejected: the node agent cannot read the pod",
}


def placed(uid: str, node: str) -> str:
    """Return the annotation of a placement."""
    return GpusAnnotation(uid=uid, node=node, generation=1, containers={"main": [UUID]}).dump()


class World:
    """One node, and pods that are bound there one after the other."""

    def __init__(self) -> None:
        self.now = 0.0
        self.made = 0
        self.ledger = Ledger(lambda: self.now)
        self.ledger.put_topology(parse_gpu_node(topology_object("n1", DGX)))

    def live(
        self, *, annotation: str | None = None, others: tuple[str, ...] = (), **status: Any
    ) -> PodView:
        """Show a pod that has just been bound, and then its status.

        It also requests one of each extended resource in ``others``.
        """
        self.made += 1
        self.ledger.put_pod(self._pod(annotation, others, {"phase": "Pending"}))
        last = self._pod(annotation, others, status)
        self.ledger.put_pod(last)
        return last

    def _pod(
        self, annotation: str | None, others: tuple[str, ...], status: dict[str, Any]
    ) -> PodView:
        name = f"p{self.made}"
        written = placed(f"uid-{name}", "n1") if annotation is None else annotation
        document = pod(name, node="n1", annotations={GPUS_ANNOTATION: written})
        limits = document["spec"]["containers"][0]["resources"]["limits"]
        limits.update(dict.fromkeys(others, "1"))
        if status.pop("deleting", False):
            document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        document["status"] = status
        found = parse_gpu_pod(document, RESOURCE)
        assert found is not None
        return found

    def not_ready(self) -> str | None:
        usage = self.ledger.usage("n1")
        assert isinstance(usage, NodeUsage)
        return usage.not_ready


def test_node_is_paused_after_a_rejection_and_used_again_later() -> None:
    world = World()
    world.live(**REJECTED)
    assert world.not_ready() == (
        "kubelet rejected pod default/p1 (UnexpectedAdmissionError: Pod was rejected: the node "
        "agent cannot read the pod): the node is not used for 15 s"
    )
    world.now += FIRST_PAUSE_SECONDS - 0.1
    assert world.not_ready() is not None
    world.now += 0.1
    assert world.not_ready() is None


def test_each_further_rejection_doubles_the_pause_up_to_two_minutes() -> None:
    world = World()
    pauses = []
    for _ in range(5):
        world.live(**REJECTED)
        began = world.now
        while world.not_ready():
            world.now += 1
        pauses.append(world.now - began)
    assert pauses == [15, 30, 60, 120, LONGEST_PAUSE_SECONDS]


def test_pods_that_were_bound_before_the_first_rejection_count_once() -> None:
    world = World()
    for _ in range(8):
        world.live(**REJECTED)
    world.now += FIRST_PAUSE_SECONDS
    assert world.not_ready() is None


def test_pod_that_runs_after_the_pause_ends_the_doubling_and_one_before_does_not() -> None:
    world = World()
    running: dict[str, Any] = {"phase": "Running", "containerStatuses": container_states("running")}
    world.live(**REJECTED)
    world.live(**running)
    assert world.not_ready() is not None
    world.now += FIRST_PAUSE_SECONDS
    world.live(**REJECTED)
    world.now += FIRST_PAUSE_SECONDS
    assert world.not_ready() is not None, "30 s"
    world.now += FIRST_PAUSE_SECONDS
    world.live(**running)
    world.live(**REJECTED)
    world.now += FIRST_PAUSE_SECONDS
    assert world.not_ready() is None


def test_rejection_is_forgotten_after_ten_minutes() -> None:
    world = World()
    world.live(**REJECTED)
    world.now += 700
    world.live(**REJECTED)
    world.now += FIRST_PAUSE_SECONDS
    assert world.not_ready() is None


def test_other_ends_do_not_pause_the_node() -> None:
    world = World()
    world.live(**REJECTED, deleting=True)
    world.live(**{**REJECTED, "reason": "OutOfcpu"})
    world.live(phase="Failed", containerStatuses=container_states("failed"))
    assert world.not_ready() is None


def rejection(error: str) -> dict[str, Any]:
    message = f"Pod was rejected: Allocate failed due to {error}, which is unexpected"
    return {**REJECTED, "message": message}


UNHEALTHY = "no healthy devices present; cannot allocate unhealthy devices"
UNAVAILABLE = "requested number of devices unavailable for"


@pytest.mark.parametrize(
    "error",
    [
        "rpc error: code = Unknown desc = GPU 3 is used by a process of pod default/old",
        "device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Unavailable",
        f"{UNHEALTHY} {RESOURCE}",
        f"{UNAVAILABLE} {RESOURCE}. Requested: 1, Available: 0",
        f"{UNAVAILABLE} {RESOURCE}, as well as for rdma/hca",
    ],
)
def test_rejection_counts_unless_it_names_another_resource(error: str) -> None:
    world = World()
    world.live(others=("rdma/hca", "example.com/nic"), **rejection(error))
    assert world.not_ready() is not None


@pytest.mark.parametrize(
    "error",
    [
        f"{UNHEALTHY} rdma/hca",
        f"{UNAVAILABLE} example.com/nic. Requested: 1, Available: 0",
    ],
)
def test_rejection_because_of_another_resource_does_not_pause_the_node(error: str) -> None:
    world = World()
    world.live(others=("rdma/hca", "example.com/nic"), **rejection(error))
    assert world.not_ready() is None


def test_rejection_for_what_the_pod_declares_does_not_pause_the_node() -> None:
    world = World()
    for call in ("", "device plugin GetPreferredAllocation rpc failed with err: "):
        reason = "pod default/a: GPU-1 cannot be shared: code = FailedPrecondition desc = x"
        world.live(**rejection(f"{call}rpc error: code = InvalidArgument desc = {reason}"))
        assert world.not_ready() is None
    forged = "rpc error: code = FailedPrecondition desc = code = InvalidArgument desc = x"
    world.live(**rejection(forged))
    assert world.not_ready() is not None


@pytest.mark.parametrize(
    "annotation", ["{}", placed("uid-other", "n1"), placed("uid-p1", "n2"), "not JSON"]
)
def test_rejected_pod_of_another_scheduler_does_not_pause_the_node(annotation: str) -> None:
    world = World()
    world.live(annotation=annotation, **REJECTED)
    assert world.not_ready() is None


def test_rejected_pod_without_a_placement_does_not_pause_the_node() -> None:
    world = World()
    document = pod("a", node="n1")
    for status in ({"phase": "Pending"}, REJECTED):
        shown = parse_gpu_pod({**document, "status": status}, RESOURCE)
        assert shown is not None
        world.ledger.put_pod(shown)
    assert world.not_ready() is None


def test_rejection_from_before_the_start_is_not_counted() -> None:
    world, other = World(), World()
    last = world.live(**REJECTED)
    other.ledger.replace_pods([last], epoch=other.ledger.begin_pod_list(), version=1)
    assert other.not_ready() is None


def test_reason_of_the_agent_comes_first() -> None:
    world = World()
    document = topology_object("n1", DGX, not_ready="Stopping")
    world.ledger.put_topology(parse_gpu_node(document))
    world.live(**REJECTED)
    assert world.not_ready() == "the node's agent is not ready: Stopping: the message"
