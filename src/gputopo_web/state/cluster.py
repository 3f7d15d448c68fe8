"""The cluster as the page knows it, and what has changed since the last update of the page.

All methods are called in one thread, that of the event loop.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from gputopo.api.names import RESOURCES_ANNOTATION
from gputopo.runtime.times import utc_now
from gputopo_cluster.known_pods import KnownPods
from gputopo_cluster.picture import ClusterPicture
from gputopo_cluster.topologies import PublishedNode, parse_published_node
from gputopo_explain.objects import LiveKind
from gputopo_explain.snapshot import ClusterSnapshot
from gputopo_explain.uses import list_uses
from gputopo_kube.document import Document, ObjectKey
from gputopo_web.facts.cards import NodeCard, node_card
from gputopo_web.facts.decisions import History
from gputopo_web.state.kinds import (
    DEPLOYMENTS,
    GPU_JOBS,
    JOBS,
    PODS,
    PROFILES,
    TOPOLOGIES,
)
from gputopo_web.state.live import NOT_WATCHED, WatchedCluster
from gputopo_web.state.objects import ShownPod
from gputopo_web.state.table import WatchedObjects


def parse_topology(document: Document) -> tuple[ObjectKey, PublishedNode]:
    """Parse a GPUTopology object; its key has an empty namespace."""
    return ObjectKey("", document["metadata"]["name"]), parse_published_node(document)


AnyObjects: TypeAlias = (
    WatchedObjects[PublishedNode] | WatchedObjects[ShownPod] | WatchedObjects[Document]
)


@dataclass(slots=True)
class Changes:
    """What has changed since the last update.

    Attributes:
        nodes: names of nodes whose card may have changed.
        sections: sections of the page that must be rendered again.
    """

    nodes: set[str] = field(default_factory=set)
    sections: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.nodes or self.sections)


class ClusterState:
    """The objects of the cluster, the card of each node, and the history.

    Attributes:
        cards: the cards by node name; current after ``take_changes``.
        namespace: only pods of this namespace are read; None for all namespaces.
        version: grows with each update that changes something.
    """

    def __init__(
        self,
        *,
        namespace: str | None = None,
        on_change: Callable[[], None] = lambda: None,
        clock: Callable[[], str] = utc_now,
    ) -> None:
        """Call ``on_change`` after each change; ``clock`` returns RFC 3339 times."""
        self.namespace = namespace
        self.nodes: WatchedObjects[PublishedNode] = WatchedObjects(
            self._node_changed, on_first_list=lambda: self._changed("map")
        )
        self.pods: WatchedObjects[ShownPod] = WatchedObjects(
            self._pod_changed, on_first_list=self._all_nodes_changed
        )
        self.gpu_jobs: WatchedObjects[Document] = WatchedObjects(lambda *_: self._changed("jobs"))
        self.profiles: WatchedObjects[Document] = WatchedObjects(
            lambda *_: self._changed("profiles")
        )
        self.jobs: WatchedObjects[Document] = WatchedObjects(lambda *_: None)
        self.deployments: WatchedObjects[Document] = WatchedObjects(lambda *_: None)
        self.history = History()
        self.cards: dict[str, NodeCard] = {}
        self.version = 0
        self.on_change = on_change
        self._clock = clock
        self._on_node: dict[str, dict[ObjectKey, ShownPod]] = {}
        self._changes = Changes()
        self._snapshot: ClusterSnapshot | None = None

    @property
    def tables(self) -> Mapping[str, AnyObjects]:
        """The tables by the plural of their kind."""
        return {
            TOPOLOGIES.name: self.nodes,
            PODS.name: self.pods,
            GPU_JOBS.name: self.gpu_jobs,
            PROFILES.name: self.profiles,
            JOBS.name: self.jobs,
            DEPLOYMENTS.name: self.deployments,
        }

    def set_error(self, kind: str, error: str | None) -> None:
        """Record why a kind cannot be read, or None if it can be read again."""
        before = self.tables[kind].error
        if before != error:
            self.tables[kind].error = error
            if kind == PODS.name and None in (before, error):
                self._all_nodes_changed()
            else:
                self._changed("summary")

    def pods_on(self, node: str) -> Iterable[ShownPod]:
        """Return the GPU pods that are bound to a node."""
        return self._on_node.get(node, {}).values()

    def snapshot(self) -> ClusterSnapshot:
        """Return the cluster for evaluations; computed once between two changes."""
        if self._snapshot is None:
            self._snapshot = ClusterSnapshot(
                nodes={key.name: node.gpus for key, node in self.nodes.items.items()},
                pods=KnownPods(pod.placed.view for pod in self.pods.items.values()),
            )
        return self._snapshot

    def objects(self, now: datetime) -> WatchedCluster:
        """Return the objects for explanations; they do not change when the state changes."""
        tables: Mapping[LiveKind, WatchedObjects[Document]] = {
            LiveKind.GPU_JOBS: self.gpu_jobs,
            LiveKind.PROFILES: self.profiles,
            LiveKind.JOBS: self.jobs,
            LiveKind.DEPLOYMENTS: self.deployments,
        }
        documents = {kind: [*table.items.values()] for kind, table in tables.items()}
        documents[LiveKind.PODS] = [pod.document for pod in self.pods.items.values()]
        unread = {LiveKind(name): it.error for name, it in self.tables.items() if it.error}
        if not self.pods.listed:
            unread.setdefault(LiveKind.PODS, "not read yet")
        return WatchedCluster(
            documents,
            now,
            {**NOT_WATCHED, **unread},
            namespace=self.namespace,
            parsed=self.snapshot(),
        )

    def take_changes(self) -> Changes:
        """Bring the cards up to date; return what has changed since the last call.

        ``nodes`` of the result are those whose card differs. If nodes were added or removed, the
        sections include ``map``.
        """
        changes, self._changes = self._changes, Changes()
        differing: set[str] = set()
        for name in changes.nodes:
            before, after = self.cards.get(name), self._card(name)
            if before == after:
                continue
            if before is None or after is None or before.group != after.group:
                changes.sections.add("map")
            if after is None:
                del self.cards[name]
            else:
                self.cards[name] = after
                differing.add(name)
        changes.nodes = differing
        self.version += bool(changes)
        return changes

    def _card(self, name: str) -> NodeCard | None:
        node = self.nodes.items.get(ObjectKey("", name))
        if node is None:
            return None
        gpus = node.observed.values()
        users = [user for gpu in gpus for user in (gpu, *(gpu.shares or ()))]
        named = {ObjectKey(it.namespace or "", it.pod or "") for it in users}
        observed = (self.pods.items[key] for key in named & self.pods.items.keys())
        pods = {pod.key: pod.placed for pod in (*self.pods_on(name), *observed)}
        uses = list_uses([node], pods.values(), is_read=self._has_all_pods)
        views = KnownPods(pod.placed.view for pod in self.pods_on(name))
        free = ClusterPicture({name: node.gpus}, views).usages[name].offered
        return node_card(node, (use for use in uses if use.node == name), free)

    def _has_all_pods(self, namespace: str) -> bool:
        """Return whether all pods with GPUs of a namespace are known."""
        known = self.pods.listed and self.pods.error is None
        return known and self.namespace in (None, namespace)

    def _all_nodes_changed(self) -> None:
        self._changes.nodes |= {key.name for key in self.nodes.items}
        self._changed("summary")

    def _node_changed(self, before: PublishedNode | None, after: PublishedNode | None) -> None:
        self._changes.nodes |= {node.name for node in (before, after) if node}
        self._snapshot = None
        if after and self.history.resolve(after.name, after.index_of):
            self._changes.sections.add("history")
        self.on_change()

    def _pod_changed(self, before: ShownPod | None, after: ShownPod | None) -> None:
        for pod in (before, after):
            if pod is not None and pod.node is not None:
                self._changes.nodes.add(pod.node)
        if before is not None and before.node is not None:
            remaining = self._on_node[before.node]
            del remaining[before.key]
            if not remaining:
                del self._on_node[before.node]
        if after is not None and after.node is not None:
            self._on_node.setdefault(after.node, {})[after.key] = after
        if before and after and before.placed.view.uid != after.placed.view.uid:
            # A list has another pod of the same name. The watch missed the end of the first one.
            self._observe(before, None)
            self._observe(None, after)
        else:
            self._observe(before, after)
        self._snapshot = None
        self._changed("jobs")
        if _record(before) != _record(after):
            self._changed("sizes")

    def _observe(self, before: ShownPod | None, after: ShownPod | None) -> None:
        pod = after or before
        node = self.nodes.items.get(ObjectKey("", (pod and pod.node) or ""))
        new = self.history.observe(
            before.placed if before else None,
            after.placed if after else None,
            node.index_of if node else {},
            self._clock(),
        )
        if new:
            self._changes.sections.add("history")

    def _changed(self, section: str) -> None:
        self._changes.sections.add(section)
        self.on_change()


def _record(pod: ShownPod | None) -> str | None:
    """Return what the section ``sizes`` shows of a pod."""
    if pod is None or not pod.placed.view.live:
        return None
    return pod.placed.view.annotations.get(RESOURCES_ANNOTATION)
