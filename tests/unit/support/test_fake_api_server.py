"""The fake API server keeps the promises of the real one that components rely on."""

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import ClientSession, ServerDisconnectedError

from support.api.faults import CLOSED, SILENT, Fault, Hook
from support.api.server import ApiServer, serving, serving_in_thread

PODS = "/api/v1/namespaces/default/pods"


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "spec": {}, "status": {"phase": "Pending"}}


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    async with serving(ApiServer()) as api:
        yield api


@pytest.fixture
async def http(api: ApiServer) -> AsyncIterator[ClientSession]:
    async with ClientSession(api.url) as session:
        yield session


async def request(
    http: ClientSession, method: str, path: str, body: object = None
) -> tuple[int, dict[str, Any]]:
    async with http.request(method, path, json=body) as response:
        return response.status, await response.json()


async def test_lists_have_pages_and_selectors(api: ApiServer, http: ClientSession) -> None:
    for name in ("a", "b", "c"):
        api.put("pods", pod(name, labels={"job": "x" if name != "b" else "y"}))
    status, first = await request(http, "GET", f"{PODS}?limit=2")
    assert status == 200
    assert [item["metadata"]["name"] for item in first["items"]] == ["a", "b"]
    _, rest = await request(http, "GET", f"{PODS}?limit=2&continue={first['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c"]
    assert "continue" not in rest["metadata"]
    _, labelled = await request(http, "GET", "/api/v1/pods?labelSelector=job=x")
    assert [item["metadata"]["name"] for item in labelled["items"]] == ["a", "c"]
    _, field = await request(http, "GET", "/api/v1/pods?fieldSelector=metadata.name=c")
    assert [item["metadata"]["name"] for item in field["items"]] == ["c"]


async def test_a_patch_keeps_to_its_subresource_and_its_precondition(
    api: ApiServer, http: ClientSession
) -> None:
    topologies = "/apis/gputopo.io/v1alpha1/gputopologies"
    _, made = await request(
        http, "POST", topologies, {"metadata": {"name": "n1"}, "spec": {"a": 1}}
    )
    assert (made["metadata"]["generation"], "namespace" in made["metadata"]) == (1, False)
    patch = {"spec": {"a": 2}, "status": {"b": 1}}
    _, changed = await request(http, "PATCH", f"{topologies}/n1/status", patch)
    assert (changed["spec"], changed["status"]) == ({"a": 1}, {"b": 1})
    _, changed = await request(http, "PATCH", f"{topologies}/n1", {**patch, "status": {"b": 5}})
    assert (changed["spec"], changed["status"]) == ({"a": 2}, {"b": 1})
    assert changed["metadata"]["generation"] == 2
    late = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "spec": {"a": 3}}
    status, _ = await request(http, "PATCH", f"{topologies}/n1", late)
    assert status == 409
    assert [write.method for write in api.writes] == ["POST", "PATCH", "PATCH"]


async def test_a_binding_holds_once_and_for_its_version(
    api: ApiServer, http: ClientSession
) -> None:
    stored = api.put("pods", pod("a", uid="uid-a"))
    target = {"target": {"name": "n1"}}
    other = {"metadata": {"uid": "uid-b"}, **target}
    assert (await request(http, "POST", f"{PODS}/a/binding", other))[0] == 409
    metadata = {
        "uid": "uid-a",
        "resourceVersion": stored["metadata"]["resourceVersion"],
        "annotations": {"k": "v"},
    }
    own = {"metadata": metadata, **target}
    assert (await request(http, "POST", f"{PODS}/a/binding", own))[0] == 201
    assert api.pod("a")["spec"]["nodeName"] == "n1"
    assert api.pod("a")["metadata"]["annotations"] == {"k": "v"}
    assert (await request(http, "POST", f"{PODS}/a/binding", {"metadata": {}, **target}))[0] == 409
    assert api.bindings == [own]


async def test_a_watch_reports_changes_from_its_version_until_it_is_ended(
    api: ApiServer, http: ClientSession
) -> None:
    api.put("pods", pod("old"))
    path = f"/api/v1/pods?watch=true&resourceVersion={api.version}"
    async with http.get(path) as response:
        api.put("pods", pod("a"))
        api.delete("pods", "a")
        lines = [json.loads(await response.content.readline()) for _ in range(2)]
        assert [(line["type"], line["object"]["metadata"]["name"]) for line in lines] == [
            ("ADDED", "a"),
            ("DELETED", "a"),
        ]
        api.end_watches(compact=True)
        assert await response.content.readline() == b""
    async with http.get(path) as response:
        assert json.loads(await response.content.readline())["object"]["code"] == 410


async def test_a_restored_backup_gives_versions_again(api: ApiServer) -> None:
    api.put("pods", pod("a"))
    backup = api.backup()
    first = api.put("pods", pod("b"))
    api.restore(backup)
    assert api.get("pods", "b") is None
    assert (
        api.put("pods", pod("c"))["metadata"]["resourceVersion"]
        == (first["metadata"]["resourceVersion"])
    )


async def test_what_an_object_owns_is_deleted_with_it(api: ApiServer) -> None:
    owner = api.create("jobs", {"metadata": {"name": "j"}})
    assert owner is not None
    api.create("pods", pod("a", ownerReferences=[{"uid": owner["metadata"]["uid"]}]))
    api.delete("jobs", "j")
    assert api.all("pods") == []


async def test_faults_reject_lose_and_delay_requests(api: ApiServer, http: ClientSession) -> None:
    api.put("pods", pod("a"))
    api.faults = [
        Fault("PATCH", "/pods/a", 403),
        Fault("PATCH", "/pods/a", CLOSED, carried_out="yes"),
        Fault("PATCH", "/pods/a", 500, carried_out="later"),
    ]
    for spec, expected in (({"x": 1}, 403), ({"y": 1}, None), ({"z": 1}, 500)):
        if expected is None:
            with pytest.raises(ServerDisconnectedError):
                await request(http, "PATCH", f"{PODS}/a", {"spec": spec})
        else:
            assert (await request(http, "PATCH", f"{PODS}/a", {"spec": spec}))[0] == expected
    assert api.pod("a")["spec"] == {"y": 1}
    api.carry_out_late()
    assert api.pod("a")["spec"] == {"y": 1, "z": 1}
    api.faults = [Fault("GET", "/pods", SILENT, times=None)]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await request(http, "GET", PODS)
    assert api.faults


async def test_a_hook_acts_once_before_its_request(api: ApiServer, http: ClientSession) -> None:
    async def change() -> None:
        api.put("pods", pod("a", uid="uid-new"))

    api.put("pods", pod("a", uid="uid-old"))
    api.hooks.append(Hook("GET", "/pods/a", change))
    _, seen = await request(http, "GET", f"{PODS}/a")
    assert seen["metadata"]["uid"] == "uid-new"
    assert not api.hooks


def test_it_serves_tests_without_an_event_loop() -> None:
    with serving_in_thread(ApiServer()) as api:
        api.put("pods", pod("a"))
        with urllib.request.urlopen(f"{api.url}{PODS}/a") as response:  # noqa: S310
            assert json.load(response)["metadata"]["name"] == "a"
        assert api.count("GET", "/pods/a") == 1
