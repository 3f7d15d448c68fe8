"""Pods and topologies of an installation, for tests of ``helm test``."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

Document = dict[str, Any]


def chart_pod(
    component: str, name: str = "", *, ip: str = "10.0.0.1", ready: bool = True, **status: Any
) -> Document:
    """Return a running pod of the chart; ``status`` replaces fields of its status."""
    return {
        "metadata": {
            "name": name or f"gputopo-{component}-0",
            "labels": {"app.kubernetes.io/component": component},
        },
        "status": {
            "phase": "Running",
            "podIP": ip,
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": str(ready), "message": "containers not ready"},
            ],
            **status,
        },
    }


def node_topology(
    name: str, healthy: tuple[bool, ...], ready: str = "True", reason: str = "Serving"
) -> Document:
    """Return the GPUTopology of a node."""
    condition = {"type": "Ready", "status": ready, "reason": reason, "message": "a message"}
    gpus = [{"uuid": f"GPU-{number}", "healthy": each} for number, each in enumerate(healthy)]
    return {"metadata": {"name": name}, "status": {"conditions": [condition], "gpus": gpus}}


@contextmanager
def probe_server(*failing: str) -> Iterator[int]:
    """Serve 200 on every path of a free port, and 503 on the ``failing`` paths."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(503 if self.path in failing else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
