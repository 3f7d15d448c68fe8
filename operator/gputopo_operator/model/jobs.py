"""The input and the result of a decision about a GPUJob. ``parse.jobs`` makes the input."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from gputopo.api.annotations import GpusAnnotation, PlacementAnnotation
from gputopo.api.known_facts import FactsAnnotation
from gputopo.api.link_runs import LinkRunResult, LinksResult
from gputopo.api.names import RESOURCE, SCHEDULER_NAME
from gputopo.api.profile import GPUProfile, Measurement, Sample
from gputopo.api.profiling import ProfilingState
from gputopo.api.tuning import TunedRecord, TuningRequest
from gputopo.api.v1alpha1 import GPUJobSpec, GPUJobStatus
from gputopo_kube.document import Document, ObjectKey
from gputopo_kube.pods import PodView
from gputopo_kube.podstatus import PodStatus, UnappliedResize


@dataclass(frozen=True, slots=True)
class PodDefaults:
    """What the settings of the operator fix for the pods of all GPUJobs.

    Attributes:
        resource: extended resource that counts the GPUs.
        shares: whether the nodes of the installation offer shares of GPUs.
    """

    resource: str = RESOURCE
    scheduler_name: str = SCHEDULER_NAME
    shares: bool = False


class FailureKind(StrEnum):
    """The cause of a failed pod: its program failed, or kubelet did not admit the pod."""

    APPLICATION = "application"
    ADMISSION = "admission"


@dataclass(frozen=True, slots=True)
class GpuJob:
    """A GPUJob.

    Attributes:
        spec: the parsed spec, or None if the spec is invalid.
        spec_error: the invalid field and its value; empty if the spec is valid.
        status: the valid part of the status.
        status_error: the first invalid value of the status; empty if the status is valid.
    """

    key: ObjectKey
    uid: str
    generation: int
    labels: Mapping[str, str]
    deleting: bool
    spec: GPUJobSpec | None
    spec_error: str
    status: GPUJobStatus
    status_error: str = ""


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a finished job. The job has failed if ``succeeded`` is false."""

    succeeded: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ChildJob:
    """The batch/v1 Job that has the name of the GPUJob, even if the GPUJob does not own it.

    Attributes:
        owner_uid: UID of the object that controls the Job; empty if no object controls it.
        queue: the Kueue queue in the labels of the Job; empty without such a label.
        failed: number of pods that the Job controller counts as failed.
        sensitivity: bandwidth sensitivity in the annotations of the pod template.
        facts: facts about the workload in the annotations of the pod template, if any.
        result: None until the Job is complete or has failed.
        links: result of measuring links before this Job; None if the GPUJob did not request it.
        parallelism: how many pods the Job creates at a time.
        own_pods: whether the Job controller of Kubernetes creates its pods, and they have its UID
            as a label. Each Job of the operator is so.
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
    facts: FactsAnnotation | None
    result: JobResult | None
    links: LinksResult | None = None
    parallelism: int = 1
    own_pods: bool = True


@dataclass(frozen=True, slots=True)
class FailedCreate:
    """The Job controller could not create a pod; one event can stand for several attempts.

    Attributes:
        first: Unix time of the first attempt.
        last: Unix time of the last attempt.
    """

    message: str
    first: float
    last: float


class CreatedPod(NamedTuple):
    """A pod of a Job, also if another client has created it.

    Attributes:
        created: RFC 3339 time.
        without_gpus: whether it has not ended, but requests no GPUs.
    """

    name: str
    created: str
    without_gpus: bool


@dataclass(frozen=True, slots=True)
class PodSize:
    """CPU and memory of a pod that gputopo sizes.

    Attributes:
        request: mode and upper bounds in the annotations of the pod.
        milli_cpu: CPU limit in effect in the container with GPUs; None without a limit.
        memory: memory limit in effect, in bytes; None without a limit.
        record: the operator's record of resizes; None if the operator has not resized the pod.
        problem: why kubelet has not applied the newest resize; None if it reports no reason.
        obstacle: why the pod cannot be resized, with the remedy; empty if it can.
        measuring: whether the pod is being measured with several CPU limits.
    """

    request: TuningRequest
    milli_cpu: int | None = None
    memory: int | None = None
    record: TunedRecord | None = None
    problem: UnappliedResize | None = None
    obstacle: str = ""
    measuring: bool = False


@dataclass(frozen=True, slots=True)
class JobPod:
    """A pod with the label of a GPUJob.

    Attributes:
        job_uid: UID of the Job that controls the pod.
        created: RFC 3339 time of the creation of the pod.
        gpus: the GPUs that the extender chose for this pod; None if it has not chosen yet.
        placement: the extender's policy and predicted bandwidths for these GPUs, if known.
        profiling: state of the measurement with several CPU limits, if it has begun.
        size: None if gputopo does not decide about the CPU and memory of the pod.
    """

    view: PodView
    status: PodStatus
    job_uid: str
    created: str
    gpus: GpusAnnotation | None
    placement: PlacementAnnotation | None
    profiling: ProfilingState | None = None
    size: PodSize | None = None


class LinkSet(StrEnum):
    """The GPU set of a short run that measures links."""

    BEST = "Best"
    WORST = "Worst"


@dataclass(frozen=True, slots=True)
class LinkRun:
    """The Job of a short run that measures links, before the child Job is created.

    Attributes:
        created: RFC 3339 time.
        result: what the operator stored when it ended the run; None if it has not ended the run.
        finished: whether the Job has ended because of its program or its time limit.
    """

    name: str
    uid: str
    resource_version: str
    owner_uid: str
    created: str
    result: LinkRunResult | None
    finished: bool


@dataclass(frozen=True, slots=True)
class WriteErrors:
    """For each write of a plan, the API server's message if it rejected the write, else "".

    Attributes:
        job: message about the creation of the child Job.
        job_is_permanent: whether the API server would reject the same child Job again.
        profile: message about the creation of the GPUProfile.
        job_patch: message about the change of the child Job.
        link_run: message about the creation of the Job of a short run.
        pod_patch: message about the change of the pod.
    """

    job: str = ""
    job_is_permanent: bool = False
    profile: str = ""
    job_patch: str = ""
    link_run: str = ""
    pod_patch: str = ""


@dataclass(frozen=True, slots=True)
class GpuJobState:
    """The input of one decision about a GPUJob.

    Attributes:
        pods: all pods with the label of the GPUJob, also pods that another Job owns.
        observed: maps the UID of each pod to the UUIDs of the GPUs that kubelet has given to it.
        measured: maps the UID of each measured pod to the agent's newest measurement.
        profile: the GPUProfile that the job names; None if it does not exist or is not needed.
        now: RFC 3339 time in UTC, in whole seconds.
        link_runs: the existing Jobs of the short runs that measure links.
        samples: maps the UID of each pod to its samples in GPUTopologies, oldest first; empty
            without short runs, which alone need them.
        queued: whether gputopo's queue starts the child Jobs that are not under Kueue.
        started: RFC 3339 time at which the Job controller last started the child Job; None if it
            has not started it since its last suspension.
        pod_error: why the child Job has had no pod for a minute; empty if no error is known.
    """

    job: GpuJob
    child: ChildJob | None
    pods: tuple[JobPod, ...]
    observed: Mapping[str, tuple[str, ...]]
    measured: Mapping[str, Measurement]
    profile: GPUProfile | None
    now: str
    errors: WriteErrors = WriteErrors()
    link_runs: Mapping[LinkSet, LinkRun] = field(default_factory=dict)
    samples: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    queued: bool = False
    started: str | None = None
    pod_error: str = ""


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """A Kubernetes Event on a GPUJob, GPUProfile or Pod; ``type`` is Normal or Warning."""

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
    """The writes that a GPUJob needs now. The plan is empty if no write is needed.

    Attributes:
        create_job: the child Job to create.
        create_profile: name of an empty GPUProfile to create. The job starts without it.
        job_patch: merge patch of the child Job.
        create_link_run: the Job of a short run to create.
        link_run_patch: name of the Job of a short run, and its merge patch.
        pod_patch: name of the pod, and its merge patch.
        status: the complete new status; None if the status does not change.
        failed_pods: the pods that the status counts for the first time.
        recheck_after_seconds: time after which to decide again, even without an event.
    """

    create_job: Document | None = None
    create_profile: str | None = None
    job_patch: Document | None = None
    create_link_run: Document | None = None
    link_run_patch: tuple[str, Document] | None = None
    pod_patch: tuple[str, Document] | None = None
    status: GPUJobStatus | None = None
    events: tuple[ObjectEvent, ...] = ()
    failed_pods: tuple[FailedPod, ...] = ()
    recheck_after_seconds: float | None = None
