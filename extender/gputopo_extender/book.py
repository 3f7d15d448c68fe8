"""The book of one node: which of its GPUs may be given away now."""

from collections.abc import Iterable
from dataclasses import dataclass

from gputopo.api.annotations import AnnotationError, GpusAnnotation, parse_gpus
from gputopo.topology.model import GpuMask, NodeTopology, mask_of
from gputopo_extender.pods import PodRecord
from gputopo_extender.topologies import NodeRecord, known_mask


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class State:
    """What of a node decides which pods it can take, and with which GPUs.

    A ledger keeps one State for all nodes that are alike, so that thousands of nodes are a few
    hundred questions; it is known by its identity, which costs nothing to compare.

    Attributes:
        structure: the topology of one of the nodes; UUIDs and the like are not to be read here.
        free: healthy GPUs that nobody is known to hold.
        away: why the node's agent serves no pods now, None where it does.
    """

    structure: NodeTopology
    healthy: GpuMask
    free: GpuMask
    unknown: int
    blocked: str | None
    away: str | None = None


@dataclass(frozen=True, slots=True)
class Book:
    """A node's GPUs, and what live pods and reservations hold of them.

    Attributes:
        used: GPUs that a live pod holds by annotation or observation, or that are reserved.
        unknown: GPUs that pods without our annotation hold and no agent has observed yet.
        blocked: why nothing can be given away here, None where it can.
        shared: GPUs that more than one live pod or reservation claims by annotation; never
            ours to cause, so worth an alarm.
        away: why the node's agent serves no pods now, None where it does.
    """

    generation: int
    topology: NodeTopology
    healthy: GpuMask
    used: GpuMask
    unknown: int
    blocked: str | None
    shared: GpuMask
    away: str | None

    @property
    def free(self) -> GpuMask:
        """Healthy GPUs that nobody is known to hold."""
        return GpuMask(self.healthy & ~self.used)

    @property
    def state(self) -> State:
        """What of the book decides."""
        return State(self.topology, self.healthy, self.free, self.unknown, self.blocked, self.away)


@dataclass(frozen=True, slots=True)
class _Held:
    """What one pod holds: by annotation, by observation, unknown, or unreadable."""

    annotated: GpuMask
    observed: GpuMask
    unknown: int = 0
    blocked: str | None = None


def book_of(node: NodeRecord, pods: Iterable[PodRecord], promised: Iterable[GpuMask]) -> Book:
    """Return the book of a node with these live pods bound to it and this promised to others."""
    held = [_held(node, pod) for pod in pods]
    used = shared = intended = 0
    for mask in (*(each.annotated for each in held), *promised):
        shared |= intended & mask
        intended |= mask
    used = intended
    for each in held:
        used |= each.observed
    # Kubelet's books may name a holder that no agent could find in the API: never give that away.
    used |= mask_of(holder.gpu for holder in node.holders if holder.uid is None)
    return Book(
        generation=node.generation,
        topology=node.topology,
        healthy=node.healthy,
        used=GpuMask(used),
        unknown=sum(each.unknown for each in held),
        blocked=next((each.blocked for each in held if each.blocked), None),
        shared=GpuMask(shared),
        away=node.away,
    )


def _held(node: NodeRecord, pod: PodRecord) -> _Held:
    observed = mask_of(holder.gpu for holder in node.holders if holder.uid == pod.uid)
    try:
        annotation = parse_gpus(pod.annotations)
    except AnnotationError:
        # Its GPUs were ours to choose but cannot be read: only an observation tells them.
        told = observed.bit_count() >= pod.most_gpus
        reason = None if told else f"cannot read the GPUs of pod {pod.namespace}/{pod.name}"
        return _Held(GpuMask(0), observed, blocked=reason)
    if annotation is None or (annotation.uid, annotation.node) != (pod.uid, node.node):
        # Bound by somebody else, or with somebody else's annotation, which is worthless.
        missing = max(0, pod.most_gpus - observed.bit_count())
        return _Held(GpuMask(0), observed, unknown=missing)
    return _Held(_annotated(node, annotation), observed)


def _annotated(node: NodeRecord, annotation: GpusAnnotation) -> GpuMask:
    """Return the annotated GPUs; one that left the node since is nobody's any more."""
    return known_mask(
        node.topology, (uuid for uuids in annotation.containers.values() for uuid in uuids)
    )
