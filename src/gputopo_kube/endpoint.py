"""Reads small texts from HTTP endpoints of pods. The endpoints are not trusted."""

import asyncio
import ssl
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address

import httpx2

from gputopo.errors import GputopoError
from gputopo.runtime.messages import quoted

_HEADERS = {"Accept": "text/plain;version=0.0.4", "Accept-Encoding": "identity"}


class EndpointError(GputopoError):
    """An endpoint could not be read; the message says why."""


class EndpointClient:
    """A client that follows no redirects, uses no proxy and keeps no connections."""

    def __init__(self, *, timeout_seconds: float, max_bytes: int) -> None:
        """Limit the time of a request, including the response, and the size of the response."""
        self._timeout_seconds = timeout_seconds
        self._max_bytes = max_bytes
        self._client = httpx2.AsyncClient(
            # Endpoints are not read with TLS. The default would load the CA certificates (11 MB).
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            trust_env=False,
            limits=httpx2.Limits(max_keepalive_connections=0),
            timeout=timeout_seconds,
        )

    async def close(self) -> None:
        """Close the client."""
        await self._client.aclose()

    async def read(self, url: str) -> bytes:
        """Return the body of a successful response to GET.

        Raises:
            EndpointError: the status is not 200, or the response is too large or too late.
        """
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._get(url)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise EndpointError(f"{url}: {error or type(error).__name__}") from error
        except TimeoutError:
            raise EndpointError(f"{url}: no response within {self._timeout_seconds:g} s") from None

    async def _get(self, url: str) -> bytes:
        body = bytearray()
        async with self._client.stream("GET", url, headers=_HEADERS) as response:
            if response.status_code != HTTPStatus.OK:
                raise EndpointError(f"{url}: status {response.status_code}")
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > self._max_bytes:
                    raise EndpointError(f"{url}: more than {self._max_bytes} bytes")
        return bytes(body)


def pod_url(ip: str, port: int, path: str) -> str:
    """Return the URL of an endpoint of a pod; ``path`` begins with a slash.

    Raises:
        EndpointError: the address is not that of a pod, but for instance a loopback address.
    """
    try:
        address = ip_address(ip)
    except ValueError:
        raise EndpointError(f"{quoted(ip)} is not an IP address") from None
    if (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
    ):
        raise EndpointError(f"{ip} is not the address of a pod")
    host = f"[{ip}]" if isinstance(address, IPv6Address) else ip
    return f"http://{host}:{port}{path}"
