import asyncio
import re
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


async def read(url: str, timeout_seconds: float = 60.0) -> bytes:
    return await EndpointClient(timeout_seconds=timeout_seconds, max_bytes=1000).read(url)


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
        await read(f"{url}/slow", timeout_seconds=0.2)


async def test_a_closed_port_is_an_error() -> None:
    with pytest.raises(EndpointError, match=r"^http://127\.0\.0\.1:1/: "):
        await read("http://127.0.0.1:1/")


@asynccontextmanager
async def served_bytes(response: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serve one response to all requests; yield the URL, and a list that gets the requests."""
    requests: list[bytes] = []

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(response)
        writer.close()

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/m?x=1", requests


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"HTTP/1.0 200 OK\r\n", b"steps 5\n"),
        (b"HTTP/1.1 200\r\nA: b\r\n", b"x" * 1000),
        (b"HTTP/1.1 200 OK\r\ncontent-length:3 \r\n", b"abc"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", b""),
    ],
)
async def test_the_body_ends_at_its_length_or_with_the_connection(head: bytes, body: bytes) -> None:
    rest = b"rest" if b"length" in head.lower() else b""
    async with served_bytes(head + b"\r\n" + body + rest) as (url, requests):
        assert await read(url) == body
    assert requests[0].startswith(b"GET /m?x=1 HTTP/1.0\r\nHost: 127.0.0.1:")


async def test_a_response_in_chunks_is_not_parsed() -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    async with served_bytes(head + b"1\r\na\r\n" * 1000) as (url, _):
        with pytest.raises(EndpointError, match="Transfer-Encoding is not allowed"):
            await read(url)


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"\x00" * 100,
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1001,
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000,
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"220 mail.example.org ESMTP\r\n\r\n",
    ],
)
async def test_an_endpoint_that_is_no_http_server_is_an_error(response: bytes) -> None:
    async with served_bytes(response) as (url, _):
        with pytest.raises(EndpointError, match=f"^{re.escape(url)}: ."):
            await read(url)


@pytest.mark.parametrize(
    ("ip", "url"),
    [("10.0.0.7", "http://10.0.0.7:9090/m?x=1"), ("fd00::7", "http://[fd00::7]:9090/m?x=1")],
)
def test_the_url_has_the_address_of_the_pod(ip: str, url: str) -> None:
    assert pod_url(ip, 9090, "/m?x=1") == url


@pytest.mark.parametrize(
    "ip",
    [
        *("127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "::ffff:169.254.169.254"),
        *("fe80::1", "224.0.0.1", "::", "example.org"),
    ],
)
def test_other_addresses_are_rejected(ip: str) -> None:
    with pytest.raises(EndpointError, match="address"):
        pod_url(ip, 80, "/")
