"""States of a cluster as the page keeps them."""

from collections.abc import Iterable

from gputopo.api.annotations import GpusAnnotation, PlacementAnnotation
from gputopo.api.names import GPUS_ANNOTATION, PLACEMENT_ANNOTATION, RESOURCE
from gputopo_kube.document import ObjectKey
from gputopo_kube.listwatch import Listing, WatchEvent
from gputopo_web.state.cluster import ClusterState, parse_topology
from gputopo_web.state.objects import parse_watched_pod
from support.builders import objects
from support.builders.objects import Document
from support.cli import healthy_cluster

NOW = "2026-02-03T04:05:06Z"


def cluster(
    *,
    topologies: Iterable[Document] = (),
    pods: Iterable[Document] = (),
    namespace: str | None = None,
) -> ClusterState:
    """Return a state with these objects; all changes are taken."""
    state = ClusterState(namespace=namespace, clock=lambda: NOW)
    state.nodes.replace(Listing([parse_topology(it) for it in topologies], "1"))
    state.pods.replace(Listing([parse_watched_pod(it, RESOURCE) for it in pods], "1"))
    state.take_changes()
    return state


def two_nodes() -> ClusterState:
    """Return a state with two nodes of different kinds and two pods on four GPUs."""
    api = healthy_cluster.users_of_gpus()
    topologies, pods = api.lists[healthy_cluster.TOPOLOGIES], api.lists[healthy_cluster.PODS]
    return cluster(topologies=topologies, pods=pods)


def set_pod(state: ClusterState, document: Document, *, deleted: bool = False) -> None:
    """Report a change of a pod."""
    item = parse_watched_pod(document, RESOURCE)
    state.pods.apply(WatchEvent(item, deleted, document["metadata"]))


def set_topology(state: ClusterState, document: Document, *, deleted: bool = False) -> None:
    """Report a change of a GPUTopology."""
    state.nodes.apply(WatchEvent(parse_topology(document), deleted, document["metadata"]))


def set_gpu_job(state: ClusterState, document: Document) -> None:
    """Report a change of a GPUJob."""
    state.gpu_jobs.apply(WatchEvent((ObjectKey.of(document), document), deleted=False))


def placed_pod(name: str, node: str, uuids: list[str]) -> Document:
    """Return a running pod with GPUs and with the figures of its placement."""
    placed = GpusAnnotation(uid=f"uid-{name}", node=node, generation=1, containers={"main": uuids})
    annotations = {GPUS_ANNOTATION: placed.dump(), PLACEMENT_ANNOTATION: PLACEMENT.dump()}
    document = objects.pod(name, len(uuids), node=node, phase="Running", annotations=annotations)
    document["status"]["startTime"] = "2026-01-02T03:04:05Z"
    return document


PLACEMENT = PlacementAnnotation(
    policy="Preserve",
    pattern="Ring",
    sensitive=True,
    reason="Default",
    fact="GPUProfile bert: 45 % (40..50) slower on the worst links, 8 samples",
    model="eq2",
    effective_mb_per_s=57_857,
    physical_mb_per_s=40_000,
    physical_worst_mb_per_s=10_000,
    physical_best_mb_per_s=50_000,
    aggregate_mb_per_s=120_000,
    preserved_mb_per_s=300_000,
    exact=False,
    aggregate_bound_mb_per_s=125_000,
)
