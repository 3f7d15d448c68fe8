"""Sends HTTP requests to a server of the same node, over its unix socket."""

import asyncio
import ssl
from pathlib import Path
from typing import NamedTuple

import httpx2

from gputopo.errors import GputopoError


class LocalHttpError(GputopoError):
    """The server does not respond; the message says why."""


class LocalResponse(NamedTuple):
    """Status and body of a response."""

    status: int
    body: bytes


class LocalHttpClient:
    """A client that follows no redirects, uses no proxy and keeps no connections."""

    def __init__(self, socket: Path, *, timeout_seconds: float) -> None:
        """Connect to ``socket`` for each request; limit the time of a request with its response."""
        self._socket = socket
        self._timeout_seconds = timeout_seconds
        # Without TLS the default, which reads the certificates of all authorities, is not needed.
        self._unused_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    async def request(self, method: str, path: str) -> LocalResponse:
        """Send a request without a body and return the response.

        Raises:
            LocalHttpError: there is no response within the time limit, or it is not valid.
        """
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._send(method, path)
        except TimeoutError:
            raise LocalHttpError(f"no response within {self._timeout_seconds:g} s") from None
        except httpx2.HTTPError as error:
            raise LocalHttpError(str(error) or type(error).__name__) from error

    async def _send(self, method: str, path: str) -> LocalResponse:
        transport = httpx2.AsyncHTTPTransport(uds=str(self._socket), verify=self._unused_context)
        async with httpx2.AsyncClient(transport=transport, timeout=None, trust_env=False) as client:
            response = await client.request(method, f"http://localhost{path}")
            return LocalResponse(response.status_code, response.content)
