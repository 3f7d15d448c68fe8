"""The state of the cluster: lists, changes, errors, and what changed."""

import asyncio
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gputopo.api.names import RESOURCE
from gputopo_kube.document import ObjectKey
from gputopo_kube.errors import (
    ApiError,
    DeniedError,
    NotFoundError,
    RejectedError,
    UnavailableError,
)
from gputopo_kube.kubeconfig import connection
from gputopo_kube.listwatch import Listing, WatchEvent
from gputopo_web.state.cluster import ClusterState
from gputopo_web.state.follow import Scope, follow, reflector
from gputopo_web.state.kinds import DEPLOYMENTS, GPU_JOBS, PODS, TOPOLOGIES
from gputopo_web.state.objects import parse_watched_pod
from support.api.faults import Fault
from support.api.kubeconfig import write_kubeconfig
from support.api.server import ApiServer, serving_in_thread
from support.builders import objects
from support.builders.objects import Document
from support.cli.healthy_cluster import pod, topology, uuids
from support.web.clusters import cluster, set_pod, set_topology, two_nodes


def test_only_nodes_whose_card_differs_have_changed() -> None:
    state = two_nodes()
    set_topology(state, topology("n1", pod("train", "n1", uuids("n1", 0, 3, 2))))
    assert not state.take_changes()
    set_pod(state, pod("new", "n1", uuids("n1", 7)))
    changes = state.take_changes()
    assert (changes.nodes, changes.sections) == ({"n1"}, {"jobs", "history"})
    assert not state.take_changes()


def test_new_nodes_and_deleted_nodes_change_the_map() -> None:
    state = two_nodes()
    set_topology(state, topology("n1"), deleted=True)
    changes = state.take_changes()
    assert (changes.nodes, changes.sections, list(state.cards)) == (set(), {"map"}, ["n2"])
    set_topology(state, topology("n1"))
    changes = state.take_changes()
    assert (changes.nodes, changes.sections) == ({"n1"}, {"map"})


def test_a_pod_that_moves_changes_both_nodes() -> None:
    state = two_nodes()
    train = pod("train", "n2", uuids("n2", 0))
    set_pod(state, train)
    assert state.take_changes().nodes == {"n1", "n2"}
    assert [it.key.name for it in state.pods_on("n1")] == []
    assert [it.key.name for it in state.pods_on("n2")] == ["serve", "train"]
    assert list(state.pods_on("n3")) == []


def test_objects_that_a_new_list_lacks_are_gone() -> None:
    state = two_nodes()
    state.pods.replace(Listing([], "9"))
    assert state.take_changes().nodes == {"n1", "n2"}
    assert not state.pods.items


def test_the_first_list_changes_the_map_also_if_there_are_no_nodes() -> None:
    calls = []
    state = ClusterState(on_change=lambda: calls.append(1))
    state.nodes.replace(Listing([], "1"))
    assert state.take_changes().sections == {"map"}
    state.nodes.replace(Listing([], "2"))
    assert not state.take_changes()
    assert len(calls) == 1


def test_nodes_without_pods_do_not_fill_the_memory() -> None:
    state = two_nodes()
    state.pods.replace(Listing([], "2"))
    for name in ("n1", "n2"):
        train = pod("train", name, uuids(name, 0))
        set_pod(state, train)
        set_pod(state, objects.pod("other", 1, node=name))
        set_pod(state, train, deleted=True)
        assert [it.key.name for it in state.pods_on(name)] == ["other"]
        set_pod(state, objects.pod("other", 1, node=name), deleted=True)
    assert not state._on_node


def test_the_snapshot_is_computed_once_between_changes() -> None:
    state = two_nodes()
    snapshot = state.snapshot()
    assert state.snapshot() is snapshot
    assert set(snapshot.usages) == {"n1", "n2"}
    set_pod(state, pod("new", "n1", uuids("n1", 7)))
    assert state.snapshot() is not snapshot
    assert len(state.snapshot().pods.on_node("n1")) == 2


def test_each_change_is_reported_at_once() -> None:
    calls = []
    state = ClusterState(on_change=lambda: calls.append(1))
    set_topology(state, topology("n1"))
    set_pod(state, objects.pod("p", 1))
    state.set_error("pods", None)
    state.set_error("pods", "no access")
    state.set_error("pods", "no access")
    assert len(calls) == 3


@pytest.mark.parametrize(
    "document",
    [
        objects.pod("p", containers=[objects.container("c")]),
        objects.pod("p", 1) | {"status": {"phase": 7}},
        objects.pod("p", 1) | {"spec": {"containers": "x"}},
    ],
)
def test_pods_without_gpus_and_invalid_pods_are_left_out(document: Document) -> None:
    assert parse_watched_pod(document, RESOURCE) == (ObjectKey("default", "p"), None)


def test_bulky_and_secret_fields_of_pods_are_not_kept() -> None:
    document = objects.pod("p", 1)
    document["metadata"]["managedFields"] = [{}]
    document["spec"]["volumes"] = [{}]
    document["spec"]["containers"][0] |= {"env": [{"name": "TOKEN"}], "command": ["x"]}
    _, found = parse_watched_pod(document, RESOURCE)
    assert found is not None
    assert "TOKEN" not in str(found.document)
    assert "managedFields" not in found.document["metadata"]
    assert set(found.document["spec"]["containers"][0]) == {"name", "image", "resources"}
    assert "volumes" not in found.document["spec"]
    assert document["spec"]["volumes"]


class Source:
    """A source that lists one topology and then fails, or fails at once."""

    def __init__(self, *errors: ApiError | None) -> None:
        self.errors = list(errors)
        self.watched = asyncio.Event()

    async def list(self) -> Listing[tuple[ObjectKey, object]]:
        error = self.errors.pop(0)
        if error is not None:
            raise error
        return Listing([], "1")

    async def watch(self, _: str) -> AsyncGenerator[WatchEvent[tuple[ObjectKey, object]], None]:
        yield WatchEvent((ObjectKey("", "x"), None), deleted=True)
        self.watched.set()
        error = self.errors.pop(0)
        if error is not None:
            raise error
        await asyncio.Event().wait()


async def error_after(state: ClusterState, source: Source) -> str | None:
    reported = asyncio.Event()
    state.on_change = reported.set
    task = asyncio.create_task(reflector(PODS, source, state).run())
    await reported.wait()
    task.cancel()
    return state.pods.error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (DeniedError("no", 403), "API server: 403: no; ask for the permission to list and watch"),
        (DeniedError("no", 400), "API server: 400: no; trying again"),
        (RejectedError("no", 401), "API server: 401: no; the credentials are not accepted any"),
        (NotFoundError("no", 404), "API server: 404: no; gputopo is not installed"),
        (UnavailableError("lost"), "API server: lost; trying again"),
    ],
)
async def test_a_kind_that_cannot_be_read_is_reported_with_the_remedy(
    error: ApiError, text: str
) -> None:
    found = await error_after(cluster(), Source(error))
    assert found is not None
    assert found.startswith(text)


async def test_a_watch_that_is_denied_is_reported() -> None:
    state = cluster()
    found = await error_after(state, Source(None, DeniedError("no watch", 403)))
    assert found is not None
    assert "no watch" in found


async def test_a_list_after_an_error_clears_it() -> None:
    state = cluster()
    state.set_error("pods", "old")
    source = Source(None, None)
    task = asyncio.create_task(reflector(PODS, source, state).run())
    await source.watched.wait()
    task.cancel()
    assert state.pods.error is None
    assert state.pods.listed


async def test_all_kinds_are_followed_and_one_that_is_forbidden_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = asyncio.Event()
    state = ClusterState(on_change=changed.set)
    with serving_in_thread(ApiServer()) as api, ThreadPoolExecutor(12) as threads:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config", api.url)))
        api.faults.append(Fault("GET", "/gpuprofiles", 403, message="no access", times=None))
        job = {"name": "j", "namespace": "ml", "managedFields": [{}]}
        api.create("gpujobs", {"metadata": job})
        api.create("pods", objects.pod("p", 1, namespace="ml"))
        api.create("gputopologies", topology("n1"))
        with connection() as link:
            following = asyncio.create_task(follow(state, link, Scope("ml", RESOURCE), threads))
            while not (
                state.gpu_jobs.items
                and state.pods.items
                and state.nodes.items
                and state.profiles.error
            ):
                await changed.wait()
                changed.clear()
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    [found] = state.gpu_jobs.items.values()
    assert "managedFields" not in found["metadata"]
    assert "no access" in str(state.profiles.error)
    assert api.count("GET", "/namespaces/ml/pods") > 0


def test_settings_are_read_in_the_namespace_of_gputopo_and_jobs_in_theirs() -> None:
    of_jobs = Scope("ml", RESOURCE)
    assert of_jobs.path(PODS) == ("api", "v1", "namespaces", "ml", "pods")
    assert of_jobs.path(DEPLOYMENTS) == ("apis", "apps", "v1", "deployments")
    known = Scope(None, RESOURCE, installation="gpus")
    assert known.path(PODS) == ("api", "v1", "pods")
    assert known.path(DEPLOYMENTS)[3:] == ("namespaces", "gpus", "deployments")


def test_lists_of_one_namespace_and_of_cluster_scoped_kinds() -> None:
    assert PODS.path("ml") == ("api", "v1", "namespaces", "ml", "pods")
    assert PODS.path(None) == ("api", "v1", "pods")
    assert GPU_JOBS.path("ml")[3:] == ("namespaces", "ml", "gpujobs")
    assert TOPOLOGIES.path("ml") == ("apis", "gputopo.io", "v1alpha1", "gputopologies")
