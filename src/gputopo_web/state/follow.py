"""Keeps the state of the cluster up to date: one list-and-watch loop for each kind."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import Executor
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.errors import ApiError, DeniedError
from gputopo_kube.kubeconfig import Connection
from gputopo_kube.listwatch import Listing, ListWatchSource, WatchEvent
from gputopo_kube.reflector import ListWatchTiming, Reflector
from gputopo_kube.threaded import ThreadedSource
from gputopo_web.state.cluster import ClusterState, parse_topology
from gputopo_web.state.kinds import KINDS, WatchedKind
from gputopo_web.state.objects import parse_watched_pod

_TIMING: Final = ListWatchTiming(silence_seconds=600)
_MISSING: Final = (403, 404)
_REMEDIES: Final[Mapping[int | None, str]] = {
    401: "the credentials are not accepted any more: log in again",
    403: "ask for the permission to list and watch, see docs/use/web.md",
    404: "gputopo is not installed on this cluster, or is older than this page",
}

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Scope:
    """What of the cluster is read.

    Attributes:
        namespace: only objects of this namespace; None for all namespaces.
        resource: extended resource that counts the GPUs.
        installation: namespace of gputopo, whose settings are read; None if it is unknown.
    """

    namespace: str | None
    resource: str
    installation: str | None = None

    def path(self, kind: WatchedKind) -> tuple[str, ...]:
        """Return the path of the list of a kind."""
        return kind.path(self.installation if kind.own else self.namespace)


async def follow(
    state: ClusterState, connection: Connection, scope: Scope, threads: Executor
) -> None:
    """List and watch all kinds until cancelled; a kind that cannot be read stops no other."""
    async with asyncio.TaskGroup() as group:
        for kind in KINDS:
            source = ThreadedSource(
                connection.api,
                connection.open_stream,
                threads,
                scope.path(kind),
                _parser(kind, scope),
                {"labelSelector": kind.labels} if kind.labels else {},
            )
            group.create_task(reflector(kind, source, state).run())


def reflector(
    kind: WatchedKind, source: ListWatchSource[Any], state: ClusterState
) -> Reflector[Any]:
    """Return the loop that keeps the objects of one kind up to date."""
    table: Any = state.tables[kind.name]
    return Reflector(
        kind.name,
        _Reporting(source, lambda error: state.set_error(kind.name, error)),
        on_list=table.replace,
        on_event=table.apply,
        timing=_TIMING,
        unsupported=_MISSING,
    )


def _parser(kind: WatchedKind, scope: Scope) -> Callable[[Document], tuple[ObjectKey, Any]]:
    parsers: dict[str, Callable[[Document], tuple[ObjectKey, Any]]] = {
        "gputopologies": parse_topology,
        "pods": lambda document: parse_watched_pod(document, scope.resource),
    }
    return parsers.get(kind.name, _keyed)


def _keyed(document: Document) -> tuple[ObjectKey, Document]:
    metadata = {k: v for k, v in document["metadata"].items() if k != "managedFields"}
    return ObjectKey.of(document), {**document, "metadata": metadata}


@dataclass(frozen=True, slots=True)
class _Reporting(Generic[Item]):
    """Reports the errors of a source, and the success of its lists."""

    source: ListWatchSource[Item]
    report: Callable[[str | None], None]

    async def list(self) -> Listing[Item]:
        try:
            listing = await self.source.list()
        except ApiError as error:
            self.report(_describe(error))
            raise
        self.report(None)
        return listing

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[Item], None]:
        try:
            async with aclosing(self.source.watch(resource_version)) as events:
                async for event in events:
                    yield event
        except DeniedError as error:
            # After any other error the next list shows whether the kind can be read.
            self.report(_describe(error))
            raise


def _describe(error: ApiError) -> str:
    """Return an error with what to do."""
    return f"{error}; {_REMEDIES.get(error.status, 'trying again')}"
