"""A lightkube client for the extender that sends requests with aiohttp instead of httpx2.

When the extender bound many pods at once, the transport of httpx2 used half of the extender's
processor time, because that transport is pure Python. That transport also keeps only 20 connections
open, so further requests had to begin with a TLS handshake.
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
"""Limit for one page of a list. Requests for which kube-scheduler waits have a shorter limit."""


def aiohttp_client(config: KubeConfig | None = None) -> AsyncClient:
    """Return a client of the API server. Call this function while an event loop runs.

    Args:
        config: API server and credentials. None selects the pod's service account or, outside
            a pod, the kubeconfig.

    Raises:
        ConfigError: if the configuration has no current context, or the context has no user.
    """
    chosen = (config or KubeConfig.from_env()).get()
    if chosen is None or chosen.user is None:
        raise ConfigError("kubeconfig: the current context has no user")
    context = verify_cluster(chosen.cluster, chosen.user, chosen.abs_file)
    return AsyncClient(
        chosen,
        timeout=httpx2.Timeout(_LIST_TIMEOUT_SECONDS),
        transport=_Transport(context),
    )


class _Transport(httpx2.AsyncBaseTransport):
    """Sends all requests with one aiohttp session."""

    def __init__(self, context: SSLContext) -> None:
        """``context`` verifies the API server. It may also contain a client certificate."""
        self._session = aiohttp.ClientSession(
            # Connections need no limit, because the callers limit the number of requests.
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; return as soon as the headers of the response are received."""
        timeout = request.extensions["timeout"]
        with _translated():
            response = await self._session.request(
                request.method,
                URL(str(request.url), encoded=True),
                headers=request.headers.multi_items(),
                data=await request.aread() or None,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    connect=timeout["pool"],
                    sock_connect=timeout["connect"],
                    sock_read=timeout["read"],
                ),
            )
        return httpx2.Response(
            response.status, headers=list(response.raw_headers), stream=_Body(response)
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._session.close()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated():
            async for chunk in self._response.content.iter_any():
                yield chunk

    async def aclose(self) -> None:
        """Close the connection, unless aiohttp released it after a complete response."""
        self._response.close()


@contextmanager
def _translated() -> Iterator[None]:
    """Replace each error of aiohttp by the corresponding error of httpx2."""
    try:
        yield
    except TimeoutError as error:
        raise httpx2.ReadTimeout(f"{error or type(error).__name__}") from error
    except aiohttp.ClientConnectorError as error:
        raise httpx2.ConnectError(str(error)) from error
    except aiohttp.ClientError as error:
        raise httpx2.ReadError(f"{type(error).__name__}: {error}") from error
