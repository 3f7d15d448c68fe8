"""lightkube with aiohttp beneath it.

httpx2's own transport took half of the extender's processor time in a burst of binds. It is
written in Python down to the bytes, and keeps 20 connections: each request beyond those began
with a TLS handshake.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from ssl import SSLContext
from typing import Final

import aiohttp
import httpx2
from lightkube import AsyncClient, KubeConfig
from lightkube.config.client_adapter import verify_cluster
from lightkube.core.exceptions import ConfigError
from yarl import URL

_LIST_TIMEOUT_SECONDS: Final = 30.0
"""For one page of a list; calls that a scheduler waits for have a shorter one of their own."""


def connected(config: KubeConfig) -> AsyncClient:
    """Return a client of the API server; an event loop must run.

    Raises:
        ConfigError: where the configuration has no current context, or that names no user.
    """
    chosen = config.get()
    if chosen is None or chosen.user is None:
        raise ConfigError("the current context of the kubeconfig names no user")
    context = verify_cluster(chosen.cluster, chosen.user, chosen.abs_file)
    return AsyncClient(
        chosen,
        timeout=httpx2.Timeout(_LIST_TIMEOUT_SECONDS),
        transport=_Transport(context),
    )


class _Transport(httpx2.AsyncBaseTransport):
    """Sends requests by one aiohttp session."""

    def __init__(self, context: SSLContext) -> None:
        """Verify servers, and show who asks, by ``context``."""
        self._session = aiohttp.ClientSession(
            # As many connections as there are requests: who makes them sees to their number.
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; return as soon as the headers of its answer are there."""
        patience = request.extensions["timeout"]
        with _translated():
            answer = await self._session.request(
                request.method,
                URL(str(request.url), encoded=True),
                headers=request.headers.multi_items(),
                data=await request.aread() or None,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    connect=patience["pool"],
                    sock_connect=patience["connect"],
                    sock_read=patience["read"],
                ),
            )
        return httpx2.Response(
            answer.status, headers=list(answer.raw_headers), stream=_Body(answer)
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._session.close()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated():
            async for chunk in self._answer.content.iter_any():
                yield chunk

    async def aclose(self) -> None:
        """Let the connection go; one that is read to its end was given back already."""
        self._answer.close()


@contextmanager
def _translated() -> Iterator[None]:
    """Turn aiohttp's errors into those of httpx2."""
    try:
        yield
    except TimeoutError as error:
        raise httpx2.ReadTimeout(f"{error or type(error).__name__}") from error
    except aiohttp.ClientConnectorError as error:
        raise httpx2.ConnectError(str(error)) from error
    except aiohttp.ClientError as error:
        raise httpx2.ReadError(f"{type(error).__name__}: {error}") from error
