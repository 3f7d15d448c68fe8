"""An API server that says what a test wrote down: documents and refusals, by path."""

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
class CannedApi:
    """What is answered. Everything else is 404.

    Attributes:
        lists: items by path; the label selector ``name=value`` is obeyed.
        objects: single documents by path.
        refusals: status and body by path; they win.
        page_size: the most items of one answer.
    """

    lists: dict[str, list[Document]] = field(default_factory=dict)
    objects: dict[str, Document] = field(default_factory=dict)
    refusals: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    page_size: int = 500
    url: str = ""

    def forbid(self, path: str, message: str) -> None:
        """Answer 403 with a reason."""
        self.refusals[path] = (403, json.dumps({"message": message}).encode())

    def answer(self, address: str) -> tuple[int, bytes]:
        """Return status and body for a path with its query."""
        parts = urlsplit(address)
        path = unquote(parts.path)
        if path in self.refusals:
            return self.refusals[path]
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
def serving(api: CannedApi) -> Iterator[CannedApi]:
    """Serve ``api`` on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's
            """Say nothing."""

        def do_GET(self) -> None:
            status, body = api.answer(self.path)
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
    """Write a kubeconfig for a server that asks nobody who they are."""
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
