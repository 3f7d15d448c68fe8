"""The extender of a standby, before an API server that shows a leader that is failing."""

import asyncio
from typing import Any

import pytest

from gputopo_extender.handover import leader
from gputopo_extender.handover import lease as handover_lease
from support.api.faults import Fault
from support.api.server import ApiServer
from support.api.store import LEASES, PODS
from support.builders.objects import Document
from support.extender.service import LEASES_FORBIDDEN, Start, before_lease_write, until

NAMED = {"namespace": "gputopo-system", "pod": "standby", "handover_after_seconds": 0.3}


def scheduler_pod(name: str, *, ready: bool) -> Document:
    extender = {"name": "extender", "ready": ready, "restartCount": 0, "state": {"running": {}}}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": {"name": name, "namespace": "gputopo-system", "uid": name, "labels": {}},
        "spec": {"nodeName": "n1", "containers": [{"name": "kube-scheduler", "resources": {}}]},
        "status": {
            "phase": "Running",
            "initContainerStatuses": [extender],
            "conditions": conditions,
        },
    }


def lease_of(identity: str) -> Document:
    spec = {"holderIdentity": identity, "leaseDurationSeconds": 10, "leaseTransitions": 4}
    return {
        "metadata": {"name": "gputopo-scheduler", "namespace": "gputopo-system"},
        "spec": spec,
    }


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover_lease, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(leader, "STANDBY_READY_SECONDS", 0.1)


@pytest.fixture
async def pair(api: ApiServer) -> ApiServer:
    api.put(PODS, scheduler_pod("leader", ready=False))
    api.put(PODS, scheduler_pod("standby", ready=True))
    api.put(LEASES, lease_of("leader_5a7e"))
    return api


def lease(api: ApiServer) -> Document:
    found = api.get(LEASES, "gputopo-scheduler", "gputopo-system")
    assert found is not None
    return found


def spec(api: ApiServer) -> dict[str, Any]:
    found: dict[str, Any] = lease(api)["spec"]
    return found


async def is_taken(api: ApiServer) -> bool:
    return bool(spec(api)["holderIdentity"] == "taken-by-standby")


async def looks(api: ApiServer, count: int) -> None:
    """Wait until the extender has read the Lease so many times more."""
    last = api.count("GET", "/leases/") + count

    async def done() -> bool:
        return api.count("GET", "/leases/") >= last

    await until(done)


async def test_lease_of_a_failing_leader_is_taken_once(pair: ApiServer, start: Start) -> None:
    async with start(**NAMED):
        await until(lambda: is_taken(pair))
        version = lease(pair)["metadata"]["resourceVersion"]
        assert spec(pair)["leaseDurationSeconds"] == 7
        assert spec(pair)["leaseTransitions"] == 4
        # No pod holds it now: it is left to the schedulers.
        await looks(pair, 20)
        assert lease(pair)["metadata"]["resourceVersion"] == version


async def test_lease_that_was_renewed_meanwhile_is_taken_at_the_next_look(
    pair: ApiServer, start: Start
) -> None:
    async def renew() -> None:
        pair.put(LEASES, lease_of("leader_renewed"))

    before_lease_write(pair, renew)
    async with start(**NAMED):
        await until(lambda: is_taken(pair))


@pytest.mark.parametrize(
    "fault", [Fault(".*", "", 503, times=None), LEASES_FORBIDDEN], ids=["down", "forbidden"]
)
async def test_time_without_the_api_server_does_not_count(
    pair: ApiServer, start: Start, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(handover_lease.LeaseHandover.__init__, "__defaults__", (lambda: now,))
    async with start(**NAMED):
        await looks(pair, 5)
        pair.faults.append(fault)
        await looks(pair, 5)
        now += 60.0
        await looks(pair, 5)
        pair.faults.clear()
        await looks(pair, 5)
        assert spec(pair)["holderIdentity"] == "leader_5a7e"
        now += 60.0
        await until(lambda: is_taken(pair))


@pytest.mark.parametrize(
    ("identity", "pods"),
    [
        ("standby_5a7e", ["leader", "standby"]),
        ("", ["leader", "standby"]),
        ("of-no-pod_5a7e", ["leader", "standby"]),
        ("leader_5a7e", ["leader"]),
    ],
    ids=["it leads itself", "no identity", "a identity that is no pod", "it is no pod"],
)
async def test_lease_is_left_alone(
    pair: ApiServer, start: Start, identity: str, pods: list[str]
) -> None:
    pair.put(LEASES, lease_of(identity))
    for gone in {"leader", "standby"} - set(pods):
        pair.delete(PODS, gone, "gputopo-system")
    async with start(**NAMED):
        await looks(pair, 30)
    assert spec(pair)["holderIdentity"] == identity


async def test_extender_without_a_name_leaves_the_lease_alone(
    pair: ApiServer, start: Start
) -> None:
    async with start(namespace="gputopo-system"):
        await asyncio.sleep(0.5)
    assert pair.count("GET", "/leases/") == 0
    assert spec(pair)["holderIdentity"] == "leader_5a7e"


async def test_metric_shows_whether_the_scheduler_of_this_pod_leads(
    pair: ApiServer, start: Start
) -> None:
    pair.put(LEASES, lease_of("standby_5a7e"))
    async with start(**NAMED) as extender:

        async def leads(value: int) -> bool:
            return await extender.metric("gputopo_scheduler_leader") == value

        await until(lambda: leads(1))
        pair.put(LEASES, lease_of("leader_5a7e"))
        await until(lambda: leads(0))
