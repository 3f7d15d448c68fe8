"""Sends requests to an ASGI application in this process."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp


@dataclass(frozen=True, slots=True)
class CompleteResponse:
    """A complete response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


async def send_request(
    app: ASGIApp,
    url: str,
    *,
    method: str = "GET",
    host: str = "127.0.0.1:8770",
    headers: dict[str, str] | None = None,
    raises: tuple[type[Exception], ...] = (),
) -> CompleteResponse:
    """Return the response to a request without a body; the application may raise an error too."""
    scope = http_scope(url, method, {"host": host, **(headers or {})})
    start: dict[str, Any] = {}
    parts: list[bytes] = []

    async def receive() -> dict[str, Any]:
        return await messages.get()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        else:
            parts.append(message.get("body", b""))

    messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    messages.put_nowait({"type": "http.request", "body": b"", "more_body": False})
    with suppress(*raises):
        await app(scope, receive, send)
    found = {name.decode(): text.decode() for name, text in start["headers"]}
    return CompleteResponse(start["status"], found, b"".join(parts))


def http_scope(url: str, method: str, headers: dict[str, str]) -> dict[str, Any]:
    """Return the ASGI scope of a request."""
    path, _, query = url.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), it.encode()) for name, it in headers.items()],
    }
