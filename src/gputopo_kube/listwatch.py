"""What a list and a watch of one kind of object return. No client library."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from gputopo_kube.document import Document

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Listing(Generic[Item]):
    """The objects that a list request returned, and the resource version of the list."""

    items: list[Item]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[Item]):
    """One change in a watch. ``item`` is the changed object, or the last state of a deleted one."""

    item: Item
    deleted: bool
    metadata: Document = field(default_factory=dict)


class ListWatchSource(Protocol[Item]):
    """Lists and watches the objects of one kind."""

    async def list(self) -> Listing[Item]:
        """Return all objects."""
        ...

    def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[Item], None]:
        """Yield the changes after ``resource_version``."""
        ...
