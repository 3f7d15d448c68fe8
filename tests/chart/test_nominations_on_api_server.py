"""The leading extender nominates nodes, and the real kube-scheduler uses them or falls back.

The scheduler is frozen until the nominations are written. So it has a backlog. When it continues,
it may take pods before it has read their nominations. The first two pods get none.
"""

import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gputopo_extender.state.queue_pod import NOMINATOR
from support.builders.objects import Document
from support.control_plane.api_server import PODS, ApiServer
from support.control_plane.scheduler_pairs import (
    LEASE,
    Pair,
    put_pod,
    running_pairs,
    wait_until,
)
from support.helm_chart import Helm

LOW, HIGH = "low-beside-nominations", "high-beside-nominations"
LEASE_SECONDS = 40
MOST = 12
"""Of 18 nominations, so many at least are used."""

CLAIMS = "/apis/coordination.k8s.io/v1/namespaces/gputopo-system/leases/gputopo-claims"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"

Start = Callable[..., AbstractContextManager[list[Pair]]]


@pytest.fixture
def start(nodes: ApiServer, helm: Helm, kubernetes_binaries: Path, tmp_path: Path) -> Start:
    for name, value in ((LOW, 1), (HIGH, 1000)):
        nodes.create(PRIORITIES, {"metadata": {"name": name}, "value": value})
    nodes.delete(CLAIMS)  # of deleted pods of another test

    @contextmanager
    def starting(count: int = 1) -> Iterator[list[Pair]]:
        with running_pairs(
            *(nodes, helm, kubernetes_binaries, tmp_path),
            count=count,
            lease_seconds=LEASE_SECONDS,
            extender=["--nominate-above=2"],
        ) as pairs:
            wait_until(lambda: any(map(leads, pairs)), seconds=60)
            yield pairs
            for name in pods(nodes):
                nodes.delete(f"{PODS}/{name}")

    return starting


def leads(pair: Pair) -> bool:
    return "gputopo_scheduler_leader 1.0" in pair.metrics()


def results(pair: Pair) -> dict[str, int]:
    """Return the numbers of nominations by result, without zeros."""
    found = re.findall(r'gputopo_nominations_total{result="(\w+)"} (\S+)', pair.metrics())
    return {result: int(float(count)) for result, count in found if float(count)}


def ended(pair: Pair) -> int:
    """Return how many nominations have ended with a Binding."""
    found = results(pair)
    return found.get("used", 0) + found.get("elsewhere", 0)


def equal(found: dict[str, str], chosen: dict[str, str]) -> int:
    """Return how many pods have the chosen node."""
    return sum(found[name] == node for name, node in chosen.items())


def pods(server: ApiServer) -> dict[str, Document]:
    return {pod["metadata"]["name"]: pod for pod in server.get(PODS).body["items"]}


def bound(server: ApiServer) -> dict[str, str]:
    found = {name: pod["spec"].get("nodeName") for name, pod in pods(server).items()}
    return {name: node for name, node in found.items() if node}


def nominated(server: ApiServer) -> dict[str, str]:
    """Return the nominated nodes of pods that are not bound."""
    waiting = {name: it for name, it in pods(server).items() if not it["spec"].get("nodeName")}
    found = {name: it["status"].get("nominatedNodeName") for name, it in waiting.items()}
    return {name: node for name, node in found.items() if node}


def put_backlog(server: ApiServer, count: int, cpu: str = "1", **spec: Any) -> None:
    """Create pods of one GPU, p0 to the last."""
    amounts = {"requests": {"cpu": cpu}, "limits": {"gputopo.io/gpu": "1"}}
    container = {"name": "main", "image": "busybox", "resources": amounts}
    for number in range(count):
        body = {"schedulerName": "gputopo", "containers": [container], **spec}
        body["terminationGracePeriodSeconds"] = 0
        made = server.create(PODS, {"metadata": {"name": f"p{number}"}, "spec": body})
        assert made.accepted, made.message


def put_filler(server: ApiServer, node: str, cpu: str, **spec: Any) -> None:
    """Bind a pod without GPUs to a node, as another scheduler does."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    body = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    made = server.create(PODS, {"metadata": {"name": f"filler-{node}"}, "spec": body})
    assert made.accepted, made.message


@contextmanager
def frozen(pair: Pair) -> Iterator[None]:
    """Freeze the scheduler of a pair, but not its extender."""
    pair.scheduler.send_signal(signal.SIGSTOP)
    yield
    pair.scheduler.send_signal(signal.SIGCONT)


def test_scheduler_uses_the_nominated_nodes(nodes: ApiServer, start: Start) -> None:
    with start() as (pair,):
        with frozen(pair):
            put_backlog(nodes, 20)
            wait_until(lambda: len(nominated(nodes)) == 18, seconds=30)
            chosen = nominated(nodes)
        wait_until(lambda: len(bound(nodes)) == 20, seconds=30)
        # 8 GPUs a node. Each plan counts the first two pods again, on the fullest node.
        assert len({*chosen.values()}) == 3, "as few nodes as without"
        assert max(Counter(chosen.values()).values()) <= 8
        wait_until(lambda: ended(pair) == 18, seconds=30)
        assert results(pair)["used"] == equal(bound(nodes), chosen) >= MOST
        assert pair.logged("offered=1 of=1") >= MOST, "filter saw only the nominated node"
        managed = pods(nodes)["p9"]["metadata"]["managedFields"]
        assert NOMINATOR in {each["manager"] for each in managed}


def test_pod_whose_nominated_node_fails_is_placed_elsewhere(nodes: ApiServer, start: Start) -> None:
    with start() as (pair,):
        with frozen(pair):
            put_backlog(nodes, 20)
            wait_until(lambda: len(nominated(nodes)) == 18, seconds=30)
            counts = Counter(nominated(nodes).values())
            (tainted, _), (filled, _), _ = counts.most_common()
            taints = [{"key": "broken", "effect": "NoSchedule"}]
            assert nodes.merge(f"/api/v1/nodes/{tainted}", {"spec": {"taints": taints}}).accepted
            put_filler(nodes, filled, "64")
        wait_until(lambda: len(bound(nodes)) == 21, seconds=60)
        assert {*bound(nodes).values()} & {tainted, filled} == {filled}, "only the filler"
        wait_until(lambda: ended(pair) == 18, seconds=30)
        assert results(pair)["elsewhere"] >= 10
        assert nodes.merge(f"/api/v1/nodes/{tainted}", {"spec": {"taints": None}}).accepted


def test_nominations_cause_no_preemption(nodes: ApiServer, start: Start) -> None:
    with start() as (pair,):
        for number in range(3):
            put_filler(nodes, f"node-{number}", "16", priorityClassName=LOW)
        with frozen(pair):
            put_backlog(nodes, 21, cpu="16", priorityClassName=HIGH)
            wait_until(lambda: len(nominated(nodes)) == 19, seconds=30)
        wait_until(lambda: len(bound(nodes)) == 24, seconds=60)
        assert sum(name.startswith("filler") for name in bound(nodes)) == 3
        assert results(pair)["used"] >= MOST
        put_pod(nodes, "preemptor", 1, priority=HIGH)
        wait_until(lambda: "preemptor" in bound(nodes), seconds=60)
        assert sum(name.startswith("filler") for name in bound(nodes)) == 3, "it needs no CPU"
        body = {"schedulerName": "gputopo", "priorityClassName": HIGH}
        amounts = {"requests": {"cpu": "16"}, "limits": {"gputopo.io/gpu": "1"}}
        body["containers"] = [{"name": "main", "image": "x", "resources": amounts}]  # type: ignore[assignment]
        assert nodes.create(PODS, {"metadata": {"name": "late"}, "spec": body}).accepted
        wait_until(lambda: "late" in bound(nodes), seconds=60)
        assert sum(name.startswith("filler") for name in bound(nodes)) == 2, "preemption works"


def test_nomination_by_preemption_stays(nodes: ApiServer, start: Start) -> None:
    with start() as (pair,):
        for number in range(48):
            put_pod(nodes, f"low-{number}", 1, priority=LOW)
        wait_until(lambda: len(bound(nodes)) == 48, seconds=60)
        for number in range(48):
            keep = {"metadata": {"finalizers": ["example.org/slow"]}}
            assert nodes.merge(f"{PODS}/low-{number}", keep).accepted
        put_pod(nodes, "preemptor", 4, priority=HIGH)
        wait_until(lambda: "preemptor" in nominated(nodes), seconds=60)
        before = nominated(nodes)["preemptor"]
        made = results(pair).get("made", 0)
        put_backlog(nodes, 5)
        wait_until(lambda: pods(nodes)["p4"]["status"].get("conditions") is not None, seconds=60)
        assert nominated(nodes) == {"preemptor": before}
        for number in range(48):
            nodes.merge(f"{PODS}/low-{number}", {"metadata": {"finalizers": None}})
        wait_until(lambda: "preemptor" in bound(nodes), seconds=60)
        assert bound(nodes)["preemptor"] == before
        assert results(pair).get("made", 0) == made, "no GPU was free for others"


def test_new_leader_leaves_no_nomination_behind(nodes: ApiServer, start: Start) -> None:
    with start(2) as pairs:
        (first,) = filter(leads, pairs)
        (other,) = [pair for pair in pairs if pair is not first]
        other.scheduler.send_signal(signal.SIGSTOP)
        with frozen(first):
            put_backlog(nodes, 10)
            wait_until(lambda: len(nominated(nodes)) == 8, seconds=30)
            chosen = nominated(nodes)
            first.send(signal.SIGKILL)
        # kube-scheduler wrote this before its end. The new one does not try the pod soon.
        tried = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status = {"status": {"conditions": [tried]}}
        assert nodes.merge(f"{PODS}/p2/status", status).accepted
        lease_spec = {"spec": {"holderIdentity": f"{other.pod}_frozen"}}
        assert nodes.merge(LEASE, lease_spec).accepted
        wait_until(lambda: "p2" not in nominated(nodes), seconds=60)
        wait_until(lambda: results(other) == {"withdrawn": 1}, seconds=30)
        del chosen["p2"]
        assert nominated(nodes) == chosen, "the new leader adopts the others"
        assert nodes.delete(LEASE).accepted
        other.scheduler.send_signal(signal.SIGCONT)
        wait_until(lambda: len(bound(nodes)) == 10, seconds=60)
        assert equal(bound(nodes), chosen) >= 4
        assert results(other).keys() <= {"withdrawn", "used", "elsewhere"}
