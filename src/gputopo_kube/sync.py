"""Blocking requests to the API server, for the operator's threads and the command line.

Objects are dicts with the JSON of the API, and callers name the objects by URL path.
"""

import json
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from gputopo_kube.blocking_http import HttpRequest, HttpResponse, PatchType, Send
from gputopo_kube.document import Document
from gputopo_kube.errors import NotFoundError, UnavailableError, error_of_status

_PAGE_SIZE: Final = 500
_LONGEST_MESSAGE: Final = 1000
_NO_NAMES: Final = frozenset({"", ".", ".."})


class SyncApi:
    """Sends requests to the API server. If a request fails, its method raises ``ApiError``.

    Callers pass the parts of a path, for example ``"api", "v1", "pods"``. The methods
    percent-encode each part. The methods are thread-safe if ``send`` is thread-safe.
    """

    def __init__(self, send: Send, server: str) -> None:
        """Send requests by ``send``. Error messages name ``server``, the API server's URL."""
        self._send = send
        self._server = server

    def get(self, *path: str, **query: str) -> Document:
        """Return the object at a path."""
        return self.request("GET", path, query=query)

    def find(self, *path: str) -> Document | None:
        """Return the object at a path, or None if the object does not exist.

        Its name may come from a label of a user. An empty one would return the list.
        """
        if path[-1] in _NO_NAMES:
            return None
        try:
            return self.get(*path)
        except NotFoundError:
            return None

    def list(self, *path: str, selector: str = "", fields: str = "") -> list[Document]:
        """Read a list page by page; return the objects that match label and field selectors."""
        return [*self.each(*path, selector=selector, fields=fields)]

    def each(
        self, *path: str, selector: str = "", fields: str = "", page_size: int = _PAGE_SIZE
    ) -> Iterator[Document]:
        """Yield the objects of a list that match a label ``selector`` and a selector of ``fields``.

        Only one page of ``page_size`` objects is in memory at a time.
        """
        for page in self.pages(*path, selector=selector, fields=fields, page_size=page_size):
            yield from page.get("items") or ()

    def pages(
        self, *path: str, selector: str = "", fields: str = "", page_size: int = _PAGE_SIZE
    ) -> Iterator[Document]:
        """Yield the pages of a list. All pages have the resource version of the list."""
        query = {"limit": str(page_size)}
        query |= {"labelSelector": selector} if selector else {}
        query |= {"fieldSelector": fields} if fields else {}
        while True:
            page = self.get(*path, **query)
            yield page
            query["continue"] = (page.get("metadata") or {}).get("continue") or ""
            if not query["continue"]:
                return

    def request(
        self,
        method: str,
        path: tuple[str, ...],
        body: Document | None = None,
        query: Mapping[str, str] | None = None,
        patch_type: PatchType = "merge-patch",
    ) -> Document:
        """Send a request to the API server; return the JSON object of the response."""
        encoded = "/" + "/".join(quote(part, safe="") for part in path)
        response = self._send(HttpRequest(method, encoded, query or {}, body, patch_type))
        document = _decode(response.body)
        if not HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
            reason = str((document or {}).get("reason", ""))
            raise error_of_status(response.status, _message(response, document), reason)
        if document is None:
            raise UnavailableError(
                f"{self._server}: {method} {encoded}: the response is not a JSON object"
            )
        return document


def _decode(body: bytes) -> Document | None:
    """Return a response's JSON object; None if it is other text, such as a proxy's error page."""
    try:
        document = json.loads(body)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _message(response: HttpResponse, document: Document | None) -> str:
    """Return the reason of a failed request; the text is never empty."""
    reason = response.reason or "no reason given"
    if document is not None:
        return str(document.get("message") or reason)
    text = response.body.decode(errors="replace").strip()[:_LONGEST_MESSAGE]
    return f"{reason}: {text}" if text else reason
