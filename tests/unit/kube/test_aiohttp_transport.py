"""lightkube's requests by aiohttp: failures are raised as the errors of httpx2."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx2
import pytest
from aiohttp import web
from lightkube import AsyncClient, KubeConfig
from lightkube.config.models import Cluster, User
from lightkube.core.exceptions import ConfigError

from gputopo_kube.aiohttp_transport import aiohttp_client
from gputopo_kube.resources import PodDocument

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def server(handle: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def client_of(url: str) -> AsyncClient:
    config = KubeConfig.from_one(cluster=Cluster(server=url), user=User(token="known"))  # noqa: S106
    return aiohttp_client(config)


async def test_a_configuration_without_a_context_or_a_user_is_rejected() -> None:
    with pytest.raises(ConfigError, match="No current context"):
        aiohttp_client(KubeConfig(clusters={}, contexts={}))
    with pytest.raises(ConfigError, match="has no user"):
        aiohttp_client(KubeConfig.from_one(cluster=Cluster(server="http://nobody")))


async def test_a_request_has_the_credentials_and_an_unchanged_path() -> None:
    seen = []

    async def handle(request: web.Request) -> web.StreamResponse:
        seen.append((request.method, request.raw_path, request.headers["Authorization"]))
        return web.json_response({"metadata": {"name": "a"}})

    async with server(handle) as url, client_of(url) as client:
        pod = await client.get(PodDocument, "a%2Fb", namespace="default")
    assert pod["metadata"]["name"] == "a"
    assert seen == [("GET", "/api/v1/namespaces/default/pods/a%2Fb", "Bearer known")]


async def test_a_status_of_the_server_is_an_http_error_with_its_code() -> None:
    async def handle(_: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "code": 404, "message": "no"}, status=404)

    async with server(handle) as url, client_of(url) as client:
        with pytest.raises(httpx2.HTTPStatusError) as caught:
            await client.get(PodDocument, "a", namespace="default")
    assert caught.value.response.status_code == 404


async def test_a_failed_connection_is_an_error_of_httpx2() -> None:
    async with client_of("http://127.0.0.1:1") as client:
        with pytest.raises(httpx2.ConnectError):
            await client.get(PodDocument, "a", namespace="default")


async def test_an_incomplete_response_is_an_error_of_httpx2() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b'{"metadata":')
        assert request.transport is not None
        request.transport.close()
        return response

    async with server(handle) as url, client_of(url) as client:
        with pytest.raises(httpx2.ReadError):
            await client.get(PodDocument, "a", namespace="default")


async def test_a_request_without_a_response_ends_after_its_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gputopo_kube.aiohttp_transport._LIST_TIMEOUT_SECONDS", 0.2)

    async def handle(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    async with server(handle) as url, client_of(url) as client:
        with pytest.raises(httpx2.ReadTimeout):
            await client.get(PodDocument, "a", namespace="default")
