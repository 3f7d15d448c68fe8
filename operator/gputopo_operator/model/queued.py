"""The input and the result of a decision about gputopo's queue of GPUJobs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gputopo.api.v1alpha1 import QueueStatus
from gputopo.queueing.model import JoinableGpu, Offer
from gputopo_cluster.picture import ClusterPicture
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.pods import PodView
from gputopo_operator.model.jobs import ChildJob, GpuJob


class QueueRole(StrEnum):
    """Whether a GPUJob waits in the queue, was admitted by the queue, or is outside of it.

    A GPUJob is outside if it has no child Job, has ended, is under Kueue, or is suspended by the
    user.
    """

    WAITING = "waiting"
    ADMITTED = "admitted"
    OUTSIDE = "outside"


@dataclass(frozen=True, slots=True)
class GpuPod:
    """A pod that requests GPUs and has not ended.

    Attributes:
        owner_uid: UID of the controller of the pod; empty if the pod has no controller.
        created: RFC 3339 time.
        started: RFC 3339 time at which kubelet accepted the pod; None before.
        rejected: whether the scheduler found no node for it, or it has a gate; None if the
            scheduler has not tried it.
    """

    view: PodView
    owner_uid: str
    created: str
    started: str | None
    rejected: bool | None = None

    @property
    def uid(self) -> str:
        """UID of the pod."""
        return self.view.uid

    @property
    def node(self) -> str | None:
        """The node to which the pod is bound; None if it is not bound."""
        return self.view.node


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A GPUJob with its child Job.

    Attributes:
        raw: the GPUJob object. The operator writes its status and creates events on it.
        created: RFC 3339 time of the creation of the GPUJob.
        priority: value of the PriorityClass of the pod; 0 if it is unknown.
        child: None if there is no Job of this name, or it has ended.
        started: RFC 3339 time at which the Job controller last started the Job. If it is set, the
            API server rejects changes of the node affinity.
        ended: RFC 3339 time at which the Job was suspended, or ended; None while it is neither.
        pod_rules: node selector, affinity and tolerations in the pod template of the Job.
        pod_template: the pod template of the Job.
    """

    job: GpuJob
    raw: Document
    created: str
    priority: int = 0
    child: ChildJob | None = None
    started: str | None = None
    ended: str | None = None
    pod_rules: Document = field(default_factory=dict)
    pod_template: Document = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueueInput:
    """Everything that one decision about the queue uses.

    Attributes:
        cluster: the GPUs of the nodes, and the pods of all namespaces that request GPUs.
        node_rules: name, labels and taints of each Node, by its name.
        pods: the pods that have not ended.
        now: RFC 3339 time in UTC, in whole seconds.
        rejected: for each job whose start the API server rejected, the message.
        joins: for each job without a bound pod, the shared GPUs that it may join now.
        offers: ``offers`` of the plan before.
        failed: Unix time of the last failed start by namespace.
    """

    jobs: tuple[QueuedJob, ...]
    cluster: ClusterPicture
    node_rules: Mapping[str, Document]
    pods: tuple[GpuPod, ...]
    now: str
    rejected: Mapping[ObjectKey, str]
    joins: Mapping[ObjectKey, frozenset[JoinableGpu]] = field(default_factory=dict)
    offers: Mapping[str, Offer] = field(default_factory=dict)
    failed: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobStart:
    """The merge patch by which a child Job starts."""

    key: ObjectKey
    patch: Document


@dataclass(frozen=True, slots=True)
class JobStop:
    """A started job without a pod that is suspended again.

    Attributes:
        after: the new ``status.queue``; it is written before the Job is suspended, so an operator
            that is killed in between counts this start only once. None if it was written already.
        patch: the merge patch that suspends the child Job.
    """

    job: QueuedJob
    after: QueueStatus | None
    patch: Document


@dataclass(frozen=True, slots=True)
class QueueChange:
    """A new ``status.queue`` of a GPUJob.

    Attributes:
        after: None removes the field.
        waited_seconds: how long the job waited, if the queue has just admitted it, else None.
        entered: whether the job has just begun to wait.
    """

    job: QueuedJob
    after: QueueStatus | None
    waited_seconds: int | None = None
    entered: bool = False


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """The writes that the queue needs now.

    Attributes:
        changes: the most urgent first.
        waiting: number of jobs that keep waiting.
        waiting_since: Unix time since which the first of them has waited; None if no job waits.
        recheck_after_seconds: time after which to decide again, even without an event.
        offers: see ``QueueDecision``. An operator that starts keeps GPUs for three minutes more.
        failing: namespaces to be put on probation.
    """

    starts: tuple[JobStart, ...]
    changes: tuple[QueueChange, ...]
    waiting: int
    waiting_since: float | None
    recheck_after_seconds: float | None
    offers: Mapping[str, Offer]
    failing: frozenset[str]
