"""A proxy before the API server that returns 502 without a Content-Type."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from lightkube import AsyncClient, KubeConfig
from lightkube.config.models import Cluster, User

from gputopo.api.names import RESOURCE
from gputopo_deviceplugin.apiserver import monitor
from gputopo_deviceplugin.apiserver.node_api import NodeApi
from gputopo_kube.errors import ApiError
from support.agent.world import NODE, AgentWorld
from support.api.faults import Fault

BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@asynccontextmanager
async def proxy(response: bytes) -> AsyncIterator[str]:
    """Send these bytes in response to every request; yield the URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"


def client(url: str, user: User | None = None) -> AsyncClient:
    config = KubeConfig.from_one(cluster=Cluster(server=url), user=user or User())
    return AsyncClient(config=config)


async def watch(api: NodeApi) -> None:
    async for _ in api.pods.watch("1"):
        pass


async def watch_node(api: NodeApi) -> None:
    async for _ in api.nodes.watch("1"):
        pass


CALLS: list[Callable[[NodeApi], Awaitable[object]]] = [
    lambda api: api.pods.list(),
    lambda api: api.nodes.list(),
    lambda api: api.slices.list(),
    lambda api: api.heartbeat(),
    lambda api: api.pods.find("a", "default"),
    lambda api: api.topology(),
    lambda api: api.create_topology({"name": NODE}, {}),
    lambda api: api.patch_topology({}),
    lambda api: api.patch_topology_status({}),
    lambda api: api.create_event({"metadata": {"name": "e", "namespace": "default"}}),
    watch,
    watch_node,
]


@pytest.mark.parametrize("call", CALLS)
async def test_calls_raise_api_errors_only(
    call: Callable[[NodeApi], Awaitable[object]],
) -> None:
    async with proxy(BAD_GATEWAY) as url, client(url) as kube:
        responses: list[None] = []
        api = NodeApi(
            kube, node=NODE, resource=RESOURCE, on_response=lambda: responses.append(None)
        )
        with pytest.raises(ApiError, match="502") as caught:
            await call(api)
        assert caught.value.status == 502
        assert not responses


@pytest.mark.parametrize("body", [b"{}", b'{"metadata": {}, "items": [{}]}', b"<html>"])
async def test_a_response_that_is_not_an_object_is_an_error(body: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
    response = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    async with proxy(response) as url, client(url) as kube:
        api = NodeApi(kube, node=NODE, resource=RESOURCE)
        with pytest.raises(ApiError, match="unreadable response"):
            await api.pods.find("a", "default")


async def test_no_connection_is_an_error_without_a_status() -> None:
    async with client("http://127.0.0.1:1") as kube:
        api = NodeApi(kube, node=NODE, resource=RESOURCE)
        with pytest.raises(ApiError, match="ConnectError") as caught:
            await api.heartbeat()
        assert caught.value.status is None


async def test_an_error_inside_a_watch_has_its_status() -> None:
    status = b'{"kind": "Status", "code": 410, "message": "too old"}'
    body = b'{"type": "ERROR", "object": ' + status + b"}\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
    response = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    async with proxy(response) as url, client(url) as kube:
        with pytest.raises(ApiError, match="too old") as caught:
            await watch(NodeApi(kube, node=NODE, resource=RESOURCE))
        assert caught.value.status == 410


async def test_credentials_that_cannot_be_read_are_an_error() -> None:
    user = User(token_file="/nonexistent")  # noqa: S106 - a path
    async with client("http://127.0.0.1:1", user) as kube:
        api = NodeApi(kube, node=NODE, resource=RESOURCE)
        with pytest.raises(ApiError, match="request not sent"):
            await api.heartbeat()


async def test_the_agent_survives_a_broken_proxy_and_serves_afterwards(
    world: AgentWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor, "QUIET_SECONDS", 0.2)
    monkeypatch.setattr(monitor, "PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(monitor, "LOST_SECONDS", 0.5)
    async with world.agent() as agent:
        await world.served()
        await world.run("a", {"main": [0]})
        world.api.faults.append(Fault(".*", "", 502, content_type="", times=None))
        await world.until(lambda: not agent.api.connection.connected)
        await asyncio.sleep(0.5)
        world.api.faults.clear()
        await world.served()
        await world.run("b", {"main": [1]})
