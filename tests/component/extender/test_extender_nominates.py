"""The whole extender nominates nodes for a backlog, before a small API server."""

import asyncio
from typing import Any

import pytest

from gputopo.api.names import RETRY_ANNOTATION
from gputopo_extender.handover import lease as handover_lease
from gputopo_extender.nomination import nominations, nominator
from gputopo_extender.nomination.planner import Planner
from gputopo_extender.state.queue_pod import NOMINATOR
from gputopo_extender.verbs.evaluation_cache import TablesNotReadyError
from support.api.faults import SILENT, Fault, Hook
from support.api.server import ApiServer
from support.api.store import LEASES, NODES, PODS
from support.extender.nominating import NOT_SCHEDULED, node_object, queued
from support.extender.service import IMPATIENT, Start, until

ABOVE = {"nominate_above": 2}
LED = {"namespace": "gputopo-system", "pod": "own"}
FIELD = "nominatedNodeName"
WRITE = r"/status\?fieldManager=gputopo-nominator"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover_lease, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(nominator, "_ROUND_SECONDS", 0.02)
    monkeypatch.setattr(nominator, "_PAUSE_SECONDS", 0.2)
    monkeypatch.setattr(nominator, "_EMPTY_PAUSE_SECONDS", 0.02)


@pytest.fixture
def long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a pause after an error last longer than :func:`rounds`."""
    monkeypatch.setattr(nominator, "_PAUSE_SECONDS", 1.0)


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send one write at a time."""
    monkeypatch.setattr(nominator, "_AT_ONCE", 1)


@pytest.fixture
async def backlog(api: ApiServer) -> ApiServer:
    for name in ("n1", "n2"):
        api.put(NODES, node_object(name))
    for number in range(2):
        api.put(PODS, queued(f"first{number}", 1, cpu="0", priority=9))
    for number in range(4):
        api.put(PODS, queued(f"p{number}", 3))
    return api


def nominated(api: ApiServer) -> dict[str, str]:
    """Return the nominated node of each pod that has one."""
    pods = {pod["metadata"]["name"]: pod["status"].get(FIELD) for pod in api.all(PODS)}
    return {name: node for name, node in pods.items() if node}


def change(api: ApiServer, name: str, part: str, **values: Any) -> None:
    pod = api.pod(name)
    pod[part].update(values)
    api.put(PODS, pod)


def put_leader(api: ApiServer, identity: str) -> None:
    """Let a scheduler hold the Lease."""
    metadata = {"name": "gputopo-scheduler", "namespace": "gputopo-system"}
    spec = {"holderIdentity": identity, "leaseDurationSeconds": 60}
    api.put(LEASES, {"metadata": metadata, "spec": spec})


async def has(api: ApiServer, *names: str) -> None:
    async def holds() -> bool:
        return nominated(api).keys() == {*names}

    await until(holds)


async def rounds() -> None:
    """Wait for some rounds of the nominator."""
    await asyncio.sleep(0.3)


async def test_backlog_gets_nominations_that_scheduling_uses(
    backlog: ApiServer, start: Start
) -> None:
    async with start(**ABOVE) as extender:
        await has(backlog, "p0", "p1", "p2", "p3")
        nodes = nominated(backlog)
        assert sorted(nodes.values()) == ["n1", "n1", "n2", "n2"]
        assert await extender.metric('gputopo_nominations_total{result="made"}') == 4
        assert await extender.metric("gputopo_open_nominations ") == 4
        for name, node in nodes.items():
            pod = backlog.pod(name)
            assert (await extender.scheduler().filter(pod, [node])).fits == [node]
            assert await extender.scheduler().bind(pod, node) == ""

        async def used() -> bool:
            return await extender.metric('gputopo_nominations_total{result="used"}') == 4

        await until(used)
        assert await extender.metric("gputopo_open_nominations ") == 0
        assert backlog.count("PATCH", WRITE) == 4


async def test_nothing_is_nominated_by_default_or_without_a_backlog(
    backlog: ApiServer, start: Start
) -> None:
    async with start():
        await rounds()
        assert backlog.lists(NODES) == 0
    async with start(nominate_above=6):
        await rounds()
    assert nominated(backlog) == {}
    async with start(nominate_above=3):
        await has(backlog, "p1", "p2", "p3")


async def test_next_plan_waits_until_it_can_add_many(
    backlog: ApiServer, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nominator, "MOST_OPEN", 4)
    for number in range(4, 8):
        backlog.put(PODS, queued(f"p{number}", 1))
    async with start(**ABOVE):
        await has(backlog, "p0", "p1", "p2", "p3")
        backlog.delete(PODS, "p0")
        await rounds()
        assert nominated(backlog).keys() == {"p1", "p2", "p3"}
        backlog.delete(PODS, "p1")
        await has(backlog, "p2", "p3", "p4", "p5")


async def test_nodes_and_pods_are_followed(backlog: ApiServer, start: Start) -> None:
    backlog.delete(NODES, "n2")
    async with start(**ABOVE):
        await has(backlog, "p0", "p1")
        backlog.put(NODES, node_object("n2", cpu="1"))
        await has(backlog, "p0", "p1", "p2")
        backlog.delete(PODS, "p2")
        await has(backlog, "p0", "p1", "p3")
        backlog.delete(NODES, nominated(backlog)["p3"])
        await has(backlog, "p0", "p1")


async def test_pods_without_gpus_use_cpus_too(backlog: ApiServer, start: Start) -> None:
    backlog.put(PODS, queued("filler", 0, cpu="63", node="n1"))
    async with start(**ABOVE):
        await has(backlog, "p0", "p1", "p2")
        assert sorted(nominated(backlog).values()) == ["n1", "n2", "n2"]
        backlog.put(PODS, queued("filler", 0, cpu="62", node="n1"))
        await has(backlog, "p0", "p1", "p2", "p3")


async def test_nominations_wait_for_tables(
    backlog: ApiServer, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, late = Planner.plan, ["first", "second"]

    async def plan_later(planner: Planner, *arguments: Any, **named: Any) -> None:
        if late:
            raise TablesNotReadyError(f"no tables for the {late.pop(0)} plan")
        await plan(planner, *arguments, **named)

    monkeypatch.setattr(Planner, "plan", plan_later)
    async with start(**ABOVE):
        await has(backlog, "p0", "p1", "p2", "p3")


async def test_only_the_extender_of_the_leader_nominates(backlog: ApiServer, start: Start) -> None:
    put_leader(backlog, "other_1")
    backlog.delete(NODES, "n2")
    for name, manager in (("p0", NOMINATOR), ("p1", "kube-scheduler")):
        pod = queued(name, 3, cpu="60", nominated="n1", manager=manager)
        pod["status"]["conditions"] = [NOT_SCHEDULED]
        backlog.put(PODS, pod)
    async with start(**ABOVE, **LED):
        await rounds()
        assert backlog.count("PATCH", WRITE) == 0
        put_leader(backlog, "own_1")
        await has(backlog, "p1", "p2")
        assert nominated(backlog)["p1"] == "n1", "of kube-scheduler"
        put_leader(backlog, "other_2")
        await rounds()
        before = backlog.count("PATCH", WRITE)
        for name in ("p2", "p3"):
            backlog.delete(PODS, name)
        backlog.put(PODS, queued("p9", 1))
        await rounds()
        assert backlog.count("PATCH", WRITE) == before
        put_leader(backlog, "own_2")
        await has(backlog, "p1", "p9")


async def test_pod_that_changed_meanwhile_keeps_the_nomination_of_another_client(
    backlog: ApiServer, start: Start
) -> None:
    def preempted() -> None:
        change(backlog, "p0", "status", nominatedNodeName="n2", conditions=[NOT_SCHEDULED])

    backlog.hooks.append(Hook("PATCH", "/p0/status", preempted))
    async with start(**ABOVE) as extender:
        await has(backlog, "p0", "p1", "p2", "p3")
        await rounds()
        assert nominated(backlog)["p0"] == "n2"
        assert await extender.metric('gputopo_nominations_total{result="not_written"}') == 1


@pytest.mark.usefixtures("long_pause")
@pytest.mark.parametrize("status", [403, 500])
async def test_nominator_pauses_after_an_error(
    backlog: ApiServer, start: Start, status: int
) -> None:
    backlog.faults.append(Fault("PATCH", WRITE, status, times=4))
    async with start(**ABOVE):
        await until(lambda: written(backlog, 4))
        backlog.delete(PODS, "p3")
        backlog.put(PODS, queued("p4", 3))
        await rounds()
        assert backlog.count("PATCH", WRITE) == 4
        await until(lambda: written(backlog, 5))
        if status == 403:
            await has(backlog, "p0", "p1", "p2", "p4")


@pytest.mark.usefixtures("long_pause", "one_by_one")
async def test_error_ends_the_writes_of_a_round(backlog: ApiServer, start: Start) -> None:
    backlog.faults.append(Fault("PATCH", WRITE, 403))
    async with start(**ABOVE) as extender:
        await until(lambda: written(backlog, 1))
        await rounds()
        assert backlog.count("PATCH", WRITE) == 1
        assert await extender.metric('gputopo_nominations_total{result="not_written"}') == 4
        await has(backlog, "p0", "p1", "p2", "p3")


@pytest.mark.usefixtures("long_pause", "one_by_one")
async def test_withdrawals_end_after_an_error(backlog: ApiServer, start: Start) -> None:
    for number in range(2):
        backlog.put(PODS, queued(f"p{number}", 4, nominated="n1", tried=True))
    backlog.faults.append(Fault("PATCH", WRITE, 403))
    async with start(nominate_above=9):
        await until(lambda: written(backlog, 1))
        await rounds()
        assert backlog.count("PATCH", WRITE) == 1
        await has(backlog)


async def written(api: ApiServer, times: int) -> bool:
    return api.count("PATCH", WRITE) >= times


async def test_late_writes_are_noticed_and_withdrawn(
    backlog: ApiServer, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nominations, "UNUSED_SECONDS", 1.0)
    backlog.faults.append(Fault("PATCH", WRITE, SILENT, carried_out="later", times=4))
    async with start(**ABOVE, **IMPATIENT) as extender:
        await until(lambda: written(backlog, 4))

        async def unused() -> bool:
            return await extender.metric('gputopo_nominations_total{result="unused"}') == 4

        await until(unused)
        backlog.carry_out_late()
        await until(lambda: written(backlog, 8))
        await has(backlog)
        assert await extender.metric('gputopo_nominations_total{result="withdrawn"}') == 4


async def test_failed_withdrawal_is_repeated(backlog: ApiServer, start: Start) -> None:
    pod = queued("p0", 4, nominated="n1", tried=True)
    backlog.put(PODS, pod)
    backlog.faults.append(Fault("PATCH", WRITE, 500))
    async with start(nominate_above=9):
        await has(backlog)


async def test_pod_preempts_only_after_the_nominations_of_its_priority(
    backlog: ApiServer, start: Start
) -> None:
    victim, preemptor = queued("victim", 8, node="n1", priority=-1), queued("preemptor", 8)
    async with start(**ABOVE) as extender:
        await has(backlog, "p0", "p1", "p2", "p3")
        nodes = nominated(backlog)
        backlog.put(PODS, victim)
        preemptor["status"]["conditions"] = [NOT_SCHEDULED]
        backlog.put(PODS, preemptor)
        assert await extender.scheduler().preempt(preemptor, {"n1": [victim]}) == {}
        backlog.put(PODS, queued("later", 1))
        await rounds()
        assert "later" not in nominated(backlog), "no nominations while a pod waits to preempt"
        for name in nodes:
            backlog.delete(PODS, name)

        async def retried() -> bool:
            return RETRY_ANNOTATION in backlog.pod("preemptor")["metadata"]["annotations"]

        await until(retried)
        assert await extender.scheduler().preempt(preemptor, {"n1": [victim]}) != {}


@pytest.mark.usefixtures("one_by_one")
async def test_pod_that_kube_scheduler_tries_at_this_moment_is_left_alone(
    backlog: ApiServer, start: Start
) -> None:
    put_leader(backlog, "other_1")
    async with start(**ABOVE, **LED) as extender:

        async def try_next() -> None:
            assert (await extender.scheduler().filter(backlog.pod("p1"), ["n1"])).fits == ["n1"]

        backlog.hooks.append(Hook("PATCH", "/p0/status", try_next))
        put_leader(backlog, "own_1")
        await has(backlog, "p0", "p2", "p3")
        assert await extender.metric('gputopo_nominations_total{result="not_written"}') == 1


@pytest.mark.usefixtures("one_by_one")
async def test_pod_that_kube_scheduler_may_try_before_the_write_is_left_alone(
    backlog: ApiServer, start: Start
) -> None:
    put_leader(backlog, "other_1")
    async with start(**ABOVE, **LED) as extender:

        async def end_the_first() -> None:
            for number in range(2):
                backlog.delete(PODS, f"first{number}")
            await asyncio.sleep(0.2)  # until the watch has shown it

        backlog.hooks.append(Hook("PATCH", "/p0/status", end_the_first))
        put_leader(backlog, "own_1")
        await has(backlog, "p0", "p2", "p3")
        assert await extender.metric('gputopo_nominations_total{result="not_written"}') == 1
        await rounds()
        assert "p1" not in nominated(backlog), "it is among the first two now"
