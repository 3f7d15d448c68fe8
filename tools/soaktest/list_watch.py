"""Lists and watches objects in a thread, also across restarts of the API server."""

import threading
import time
from collections.abc import Callable
from typing import Protocol, Self

from soaktest.client import Client, Object, RejectedError, UnavailableError

_PAUSE_SECONDS = 0.3


class Fold(Protocol):
    """A function that receives changed objects."""

    def __call__(self, found: Object, *, gone: bool) -> None:
        """Receive a changed object, or the last state of a deleted one."""


class ListWatch:
    """Calls one function with each list of objects, and another one with each later change.

    A new list replaces all that was known before: after a lost watch, the objects that are missing
    from the list are gone. Use it as a context manager.
    """

    def __init__(
        self,
        client: Client,
        path: str,
        *,
        replace: Callable[[list[Object]], None],
        fold: Fold,
        fields: str = "",
    ) -> None:
        """Watch ``path``, restricted to the field selector ``fields``.

        Args:
            client: client of the API server.
            path: path of the list.
            replace: called with all objects of a list.
            fold: called with each changed object.
            fields: field selector; all objects if empty.
        """
        self._client, self._path = client, path
        self._replace, self._fold = replace, fold
        self._query = {"fieldSelector": fields} if fields else {}
        self._version = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="list and watch", daemon=True)

    def __enter__(self) -> Self:
        """Begin. The first list has been passed on when this returns."""
        self._list()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop. The last watch has ended when this returns."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                if not self._version:
                    self._list()
                for kind, found in self._client.watch(self._path, self._version, **self._query):
                    self._version = found["metadata"]["resourceVersion"]
                    self._fold(found, gone=kind == "DELETED")
            except RejectedError:
                self._version = ""
                time.sleep(_PAUSE_SECONDS)
            except UnavailableError:
                time.sleep(_PAUSE_SECONDS)

    def _list(self) -> None:
        listed = self._client.get(self._path, **self._query)
        self._replace(listed["items"])
        self._version = listed["metadata"]["resourceVersion"]
