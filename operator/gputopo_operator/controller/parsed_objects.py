"""Keeps the parsed newest version of each object of one kind, from a watch and a periodic list."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gputopo.runtime.log import fields
from gputopo_kube.document import Document
from gputopo_operator.parse.readable import UNREADABLE

Value = TypeVar("Value")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ObjectChange(Generic[Value]):
    """How an object has changed, by its name or ``NAMESPACE/NAME``; None is no readable object."""

    name: str
    before: Value | None
    after: Value | None


@dataclass(frozen=True, slots=True)
class _Parsed(Generic[Value]):
    """An object, and the UID and version of what was parsed."""

    uid: str | None
    version: str | None
    value: Value


class ParsedObjects(Generic[Value]):
    """The parsed newest version of each object of one kind.

    Any thread may call the methods, except ``subscribe``, ``follow``, ``read`` and ``publish``.

    Attributes:
        is_read: whether a list of all objects was read. Before, an object may only be unknown.
    """

    def __init__(self, parse: Callable[[Document], Value]) -> None:
        self._parse = parse
        self._subscribers: list[Callable[[ObjectChange[Value]], None]] = []
        self._lock = threading.Lock()
        self._found: dict[str, _Parsed[Value]] = {}
        self._changed: set[str] | None = None
        self.is_read = False

    def subscribe(self, on_change: Callable[[ObjectChange[Value]], None]) -> None:
        """Call a function in the event loop after each change of an object."""
        self._subscribers.append(on_change)

    def follow(self, event: Mapping[str, Any]) -> None:
        """Store the object of a watch event, and call the subscribers if it has changed."""
        raw = dict(event["object"])
        change = self.drop(raw) if event["type"] == "DELETED" else self.replace(raw)
        self.publish([] if change is None else [change])

    async def read(self, objects: Callable[[], Iterable[Document]]) -> None:
        """Replace all objects by those of a list, in a thread; call the subscribers for changes.

        Raises:
            ApiError: a request failed; the objects stay as they are.
        """
        self.begin_list()
        listed = await asyncio.to_thread(lambda: self._parsed_list(objects()))
        # No event comes between the change and its report.
        self.publish(self._replace(listed))

    def publish(self, changes: Iterable[ObjectChange[Value]]) -> None:
        """Call the subscribers for changes."""
        for change in changes:
            for on_change in self._subscribers:
                on_change(change)

    def values(self) -> dict[str, Value]:
        """Return the parsed objects, by name, or by ``NAMESPACE/NAME``."""
        with self._lock:
            return {name: each.value for name, each in self._found.items()}

    def get(self, name: str) -> Value | None:
        """Return a parsed object; None if it does not exist or cannot be parsed."""
        with self._lock:
            found = self._found.get(name)
        return None if found is None else found.value

    def replace(self, raw: Document) -> ObjectChange[Value] | None:
        """Parse and store an object; return how it has changed, or None if it has not."""
        name, after = _name(raw), self._parsed(raw)
        with self._lock:
            before = self._found.pop(name, None)
            self._found |= after
            self._note(name)
        return _change(name, before, after.get(name))

    def drop(self, raw: Document) -> ObjectChange[Value] | None:
        """Forget a deleted object. An object that was created after it with its name stays.

        kopf keeps the order of the events of one object only: this event may come after the
        creation of the next object.
        """
        name = _name(raw)
        with self._lock:
            if name in self._found and self._found[name].uid != _uid(raw):
                return None
            before = self._found.pop(name, None)
            self._note(name)
        return _change(name, before, None)

    def begin_list(self) -> None:
        """Record that the objects for ``replace_all`` are read from now on."""
        with self._lock:
            self._changed = set()

    def replace_all(self, raws: Iterable[Document]) -> list[ObjectChange[Value]]:
        """Parse and store the objects of a list, forget all others, and return what has changed.

        Objects that have changed since ``begin_list`` stay as they are. All pages of a list show
        the state before its first page, and a list of thousands of nodes takes seconds.
        """
        return self._replace(self._parsed_list(raws))

    def _parsed_list(self, raws: Iterable[Document]) -> dict[str, _Parsed[Value]]:
        found: dict[str, _Parsed[Value]] = {}
        for raw in raws:
            found |= self._parsed(raw)
        return found

    def _replace(self, after: dict[str, _Parsed[Value]]) -> list[ObjectChange[Value]]:
        with self._lock:
            before = self._found
            for name in self._changed or ():
                after.pop(name, None)
                if name in before:
                    after[name] = before[name]
            self._found, self._changed, self.is_read = after, None, True
            found = [_change(name, before.get(name), after.get(name)) for name in before | after]
        return [change for change in found if change is not None]

    def _parsed(self, raw: Document) -> dict[str, _Parsed[Value]]:
        """Return the parsed object by its name; empty if it cannot be parsed.

        A list of all nodes has few objects that have changed since the list before.
        """
        name, uid, version = _name(raw), _uid(raw), raw["metadata"].get("resourceVersion")
        known = self._found.get(name)
        if known is not None and version and (known.uid, known.version) == (uid, version):
            return {name: known}
        try:
            return {name: _Parsed(uid, version, self._parse(raw))}
        except UNREADABLE as error:
            found = {"kind": raw.get("kind"), "object": name, "reason": repr(error)}
            _log.warning("object not readable, left out %s", fields(**found))
            return {}

    def _note(self, name: str) -> None:
        if self._changed is not None:
            self._changed.add(name)


def _change(
    name: str, before: _Parsed[Value] | None, after: _Parsed[Value] | None
) -> ObjectChange[Value] | None:
    old = None if before is None else before.value
    new = None if after is None else after.value
    return None if old == new else ObjectChange(name, old, new)


def _uid(raw: Document) -> str | None:
    uid: str | None = raw["metadata"].get("uid")
    return uid


def _name(raw: Document) -> str:
    metadata = raw["metadata"]
    parts = (metadata.get("namespace"), metadata["name"])
    return "/".join(part for part in parts if part)
