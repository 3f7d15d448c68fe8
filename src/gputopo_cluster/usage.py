"""Computes the usage of one node from its topology, its pods and the reservations on it.

Pictures of the cluster and the ledger of the extender call this module for each node. A GPU is
used if a pod's annotation names the GPU, if the agent has observed a pod on it, or if the GPU is
reserved (docs/adr/0004-union-of-intended-and-observed.md).
"""

from collections.abc import Hashable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum

from gputopo.api.annotations import AnnotationError
from gputopo.api.shares import is_share
from gputopo.topology.model import GpuMask, GpuUuid, NodeTopology, mask_of
from gputopo_cluster.numa_rules import NumaRules
from gputopo_cluster.occupants import Occupant
from gputopo_cluster.topologies import GpuNode, ReportedUser, UnreadableTopology, known_mask
from gputopo_kube.own_gpus import AnnotationOwnerError, own_gpus
from gputopo_kube.pods import PodView

_NO_GPUS = GpuMask(0)


class RestrictionKind(StrEnum):
    """Why one pod may not use free GPUs; the values are those of ``MisfitKind``."""

    AVOID = "avoid"
    NUMA = "numa_busy"


@dataclass(frozen=True, slots=True)
class Restriction:
    """GPUs that one pod may not use, although other pods may.

    Attributes:
        lasting: the part of ``gpus`` that does not become usable when pods that are stopping have
            ended.
    """

    kind: RestrictionKind
    gpus: GpuMask
    lasting: GpuMask


class ObstacleKind(Enum):
    """How long kubelet would reject a pod because of NUMA nodes.

    WAITING ends when kubelet has admitted another pod, BUSY when other pods end. PERMANENT does not
    end, because the hardware of the node does not fit the pod.
    """

    WAITING = "waiting"
    BUSY = "busy"
    PERMANENT = "permanent"


@dataclass(frozen=True, slots=True)
class NumaObstacle:
    """Why a pod with enough free GPUs does not fit on a node: kubelet would reject it."""

    kind: ObstacleKind
    reason: str


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class NodeState:
    """The part of a node's usage that decides which pods fit, and on which GPUs.

    The ledger keeps one NodeState for all nodes with an equal ``key``. 5,000 nodes have a few
    hundred states. The extender evaluates each state once and compares states by identity.

    Attributes:
        structure: topology of one of the nodes in this state, with that node's UUIDs and name.
        free: healthy GPUs without a known user.
        unknown: how many GPUs of other schedulers' pods the agent has not identified yet.
        blocked: why no GPU of the node may be given to a pod; None if the node is not blocked.
        not_ready: why the node takes no pods now; None if the node is ready.
        deleted: healthy GPUs that only processes of ended pods use.
        numa: how kubelet takes NUMA nodes; None if this limits no choice.
        obstacle: only in the state for one pod, see :mod:`gputopo_scheduling.numa_limits`.
        restrictions: GPUs that one pod may not use; empty in the state for all pods.
        in_shares: GPUs of which pods have shares.
        not_shared: only in the state for a pod that requests a share: why it shares no GPU.
        not_whole: idle GPUs that no pod can get as a whole now, because MPS still serves them.
        awaits_mps: only in the state for a pod that requests a share: MPS may soon serve it.
    """

    structure: NodeTopology
    healthy: GpuMask
    free: GpuMask
    unknown: int
    blocked: str | None
    not_ready: str | None = None
    deleted: GpuMask = _NO_GPUS
    numa: NumaRules | None = None
    obstacle: NumaObstacle | None = None
    restrictions: tuple[Restriction, ...] = ()
    in_shares: GpuMask = _NO_GPUS
    not_shared: str | None = None
    not_whole: GpuMask = _NO_GPUS
    awaits_mps: bool = False

    def usable(self, free: GpuMask) -> GpuMask:
        """Return the GPUs of ``free`` that no restriction concerns."""
        for each in self.restrictions:
            free = GpuMask(free & ~each.gpus)
        return free

    @property
    def key(self) -> Hashable:
        """Identifies equal states: nodes whose states have the same key can take the same pods."""
        return (
            self.structure.fingerprint,
            *(self.healthy, self.free, self.unknown, self.blocked, self.not_ready, self.deleted),
            *(self.restrictions, self.numa, self.obstacle, self.in_shares, self.not_shared),
            *(self.not_whole, self.awaits_mps),
        )


PodNodeState = NodeState | UnreadableTopology | None
"""State of a node for one pod; None if the node has no GPUTopology."""


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """Which GPUs of a node are used.

    Attributes:
        generation: generation of the GPUTopology.
        used: GPUs that are reserved, observed in use, or in a pod's annotation. The GPUs of an
            ended pod stay used until its containers are known to have stopped.
        unknown: how many GPUs of other schedulers' pods the agent has not identified yet.
        blocked: why no GPU of the node may be given to a pod; None if the node is not blocked.
        shared: GPUs that belong to more than one live pod or reservation, although not all of them
            have shares. gputopo never causes this, so it is an error.
        not_ready: why the node takes no pods now; None if the node is ready.
        deleted: GPUs of ``used`` that only deleted or ended pods use.
        occupants: the pods that have GPUs of the node or get them by a Binding in flight. Equality
            ignores this field.
        unlisted: the users of GPUs that the agent reports and that are no occupants, except pods
            whose containers have stopped. Equality ignores this field.
        numa: how kubelet takes NUMA nodes; None if this limits no choice.
        most_pods_per_gpu: how many pods can share a GPU; 0 if the node offers no shares.
        not_shareable: GPUs that take no further sharing pods now.
        not_whole: GPUs that no pod can get as a whole now, even if no pod uses them.
        mps_outage: whether the component for MPS does not respond.
        shares: device IDs of all shares in use, also of pods that have ended.
    """

    generation: int
    topology: NodeTopology
    healthy: GpuMask
    used: GpuMask
    unknown: int
    blocked: str | None
    shared: GpuMask
    not_ready: str | None
    deleted: GpuMask = _NO_GPUS
    occupants: tuple[Occupant, ...] = field(default=(), compare=False, repr=False)
    unlisted: tuple[ReportedUser, ...] = field(default=(), compare=False, repr=False)
    numa: NumaRules | None = None
    most_pods_per_gpu: int = 0
    not_shareable: GpuMask = _NO_GPUS
    not_whole: GpuMask = _NO_GPUS
    mps_outage: bool = False
    shares: frozenset[GpuUuid] = frozenset()

    @property
    def in_shares(self) -> GpuMask:
        """The GPUs of which pods have shares."""
        return known_mask(self.topology, self.shares)

    @property
    def free(self) -> GpuMask:
        """Healthy GPUs without a known user that a pod can get as a whole."""
        return GpuMask(self.healthy & ~self.used & ~self.not_whole)

    @property
    def offered(self) -> int:
        """How many GPUs the node gives to new pods as a whole."""
        if self.blocked is not None or self.not_ready is not None:
            return 0
        return max(0, self.free.bit_count() - self.unknown)

    @property
    def for_shares(self) -> "NodeUsage":
        """The usage for pods that request a share. They can get GPUs that MPS still serves."""
        return replace(self, not_whole=_NO_GPUS) if self.not_whole else self

    @property
    def state(self) -> NodeState:
        """The part of the usage that decides which pods fit on the node."""
        deleted = GpuMask(self.healthy & self.deleted)
        return NodeState(
            structure=self.topology,
            healthy=self.healthy,
            free=self.free,
            unknown=self.unknown,
            blocked=self.blocked,
            not_ready=self.not_ready,
            deleted=deleted,
            numa=self.numa,
            in_shares=self.in_shares if self.shares else _NO_GPUS,
            not_whole=GpuMask(self.healthy & ~self.used & self.not_whole),
        )


@dataclass(frozen=True, slots=True)
class _PodGpus:
    """The GPUs in one pod's annotation, and the GPUs that the agent reports for the pod.

    ``unknown`` is how many GPUs of the pod the agent has not identified yet. It is above 0 only for
    a pod that another scheduler has bound.
    """

    pod: PodView
    annotated: GpuMask
    observed: GpuMask
    unknown: int = 0
    blocked: str | None = None
    shares: frozenset[GpuUuid] = frozenset()

    @property
    def all(self) -> GpuMask:
        """The annotated and the observed GPUs."""
        return GpuMask(self.annotated | self.observed)

    def occupant(self, *, ended: bool = False) -> Occupant:
        """Return the pod as an occupant of the node."""
        return Occupant(
            self.pod.uid, self.pod.key, self.all, self.unknown, self.pod, ended, self.shares
        )


def node_usage(
    node: GpuNode,
    pods: Iterable[PodView],
    reserved: Iterable[Occupant],
    *,
    ended: Iterable[PodView] = (),
    stopped: AbstractSet[str] = frozenset(),
) -> NodeUsage:
    """Return the usage of a node.

    Args:
        node: the node's published GPUs, and the users that its agent observed.
        pods: live pods that are bound to the node.
        reserved: pods with reserved or claimed GPUs that are not in ``pods``.
        ended: pods that have ended and whose containers may still run.
        stopped: UIDs of pods whose containers have stopped. Their GPUs are free, even if the
            agent's last report still lists the pods.
    """
    bound, in_flight = [*pods], [*reserved]
    live = [_pod_gpus(node, pod) for pod in bound]
    masks = (
        *((each.annotated, each.shares) for each in live),
        *((each.gpus, each.shares) for each in in_flight),
    )
    intended, shared = _intended(masks)
    of_ended = [_pod_gpus(node, pod) for pod in ended]
    gone = stopped | {each.pod.uid for each in of_ended}
    used = intended | _observed(node, gone)
    deleted = mask_of(user.gpu for user in node.users if user.deleted)
    for each in of_ended:
        deleted = GpuMask(deleted | each.all)
    counted = [*live, *of_ended]
    shares = {user.share for user in node.users if user.share and user.uid not in gone}
    shares.update(*(each.shares for each in counted), *(each.shares for each in in_flight))
    occupants = (
        *(each.occupant() for each in live),
        *in_flight,
        *(each.occupant(ended=True) for each in of_ended),
    )
    known = {each.uid for each in occupants}
    return NodeUsage(
        generation=node.generation,
        topology=node.topology,
        healthy=node.healthy,
        used=GpuMask(used | deleted),
        unknown=sum(each.unknown for each in counted),
        blocked=next((each.blocked for each in counted if each.blocked), None),
        shared=shared,
        not_ready=node.not_ready,
        deleted=GpuMask(deleted & ~used),
        occupants=occupants,
        unlisted=tuple(
            user
            for user in node.users
            if user.uid not in known and (user.deleted or user.uid not in stopped)
        ),
        numa=_rules(node, bound, stable=not in_flight),
        most_pods_per_gpu=node.most_pods_per_gpu,
        not_shareable=node.not_shareable,
        not_whole=node.not_whole,
        mps_outage=node.mps_outage,
        shares=frozenset(shares),
    )


def _intended(
    masks: Iterable[tuple[GpuMask, frozenset[GpuUuid]]],
) -> tuple[GpuMask, GpuMask]:
    """Return the GPUs of all pods, and those that two pods have against the rules.

    Pods may have the same GPU if all of them have shares of it, and no share twice. ``masks`` has
    the GPUs and shares of each pod.
    """
    whole = in_shares = wrong = 0
    given: set[GpuUuid] = set()
    for mask, shares in masks:
        if shares:
            wrong |= (whole if given.isdisjoint(shares) else whole | in_shares) & mask
            in_shares |= mask
            given |= shares
        else:
            wrong |= (whole | in_shares) & mask
            whole |= mask
    return GpuMask(whole | in_shares), GpuMask(wrong)


def _rules(node: GpuNode, bound: Iterable[PodView], *, stable: bool) -> NumaRules | None:
    """Return how kubelet takes NUMA nodes; stable if kubelet has admitted exactly these pods."""
    if node.numa is None:
        return None
    stable = stable and {pod.uid for pod in bound} == node.admitted
    return replace(node.numa, stable=stable)


def _observed(node: GpuNode, ended: AbstractSet[str]) -> GpuMask:
    """Return the GPUs on which the agent observed pods, except the pods in ``ended``.

    The result includes the GPUs of pods that are unknown to the API server or to the agent.
    """
    return mask_of(user.gpu for user in node.users if not user.deleted and user.uid not in ended)


def _pod_gpus(node: GpuNode, pod: PodView) -> _PodGpus:
    users = [user for user in node.users if user.uid == pod.uid]
    observed = mask_of(user.gpu for user in users)
    shares = frozenset(user.share for user in users if user.share is not None)
    try:
        annotation = own_gpus(pod)
    except AnnotationOwnerError:
        annotation = None
    except AnnotationError:
        # gputopo chose the GPUs of this pod, but only an observation shows which GPUs these are.
        all_observed = observed.bit_count() >= pod.most_gpus
        blocked = None if all_observed else f"pod {pod.key}: its GPU annotation cannot be parsed"
        return _PodGpus(pod, GpuMask(0), observed, blocked=blocked, shares=shares)
    if annotation is None:
        # Another scheduler bound the pod, so only the agent knows which GPUs the pod uses.
        missing = max(0, pod.most_gpus - observed.bit_count())
        return _PodGpus(pod, GpuMask(0), observed, unknown=missing, shares=shares)
    devices = [device for devices in annotation.containers.values() for device in devices]
    shares |= frozenset(GpuUuid(device) for device in devices if is_share(device))
    return _PodGpus(pod, known_mask(node.topology, devices), observed, shares=shares)
