import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from gputopo_kube.endpoint import EndpointClient, EndpointError, pod_url


@asynccontextmanager
async def served(app: web.Application) -> AsyncIterator[str]:
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def respond(request: web.Request) -> web.StreamResponse:
    match request.path:
        case "/metrics":
            assert request.headers["Accept-Encoding"] == "identity"
            return web.Response(text="steps 5\n")
        case "/redirect":
            raise web.HTTPFound("/metrics")
        case "/large":
            return web.Response(body=b"x" * 1001)
        case _:
            await asyncio.Event().wait()
            raise AssertionError


@pytest.fixture
async def url() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/{path}", respond)
    async with served(app) as url:
        yield url


async def read(url: str) -> bytes:
    client = EndpointClient(timeout_seconds=0.2, max_bytes=1000)
    try:
        return await client.read(url)
    finally:
        await client.close()


async def test_a_successful_response_is_returned(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert await read(f"{url}/metrics") == b"steps 5\n"


async def test_redirects_are_not_followed(url: str) -> None:
    with pytest.raises(EndpointError, match="status 302"):
        await read(f"{url}/redirect")


async def test_a_large_response_is_not_read_to_its_end(url: str) -> None:
    with pytest.raises(EndpointError, match="more than 1000 bytes"):
        await read(f"{url}/large")


async def test_a_slow_response_is_abandoned(url: str) -> None:
    with pytest.raises(EndpointError, match=r"no response within 0\.2 s"):
        await read(f"{url}/slow")


async def test_a_closed_port_is_an_error() -> None:
    with pytest.raises(EndpointError, match=r"^http://127\.0\.0\.1:1/: "):
        await read("http://127.0.0.1:1/")


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"\x00" * 100,
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000,
        b"SSH-2.0-OpenSSH_9.6\r\n",
    ],
)
async def test_an_endpoint_that_is_no_http_server_is_an_error(response: bytes) -> None:
    async def respond(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(response)
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(EndpointError):
            await read(f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize(
    ("ip", "url"),
    [("10.0.0.7", "http://10.0.0.7:9090/m?x=1"), ("fd00::7", "http://[fd00::7]:9090/m?x=1")],
)
def test_the_url_has_the_address_of_the_pod(ip: str, url: str) -> None:
    assert pod_url(ip, 9090, "/m?x=1") == url


@pytest.mark.parametrize(
    "ip", ["127.0.0.1", "::1", "169.254.169.254", "fe80::1", "224.0.0.1", "::", "example.org"]
)
def test_other_addresses_are_rejected(ip: str) -> None:
    with pytest.raises(EndpointError, match="address"):
        pod_url(ip, 80, "/")
