"""The reflectors that keep the pods, topologies and GPUProfiles of the ledger up to date."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias, TypeVar

from gputopo.runtime.log import fields
from gputopo_cluster.topologies import GpuNode, UnreadableTopology, parse_gpu_node
from gputopo_extender.state.cluster_queue import ClusterQueue
from gputopo_extender.state.ledger import Ledger
from gputopo_extender.state.queue_pod import (
    QueueNode,
    QueuePod,
    parse_queue_node,
    parse_queue_pod,
)
from gputopo_kube.client import ALL_NAMESPACES, AsyncApi, Listing, WatchEvent
from gputopo_kube.document import Document
from gputopo_kube.podmodel import PodError
from gputopo_kube.pods import PodView, parse_gpu_pod
from gputopo_kube.reflector import ListWatchTiming, Reflector
from gputopo_kube.resources import NodeDocument, PodDocument, ProfileDocument, TopologyDocument
from gputopo_scheduling.surroundings import KnownWorkload, parse_workload

_log = logging.getLogger(__name__)

PodOrNone: TypeAlias = PodView | None
QueuePodOrNone: TypeAlias = QueuePod | None
SeenPod: TypeAlias = tuple[PodOrNone, QueuePodOrNone]
"""The view of a pod that requests GPUs, and the pod as kube-scheduler counts it."""

NodeOrError: TypeAlias = GpuNode | UnreadableTopology

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class QueueFeed:
    """Where the reflector of pods puts all pods of the cluster, for the nominator.

    Attributes:
        scheduler: the pods with this ``schedulerName`` are in the queue.
    """

    queue: ClusterQueue
    scheduler: str


def pod_reflector(
    api: AsyncApi,
    resource: str,
    ledger: Ledger,
    timing: ListWatchTiming,
    feed: QueueFeed | None = None,
) -> Reflector[SeenPod]:
    """Return the reflector of all pods; the ledger gets those that request ``resource``."""
    epoch = 0

    def begin() -> None:
        nonlocal epoch
        epoch = ledger.begin_pod_list()

    def parse(document: Document) -> SeenPod:
        pod = _parse_pod(document, resource)
        return pod, parse_queue_pod(document, pod, feed.scheduler) if feed else None

    def replace(listing: Listing[SeenPod]) -> None:
        pods = [pod for pod, _ in listing.items if pod is not None]
        ledger.replace_pods(pods, epoch=epoch, version=int(listing.resource_version))
        if feed is not None:
            feed.queue.replace_pods(pod for _, pod in listing.items if pod is not None)

    def apply(event: WatchEvent[SeenPod]) -> None:
        pod, counted = event.item
        if event.deleted:
            ledger.drop_pod(str(event.metadata["uid"]), pod)
        elif pod is not None:
            ledger.put_pod(pod)
        if feed is not None and counted is not None:
            feed.queue.drop_pod(counted.uid) if event.deleted else feed.queue.put_pod(counted)

    return Reflector(
        "pods",
        api.objects(PodDocument, parse, namespace=ALL_NAMESPACES),
        before_list=begin,
        on_list=replace,
        on_event=apply,
        timing=timing,
    )


def node_reflector(
    api: AsyncApi, queue: ClusterQueue, timing: ListWatchTiming
) -> Reflector[QueueNode]:
    """Return the reflector of all nodes, for the nominator."""
    return Reflector(
        "nodes",
        api.objects(NodeDocument, parse_queue_node),
        on_list=lambda listing: queue.replace_nodes(listing.items),
        on_event=_put_or_drop(queue.put_node, lambda node: queue.drop_node(node.name)),
        timing=timing,
    )


def _parse_pod(document: Document, resource: str) -> PodOrNone:
    """Return the pod, or None if it requests no GPU.

    An invalid object is logged and skipped, so that it does not stop the extender.
    """
    try:
        return parse_gpu_pod(document, resource)
    except PodError as error:
        _log.error("skipped an invalid pod %s", fields(reason=error))
        return None


def topology_reflector(
    api: AsyncApi, ledger: Ledger, timing: ListWatchTiming
) -> Reflector[NodeOrError]:
    """Return the reflector of all GPUTopology objects."""
    return Reflector(
        "gputopologies",
        api.objects(TopologyDocument, parse_gpu_node),
        on_list=lambda listing: ledger.replace_topologies(listing.items),
        on_event=_put_or_drop(ledger.put_topology, lambda node: ledger.drop_topology(node.node)),
        timing=timing,
    )


def profile_reflector(
    api: AsyncApi, ledger: Ledger, timing: ListWatchTiming
) -> Reflector[KnownWorkload]:
    """Return the reflector of all GPUProfiles.

    The extender works without them: an older ClusterRole does not permit to list them.
    """
    known = ledger.interference
    return Reflector(
        "gpuprofiles",
        api.objects(ProfileDocument, parse_workload, namespace=ALL_NAMESPACES),
        on_list=lambda listing: known.replace(listing.items),
        on_event=_put_or_drop(known.put, lambda workload: known.drop(workload.kind.name)),
        timing=timing,
        unsupported=(HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND),
    )


def _put_or_drop(
    put: Callable[[_Item], None], drop: Callable[[_Item], None]
) -> Callable[[WatchEvent[_Item]], None]:
    """Return what passes the object of each change to one of these functions."""
    return lambda event: drop(event.item) if event.deleted else put(event.item)
