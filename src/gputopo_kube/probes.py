"""``/livez``, ``/readyz`` and ``/metrics``, from a thread: a stuck event loop must show."""

import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

LATE_SECONDS = 30.0
SILENCE_SECONDS = 10.0
"""A client that says nothing for so long loses its connection: each one holds a thread."""


class Pulse:
    """Whether the agent is alive: its event loop runs and no call that it needs hangs."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Start alive and not ready."""
        self._clock = clock
        self._beat_at = clock()
        self._hang: str | None = None
        self.ready = False

    def beat(self) -> None:
        """Say that the event loop moves."""
        self._beat_at = self._clock()

    def report_hang(self, reason: str | None) -> None:
        """Fail liveness with this reason; None ends it."""
        self._hang = reason

    @property
    def failure(self) -> str | None:
        """Why the agent is not alive, None where it is."""
        if self._clock() - self._beat_at >= LATE_SECONDS:
            return f"the event loop has not run for {LATE_SECONDS:g} s"
        return self._hang

    @property
    def alive(self) -> bool:
        """Whether nothing fails."""
        return self.failure is None


class Probes:
    """The HTTP server."""

    def __init__(
        self,
        host: str,
        port: int,
        pulse: Pulse,
        registry: CollectorRegistry,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        """Listen at once; port 0 takes any free port."""

        class Handler(_Handler):
            timeout = silence_seconds
            answers: ClassVar = {
                "/livez": lambda: _answer(pulse.failure),
                "/readyz": lambda: _answer(None if pulse.ready else "not ready"),
                "/metrics": lambda: (
                    HTTPStatus.OK,
                    CONTENT_TYPE_LATEST,
                    generate_latest(registry),
                ),
            }

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = Thread(target=self._server.serve_forever, name="probes", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    answers: ClassVar[dict[str, Callable[[], tuple[HTTPStatus, str, bytes]]]] = {}

    def do_GET(self) -> None:
        answer = self.answers.get(self.path)
        if answer is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        status, content_type, body = answer()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing: kubelet asks every few seconds."""


def _answer(failure: str | None) -> tuple[HTTPStatus, str, bytes]:
    if failure is None:
        return HTTPStatus.OK, "text/plain", b"ok\n"
    return HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", f"{failure}\n".encode()
