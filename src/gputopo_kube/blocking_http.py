"""Defines the HTTP requests and responses of the blocking clients."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gputopo_kube.document import Document


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request. ``path`` is already percent-encoded; ``body`` is sent as JSON."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Document | None

    @property
    def headers(self) -> dict[str, str]:
        """Headers with the media types of the request body and of the expected response."""
        patch = self.method == "PATCH"
        content = "application/merge-patch+json" if patch else "application/json"
        return {"Accept": "application/json", "Content-Type": content}


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response of the API server with any status, also an error."""

    status: int
    reason: str
    body: bytes


Send: TypeAlias = Callable[[HttpRequest], HttpResponse]
"""Returns the response to a request; raises ``UnavailableError`` if there is no response."""
