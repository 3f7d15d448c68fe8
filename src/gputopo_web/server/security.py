"""Which requests get a response, and the headers of every response. The page only reads."""

from collections.abc import Collection
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_METHODS: Final = frozenset({"GET", "HEAD"})

# No inline scripts and styles, nothing of another host, and no other site may embed the page.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_OTHER_SITES: Final = ("cross-site", "same-site")
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


class ReadOnly:
    """Rejects requests that would write, or that name another host; adds ``HEADERS``.

    A web page of another site can make a browser send requests to 127.0.0.1. It can read the
    responses if its own host name resolves to 127.0.0.1 (DNS rebinding). Then the header ``Host``
    has that name, and the request is rejected. A page of another site that uses the address
    itself cannot read the responses, but its requests could take the places of all viewers. So it
    may only link to the page.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        """Pass requests for one of ``hosts``, names without ports, to ``app``."""
        self._app = app
        self._hosts = frozenset(host.casefold() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await (self._rejection(scope) or self._app)(scope, receive, send_with_headers)

    def _rejection(self, scope: Scope) -> PlainTextResponse | None:
        if scope["method"] not in _METHODS:
            return PlainTextResponse(
                f"method: {scope['method']} is not allowed; the page only reads: use GET\n",
                HTTPStatus.METHOD_NOT_ALLOWED,
                {"Allow": "GET, HEAD"},
            )
        headers = Headers(scope=scope)
        if host_name(headers.get("host", "")) not in self._hosts:
            return PlainTextResponse(
                "Host: this name is not allowed; use the address that gputopo web has printed, "
                "or add the name to web.allowedHosts of the chart\n",
                HTTPStatus.MISDIRECTED_REQUEST,
            )
        if _is_of_another_site(headers):
            return PlainTextResponse(
                "Sec-Fetch-Site: requests of other sites are not allowed; open the page itself\n",
                HTTPStatus.FORBIDDEN,
            )
        return None


def _is_of_another_site(headers: Headers) -> bool:
    """Return whether a browser sent the request for a page of another site; not for links."""
    site, mode = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode")
    return site in _OTHER_SITES and mode != "navigate"


def host_name(header: str) -> str:
    """Return the host of a ``Host`` header without the port.

    >>> [host_name(text) for text in ("LocalHost:8080", "[::1]:80", "a.b", "")]
    ['localhost', '[::1]', 'a.b', '']
    """
    text = header.strip().casefold()
    if text.startswith("["):
        return text[: text.find("]") + 1]
    return text.partition(":")[0]
