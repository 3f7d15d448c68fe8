"""The tools know all objects again after a watch was lost."""

import threading
from collections.abc import Iterator
from typing import cast

from soaktest.client import Client, Object, RejectedError, UnavailableError
from soaktest.list_watch import ListWatch


def pod(name: str, version: int) -> Object:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}


class LostWatches:
    """An API server whose first watch breaks, whose second is too old, and whose third lasts."""

    def __init__(self) -> None:
        self.lists = iter([[pod("a", 1)], [pod("c", 9)]])
        self.versions: list[str] = []
        self.third = threading.Event()

    def get(self, path: str, **query: str) -> Object:
        assert (path, query) == ("/api/v1/pods", {"fieldSelector": "spec.nodeName=n1"})
        items = next(self.lists)
        return {"items": items, "metadata": {"resourceVersion": "9" if len(self.versions) else "1"}}

    def watch(self, _path: str, version: str, **_query: str) -> Iterator[tuple[str, Object]]:
        self.versions.append(version)
        if len(self.versions) == 1:
            yield "ADDED", pod("b", 2)
            raise UnavailableError("connection lost")
        if len(self.versions) == 2:
            raise RejectedError(410, "too old resource version")
        yield "DELETED", pod("c", 10)
        self.third.set()


def test_a_lost_watch_goes_on_and_a_watch_that_is_too_old_lists_again() -> None:
    server, calls = LostWatches(), list[tuple[str, bool | None]]()

    def replace(listed: list[Object]) -> None:
        calls.extend((each["metadata"]["name"], None) for each in listed)

    def fold(found: Object, *, gone: bool) -> None:
        calls.append((found["metadata"]["name"], gone))

    client = cast("Client", server)
    watch = ListWatch(client, "/api/v1/pods", replace=replace, fold=fold, fields="spec.nodeName=n1")
    with watch:
        assert calls[0] == ("a", None)  # the list was passed on before the block began
        assert server.third.wait(10)
    assert server.versions[:3] == ["1", "2", "9"]
    assert calls[:4] == [("a", None), ("b", False), ("c", None), ("c", True)]
