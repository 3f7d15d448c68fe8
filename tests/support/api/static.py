"""An API server that returns the documents and errors of a test, by path."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from support.api import rest
from support.api.server import ApiServer, serving_in_thread
from support.api.store import Document

__all__ = ["Document", "StaticApi", "serving"]


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

    def respond(self, path: str, query: Mapping[str, str]) -> rest.Reply:
        """Return the response to a GET request."""
        if path in self.rejections:
            return rest.Reply(*self.rejections[path])
        if path in self.lists:
            items = [it for it in self.lists[path] if rest.has_labels(it, query)]
            return rest.Reply(200, rest.page(items, query, self.page_size, "1"))
        if path in self.objects:
            return rest.Reply(200, self.objects[path])
        return rest.failure(404, "NotFound", f"{path} is not here")


@dataclass(slots=True)
class _StaticServer(ApiServer):
    """The shared server with the responses of a ``StaticApi``."""

    static: StaticApi = field(default_factory=StaticApi)
    has_discovery: bool = False

    def respond(self, request: rest.Request) -> rest.Reply:
        return self.static.respond(request.path, request.query)


@contextmanager
def serving(api: StaticApi) -> Iterator[StaticApi]:
    """Serve ``api`` on a free port of this machine."""
    with serving_in_thread(_StaticServer(static=api)) as server:
        api.url = server.url
        yield api
