"""One unreadable object of each kind beside good ones: the good ones are sized as without it."""

from typing import Any

import pytest

from gputopo_kube.document import ObjectKey
from gputopo_kube.sync import SyncApi
from gputopo_kube.tuned_node import parse_sizing_facts
from gputopo_operator.controller.node_store import NodeStore
from support.api.server import ApiServer
from support.tuning.api_cluster import LINEAR, SizedCluster, profile_object, sized_container
from support.tuning.operator import OperatorUnderTest


@pytest.fixture
def cluster(api: ApiServer) -> SizedCluster:
    return SizedCluster(api)


@pytest.fixture
def operator(connection: SyncApi, cluster: SizedCluster) -> OperatorUnderTest:
    return OperatorUnderTest(connection, cluster)


def test_unreadable_pods_and_profiles_stop_no_other_pod(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    broken = {"status": ["not", "an object"], "spec": {"dataset": {"size": "1e9Gi"}}}
    cluster.api.create("gpuprofiles", {**profile_object("broken", LINEAR), **broken})
    cluster.add("odd-profile", profile="broken", container=sized_container("100m"))
    cluster.add("odd-quantity", container=sized_container("many"))
    cluster.add("odd-record", container=sized_container("100m"), resources='{"floor": 1e400}')
    cluster.add("odd-state", container=sized_container("100m"), profiling_state="[[[[")
    cluster.add("odd-container", container=sized_container("100m"))
    cluster.change("odd-container", spec={"schedulingGroup": "text"})
    for _ in range(4):
        operator.advance()
    cluster.add("good", profile="linear", container=sized_container("100m"))
    for _ in range(4):
        operator.advance()
    assert cluster.cpus["good"] > 1000
    assert cluster.cpus["odd-profile"] > 100  # without the facts of its GPUProfile
    reasons = {name: {reason for reason, _ in cluster.events(name)} for name in cluster.cpus}
    assert "NotSized" in reasons["odd-quantity"] & reasons["odd-container"]
    assert "RecordReplaced" in reasons["odd-record"]


@pytest.mark.parametrize(
    "profile",
    [
        {"status": [], "spec": {}},
        {"status": {"facts": "many"}, "spec": {"dataset": "big"}},
        {"status": None, "spec": None},
    ],
)
def test_unreadable_profile_shows_no_facts(profile: Any) -> None:
    found = parse_sizing_facts(profile)
    assert (found.facts, found.dataset) == (None, None)


def topology(node: str, status: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": node, "uid": f"uid-{node}"}, "status": status}


def test_unreadable_parts_of_a_gpu_topology_hide_no_other_part() -> None:
    good = {"namespace": "default", "profile": "train", "podUID": "u"}
    reports = NodeStore().reports
    odd = {"gpus": "many", "samples": [None, 3, {"namespace": "default"}, good]}
    reports.replace(topology("n1", odd))
    reports.replace(topology("n2", {"samples": [{**good, "podUID": "w"}]}))
    found = reports.values()
    texts = [found[node].samples[ObjectKey("default", "train")] for node in ("n1", "n2")]
    assert [len(each) for each in texts] == [1, 1]
