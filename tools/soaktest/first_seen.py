"""When a watch first shows objects in a state, for example pods as Running."""

import time
from collections.abc import Callable
from typing import Self

from soaktest.client import Client, Object
from soaktest.list_watch import ListWatch

_LOOK_SECONDS = 0.002


class FirstSeen:
    """The monotonic times at which a watch showed each object of a list in a state.

    Use it as a context manager.
    """

    def __init__(self, client: Client, path: str, in_state: Callable[[Object], bool]) -> None:
        """Watch the objects of the list ``path``; ``in_state`` decides about each of them."""
        self._in_state = in_state
        self._seen: set[str] = set()
        self._times: list[float] = []
        self._watch = ListWatch(client, path, replace=self._replace, fold=self._fold)

    def __enter__(self) -> Self:
        """Begin; the objects that exist are known when this returns."""
        self._watch.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop."""
        self._watch.__exit__(*error)

    def __len__(self) -> int:
        """Return how many objects were in the state until now."""
        return len(self._times)

    def wait(self, count: int, seconds: float) -> list[float]:
        """Return all times, earliest first, once there are ``count``; at the latest after a time.

        Raises:
            TimeoutError: no object was in the state within ``seconds``.
        """
        until = time.monotonic() + seconds
        while len(self._times) < count and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
        if not self._times:
            raise TimeoutError(f"no object in {seconds:g} s")
        return list(self._times)

    def _replace(self, objects: list[Object]) -> None:
        for found in objects:
            self._fold(found, gone=False)

    def _fold(self, found: Object, *, gone: bool) -> None:
        uid = found["metadata"]["uid"]
        if not gone and uid not in self._seen and self._in_state(found):
            self._seen.add(uid)
            self._times.append(time.monotonic())
