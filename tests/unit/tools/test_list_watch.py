"""The tools know all objects again after a watch was lost."""

import threading
import time
from collections.abc import Iterator
from typing import cast

import pytest

from soaktest.client import Client, Object, RejectedError, UnavailableError
from soaktest.first_seen import FirstSeen
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
        assert server.third.wait(60)
    assert server.versions[:3] == ["1", "2", "9"]
    assert calls[:4] == [("a", None), ("b", False), ("c", None), ("c", True)]


class Bound:
    """An API server that shows pod a three times, and the others once."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def get(self, _path: str, **_query: str) -> Object:
        return {"items": [pod("a", 1)], "metadata": {"resourceVersion": "1"}}

    def watch(self, _path: str, _version: str, **_query: str) -> Iterator[tuple[str, Object]]:
        yield from [("MODIFIED", pod("a", 2)), ("ADDED", pod("b", 3)), ("DELETED", pod("a", 4))]
        yield "DELETED", pod("c", 5)
        self.over.set()


def test_each_object_counts_once_when_it_is_first_seen() -> None:
    server, began = Bound(), time.monotonic()
    client = cast("Client", server)
    with FirstSeen(client, "/api/v1/pods", lambda _: True) as seen:
        times = seen.wait(2, seconds=60)
        assert server.over.wait(60)
        assert len(seen) == 2
        assert seen.wait(3, seconds=0) == times
    assert began <= times[0] <= times[1] <= time.monotonic()


def test_no_object_within_the_time_is_an_error() -> None:
    client = cast("Client", Bound())
    with (
        FirstSeen(client, "/api/v1/pods", lambda _: False) as seen,
        pytest.raises(TimeoutError, match="no object in 0 s"),
    ):
        seen.wait(1, seconds=0)
