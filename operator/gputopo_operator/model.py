"""The values that decisions are made from and turned into."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from gputopo.api.annotations import PlacementAnnotation
from gputopo.api.names import RESOURCE, SCHEDULER_NAME
from gputopo.api.v1alpha1 import GPUJobSpec, GPUJobStatus, GPUProfileSpec

Object: TypeAlias = dict[str, Any]
"""A Kubernetes object as its JSON says it."""


class Key(NamedTuple):
    """Which GPUJob."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Rules:
    """The names that an installation may choose."""

    resource: str = RESOURCE
    scheduler_name: str = SCHEDULER_NAME


class FailureKind(StrEnum):
    """Whose failure a failed pod is."""

    APPLICATION = "application"
    ADMISSION = "admission"


@dataclass(frozen=True, slots=True)
class GpuJob:
    """A GPUJob as read.

    Attributes:
        spec: None where it cannot be read; ``spec_error`` names field and value then.
    """

    key: Key
    uid: str
    generation: int
    labels: Mapping[str, str]
    deleting: bool
    spec: GPUJobSpec | None
    spec_error: str
    status: GPUJobStatus


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job ended: ``succeeded``, or failed with a reason."""

    succeeded: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Child:
    """The batch/v1 Job of the GPUJob's name, whoever owns it.

    Attributes:
        owner_uid: UID of its controller, empty without one.
        queue: the Kueue queue in its labels, empty without one.
        failed: pods that the Job controller counts as failed.
        sensitivity: what its pods say of their bandwidth sensitivity.
        ending: None while the Job is not over.
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
    ending: Ending | None


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of the child Job.

    Attributes:
        job_uid: UID of the Job that controls it.
        started: whether any of its containers was ever started.
        disrupted: whether the cluster took it away (preemption, eviction, node gone).
        reason: kubelet's reason for the whole pod, empty mostly.
        message: kubelet's words to it.
        ended: how its first failed container ended, for people.
        unscheduled: reason and message of the scheduler while it has no node.
        waiting: why its first waiting container waits, for people.
        gpus: the UUIDs that the extender chose, in rank order.
        generation: generation of the topology that they were chosen from.
    """

    name: str
    uid: str
    job_uid: str
    created: str
    deleting: bool
    node: str
    phase: str
    started: bool = False
    disrupted: bool = False
    reason: str = ""
    message: str = ""
    ended: str = ""
    unscheduled: tuple[str, str] = ("", "")
    waiting: str = ""
    gpus: tuple[str, ...] = ()
    generation: int | None = None
    placement: PlacementAnnotation | None = None

    @property
    def over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.phase in {"Succeeded", "Failed"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API server's answer to the child Job.

    Attributes:
        permanent: the same Job would be refused again, so that trying is of no use.
    """

    message: str
    permanent: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that one decision is made from.

    Attributes:
        pods: the pods that carry the GPUJob's label, whoever owns them.
        observed: the GPUs that kubelet says each pod holds, by UID of the pod.
        profile: the GPUProfile that the job names, None where there is none.
        refusal: what the API server said to the child Job a moment ago.
        profile_error: why the GPUProfile was not created a moment ago, empty otherwise.
        now: the time, as Kubernetes writes it.
    """

    job: GpuJob
    child: Child | None
    pods: tuple[Pod, ...]
    observed: Mapping[str, tuple[str, ...]]
    profile: GPUProfileSpec | None
    refusal: Refusal | None
    now: str
    profile_error: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """Something to tell on the GPUJob."""

    type: str
    reason: str
    note: str


@dataclass(frozen=True, slots=True)
class FailedPod:
    """A failed pod that was not counted before."""

    pod: Pod
    kind: FailureKind


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, in this order; nothing where all is as it should be.

    Attributes:
        create_profile: name of the GPUProfile to create; the job runs without it too.
        job_patch: merge patch of the child Job.
        status: the full status, None where it is right already.
        failed_pods: what the status counts for the first time.
        recheck_after_s: look again after so long though no event may come.
    """

    create_job: Object | None = None
    create_profile: str | None = None
    job_patch: Object | None = None
    status: GPUJobStatus | None = None
    events: tuple[Event, ...] = ()
    failed_pods: tuple[FailedPod, ...] = ()
    recheck_after_s: float | None = None
