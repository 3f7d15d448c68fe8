"""A record in an annotation of one pod takes nothing from other pods, whatever it says."""

import json
from typing import Any

import pytest

from gputopo.api.names import PROFILING_LABEL, TUNED_LABEL
from gputopo.api.tuning import TunedRecord
from gputopo_kube.sync import SyncApi
from support.api.server import ApiServer
from support.tuning.api_cluster import SizedCluster, sized_container
from support.tuning.operator import OperatorUnderTest

TIME = "2026-01-01T00:00:00Z"
HUGE = 10**9


@pytest.fixture
def cluster(api: ApiServer) -> SizedCluster:
    return SizedCluster(api)


@pytest.fixture
def operator(connection: SyncApi, cluster: SizedCluster) -> OperatorUnderTest:
    return OperatorUnderTest(connection, cluster)


def measurement(uid: str, **fields: Any) -> str:
    """Return the text of an annotation that claims nearly all CPUs of the world."""
    cpu = {"request": HUGE, "limit": HUGE}
    values = {"uid": uid, "container": "main", "mostMilliCPU": HUGE, "started": TIME}
    values |= {"since": TIME, "original": cpu, "last": cpu, "target": cpu}
    return json.dumps({**values, **fields})


def resize_record(uid: str, **fields: Any) -> str:
    """Return the text of an annotation with a floor above every node."""
    huge = {"milliCPU": HUGE, "memory": 2**62}
    values = {"uid": uid, "floor": huge, "since": TIME, "done": True, "leastMemory": 2**62}
    return json.dumps({**values, **fields})


def small_pod(gpus: int) -> dict[str, Any]:
    """Return a container of 1m CPU."""
    container = sized_container(cpu="1m", memory="1Gi", gpus=max(1, gpus))
    if not gpus:
        for amounts in container["resources"].values():
            del amounts["gputopo.io/gpu"]
    return container


@pytest.mark.parametrize("gpus", [0, 1])
@pytest.mark.parametrize("label", [False, True])
def test_forged_measurement_cuts_no_other_pod(
    cluster: SizedCluster, operator: OperatorUnderTest, gpus: int, *, label: bool
) -> None:
    uid = cluster.add("attacker", container=small_pod(gpus))
    before = sizes_of_victims(cluster, operator)
    cluster.annotate("attacker", **{"profiling-state": measurement(uid)})
    if label:
        labels = {TUNED_LABEL: "true", PROFILING_LABEL: "true"}
        cluster.change("attacker", metadata={"labels": labels})
    assert sizes_of_victims(cluster, operator) == before


@pytest.mark.parametrize("since", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", TIME])
def test_forged_record_of_resizes_cuts_no_other_pod(
    cluster: SizedCluster, operator: OperatorUnderTest, since: str
) -> None:
    uid = cluster.add("attacker", container=small_pod(gpus=1))
    before = sizes_of_victims(cluster, operator)
    now = {"milliCPU": cluster.cpus["attacker"], "memory": 2**30}
    forged = resize_record(uid, last=now, target=now, since=since)
    cluster.annotate("attacker", resources=forged)
    assert sizes_of_victims(cluster, operator) == before
    # The record is one that the operator could have written, except its floor.
    assert cluster.record("attacker") == TunedRecord.model_validate_json(forged)


def sizes_of_victims(cluster: SizedCluster, operator: OperatorUnderTest) -> dict[str, int]:
    """Return the CPUs of two pods with a floor of 100m, after all decisions."""
    for victim in ("a", "b"):
        if victim not in cluster.cpus:
            cluster.add(victim, mode="Proportional", container=sized_container(cpu="100m"))
    operator.run()
    found = {name: cluster.cpus[name] for name in ("a", "b")}
    assert min(found.values()) >= 1900
    return found


def test_operator_resizes_no_pod_to_amounts_that_only_its_record_names(
    cluster: SizedCluster, operator: OperatorUnderTest
) -> None:
    """A pinned pod gets the amounts of an unfinished restore, which are those that it has."""
    uid = cluster.add("attacker", container=sized_container(cpu="1"))
    now, huge = ({"milliCPU": cpu, "memory": 2**32} for cpu in (1000, 6000))
    parts = {"pinned": True, "done": False, "floor": now, "last": now, "target": huge}
    cluster.annotate("attacker", resources=resize_record(uid, **parts))
    operator.run()
    assert cluster.resizes == []
    record = cluster.record("attacker")
    assert record is not None
    assert (record.done, record.target.milli_cpu) == (True, 1000)
