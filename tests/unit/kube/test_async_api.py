"""Asynchronous requests: what is sent, what is returned, and how each of them ends."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from lightkube import KubeConfig
from lightkube.config.models import Cluster, User

from gputopo_kube.client import (
    ALL_NAMESPACES,
    AsyncApi,
    AsyncClient,
    ObjectSource,
    WatchEvent,
    httpx_client,
)
from gputopo_kube.document import Document
from gputopo_kube.errors import ConflictError, NotFoundError, RejectedError, UnavailableError
from gputopo_kube.resources import (
    BindingDocument,
    LeaseDocument,
    NodeDocument,
    PodDocument,
    PodStatusDocument,
    TopologyDocument,
)
from support.api.kubeconfig import write_kubeconfig

Handler = Callable[[httpx2.Request], httpx2.Response | Awaitable[httpx2.Response]]
LEASE = {"metadata": {"name": "claims", "namespace": "system", "resourceVersion": "7"}}


def response(body: object, status: int = 200) -> httpx2.Response:
    return httpx2.Response(status, json=body)


def failure(status: int, message: str) -> httpx2.Response:
    return response({"kind": "Status", "code": status, "message": message}, status)


def name_of(document: Document) -> str:
    return str(document["metadata"]["name"])


@asynccontextmanager
async def api_of(handler: Any, **settings: Any) -> AsyncIterator[AsyncApi]:
    config = KubeConfig.from_one(cluster=Cluster(server="http://api"), user=User())
    async with AsyncClient(config, transport=httpx2.MockTransport(handler)) as client:
        yield AsyncApi(client, **settings)


async def test_an_object_is_read_by_kind_name_and_namespace() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        assert request.url.path == "/apis/coordination.k8s.io/v1/namespaces/system/leases/claims"
        return response(LEASE)

    async with api_of(handle) as api:
        assert await api.find(LeaseDocument, "claims", "system") == LEASE


async def test_an_object_that_does_not_exist_is_none() -> None:
    async with api_of(lambda _: failure(404, "no such Lease")) as api:
        assert await api.find(LeaseDocument, "claims", "system") is None
        await api.ping(NodeDocument, "n1")
        with pytest.raises(NotFoundError, match="404: no such Lease"):
            await api.patch(LeaseDocument, "claims", {}, "system")


async def test_a_ping_reads_metadata_without_etcd() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        assert request.url.path == "/api/v1/nodes/n1"
        assert request.url.params["resourceVersion"] == "0"
        assert request.headers["Accept"].startswith("application/json;as=PartialObjectMetadata")
        return response({"metadata": {"name": "n1"}})

    async with api_of(handle) as api:
        await api.ping(NodeDocument, "n1")


async def test_a_binding_is_posted_below_its_pod() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        assert request.method == "POST"
        assert request.url.path == "/api/v1/namespaces/default/pods/a/binding"
        assert json.loads(request.content)["target"] == {"name": "n1"}
        return response({"kind": "Status", "status": "Success"}, 201)

    async with api_of(handle) as api:
        body = {"metadata": {"name": "a"}, "target": {"name": "n1"}}
        created = await api.create(BindingDocument, body, name="a", namespace="default")
    assert created["status"] == "Success"


async def test_a_patch_is_a_merge_patch() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        assert request.method == "PATCH"
        assert request.url.path == "/api/v1/namespaces/default/pods/a/status"
        assert request.headers["Content-Type"] == "application/merge-patch+json"
        return response(json.loads(request.content))

    body = {"metadata": {"annotations": {"x": "1"}}}
    async with api_of(handle) as api:
        assert await api.patch(PodStatusDocument, "a", body, "default") == body


async def test_an_object_is_replaced_by_its_name_and_version() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        assert request.method == "PUT"
        assert request.url.path.endswith("/namespaces/system/leases/claims")
        assert json.loads(request.content)["metadata"]["resourceVersion"] == "7"
        return failure(409, "the object has been modified")

    async with api_of(handle) as api:
        with pytest.raises(ConflictError):
            await api.replace(LeaseDocument, LEASE)


async def hang(_: httpx2.Request) -> httpx2.Response:
    await asyncio.sleep(60)
    raise AssertionError


async def test_a_write_without_a_response_in_time_may_have_been_carried_out() -> None:
    async with api_of(hang, timeout_seconds=0.05) as api:
        with pytest.raises(UnavailableError, match=r"no response within 0.05 s") as caught:
            await api.create(LeaseDocument, LEASE)
    assert caught.value.status is None


async def test_abandoned_requests_fail_at_once_and_later_ones_are_sent() -> None:
    lost = True

    async def handle(request: httpx2.Request) -> httpx2.Response:
        return await hang(request) if lost else response(LEASE)

    async with api_of(handle) as api:
        requests = [asyncio.create_task(api.find(LeaseDocument, "claims", "x")) for _ in range(2)]
        await asyncio.sleep(0.01)
        api.abandon()
        for request in requests:
            with pytest.raises(UnavailableError, match="before the connection was lost"):
                await request
        lost = False
        assert await api.find(LeaseDocument, "claims", "x") == LEASE


async def test_successful_reads_are_reported_also_of_missing_objects() -> None:
    responses = [failure(403, "no"), failure(404, "none"), response(LEASE)]
    heard: list[None] = []
    async with api_of(lambda _: responses.pop(0), on_response=lambda: heard.append(None)) as api:
        with pytest.raises(RejectedError):
            await api.find(LeaseDocument, "claims", "x")
        assert not heard
        assert await api.find(LeaseDocument, "claims", "x") is None
        assert len(heard) == 1
        await api.find(LeaseDocument, "claims", "x")
    assert len(heard) == 2


def topologies(api: AsyncApi) -> ObjectSource[str]:
    return api.objects(TopologyDocument, name_of)


async def test_a_list_is_read_page_by_page_and_parsed() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        assert request.url.params["limit"] == "500"
        assert "resourceVersion" not in request.url.params
        last = "continue" in request.url.params
        metadata = {"resourceVersion": "9"} | ({} if last else {"continue": "more"})
        names = ["b"] if last else ["a"]
        items = [{"metadata": {"name": name}} for name in names]
        return response({"metadata": metadata, "items": items})

    async with api_of(handle) as api:
        listing = await topologies(api).list()
    assert listing.items == ["a", "b"]
    assert listing.resource_version == "9"


async def test_a_list_has_no_time_limit_in_all() -> None:
    async def handle(_: httpx2.Request) -> httpx2.Response:
        await asyncio.sleep(0.05)
        return response({"metadata": {"resourceVersion": "9"}, "items": []})

    async with api_of(handle, timeout_seconds=0.01) as api:
        assert (await topologies(api).list()).items == []


async def test_pods_of_a_node_are_selected_in_all_namespaces() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        assert request.url.path == "/api/v1/pods"
        assert request.url.params["fieldSelector"] == "spec.nodeName=n1"
        return response({"metadata": {"resourceVersion": "9"}, "items": []})

    async with api_of(handle) as api:
        source = api.objects(
            PodDocument, name_of, namespace=ALL_NAMESPACES, fields={"spec.nodeName": "n1"}
        )
        assert (await source.list()).items == []


async def test_one_object_of_a_source_is_read_and_parsed() -> None:
    responses = [response({"metadata": {"name": "a"}}), failure(404, "no"), response({})]
    async with api_of(lambda _: responses.pop(0)) as api:
        source = topologies(api)
        assert await source.find("a") == "a"
        assert await source.find("b") is None
        with pytest.raises(UnavailableError, match="unreadable response: 'metadata' is missing"):
            await source.find("c")


async def test_a_watch_yields_changes_until_the_version_is_too_old() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        assert request.url.params["watch"] == "true"
        assert request.url.params["resourceVersion"] == "9"
        metadata = {"name": "a", "resourceVersion": "10"}
        lines: list[dict[str, Any]] = [
            {"type": "ADDED", "object": {"metadata": metadata}},
            {"type": "DELETED", "object": {"metadata": metadata}},
            {"type": "ERROR", "object": {"code": 410, "message": "too old"}},
        ]
        return httpx2.Response(200, text="\n".join(map(json.dumps, lines)))

    heard: list[None] = []
    found: list[WatchEvent[str]] = []

    async def collect(source: ObjectSource[str]) -> None:
        async for event in source.watch("9"):
            found.append(event)  # noqa: PERF401 - the events before the error count

    async with api_of(handle, on_response=lambda: heard.append(None)) as api:
        with pytest.raises(RejectedError, match="too old") as caught:
            await collect(topologies(api))
    assert caught.value.status == 410
    assert [(event.item, event.deleted) for event in found] == [("a", False), ("a", True)]
    assert found[0].metadata["resourceVersion"] == "10"
    assert len(heard) == 2


async def test_the_client_reads_the_kubeconfig(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_kubeconfig(tmp_path / "kubeconfig", "http://here")
    monkeypatch.setenv("KUBECONFIG", str(path))
    async with httpx_client(5.0) as client:
        assert client.config.cluster.server == "http://here"
