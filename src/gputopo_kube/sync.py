"""Blocking requests to the API server, for the operator's threads and the command line.

Objects are dicts, addressed by URL path. Typed models would reject objects of newer servers.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from gputopo_kube.blocking_http import HttpRequest, HttpResponse, Send
from gputopo_kube.document import Document
from gputopo_kube.errors import NotFoundError, UnavailableError, error_of_status

_PAGE_SIZE: Final = 500
_LONGEST_MESSAGE: Final = 1000


class SyncApi:
    """Requests to the API server. Every method raises ``ApiError`` if its request fails.

    Callers pass a path as its parts; the methods percent-encode the parts. The methods are
    thread-safe if ``send`` is.
    """

    def __init__(self, send: Send, server: str) -> None:
        """Send requests with ``send``; ``server`` is the URL of the server, for messages."""
        self._send = send
        self._server = server

    def get(self, *path: str, **query: str) -> Document:
        """Return the object at a path."""
        return self.request("GET", path, query=query)

    def find(self, *path: str) -> Document | None:
        """Return the object at a path, None if it does not exist."""
        try:
            return self.get(*path)
        except NotFoundError:
            return None

    def list(self, *path: str, selector: str = "") -> list[Document]:
        """Return the objects at a path that match a label selector; read the list page by page."""
        query = {"limit": str(_PAGE_SIZE), **({"labelSelector": selector} if selector else {})}
        items: list[Document] = []
        while True:
            page = self.get(*path, **query)
            items += page.get("items") or ()
            following = (page.get("metadata") or {}).get("continue")
            if not following:
                return items
            query["continue"] = following

    def request(
        self,
        method: str,
        path: tuple[str, ...],
        body: Document | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Document:
        """Return the object that the API server responds with."""
        encoded = "/" + "/".join(quote(part, safe="") for part in path)
        response = self._send(HttpRequest(method, encoded, query or {}, body))
        document = _decode(response.body)
        if not HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
            raise error_of_status(response.status, _message(response, document))
        if document is None:
            raise UnavailableError(
                f"{self._server}: {method} {encoded}: the response is not a JSON object"
            )
        return document


def _decode(body: bytes) -> Document | None:
    """Return the JSON object, None if the body is not a JSON object (a proxy's page)."""
    try:
        document = json.loads(body)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _message(response: HttpResponse, document: Document | None) -> str:
    """Return why the request failed; never an empty text."""
    reason = response.reason or "no reason given"
    if document is not None:
        return str(document.get("message") or reason)
    text = response.body.decode(errors="replace").strip()[:_LONGEST_MESSAGE]
    return f"{reason}: {text}" if text else reason
