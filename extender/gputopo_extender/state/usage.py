"""The book of one node: which of its GPUs may be given away now."""

from collections.abc import Hashable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from gputopo.api.annotations import AnnotationError, GpusAnnotation
from gputopo.topology.model import GpuMask, NodeTopology, mask_of
from gputopo_extender.state.topologies import PublishedNode, known_mask
from gputopo_kube.pods import AnnotationOwnerError, PodView, own_gpus

_NO_GPUS = GpuMask(0)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class NodeState:
    """What of a node decides which pods it can take, and with which GPUs.

    A ledger keeps one NodeState for all nodes that are alike, so that thousands of nodes are a few
    hundred questions; it is known by its identity, which costs nothing to compare.

    Attributes:
        structure: the topology of one of the nodes; UUIDs and the like are not to be read here.
        free: healthy GPUs that nobody is known to hold.
        away: why the node takes no pods now, None where it does.
        deleted: healthy GPUs that would be free but for processes of pods that have ended.
    """

    structure: NodeTopology
    healthy: GpuMask
    free: GpuMask
    unknown: int
    blocked: str | None
    away: str | None = None
    deleted: GpuMask = _NO_GPUS

    @property
    def key(self) -> Hashable:
        """Equal for states in which nodes can take the same pods."""
        return (
            self.structure.fingerprint,
            *(self.healthy, self.free, self.unknown, self.blocked, self.away, self.deleted),
        )


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """A node's GPUs, and what live pods and reservations hold of them.

    Attributes:
        used: GPUs that a pod uses by annotation or observation, or that are reserved. A pod that
            has ended uses its GPUs until it is known that its containers stopped.
        unknown: GPUs that pods without our annotation hold and no agent has observed yet.
        blocked: why nothing can be given away here, None where it can.
        shared: GPUs that more than one live pod or reservation claims by annotation; never
            ours to cause, so worth an alarm.
        away: why the node takes no pods now, None where it does.
        deleted: GPUs of ``used`` that only pods use which were deleted or have ended.
    """

    generation: int
    topology: NodeTopology
    healthy: GpuMask
    used: GpuMask
    unknown: int
    blocked: str | None
    shared: GpuMask
    away: str | None
    deleted: GpuMask = _NO_GPUS

    @property
    def free(self) -> GpuMask:
        """Healthy GPUs that nobody is known to hold."""
        return GpuMask(self.healthy & ~self.used)

    @property
    def state(self) -> NodeState:
        """What of the book decides."""
        deleted = GpuMask(self.healthy & self.deleted)
        return NodeState(
            *(self.topology, self.healthy, self.free, self.unknown, self.blocked, self.away),
            deleted=deleted,
        )


@dataclass(frozen=True, slots=True)
class _Held:
    """What one pod holds: by annotation, by observation, unknown, or unreadable."""

    annotated: GpuMask
    observed: GpuMask
    unknown: int = 0
    blocked: str | None = None


def node_usage(
    node: PublishedNode,
    pods: Iterable[PodView],
    promised: Iterable[GpuMask],
    *,
    ending: Iterable[PodView] = (),
    stopped: AbstractSet[str] = frozenset(),
) -> NodeUsage:
    """Return the book of a node.

    Args:
        node: its published GPUs, with what its agent observed.
        pods: live pods that are bound to it.
        promised: GPUs reserved or claimed for other pods.
        ending: pods that have ended, and whose containers may still run.
        stopped: UIDs of pods whose containers have stopped; an observation of them is outdated.
    """
    held = [_held(node, pod) for pod in pods]
    shared = intended = 0
    for mask in (*(each.annotated for each in held), *promised):
        shared |= intended & mask
        intended |= mask
    ended = {pod.uid: _held(node, pod) for pod in ending}
    used = intended | _observed(node, stopped | ended.keys())
    deleted = mask_of(holder.gpu for holder in node.users if holder.deleted)
    for each in ended.values():
        deleted = GpuMask(deleted | each.annotated | each.observed)
    counted = [*held, *ended.values()]
    return NodeUsage(
        generation=node.generation,
        topology=node.topology,
        healthy=node.healthy,
        used=GpuMask(used | deleted),
        unknown=sum(each.unknown for each in counted),
        blocked=next((each.blocked for each in counted if each.blocked), None),
        shared=GpuMask(shared),
        away=node.away,
        deleted=GpuMask(deleted & ~used),
    )


def _observed(node: PublishedNode, ended: AbstractSet[str]) -> GpuMask:
    """Return the GPUs that pods are observed on which are not known to have ended.

    A pod counts whether or not the API has it, and also one that the agent could not identify.
    """
    return mask_of(
        holder.gpu for holder in node.users if not holder.deleted and holder.uid not in ended
    )


def _held(node: PublishedNode, pod: PodView) -> _Held:
    observed = mask_of(holder.gpu for holder in node.users if holder.uid == pod.uid)
    try:
        annotation = own_gpus(pod)
    except AnnotationOwnerError:
        annotation = None
    except AnnotationError:
        # Its GPUs were ours to choose but cannot be read: only an observation tells them.
        told = observed.bit_count() >= pod.most_gpus
        reason = None if told else f"cannot read the GPUs of pod {pod.namespace}/{pod.name}"
        return _Held(GpuMask(0), observed, blocked=reason)
    if annotation is None:
        # Another scheduler has bound it: which GPUs it uses is known from the agent only.
        missing = max(0, pod.most_gpus - observed.bit_count())
        return _Held(GpuMask(0), observed, unknown=missing)
    return _Held(_annotated(node, annotation), observed)


def _annotated(node: PublishedNode, annotation: GpusAnnotation) -> GpuMask:
    """Return the annotated GPUs; one that left the node since is nobody's any more."""
    return known_mask(
        node.topology, (uuid for uuids in annotation.containers.values() for uuid in uuids)
    )
