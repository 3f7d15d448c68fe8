"""Defines the HTTP requests and responses of the blocking clients."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from gputopo_kube.document import Document

PatchType: TypeAlias = Literal["merge-patch", "strategic-merge-patch"]
"""A merge patch replaces a list; a strategic merge patch changes the list's entries by name."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request. ``path`` is already percent-encoded; ``body`` is sent as JSON."""

    method: str
    path: str
    query: Mapping[str, str]
    body: Document | None
    patch_type: PatchType = "merge-patch"

    @property
    def headers(self) -> dict[str, str]:
        """Headers with the media types of the request body and of the expected response."""
        patch = self.method == "PATCH"
        content = f"application/{self.patch_type}+json" if patch else "application/json"
        return {"Accept": "application/json", "Content-Type": content}


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response of the API server with any status, also an error."""

    status: int
    reason: str
    body: bytes


Send: TypeAlias = Callable[[HttpRequest], HttpResponse]
"""Returns the response to a request; raises ``UnavailableError`` if there is no response."""


class ResponseStream(Protocol):
    """A response whose body arrives in parts."""

    status: int
    reason: str

    def parts(self) -> Iterator[bytes]:
        """Yield the parts of the body; raise ``UnavailableError`` if the connection is lost."""
        ...

    def close(self) -> None:
        """Close the connection. Any thread may call this, also while another thread reads."""
        ...


OpenStream: TypeAlias = Callable[[HttpRequest], ResponseStream]
"""Sends a request and returns its response before the body is complete."""
