"""The explanation of a pending pod or GPUJob, as plain values. Times are in UTC."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gputopo.placement.model import PlacementRequest
from gputopo_explain.shared_gpus import ShareOutlook
from gputopo_kube.document import ObjectKey


class PendingState(StrEnum):
    """Why a pod is not bound to a node."""

    OTHER_SCHEDULER = "OtherScheduler"
    NO_GPUS = "NoGpus"
    REJECTED = "Rejected"
    GATED = "Gated"
    BINDING = "Binding"
    FITS = "Fits"
    POSTPONED = "Postponed"
    WAITING = "Waiting"
    IMPOSSIBLE = "Impossible"


class EndKind(StrEnum):
    """How certain the end of a pod is.

    Kubernetes ends the pod at a DEADLINE. EXPECTED is what the user of a GPUJob has stated. At
    a DELETION the grace period of a deleted pod ends; its processes may still run.
    """

    DEADLINE = "Deadline"
    EXPECTED = "Expected"
    DELETION = "Deletion"


@dataclass(frozen=True, slots=True)
class PodEnd:
    """When a pod ends.

    Attributes:
        source: the field from which the time was derived.
        seconds: seconds from now; negative if the time has passed.
    """

    kind: EndKind
    at: datetime
    seconds: int
    source: str


@dataclass(frozen=True, slots=True)
class PodToEnd:
    """A pod that would have to end so that the pending pod fits.

    Attributes:
        pod: namespace and name. The pod object may be gone.
        gpus: GPUs that become free.
        priority: None if the pod object does not exist any more, or was not read.
        owner: kind and name of the pod's GPUJob or controller; None without one.
        stopping: whether the pod has ended or is being deleted.
        ends: the known ends of the pod, the earliest first.
    """

    pod: str
    uid: str
    gpus: int
    priority: int | None
    owner: str | None
    stopping: bool
    ends: Sequence[PodEnd]


@dataclass(frozen=True, slots=True)
class Release:
    """The pods of one node that would have to end so that the pending pod fits there.

    Attributes:
        at_most_seconds: after this time Kubernetes has ended all of the pods; None if one of them
            has no deadline.
        expected_seconds: after this time all pods have ended, if the users' statements are true;
            None if the end of one of them is unknown.
    """

    node: str
    pods: Sequence[PodToEnd]
    at_most_seconds: int | None
    expected_seconds: int | None


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes with the same reason.

    Attributes:
        permanent: whether the reason stays when other pods end.
        free: the lowest and the highest number of free GPUs of these nodes; None if unknown.
    """

    reason: str
    permanent: bool
    nodes: Sequence[str]
    free: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class PreemptionOutlook:
    """Whether kube-scheduler could preempt pods for the pending pod.

    Attributes:
        helps: None if it is unknown.
        release: an example of pods that could be preempted; None if preemption does not help.
    """

    helps: bool | None
    reason: str
    release: Release | None = None


@dataclass(frozen=True, slots=True)
class PlacementWait:
    """Why a pod waits for a better placement, although it fits now. Values are in per mille.

    Attributes:
        value: what is compared, for example ``utility``.
        target: the value that the pod waits for.
        now: value of the best placement now.
        then: value of the best placement on idle GPUs.
        since: when the extender first postponed the pod; None if it has not tried the pod.
        until: when the longest wait ends.
        earlier: postponed pods that come first, in order.
    """

    value: str
    target: int
    now: int
    then: int
    since: str | None
    until: str
    earlier: Sequence[ObjectKey]


@dataclass(frozen=True, slots=True)
class SchedulerMessage:
    """The condition PodScheduled, which kube-scheduler writes."""

    reason: str
    message: str
    since: str | None


@dataclass(frozen=True, slots=True)
class PodExplanation:
    """Why a pod is not bound.

    Attributes:
        summary: the explanation in one sentence.
        remedy: what a person can do; None if waiting is enough.
        request: what the pod requests; None if it requests no GPUs or is rejected.
        message: kube-scheduler's own message; None if it has not tried the pod.
        fitting: nodes on which the pod fits now, with the least utility that it accepts.
        groups: all other nodes by reason, the largest group first.
        releases: the nodes that need the fewest pods to end, the best first.
        wait: why the pod waits for a better placement; None if it does not.
        shared_gpus: whether the pod may share each GPU that pods share now; empty for a pod that
            requests whole GPUs.
        unchecked: rules of the pod that were not considered.
    """

    pod: ObjectKey
    state: PendingState
    summary: str
    remedy: str | None = None
    request: PlacementRequest | None = None
    message: SchedulerMessage | None = None
    fitting: Sequence[str] = ()
    groups: Sequence[NodeGroup] = ()
    releases: Sequence[Release] = ()
    preemption: PreemptionOutlook | None = None
    wait: PlacementWait | None = None
    shared_gpus: Sequence[ShareOutlook] = ()
    unchecked: Sequence[str] = ()


class GpuJobStage(StrEnum):
    """Why a GPUJob does not run."""

    REJECTED = "Rejected"
    SUSPENDED = "Suspended"
    QUEUED = "Queued"
    NO_POD = "NoPod"
    POD_PENDING = "PodPending"
    STARTED = "Started"
    ENDED = "Ended"


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The place of a GPUJob in gputopo's queue.

    Attributes:
        length: number of GPUJobs that wait.
        reason: why the GPUJob does not start now, as the operator wrote it.
        reserved_node: node whose GPUs are kept free for the GPUJob.
        overdue_in_seconds: after this time the GPUJob comes first; 0 if it does already, None if
            unknown.
    """

    position: int | None
    length: int
    order: str
    reason: str
    reserved_node: str | None
    overdue_in_seconds: int | None


@dataclass(frozen=True, slots=True)
class GpuJobExplanation:
    """Why a GPUJob does not run.

    Attributes:
        pod: the explanation of its pod. For a waiting GPUJob without a pod, that of the pod that
            its Job would create now. None if there is neither.
        is_template: whether ``pod`` does not exist yet.
    """

    job: ObjectKey
    state: GpuJobStage
    summary: str
    remedy: str | None = None
    queue: QueuePosition | None = None
    pod: PodExplanation | None = None
    is_template: bool = False
