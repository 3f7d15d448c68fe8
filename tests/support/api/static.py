"""An API server that returns the documents and errors of a test, by path."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Document = dict[str, Any]


@dataclass(slots=True)
class StaticApi:
    """The responses of the server; all other paths are 404.

    Attributes:
        lists: items by path; the label selector ``name=value`` is applied.
        objects: single documents by path.
        rejections: status and body by path, before all other responses.
        page_size: maximum number of items in one response.
    """

    lists: dict[str, list[Document]] = field(default_factory=dict)
    objects: dict[str, Document] = field(default_factory=dict)
    rejections: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    page_size: int = 500
    url: str = ""

    def forbid(self, path: str, message: str) -> None:
        """Respond with 403 and a message."""
        self.rejections[path] = (403, json.dumps({"message": message}).encode())

    def respond(self, address: str) -> tuple[int, bytes]:
        """Return status and body for a path with its query."""
        parts = urlsplit(address)
        path = unquote(parts.path)
        if path in self.rejections:
            return self.rejections[path]
        if path in self.lists:
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            return 200, json.dumps(self._page(path, query)).encode()
        if path in self.objects:
            return 200, json.dumps(self.objects[path]).encode()
        return 404, json.dumps({"message": f"{path} is not here"}).encode()

    def _page(self, path: str, query: dict[str, str]) -> Document:
        name, _, value = query.get("labelSelector", "").partition("=")
        items = [
            item
            for item in self.lists[path]
            if not name or item["metadata"].get("labels", {}).get(name) == value
        ]
        start = int(query.get("continue", "0"))
        end = start + min(self.page_size, int(query["limit"]))
        metadata = {"continue": str(end)} if end < len(items) else {}
        return {"kind": "List", "metadata": metadata, "items": items[start:end]}


@contextmanager
def serving(api: StaticApi) -> Iterator[StaticApi]:
    """Serve ``api`` on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's
            """Write no log."""

        def do_GET(self) -> None:
            status, body = api.respond(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def write_kubeconfig(path: Path, url: str) -> Path:
    """Write a kubeconfig for a server without authentication."""
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    return path
