"""The real kube-scheduler calls the extender to choose the victims of a preemption."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.builders.objects import Document
from support.control_plane.api_server import PODS, ApiServer
from support.control_plane.scheduler_pairs import Pair, put_pod, running_pairs, wait_until
from support.extender.service import uuids_of
from support.helm_chart import Helm

NODES = 6


@pytest.fixture
def pair(nodes: ApiServer, helm: Helm, kubernetes_binaries: Path, tmp_path: Path) -> Iterator[Pair]:
    for name, value in (("low", 1), ("high", 1000)):
        body = {"metadata": {"name": name}, "value": value}
        made = nodes.create("/apis/scheduling.k8s.io/v1/priorityclasses", body)
        assert made.accepted, made.message
    with running_pairs(nodes, helm, kubernetes_binaries, tmp_path, count=1, lease_seconds=30) as (
        only,
    ):
        yield only


def bound(server: ApiServer) -> dict[str, Document]:
    pods = server.get(PODS).body["items"]
    return {pod["metadata"]["name"]: pod for pod in pods if pod["spec"].get("nodeName")}


def test_gpus_of_the_victims_are_given_to_the_preemptor(nodes: ApiServer, pair: Pair) -> None:
    for number in range(8 * NODES):
        put_pod(nodes, f"low-{number}", 1, priority="low")
    wait_until(lambda: len(bound(nodes)) == 8 * NODES, seconds=60)
    before = bound(nodes)

    put_pod(nodes, "high", 4, priority="high")
    wait_until(lambda: "high" in bound(nodes), seconds=60)
    after = bound(nodes)
    preemptor = after.pop("high")
    ended = before.keys() - after.keys()
    assert len(ended) == 4
    freed = {uuid for name in ended for uuid in uuids_of(before[name])}
    assert set(uuids_of(preemptor)) == freed
    assert {before[name]["spec"]["nodeName"] for name in ended} == {preemptor["spec"]["nodeName"]}
    assert pair.logged("evaluated nodes for preemption") >= 1

    for name in (*after, "high"):
        nodes.delete(f"{PODS}/{name}")
