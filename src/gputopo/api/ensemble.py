"""pydantic models of the kind GPUEnsemble, whose schema is in ``crds/``."""

from typing import Annotated, Any, Literal

from pydantic import Field

from gputopo.api.model import (
    AnnotationTime,
    AnyInteger,
    ApiModel,
    Conditions,
    Generation,
    ObjectName,
    PodUid,
    ProfileName,
)
from gputopo.patterns.model import MAX_GPUS_PER_POD

MAX_MEMBERS = 64
MAX_ENSEMBLE_GPUS = 4096

ItemRate = AnyInteger | Annotated[str, Field(max_length=16, pattern=r"^[0-9]+(\.[0-9]+)?$")]
"""Items per second as users write them: ``176`` or ``"0.5"``."""

MicroItemsPerSecond = Annotated[int, Field(ge=0, le=2**53 - 1)]
MemberName = Annotated[
    str, Field(min_length=1, max_length=40, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
]
MemberPhase = Literal["Waiting", "Starting", "Running", "Stopping", "Succeeded", "Failed"]
EnsemblePhase = Literal["Pending", "Running", "Suspended", "Succeeded", "Failed", "Rejected"]

_Gpus = Annotated[int, Field(ge=1, le=MAX_GPUS_PER_POD)]
_LabelName = Annotated[
    str,
    Field(
        max_length=317,
        pattern=r"^([-a-z0-9.]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    ),
]
_LabelValue = Annotated[
    str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")
]


class GpuRate(ApiModel):
    """``GPUEnsemble.spec.members[].rates[]``: a rate that the user knows."""

    gpus: _Gpus
    items_per_second: ItemRate


class CoreRate(ApiModel):
    """``GPUEnsemble.spec.preprocessing.throughput[]``: measured throughput of the preprocessing."""

    cores: Annotated[int, Field(ge=1, le=1024)]
    items_per_second: ItemRate


class Preprocessing(ApiModel):
    """``GPUEnsemble.spec.preprocessing``: a pod that prepares the items for all members.

    Attributes:
        shared: whether each item is prepared once for all members that train at the same time.
        port: port of the pod and of the Service.
        template: pod template; the operator sets the CPUs of its first container.
    """

    throughput: Annotated[list[CoreRate], Field(min_length=1, max_length=32)]
    shared: bool = True
    port: Annotated[int, Field(ge=1, le=65535)] = 8000
    template: dict[str, Any]


class TemplateMetadata(ApiModel):
    """``GPUEnsemble.spec.members[].jobTemplate.metadata``: labels of the GPUJob."""

    labels: Annotated[dict[_LabelName, _LabelValue], Field(min_length=1, max_length=16)] | None = (
        None
    )


class JobTemplate(ApiModel):
    """``GPUEnsemble.spec.members[].jobTemplate``: ``spec`` is that of a GPUJob without GPUs."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: dict[str, Any]


class EnsembleMemberSpec(ApiModel):
    """``GPUEnsemble.spec.members[]``.

    Attributes:
        profile: GPUProfile with measured rates; it counts steps.
        batch_size: items of a step of one GPU, or of the whole job.
        steps: steps that the member would need with one GPU.
        rates: rates that the user knows; measured ones have priority.
    """

    name: MemberName
    profile: ProfileName | None = None
    batch_size: Annotated[int, Field(ge=1, le=2**31 - 1)]
    batch_of: Literal["GPU", "Job"] = "GPU"
    epochs: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    steps: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    max_gpus: Annotated[_Gpus | None, Field(alias="maxGPUs")] = None
    rates: Annotated[list[GpuRate], Field(max_length=MAX_GPUS_PER_POD)] = []
    job_template: JobTemplate


class GPUEnsembleSpec(ApiModel):
    """``GPUEnsemble.spec``.

    Attributes:
        max_gpus: GPUs that all members use together; None without limit.
        spread_percent: how far the rate of a member may be below the reference rate of its
            flotilla; None for a third.
        restarts: ``FromCheckpoint`` if a member that is stopped continues where it was.
        restart_seconds: time that a restart costs a member.
        rate_difference_percent: a measured rate that differs by more is wrong.
    """

    suspend: bool = False
    max_gpus: Annotated[
        Annotated[int, Field(ge=1, le=MAX_ENSEMBLE_GPUS)] | None, Field(alias="maxGPUs")
    ] = None
    max_gpus_per_member: Annotated[_Gpus | None, Field(alias="maxGPUsPerMember")] = None
    items_per_epoch: Annotated[int, Field(ge=1, le=2**53 - 1)] | None = None
    pace: Literal["Rate", "End"] = "Rate"
    spread_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    restarts: Literal["Never", "FromCheckpoint"] = "Never"
    restart_seconds: Annotated[int, Field(ge=0, le=86_400)] = 120
    rate_difference_percent: Annotated[int, Field(ge=1, le=1000)] = 20
    preprocessing: Preprocessing | None = None
    members: Annotated[list[EnsembleMemberSpec], Field(min_length=1, max_length=MAX_MEMBERS)]


class EnsembleMemberStatus(ApiModel):
    """``GPUEnsemble.status.members[]``: the plan for a member, and what it does.

    Attributes:
        flotilla: number of the flotilla, from 1; None if the member is in none.
        planned: planned rate in items per second, times 10^6; None if it is unknown.
        measured: measured rate of the current pod; None while it is unknown.
        items_done: items of all runs of the member: measured rates times running time.
        earlier_items: the items of earlier pods in ``items_done``.
        items_counted: time until which ``items_done`` has the items of the newest pod; None while
            it has none of them.
        pod_uid: UID of the newest pod in ``items_done``.
        starting_since: since when the GPUJob has no pod on a node; None if it has one.
        progress_percent: None if the items of the member are unknown.
        limited: why the plan gives the member fewer GPUs than its pace needs; empty if it does not.
        message: what the member waits for, or why it has failed.
        pod_error: why its pod could not be created after the last start; None if it was created.
        failed_starts: how often in a row it was started without getting a pod.
        not_before: it is not planned before this time; None if it is planned.
    """

    name: MemberName
    phase: MemberPhase
    flotilla: Annotated[int, Field(ge=1)] | None = None
    gpus: _Gpus | None = None
    node: ObjectName | None = None
    planned: Annotated[MicroItemsPerSecond | None, Field(alias="plannedMicroItemsPerSecond")] = None
    measured: Annotated[MicroItemsPerSecond | None, Field(alias="measuredMicroItemsPerSecond")] = (
        None
    )
    items_done: Annotated[int, Field(ge=0, le=2**53 - 1)] = 0
    earlier_items: Annotated[int, Field(ge=0, le=2**53 - 1)] = 0
    items_counted: AnnotationTime | None = None
    pod_uid: Annotated[PodUid | None, Field(alias="podUID")] = None
    starting_since: AnnotationTime | None = None
    progress_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    limited: Annotated[str, Field(max_length=1024)] = ""
    message: Annotated[str, Field(max_length=1024)] = ""
    pod_error: Annotated[str, Field(max_length=1024)] | None = None
    failed_starts: Annotated[int, Field(ge=1)] | None = None
    not_before: AnnotationTime | None = None


class EnsemblePlanStatus(ApiModel):
    """``GPUEnsemble.status.plan``: when and why the plan was made.

    Attributes:
        generation: generation of the spec that was planned.
        ended: number of members that had ended.
        nodes: GPUs of each node that the ensemble could use, as text; cut if it is long.
        nodes_hash: hash of these GPUs; None in a plan of an operator that did not write it.
        flotillas: number of flotillas that had not started.
        seconds: forecast of the time until the last member ends; None if it is unknown.
    """

    time: AnnotationTime
    reason: Annotated[str, Field(max_length=1024)]
    generation: Generation
    ended: Annotated[int, Field(ge=0, le=MAX_MEMBERS)]
    nodes: Annotated[str, Field(max_length=4096)]
    nodes_hash: Annotated[str, Field(max_length=64)] | None = None
    flotillas: Annotated[int, Field(ge=0, le=MAX_MEMBERS)]
    seconds: Annotated[int, Field(ge=0, le=2**53 - 1)] | None = None


class PreprocessorStatus(ApiModel):
    """``GPUEnsemble.status.preprocessor``: the pod that prepares items, and its planned CPUs.

    Attributes:
        demand: items per second that the members need, times 10^6.
        message: why the demand is not met; empty if it is met.
    """

    job: ObjectName
    cores: Annotated[int, Field(ge=1, le=1024)]
    demand: Annotated[MicroItemsPerSecond, Field(alias="demandMicroItemsPerSecond")]
    message: Annotated[str, Field(max_length=1024)] = ""


class GPUEnsembleStatus(ApiModel):
    """``GPUEnsemble.status``.

    Attributes:
        progress: how many members have ended, as text.
        gpus: GPUs of the members that run or start.
        spread_percent: 1 minus the lowest divided by the highest rate of the members that run, by
            measured rates where they are known; None with fewer than two.
    """

    observed_generation: Generation | None = None
    phase: EnsemblePhase | None = None
    conditions: Conditions = []
    progress: Annotated[str, Field(max_length=64)] | None = None
    gpus: Annotated[int, Field(ge=0, le=MAX_ENSEMBLE_GPUS)] = 0
    spread_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    plan: EnsemblePlanStatus | None = None
    members: Annotated[list[EnsembleMemberStatus], Field(max_length=MAX_MEMBERS)] = []
    preprocessor: PreprocessorStatus | None = None
