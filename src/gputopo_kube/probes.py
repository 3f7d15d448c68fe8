"""The HTTP server of ``/livez``, ``/readyz`` and ``/metrics`` for kubelet and Prometheus.

The server has its own threads, so it responds even if the event loop is stuck.
"""

import asyncio
import socket
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar, Final, TypeAlias, TypeVar

from prometheus_client import CONTENT_TYPE_LATEST

from gputopo_kube.listen import listen_address

LATE_SECONDS: Final = 30.0
SILENCE_SECONDS: Final = 10.0
"""How long a client may pause within a request. The limit frees the thread of the connection."""

_BEAT_SECONDS: Final = 1.0

_POLL_SECONDS: Final = 0.1
"""How often the server checks whether it must stop."""

Check: TypeAlias = Callable[[], str | None]
"""Returns the reason of a failure, None if there is no failure."""

Result = TypeVar("Result")


class Pulse:
    """Records whether a program is alive: its event loop runs, and the program reported no hang."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start as alive: the first beat is now."""
        self._clock = clock
        self._beat_at = clock()
        self._hang: str | None = None
        self.ready = False

    def beat(self) -> None:
        """Record that the event loop runs."""
        self._beat_at = self._clock()

    async def beat_until_cancelled(self) -> None:
        """Beat once a second, to show that the event loop runs."""
        while True:
            self.beat()
            await asyncio.sleep(_BEAT_SECONDS)

    def report_hang(self, reason: str | None) -> None:
        """Make the liveness probe fail with ``reason``. None lets the probe succeed again."""
        self._hang = reason

    @property
    def failure(self) -> str | None:
        """Why the program is not alive; None if the program is alive."""
        if self._clock() - self._beat_at >= LATE_SECONDS:
            return f"the event loop has not run for {LATE_SECONDS:g} s"
        return self._hang


def in_event_loop(function: Callable[[], Result]) -> Callable[[], Result]:
    """Return a wrapper with which other threads call ``function`` in the running event loop.

    The wrapper blocks while the event loop is stuck, so that kubelet's probe times out.
    """
    loop = asyncio.get_running_loop()

    async def call() -> Result:
        return function()

    return lambda: asyncio.run_coroutine_threadsafe(call(), loop).result()


class ProbeServer:
    """The HTTP server of the probes. It calls ``live`` and ``ready`` in its own threads."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        live: Check,
        ready: Check,
        metrics: Callable[[], bytes],
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        """Start to listen. Port 0 selects a free port. ``metrics`` returns Prometheus text.

        If ``host`` is empty, the server listens on all addresses, of IPv4 and IPv6.
        """
        address = listen_address(host)

        class Handler(_Handler):
            timeout = silence_seconds
            pages: ClassVar = {
                "/livez": lambda: _page(live()),
                # The path of the operator's probes in the chart.
                "/healthz": lambda: _page(live()),
                "/readyz": lambda: _page(ready()),
                "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_LATEST, metrics()),
            }

        class Server(ThreadingHTTPServer):
            address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
            daemon_threads = True

            def server_bind(self) -> None:
                if not host and self.address_family is socket.AF_INET6:
                    self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                super().server_bind()

        self._server = Server((address, port), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="probes", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    pages: ClassVar[dict[str, Callable[[], tuple[HTTPStatus, str, bytes]]]] = {}

    def do_GET(self) -> None:
        page = self.pages.get(self.path.partition("?")[0])
        if page is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        status, content_type, body = page()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Log nothing, because kubelet sends a request every few seconds."""


def _page(failure: str | None) -> tuple[HTTPStatus, str, bytes]:
    if failure is None:
        return HTTPStatus.OK, "text/plain", b"ok\n"
    return HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", f"{failure}\n".encode()
