"""A queue whose namespaces take turns, so that one with many objects does not delay the others."""

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from gputopo_kube.document import ObjectKey

KeyType = TypeVar("KeyType", bound=Hashable)


class FairQueue(asyncio.Queue[KeyType], Generic[KeyType]):
    """Returns one key of each namespace in turn; keys of one namespace in the order of their entry.

    Keys without a namespace have one turn together.
    """

    def _init(self, maxsize: int) -> None:  # noqa: ARG002 - as asyncio calls it
        self._turns: deque[str] = deque()
        self._keys: dict[str, deque[KeyType]] = {}

    def qsize(self) -> int:
        """Return the number of keys."""
        return sum(map(len, self._keys.values()))

    def empty(self) -> bool:
        """Return whether there is no key."""
        return not self._keys

    def _put(self, item: KeyType) -> None:
        namespace = item.namespace if isinstance(item, ObjectKey) else ""
        if namespace not in self._keys:
            self._keys[namespace] = deque()
            self._turns.append(namespace)
        self._keys[namespace].append(item)

    def _get(self) -> KeyType:
        namespace = self._turns.popleft()
        keys = self._keys[namespace]
        key = keys.popleft()
        if keys:
            self._turns.append(namespace)
        else:
            del self._keys[namespace]
        return key
