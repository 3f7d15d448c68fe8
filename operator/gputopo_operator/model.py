"""The values that the decision takes and returns. ``parse`` makes them from API objects."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from gputopo.api.annotations import GpusAnnotation, PlacementAnnotation
from gputopo.api.names import RESOURCE, SCHEDULER_NAME
from gputopo.api.v1alpha1 import GPUJobSpec, GPUJobStatus, GPUProfileSpec
from gputopo_kube.document import Document
from gputopo_kube.pods import PodView
from gputopo_kube.podstatus import PodStatus


class GpuJobKey(NamedTuple):
    """Namespace and name of a GPUJob."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PodDefaults:
    """The names that an installation configures for the pods of all GPUJobs.

    Attributes:
        resource: extended resource that counts the GPUs.
    """

    resource: str = RESOURCE
    scheduler_name: str = SCHEDULER_NAME


class FailureKind(StrEnum):
    """The cause of a failed pod: its program, or kubelet that did not admit it."""

    APPLICATION = "application"
    ADMISSION = "admission"


@dataclass(frozen=True, slots=True)
class GpuJob:
    """A GPUJob.

    Attributes:
        spec: None where it is invalid.
        spec_error: the invalid field and its value, empty for a valid spec.
    """

    key: GpuJobKey
    uid: str
    generation: int
    labels: Mapping[str, str]
    deleting: bool
    spec: GPUJobSpec | None
    spec_error: str
    status: GPUJobStatus


@dataclass(frozen=True, slots=True)
class JobResult:
    """The end of a job: ``succeeded``, or failed for a reason."""

    succeeded: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ChildJob:
    """The batch/v1 Job that has the name of the GPUJob, whether or not the GPUJob owns it.

    Attributes:
        owner_uid: UID of its controller, empty without one.
        queue: the Kueue queue in its labels, empty without one.
        failed: pods that the Job controller counts as failed.
        sensitivity: bandwidth sensitivity in the annotations of its pods.
        result: None until the Job is complete or has failed.
    """

    uid: str
    resource_version: str
    owner_uid: str
    deleting: bool
    suspended: bool
    backoff_limit: int
    queue: str
    failed: int
    sensitivity: str
    result: JobResult | None


@dataclass(frozen=True, slots=True)
class JobPod:
    """A pod with the label of a GPUJob.

    Attributes:
        job_uid: UID of the Job that controls it.
        created: RFC 3339 time of its creation.
        gpus: the GPUs that the extender chose, None where it has chosen none for this pod.
        placement: the extender's figures for these GPUs.
    """

    view: PodView
    status: PodStatus
    job_uid: str
    created: str
    gpus: GpusAnnotation | None
    placement: PlacementAnnotation | None


@dataclass(frozen=True, slots=True)
class WriteErrors:
    """The writes of a plan that the API server rejected a moment ago, with its messages.

    Attributes:
        job: the creation of the child Job.
        job_is_permanent: whether the same Job would be rejected again.
        profile: the creation of the GPUProfile.
        job_patch: the change of the child Job.
    """

    job: str = ""
    job_is_permanent: bool = False
    profile: str = ""
    job_patch: str = ""


@dataclass(frozen=True, slots=True)
class GpuJobState:
    """The input of one decision.

    Attributes:
        pods: the pods that have the label of the GPUJob, whether or not its Job owns them.
        observed: UUIDs of the GPUs that kubelet has given to each pod, by UID of the pod.
        profile: the GPUProfile that the job names, None where it does not exist.
        now: RFC 3339 time in UTC, in whole seconds.
    """

    job: GpuJob
    child: ChildJob | None
    pods: tuple[JobPod, ...]
    observed: Mapping[str, tuple[str, ...]]
    profile: GPUProfileSpec | None
    now: str
    errors: WriteErrors = WriteErrors()


@dataclass(frozen=True, slots=True)
class JobEvent:
    """A Kubernetes Event on the GPUJob; ``type`` is Normal or Warning."""

    type: str
    reason: str
    note: str


@dataclass(frozen=True, slots=True)
class FailedPod:
    """A failed pod that the status has not counted before."""

    pod: JobPod
    kind: FailureKind


@dataclass(frozen=True, slots=True)
class ReconcilePlan:
    """The writes that bring the cluster to what the GPUJob requests; empty where none is needed.

    Attributes:
        create_job: the child Job.
        create_profile: name of an empty GPUProfile; the job runs without it too.
        job_patch: merge patch of the child Job.
        status: the whole status, None where the present one is right.
        failed_pods: the pods that the status counts for the first time.
        recheck_after_seconds: time after which to decide again, even without an event.
    """

    create_job: Document | None = None
    create_profile: str | None = None
    job_patch: Document | None = None
    status: GPUJobStatus | None = None
    events: tuple[JobEvent, ...] = ()
    failed_pods: tuple[FailedPod, ...] = ()
    recheck_after_seconds: float | None = None
