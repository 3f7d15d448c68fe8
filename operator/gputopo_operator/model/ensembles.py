"""The input and the result of a decision about a GPUEnsemble."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gputopo.api.ensemble import GPUEnsembleSpec, GPUEnsembleStatus
from gputopo.api.profile import Measurement, ScalingFact
from gputopo.ensemble.model import NodeGpuCount
from gputopo_cluster.picture import ClusterPicture
from gputopo_kube.document import Document, ObjectKey
from gputopo_operator.model.jobs import JobResult, ObjectEvent


@dataclass(frozen=True, slots=True)
class Ensemble:
    """A GPUEnsemble.

    Attributes:
        spec: the parsed spec, or None if the spec is invalid.
        spec_error: the invalid field and its value; empty if the spec is valid.
        status: the valid part of the status.
        status_error: the first invalid value of the status; empty if the status is valid.
    """

    key: ObjectKey
    uid: str
    generation: int
    deleting: bool
    spec: GPUEnsembleSpec | None
    spec_error: str
    status: GPUEnsembleStatus
    status_error: str = ""


@dataclass(frozen=True, slots=True)
class MemberPod:
    """The newest live pod of a member.

    Attributes:
        node: None until the pod is bound.
        started: RFC 3339 time at which kubelet accepted the pod; None before.
    """

    uid: str
    node: str | None
    running: bool
    deleting: bool
    started: str | None


@dataclass(frozen=True, slots=True)
class MemberJob:
    """The GPUJob with the name of a member, even if the GPUEnsemble does not own it.

    Attributes:
        owner_uid: UID of the object that controls the GPUJob; empty if no object controls it.
        node: node that the operator has planned for the member; None if it is unknown.
        result: None until the GPUJob has ended or was rejected for good.
        message: what the GPUJob waits for; empty if it waits for nothing.
        pod: None if it has no live pod.
        suspended: whether ``spec.suspend`` of the GPUJob is true.
        pod_error: why its Job or its pod could not be created; empty if no error is known.
        queued_since: RFC 3339 time since which a queue has kept its Job suspended; None if none
            does.
    """

    name: str
    uid: str
    owner_uid: str
    deleting: bool
    gpus: int
    node: str | None
    result: JobResult | None = None
    message: str = ""
    pod: MemberPod | None = None
    suspended: bool = False
    pod_error: str = ""
    queued_since: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterGpus:
    """The GPUs of all nodes, and the pods that use them.

    Attributes:
        cluster: what the GPUTopologies report, and the pods of all namespaces that request GPUs.
        rules: name, labels and taints of each Node.
        reserved: GPUs of each node that are planned for members of other ensembles whose pods are
            not bound yet.
    """

    cluster: ClusterPicture
    rules: Mapping[str, Document]
    reserved: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreprocessorJob:
    """A batch/v1 Job that runs the preprocessor of an ensemble.

    Attributes:
        cores: CPUs of its first container; 0 if they are not a whole number.
        ready: whether its pod is ready.
        message: why its pod is not ready; empty if this is unknown.
        ended: whether it starts no pods any more, because it has ended or is being deleted.
        expires: whether Kubernetes deletes it after its end.
    """

    name: str
    cores: int
    suspended: bool
    ready: bool
    message: str = ""
    ended: bool = False
    expires: bool = True

    @property
    def active(self) -> bool:
        """Whether it runs a pod, or will start one without a change."""
        return not self.suspended and not self.ended


@dataclass(frozen=True, slots=True)
class PreprocessorService:
    """The Service with the name of that of an ensemble's preprocessor.

    Attributes:
        owner_uid: UID of the object that controls the Service; empty if no object controls it.
        address: its IP address.
    """

    owner_uid: str
    address: str


@dataclass(frozen=True, slots=True)
class EnsembleInput:
    """Everything that one decision about a GPUEnsemble uses.

    Attributes:
        jobs: the GPUJobs of the members, by name of the member.
        remains: for members without a GPUJob, or whose GPUJob is being deleted: what still exists
            of an earlier GPUJob of this name, as text. The next GPUJob is created when nothing is
            left, so a member never runs twice at the same time.
        facts: measured rates of each GPUProfile that a member names.
        measured: maps the UID of each measured pod to the agent's newest measurement.
        nodes: GPUs that the ensemble can use, free or in use by its members.
        now: RFC 3339 time in UTC, in whole seconds.
        errors: for each member whose GPUJob the API server rejected now, the message.
        rejected: the members of ``errors`` whose GPUJob would be rejected again.
        preprocessors: Jobs of preprocessors that the ensemble owns.
        service: the Service of the preprocessor; None if it does not exist.
        preprocessor_error: why the API server rejected the preprocessor now; empty if it did not.
    """

    ensemble: Ensemble
    jobs: Mapping[str, MemberJob]
    remains: Mapping[str, str]
    facts: Mapping[str, Sequence[ScalingFact]]
    measured: Mapping[str, Measurement]
    nodes: tuple[NodeGpuCount, ...]
    now: str
    errors: Mapping[str, str] = field(default_factory=dict)
    rejected: frozenset[str] = frozenset()
    preprocessors: Sequence[PreprocessorJob] = ()
    service: PreprocessorService | None = None
    preprocessor_error: str = ""


@dataclass(frozen=True, slots=True)
class JobDeletion:
    """A GPUJob to delete; the API server deletes it only if it still has this UID."""

    key: ObjectKey
    uid: str


@dataclass(frozen=True, slots=True)
class PreprocessorWrites:
    """The writes for the preprocessor of an ensemble.

    Attributes:
        create: the Service and the Job to create.
        suspend: Jobs to suspend or, with False, to continue, by name.
        expire: Jobs that have ended and that Kubernetes does not delete yet, by name.
    """

    create: tuple[Document, ...] = ()
    suspend: Mapping[str, bool] = field(default_factory=dict)
    expire: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EnsembleWrites:
    """The writes that a GPUEnsemble needs now, in this order.

    Attributes:
        status: the complete new status; None if it does not change. It has the plan, so it is
            written first: an operator that is killed after that follows the same plan.
        delete: GPUJobs of members that stop.
        preprocessor: for the members that start and run.
        create: GPUJobs of members that start, by name of the member.
        started: for each of these members, the event to create with its GPUJob.
        recheck_after_seconds: time after which to decide again, even without an event.
    """

    status: GPUEnsembleStatus | None = None
    delete: tuple[JobDeletion, ...] = ()
    preprocessor: PreprocessorWrites = PreprocessorWrites()
    create: Mapping[str, Document] = field(default_factory=dict)
    started: Mapping[str, ObjectEvent] = field(default_factory=dict)
    events: tuple[ObjectEvent, ...] = ()
    recheck_after_seconds: float | None = None


def member_job_name(ensemble: str, member: str) -> str:
    """Return the name of the GPUJob of a member.

    The name is always the same, so the API server rejects a second GPUJob of the member.
    """
    return f"{ensemble}-{member}"


def service_name(ensemble: str) -> str:
    """Return the name of the Service of the preprocessor of an ensemble."""
    return f"{ensemble}-preprocessor"
