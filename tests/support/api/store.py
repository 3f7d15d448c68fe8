"""The objects of the fake API server: versions, changes, generations and owners."""

import copy
import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Document = dict[str, Any]

PODS, TOPOLOGIES, LEASES = "pods", "gputopologies", "leases"
NODES, SLICES = "nodes", "resourceslices"

CLUSTER_SCOPED = frozenset(
    {"customresourcedefinitions", "gputopologies", "namespaces", "nodes", "resourceslices"}
)


class Key(NamedTuple):
    """Where an object is; ``namespace`` is empty for kinds of the cluster."""

    plural: str
    namespace: str
    name: str


class Change(NamedTuple):
    """One change; ``type`` is the type of the watch event."""

    version: int
    type: str
    key: Key
    document: Document


@dataclass(frozen=True, slots=True)
class Backup:
    """All objects and the version of the newest change at one time."""

    version: int
    objects: dict[Key, Document]


@dataclass(slots=True)
class Store:
    """Objects by key. Methods may be called from any thread; documents are copied in and out.

    Attributes:
        objects: read them, but change them through the methods, which report the change.
        version: resource version of the newest change.
        oldest: watches from versions before this one get 410.
    """

    objects: dict[Key, Document] = field(default_factory=dict)
    version: int = 100
    oldest: int = 0
    _log: list[Change] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _listeners: set[Callable[[], None]] = field(default_factory=set)
    _uids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def get(self, plural: str, name: str, namespace: str = "default") -> Document | None:
        """Return an object, None if there is none."""
        with self._lock:
            return copy.deepcopy(self.objects.get(key_of(plural, name, namespace)))

    def all(self, plural: str) -> list[Document]:
        """Return all objects of a kind in the order of their creation."""
        with self._lock:
            return [copy.deepcopy(it) for key, it in self.objects.items() if key.plural == plural]

    def create(self, plural: str, document: Document) -> Document | None:
        """Store a new object with the fields that a server adds; None if the name is taken."""
        document = copy.deepcopy(document)
        metadata = document["metadata"]
        with self._lock:
            number = next(self._uids)
            if "name" not in metadata:
                metadata["name"] = f"{metadata['generateName']}{number}"
            key = _own_key(plural, metadata)
            if key in self.objects:
                return None
            metadata.setdefault("uid", f"uid-{metadata['name']}-{number}")
            metadata.setdefault(
                "creationTimestamp", f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z"
            )
            metadata.setdefault("generation", 1)
            return self._store(key, "ADDED", document)

    def put(self, plural: str, document: Document) -> Document:
        """Create or replace an object; nothing is added but its version."""
        document = copy.deepcopy(document)
        key = _own_key(plural, document["metadata"])
        with self._lock:
            return self._store(key, "MODIFIED" if key in self.objects else "ADDED", document)

    def change(
        self, plural: str, name: str, change: Callable[[Document], None], namespace: str = "default"
    ) -> Document:
        """Change an object in place.

        A changed spec gets a new generation; an object that stays equal keeps its version.
        """
        key = key_of(plural, name, namespace)
        with self._lock:
            before = self.objects[key]
            document = copy.deepcopy(before)
            change(document)
            if document == before:
                return document
            if document.get("spec") != before.get("spec") and "generation" in before["metadata"]:
                document["metadata"]["generation"] += 1
            return self._store(key, "MODIFIED", document)

    def delete(
        self, plural: str, name: str, namespace: str = "default", *, cascade: bool = True
    ) -> None:
        """Delete an object and, with ``cascade``, what it owns."""
        key = key_of(plural, name, namespace)
        with self._lock:
            document = copy.deepcopy(self.objects[key])
            self._store(key, "DELETED", document)
            uid = document["metadata"].get("uid")
            for other in [
                other
                for other, it in self.objects.items()
                for owner in it["metadata"].get("ownerReferences", ())
                if owner["uid"] == uid and cascade
            ]:
                self.delete(other.plural, other.name, other.namespace)

    def backup(self) -> Backup:
        """Return all objects as they are now."""
        with self._lock:
            return Backup(self.version, copy.deepcopy(self.objects))

    def restore(self, backup: Backup) -> None:
        """Go back to a backup as a restored etcd does: its versions are used again.

        Watches stay open, as behind a proxy; their versions are now of the future.
        """
        with self._lock:
            self.version, self.objects = backup.version, copy.deepcopy(backup.objects)
            self._log = [change for change in self._log if change.version <= backup.version]
        self.wake()

    def compact(self) -> None:
        """Forget all changes until now: watches that begin before them get 410."""
        with self._lock:
            self.oldest = self.version

    def changes(self, plural: str, since: int) -> list[Change]:
        """Return the changes of a kind after a version."""
        with self._lock:
            return [
                change
                for change in self._log
                if change.version > since and change.key.plural == plural
            ]

    def before(self, change: Change) -> Document | None:
        """Return an object as it was before a change; None if it was created then."""
        with self._lock:
            older = [it for it in self._log if it.key == change.key and it.version < change.version]
        return None if not older or older[-1].type == "DELETED" else older[-1].document

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` after every change, in the changing thread.

        Returns:
            A function that ends this.
        """
        with self._lock:
            self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def wake(self) -> None:
        """Call all listeners."""
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def _store(self, key: Key, change: str, document: Document) -> Document:
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)
        if change == "DELETED":
            del self.objects[key]
        else:
            self.objects[key] = document
        self._log.append(Change(self.version, change, key, copy.deepcopy(document)))
        self.wake()
        return copy.deepcopy(document)


def key_of(plural: str, name: str, namespace: str = "default") -> Key:
    """Return the key of an object; the namespace is ignored for kinds of the cluster."""
    return Key(plural, "" if plural in CLUSTER_SCOPED else namespace, name)


def _own_key(plural: str, metadata: Document) -> Key:
    if plural in CLUSTER_SCOPED:
        metadata.pop("namespace", None)
    else:
        metadata.setdefault("namespace", "default")
    return key_of(plural, metadata["name"], metadata.get("namespace", ""))
