"""The store of the operator: what it knows of all nodes, from a watch and from lists."""

import asyncio
from contextlib import suppress
from typing import Any
from unittest.mock import MagicMock

import kopf
import pytest

from gputopo_cluster.topologies import GpuNode, UnreadableTopology
from gputopo_operator.controller import node_store
from gputopo_operator.controller.job_api import JobApi
from gputopo_operator.controller.job_queue_passes import JobQueuePasses
from gputopo_operator.controller.node_store import MOST_DENIED, NodeStore
from gputopo_operator.controller.parsed_objects import ObjectChange, ParsedObjects
from gputopo_operator.decision.reports import offers_differ
from gputopo_operator.model.workloads import NO_REPORT, NodeReport
from gputopo_operator.parse.reports import parse_report
from gputopo_operator.settings import OperatorSettings
from support.api.faults import Fault
from support.api.server import ApiServer
from support.builders.gpujobs import observed_topology
from support.operator.queue import node, plain_node


def gpus(reports: ParsedObjects[NodeReport], name: str = "n1") -> GpuNode:
    found = reports.values()[name].gpus
    assert isinstance(found, GpuNode)
    return found


def test_node_reports_show_whether_the_gpus_of_a_node_have_changed() -> None:
    reports = NodeStore().reports
    assert offers(reports.replace(node("n1", 2)))
    assert not offers(reports.replace(node("n1", 2)))
    assert offers(reports.replace(node("n1", 2, {0: "uid-a"})))
    assert [user.uid for user in gpus(reports).users] == ["uid-a"]
    seen = node("n1", 2, {0: "uid-a"})
    seen["status"]["observedPodsVersion"] = "7"
    assert not offers(reports.replace(seen))
    assert gpus(reports).pods_version == 7
    unreadable = {**seen, "spec": {"gpus": 3}}
    assert offers(reports.replace(unreadable))
    assert not offers(reports.replace(unreadable))
    reports.drop(node("n1", 2))
    reports.drop(node("n1", 2))
    assert reports.values() == {}


def test_unchanged_object_of_a_list_is_not_parsed_again() -> None:
    reports, listed = NodeStore().reports, node("n1", 2)
    listed["metadata"]["resourceVersion"] = "5"
    reports.replace_all([listed])
    before = gpus(reports)
    reports.replace_all([listed])
    assert gpus(reports) is before
    listed["metadata"]["uid"] = "of another object"
    reports.replace_all([listed])
    assert gpus(reports) is not before


def test_late_event_of_a_deleted_node_does_not_remove_the_next_node_of_this_name() -> None:
    reports = NodeStore().reports
    deleted, created = node("n1", 2), node("n1", 4)
    deleted["metadata"]["uid"], created["metadata"]["uid"] = "old", "new"
    reports.replace(deleted)
    reports.replace(created)
    reports.drop(deleted)
    assert gpus(reports).healthy == 0b1111
    reports.replace_all([deleted])
    reports.drop(created)
    assert gpus(reports).healthy == 0b11
    reports.drop(deleted)
    assert reports.values() == {}


def test_events_during_a_list_are_newer_than_the_list() -> None:
    reports = NodeStore().reports
    in_use, free = node("n1", 2, {0: "uid-a"}), node("n1", 2)
    reports.replace(node("deleted", 2))
    listed = [in_use, node("deleted", 2), node("n2", 2)]
    reports.begin_list()
    reports.replace(free)
    for deleted in ("deleted", "n3"):
        reports.drop(node(deleted, 2))
    reports.replace(node("created", 2))
    reports.replace_all([*listed, node("n3", 2)])
    found = reports.values()
    assert found.keys() == {"n1", "n2", "created"}
    assert gpus(reports).users == ()
    reports.replace_all(listed)
    assert reports.values().keys() == {"n1", "n2", "deleted"}


def test_node_with_an_unreadable_gputopology_offers_no_gpus(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reports, unreadable = NodeStore().reports, node("n1", 2)
    unreadable["status"]["gpus"][0]["healthy"] = "perhaps"
    reports.replace_all([unreadable, node("n2", 2)])
    assert isinstance(reports.values()["n1"].gpus, UnreadableTopology)
    assert gpus(reports, "n2").healthy == 0b11
    assert "GPUTopology not valid" in caplog.text
    assert "node=n1 reason=" in caplog.text
    assert "gpus[0].healthy" in caplog.text
    assert reports.replace(node("n1", 2)), "a later version of the object is valid"
    assert gpus(reports).healthy == 0b11


def test_free_gpus_of_a_topology_belong_to_no_pod() -> None:
    topology = observed_topology("n1", {"GPU-1": "uid-a", "GPU-2": "uid-a"})
    topology["status"]["gpus"].append({"uuid": "GPU-3", "healthy": True})
    assert parse_report(topology).used == {"uid-a": ("GPU-1", "GPU-2")}


def test_shares_are_the_observed_devices_of_pods_that_share_a_gpu() -> None:
    shares = [
        {"id": "GPU-1::0", "podUID": "uid-a", "pod": "a"},
        {"id": "GPU-1::2", "podUID": "uid-b", "pod": "b"},
        {"id": "GPU-1::1", "pod": "unknown"},
    ]
    topology = observed_topology("n1", {"GPU-1": "uid-a"})
    topology["status"]["gpus"][0] |= {"pod": "a", "shares": shares}
    assert parse_report(topology).used == {"uid-a": ("GPU-1::0",), "uid-b": ("GPU-1::2",)}


def offers(change: ObjectChange[NodeReport] | None) -> bool:
    """Return whether a change of a report is one of the offered GPUs."""
    return change is not None and offers_differ(
        change.before or NO_REPORT, change.after or NO_REPORT
    )


class Subscribed:
    """A store, and the names of the objects whose changes it has published."""

    def __init__(self) -> None:
        self.nodes = NodeStore()
        self.reports: list[str] = []
        self.rules: list[str] = []
        self.nodes.reports.subscribe(lambda change: self.reports.append(change.name))
        self.nodes.rules.subscribe(lambda change: self.rules.append(change.name))


def watched_by(nodes: NodeStore) -> set[str]:
    """Return the kinds that the store watches."""
    registry = kopf.OperatorRegistry()
    nodes.watch(registry)
    selectors = (each.selector for each in registry._watching.get_all_handlers())
    return {str(each.plural or each.any_name) for each in selectors if each is not None}


async def test_all_nodes_are_read_before_the_start_although_requests_fail(
    api: ApiServer,
    job_api: JobApi,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(node_store, "FIRST_READ_SECONDS", 0.0)
    api.create("gputopologies", node("n1", 2))
    api.create("nodes", plain_node("n1"))
    for kind in ("gputopologies", "nodes"):
        api.faults.append(Fault("GET", rf"/{kind}\?limit", 500))
    found = Subscribed()
    errors: list[int] = []
    await found.nodes.read_first(job_api, lambda: errors.append(1))
    assert (found.reports, found.rules) == (["n1"], ["n1"])
    assert found.nodes.gpus().keys() == {"n1"}
    assert caplog.text.count("nodes not read, trying again") == len(errors) == 2
    assert api.lists("gputopologies") == 2
    assert watched_by(found.nodes) == {"gputopologies", "nodes"}


async def test_operator_that_may_not_list_nodes_starts_without_a_watch_of_nodes(
    api: ApiServer, job_api: JobApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_store, "FIRST_READ_SECONDS", 0.0)
    api.create("gputopologies", node("n1", 2))
    api.faults.append(Fault("GET", r"/gputopologies\?limit", 403, times=MOST_DENIED + 1))
    api.faults.append(Fault("GET", r"/nodes\?limit", 403, times=None))
    found = Subscribed()
    await found.nodes.read_first(job_api, lambda: None)
    assert (found.reports, found.rules) == (["n1"], [])
    assert api.count("GET", r"/nodes\?limit") == MOST_DENIED
    assert watched_by(found.nodes) == {"gputopologies"}


async def test_resync_publishes_what_the_watch_has_lost(api: ApiServer, job_api: JobApi) -> None:
    found, errors = Subscribed(), list[int]()
    for name in ("kept", "changed", "deleted"):
        found.nodes.reports.replace(node(name, 2))
        found.nodes.rules.replace(plain_node(name))
    for name, gpus in (("kept", 2), ("changed", 3), ("created", 2)):
        api.create("gputopologies", node(name, gpus))
        api.create("nodes", plain_node(name, **({"new": "label"} if gpus == 3 else {})))
    api.faults.append(Fault("GET", r"/nodes\?limit", 500))
    task = asyncio.create_task(found.nodes.resync(job_api, 0.01, lambda: errors.append(1)))
    try:
        async with asyncio.timeout(20):
            while not found.rules:  # noqa: ASYNC110 - the task changes it
                await asyncio.sleep(0.01)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert {*found.reports} == {*found.rules} == {"changed", "deleted", "created"}
    assert errors == [1]


async def test_only_other_offered_gpus_start_a_pass_of_the_queue() -> None:
    nodes, passes = NodeStore(), list[str]()
    found: Any = MagicMock(settings=OperatorSettings(queue_order="FIFO"), nodes=nodes)
    found.queue.return_value.add_later = lambda key, _: passes.append(key)
    JobQueuePasses(found).watch(kopf.OperatorRegistry())
    topology = node("n1", 2)
    for version in ("1", "2"):
        topology["status"]["observedPodsVersion"] = version
        nodes.reports.follow({"type": "MODIFIED", "object": topology})
    assert len(passes) == 1
    nodes.rules.follow({"type": "MODIFIED", "object": plain_node("n1")})
    nodes.rules.follow({"type": "MODIFIED", "object": plain_node("n1")})
    assert len(passes) == 2
