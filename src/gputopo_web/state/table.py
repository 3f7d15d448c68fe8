"""The objects of one kind, as the last list and the changes since then report them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gputopo_kube.document import ObjectKey
from gputopo_kube.listwatch import Listing, WatchEvent

Item = TypeVar("Item")


@dataclass(slots=True)
class WatchedObjects(Generic[Item]):
    """Objects by key.

    A parsed object is a key and an item. The item is None if the page does not show the object.

    Attributes:
        on_change: receives the old and the new item of each object that has changed.
        on_first_list: called after the first list, also if it has no objects.
        error: why the objects cannot be read now; None if they can.
        listed: whether the objects have been read at least once.
    """

    on_change: Callable[[Item | None, Item | None], None]
    on_first_list: Callable[[], None] = lambda: None
    items: dict[ObjectKey, Item] = field(default_factory=dict)
    error: str | None = None
    listed: bool = False

    def replace(self, listing: Listing[tuple[ObjectKey, Item | None]]) -> None:
        """Take the objects of a list; objects that are not in the list are gone."""
        first, self.listed, self.error = not self.listed, True, None
        present = {key for key, item in listing.items if item is not None}
        for key in self.items.keys() - present:
            self.on_change(self.items.pop(key), None)
        for key, item in listing.items:
            self._set(key, item)
        if first:
            self.on_first_list()

    def apply(self, event: WatchEvent[tuple[ObjectKey, Item | None]]) -> None:
        """Take one change of a watch."""
        key, item = event.item
        self._set(key, None if event.deleted else item)

    def _set(self, key: ObjectKey, item: Item | None) -> None:
        before = self.items.get(key)
        if item is None:
            self.items.pop(key, None)
        else:
            self.items[key] = item
        if before is not None or item is not None:
            self.on_change(before, item)
