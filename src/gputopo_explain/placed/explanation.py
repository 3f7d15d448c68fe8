"""Collects the explanation of a placed pod.

This module is the entry point for the command line and the web page.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gputopo.api.names import JOB_LABEL, RESOURCE
from gputopo.api.replay import RecordedNodes
from gputopo.api.shares import gpu_of
from gputopo.api.waiting import PostponedAnnotation, parse_postponed
from gputopo.topology.model import GpuIndex, GpuUuid
from gputopo_cluster.topologies import GpuNode, UnreadableTopology, parse_gpu_node
from gputopo_explain.placed.choices import Choices, choices
from gputopo_explain.placed.recorded import RecordedPlacement, recorded_placement
from gputopo_explain.placed.replay import Replay, ReplayVerdict, replay
from gputopo_explain.placed.request import RequestPart, request_parts
from gputopo_explain.placed.share import PlacedShare, placed_share
from gputopo_kube.pods import PodView, parse_pod

AS_INTENDED: Final = "as intended"
NOT_OBSERVED: Final = "not observed"
NOT_INTENDED: Final = "not intended"
UNKNOWN_STATE: Final = "unknown"


@dataclass(frozen=True, slots=True)
class PodGpu:
    """One GPU of a pod, or its share of a GPU.

    Attributes:
        uuid: UUID of the GPU, or the device ID of the share.
        rank: rank of the GPU; None if the GPU was not intended for the pod.
        index: index on the node now; None if the node has no such GPU. If the UUIDs of the node are
            unknown, the recorded index.
        container: the container for which the GPU was intended; None if it was not intended.
        state: ``as intended``, ``not observed``, ``not intended``, or ``unknown`` if the topology
            comes from a file without UUIDs.
    """

    uuid: str
    rank: int | None
    index: int | None
    container: str | None
    state: str


@dataclass(frozen=True, slots=True)
class PlacedExplanation:
    """Why a pod has its GPUs.

    Attributes:
        job: name of the pod's GPUJob; empty if it has none.
        recorded: the parsed annotations.
        request: the parts of the request; without annotations, no parts.
        nodes: how the node compared with other nodes; None if this is unknown.
        replay: result of the repeated decision.
        choices: the chosen set and its alternatives; None if the replay has no match.
        gpus: the GPUs of the pod, in rank order; then those that were not intended.
        waited: the record of the pod's wait for a better placement; None if it did not wait.
        share: the pod's share of a GPU; None for a pod with whole GPUs.
    """

    pod: PodView
    node: str
    job: str
    recorded: RecordedPlacement
    request: tuple[RequestPart, ...]
    nodes: RecordedNodes | None
    replay: Replay
    choices: Choices | None
    gpus: tuple[PodGpu, ...]
    waited: PostponedAnnotation | None = None
    share: PlacedShare | None = None

    @property
    def differs(self) -> bool:
        """Whether the replay gives another choice than the one that was recorded."""
        return self.replay.verdict is ReplayVerdict.DIFFERENT


def explain_placed(
    document: Mapping[str, Any],
    topology: Mapping[str, Any] | GpuNode | None,
    *,
    resource: str = RESOURCE,
) -> PlacedExplanation:
    """Explain the placement of a pod that is bound to a node.

    Args:
        document: the pod object.
        topology: the GPUTopology object of its node; None if there is none. A parsed node may come
            from a file that lacks the UUIDs of the GPUs.
        resource: extended resource that counts the GPUs.

    Raises:
        PodError: if the object is not a valid pod.
    """
    pod = parse_pod(document, resource)
    node = _node(topology)
    recorded = recorded_placement(pod)
    same_gpus = not isinstance(topology, GpuNode) or _has_uuids(topology, recorded)
    again = replay(recorded, node, same_gpus=same_gpus)
    job = dict(pod.labels).get(JOB_LABEL, "")
    known = again.input if isinstance(node, GpuNode) and again.match else None
    return PlacedExplanation(
        pod=pod,
        node=pod.node or "",
        job=job,
        recorded=recorded,
        request=request_parts(pod, recorded, job),
        nodes=recorded.record.nodes if recorded.record else None,
        replay=again,
        choices=choices(node.topology, known) if known and isinstance(node, GpuNode) else None,
        gpus=tuple(
            _gpus(pod, recorded, node if isinstance(node, GpuNode) else None, same_gpus=same_gpus)
        ),
        waited=parse_postponed(pod.annotations, pod.uid),
        share=placed_share(pod, recorded, node if isinstance(node, GpuNode) else None),
    )


def _has_uuids(node: GpuNode, recorded: RecordedPlacement) -> bool:
    """Return whether a topology of a file has the UUIDs of the pod's node."""
    return any(GpuUuid(uuid) in node.topology.index_of for uuid in recorded.uuids)


def _node(topology: Mapping[str, Any] | GpuNode | None) -> GpuNode | UnreadableTopology | None:
    return parse_gpu_node(topology) if isinstance(topology, Mapping) else topology


def _gpus(
    pod: PodView, recorded: RecordedPlacement, node: GpuNode | None, *, same_gpus: bool
) -> Iterator[PodGpu]:
    index_of = node.topology.index_of if node else {}
    uuid_of = node.topology.uuid_of if node else {}
    users = [user for user in node.users if user.uid == pod.uid] if node else []
    observed = {user.share or uuid_of[user.gpu] for user in users}
    containers = recorded.gpus.containers.items() if recorded.gpus else ()
    intended = [(uuid, name) for name, uuids in containers for uuid in uuids]
    chosen = recorded.record.gpus if recorded.record else ()
    for rank, (uuid, container) in enumerate(intended):
        state = AS_INTENDED if uuid in observed else NOT_OBSERVED
        index = index_of.get(gpu_of(uuid))
        if not same_gpus:
            state, index = UNKNOWN_STATE, next(map(GpuIndex, chosen[rank : rank + 1]), None)
        yield PodGpu(uuid, rank, index, container, state)
    others = observed - set(recorded.devices)
    for uuid in sorted(others, key=lambda each: (index_of[gpu_of(each)], each)):
        yield PodGpu(uuid, None, index_of[gpu_of(uuid)], None, NOT_INTENDED)
