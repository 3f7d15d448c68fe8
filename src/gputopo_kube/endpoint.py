"""Reads small texts from HTTP endpoints of pods. The endpoints are not trusted.

The client sends requests of HTTP 1.0, because a server must not respond to them with chunks
(``Transfer-Encoding: chunked``). A hostile server could send chunks of one byte. The agent would
then need seconds of processor time to parse the response, and do nothing else in this time.
"""

import asyncio
import re
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address
from typing import Final

from gputopo.errors import GputopoError
from gputopo.runtime.messages import quoted

_MAX_HEAD_BYTES: Final = 64 * 1024
_HEADERS: Final = "Accept: text/plain;version=0.0.4\r\nAccept-Encoding: identity"
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")
_ENCODING: Final = re.compile(rb"\r\nTransfer-Encoding:", re.IGNORECASE)
_LENGTH: Final = re.compile(rb"\r\nContent-Length:[ \t]*+([^\r\n]*)", re.IGNORECASE)
_DIGITS: Final = re.compile(rb"([0-9]{1,12})[ \t]*")


class EndpointError(GputopoError):
    """An endpoint could not be read; the message says why."""


class EndpointClient:
    """A client that follows no redirects, uses no proxy and keeps no connections."""

    def __init__(self, *, timeout_seconds: float, max_bytes: int) -> None:
        """Limit the time of a request, including the response, and the size of the response."""
        self._timeout_seconds = timeout_seconds
        self._max_bytes = max_bytes

    async def read(self, url: str) -> bytes:
        """Send a GET request and return the body of the response.

        Args:
            url: of the form ``http://IP:PORT/PATH``, without characters that HTTP does not allow.

        Raises:
            EndpointError: the status is not 200, or the response is too large or too late.
        """
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._get(url)
        except TimeoutError:
            raise EndpointError(f"{url}: no response within {self._timeout_seconds:g} s") from None
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise EndpointError(f"{url}: {str(error) or type(error).__name__}") from error

    async def _get(self, url: str) -> bytes:
        authority, _, path = url.removeprefix("http://").partition("/")
        host, _, port = authority.rpartition(":")
        reader, writer = await asyncio.open_connection(
            host.strip("[]"), int(port), limit=_MAX_HEAD_BYTES
        )
        try:
            request = f"GET /{path} HTTP/1.0\r\nHost: {authority}\r\n{_HEADERS}\r\n\r\n"
            writer.write(request.encode())
            length = _body_length(await reader.readuntil(b"\r\n\r\n"))
            return await self._read_body(reader, length)
        finally:
            writer.transport.abort()  # closes the connection at once

    async def _read_body(self, reader: asyncio.StreamReader, length: int | None) -> bytes:
        if length is not None:
            self._check_size(length)
            return await reader.readexactly(length)
        body = bytearray()
        while chunk := await reader.read(_MAX_HEAD_BYTES):
            body += chunk
            self._check_size(len(body))
        return bytes(body)

    def _check_size(self, size: int) -> None:
        if size > self._max_bytes:
            raise ValueError(f"more than {self._max_bytes} bytes")


def _body_length(head: bytes) -> int | None:
    """Return the length of the body; None if the server ends the body by closing the connection.

    Args:
        head: status line and headers of a response.

    Raises:
        ValueError: the status is not 200, or the head is not valid.
    """
    status = _STATUS.match(head)
    if status is None:
        raise ValueError(f"{quoted(head[:80])} is not a response of HTTP 1")
    if int(status[1]) != HTTPStatus.OK:
        raise ValueError(f"status {int(status[1])}")
    if _ENCODING.search(head):
        raise ValueError("Transfer-Encoding is not allowed in a response to HTTP 1.0")
    if (length := _LENGTH.search(head)) is None:
        return None
    if (digits := _DIGITS.fullmatch(length[1])) is None:
        raise ValueError(f"Content-Length: {quoted(length[1])} is not a length")
    return int(digits[1])


def pod_url(ip: str, port: int, path: str) -> str:
    """Return the URL of an endpoint of a pod; ``path`` begins with a slash.

    Raises:
        EndpointError: ``ip`` cannot belong to a pod, for instance if it is a loopback address.
    """
    try:
        address = ip_address(ip)
    except ValueError:
        raise EndpointError(f"{quoted(ip)} is not an IP address") from None
    host = f"[{ip}]" if isinstance(address, IPv6Address) else ip
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
    ):
        raise EndpointError(f"{ip} is not the address of a pod")
    return f"http://{host}:{port}{path}"
