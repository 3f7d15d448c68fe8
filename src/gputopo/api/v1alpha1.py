"""pydantic models of the custom resources, whose schemas are in ``crds/``.

The models have the fields that components read or write. Unknown keys are ignored, so an older
version of a component can read objects of a newer version.
"""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from gputopo.api.alignment import KubeletAlignment
from gputopo.api.job_resources import JobResources, ResourcesSpec
from gputopo.api.model import (
    AnnotationTime,
    ApiModel,
    Conditions,
    ContainerName,
    Generation,
    MegabytesPerSecond,
    Memory,
    NumaNodeId,
    ObjectName,
    PodUid,
    ProfileName,
    SomeMemory,
    Uuid,
)
from gputopo.api.profile import (
    MAX_NODE_SAMPLES,
    MAX_SHARES,
    CiPermille,
    Measurement,
    MeasurementState,
    MicroStepsPerSecond,
    NodeSample,
    ProfilingSeconds,
    ProfilingTarget,
    StepsSource,
)
from gputopo.api.quantity import parse_bytes
from gputopo.api.shares import MAX_SLOWDOWN_PERCENT, SharingLimits
from gputopo.api.utility import UtilityFigures, UtilityPercent
from gputopo.patterns.declared import DeclaredPattern
from gputopo.patterns.model import MAX_GPUS_PER_POD, PatternEdge
from gputopo.placement.model import PolicyName
from gputopo.sensitivity.resolve import Sensitivity
from gputopo.topology.model import Ancestor, LinkKind


class TopologyGpu(ApiModel):
    """``GPUTopology.spec.gpus[]``."""

    uuid: Uuid
    index: Annotated[int, Field(ge=0, le=63)]
    minor: Annotated[int, Field(ge=0, le=1048575)]
    pci_bus_id: Annotated[str, Field(alias="pciBusID", max_length=32)]
    model: Annotated[str, Field(max_length=128)]
    memory: Memory
    numa_node: NumaNodeId | None = None


class TopologyLink(ApiModel):
    """``GPUTopology.spec.links[]``: the best link of one pair of GPUs."""

    a: Uuid
    b: Uuid
    kind: LinkKind
    version: Annotated[int, Field(ge=0, le=99)]
    count: Annotated[int, Field(ge=0, le=99)]
    ancestor: Ancestor
    bandwidth_mb_per_s: Annotated[int, Field(alias="bandwidthMBps", gt=0)]


class TopologyNumaNode(ApiModel):
    """``GPUTopology.spec.numaNodes[]``."""

    id: NumaNodeId
    cpus: Annotated[int, Field(ge=0)]
    memory: Memory


class GPUTopologySpec(ApiModel):
    """``GPUTopology.spec``: the hardware of one node, without its state."""

    gpus: Annotated[list[TopologyGpu], Field(max_length=64)] = []
    links: Annotated[list[TopologyLink], Field(max_length=2016)] = []
    numa_nodes: Annotated[list[TopologyNumaNode], Field(max_length=64)] = []


class ObservedShare(ApiModel):
    """``GPUTopology.status.gpus[].shares[]``: the container that uses a share of the GPU.

    Attributes:
        id: device ID of the share.
        pod_deleted: the pod was deleted or has ended, but one of its processes still runs.
    """

    id: Uuid
    pod_uid: Annotated[PodUid | None, Field(alias="podUID")] = None
    namespace: ContainerName | None = None
    pod: ObjectName | None = None
    container: ContainerName | None = None
    pod_deleted: bool | None = None


class ObservedGpu(ApiModel):
    """``GPUTopology.status.gpus[]``: health, and the container that uses the GPU.

    Attributes:
        pod_deleted: the pod was deleted or has ended, but one of its processes still runs.
        shares: the containers that share the GPU; None if there are none. The first of them is also
            the GPU's own user, so an extender that knows no shares treats the GPU as used.
        sharing_fault: why the GPU takes no further sharing pods now; None if it does.
        whole_fault: why no pod can get the GPU as a whole now, even if no pod uses it: MPS still
            serves it; None if a pod can.
    """

    uuid: Uuid
    healthy: bool
    reason: Annotated[str, Field(max_length=1024)] | None = None
    pod_uid: Annotated[PodUid | None, Field(alias="podUID")] = None
    namespace: ContainerName | None = None
    pod: ObjectName | None = None
    container: ContainerName | None = None
    pod_deleted: bool | None = None
    shares: Annotated[list[ObservedShare], Field(max_length=MAX_SHARES)] | None = None
    sharing_fault: Annotated[str, Field(max_length=1024)] | None = None
    whole_fault: Annotated[str, Field(max_length=1024)] | None = None


class SharingCapacity(ApiModel):
    """``GPUTopology.status.sharing``: how pods can share the GPUs of the node.

    Attributes:
        most_pods: most pods on one GPU.
    """

    most_pods: Annotated[int, Field(alias="maxPodsPerGPU", ge=1, le=MAX_SHARES)]


class SizedCapacity(ApiModel):
    """``GPUTopology.status.sizedCapacity``: what the node has for pods that gputopo sizes.

    Attributes:
        milli_cpu: allocatable CPUs minus the requests of all other pods, in thousandths.
        memory: allocatable memory minus the requests of all other pods, in bytes.
        gpus: allocatable GPUs minus those of all other pods.
    """

    milli_cpu: Annotated[int, Field(alias="milliCPU", ge=0, le=2**53 - 1)]
    memory: Annotated[int, Field(ge=0, le=2**53 - 1)]
    gpus: Annotated[int, Field(ge=0, le=64)]


class CounterStatus(ApiModel):
    """``GPUTopology.status.counters[]``: what the agent reads hardware counters from.

    Attributes:
        kind: the key of the list.
        source: where the values come from; ``None`` if no GPU of the node has this counter.
        gpus: number of GPUs whose counters can be read.
        message: why other GPUs or better sources cannot be read; empty if all can.
    """

    kind: Literal["NVLink", "PCIe", "Load"]
    source: Annotated[str, Field(max_length=32)]
    gpus: Annotated[int, Field(ge=0, le=64)]
    message: Annotated[str, Field(max_length=512)] = ""


class GPUTopologyStatus(ApiModel):
    """``GPUTopology.status``: the state that the agent observes.

    Attributes:
        sized_capacity: None if the agent does not report it.
        alignment: None if the choice of GPUs does not depend on NUMA nodes.
        observed_pods_version: a resource version. The status includes all changes of the node's
            pods up to this version. None if the agent did not report a version.
        counters: empty if the agent reads no counters.
        sharing: None if the node offers no shares of GPUs.
    """

    observed_generation: Generation | None = None
    observed_pods_version: Annotated[str | None, Field(max_length=19, pattern=r"^[0-9]+$")] = None
    fingerprint: Annotated[str, Field(max_length=128)] | None = None
    conditions: Conditions = []
    gpus: Annotated[list[ObservedGpu], Field(max_length=64)] = []
    sized_capacity: SizedCapacity | None = None
    alignment: KubeletAlignment | None = None
    measurements: Annotated[list[Measurement], Field(max_length=64)] = []
    samples: Annotated[list[NodeSample], Field(max_length=MAX_NODE_SAMPLES)] = []
    counters: Annotated[list[CounterStatus], Field(max_length=3)] = []
    sharing: SharingCapacity | None = None


MAX_AVOID_RULES = 8
"""Most rules of one pod about pods to avoid."""

AvoidLevel: TypeAlias = Literal["Socket", "Node"]

_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LabelName = Annotated[str, Field(max_length=317, pattern=rf"^([-a-z0-9.]{{1,253}}/)?{_NAME}$")]
_LabelValue = Annotated[str, Field(max_length=63, pattern=rf"^({_NAME})?$")]


class Edge(ApiModel):
    """One edge of a Custom pattern, between two ranks (numbered from 0)."""

    from_: Annotated[int, Field(alias="from", ge=0, lt=MAX_GPUS_PER_POD)]
    to: Annotated[int, Field(ge=0, lt=MAX_GPUS_PER_POD)]
    weight: Annotated[int, Field(ge=1, le=1000)] = 1

    def to_pattern_edge(self) -> PatternEdge:
        """Return the edge in the type that :func:`gputopo.patterns.model.build` takes."""
        return PatternEdge(self.from_, self.to, self.weight)


class Communication(ApiModel):
    """``GPUJob.spec.communication``: which ranks communicate, and how much bandwidth matters.

    Attributes:
        pattern: None has the same meaning as Auto. The API server stores no default, because
            an older operator rejects the value Auto, but not a missing value.
    """

    pattern: DeclaredPattern | None = None
    edges: Annotated[list[Edge], Field(max_length=120)] = []
    bandwidth_sensitivity: Sensitivity = Sensitivity.AUTO


class AvoidSpec(ApiModel):
    """``GPUJob.spec.placement.avoid[]``: pods beside which the job must not run.

    Attributes:
        match_labels: a pod of the same namespace with all of these labels is to be avoided.
        level: whether the job gets no GPU of the same CPU sockets, or of the same node.
    """

    match_labels: Annotated[dict[_LabelName, _LabelValue], Field(min_length=1, max_length=8)]
    level: AvoidLevel = "Socket"


class PlacementSpec(ApiModel):
    """``GPUJob.spec.placement``: the rule that chooses the GPUs, and which pods to avoid.

    Attributes:
        min_utility_percent: least utility for the job with which it accepts GPUs; only with the
            policy Utility.
        max_wait_seconds: longest wait of a pod for a better placement, from its creation.
    """

    policy: PolicyName | None = None
    min_utility_percent: UtilityPercent | None = None
    avoid: Annotated[list[AvoidSpec], Field(max_length=MAX_AVOID_RULES)] = []
    max_wait_seconds: Annotated[int, Field(ge=0, le=7 * 86_400)] | None = None


class Workload(ApiModel):
    """``GPUJob.spec.workload``: the GPUProfile with the measurements of the job's program."""

    profile: ProfileName | None = None


class Limits(ApiModel):
    """``GPUJob.spec.limits``: how many failed pods are tolerated, and how long the job may take."""

    backoff_limit: Annotated[int, Field(ge=0, le=1000)] = 6
    max_admission_retries: Annotated[int, Field(ge=0, le=1000)] = 20
    active_deadline_seconds: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None


class ThroughputSpec(ApiModel):
    """``GPUJob.spec.profiling.throughput``: how the agent counts training steps.

    Attributes:
        metrics: where the counter is, as ``PORT/PATH METRIC``; only with the source ``Metrics``.
    """

    source: StepsSource = "SDK"
    metrics: Annotated[str, Field(max_length=512)] | None = None


class ProfilingSpec(ApiModel):
    """``GPUJob.spec.profiling``: which resources are varied to measure their effect on speed."""

    measure: Annotated[list[ProfilingTarget], Field(max_length=2)] = []
    max_seconds: ProfilingSeconds = 600
    throughput: ThroughputSpec = ThroughputSpec()


class SharingSpec(ApiModel):
    """``GPUJob.spec.sharing``: whether the job may share its GPU with other jobs.

    Attributes:
        mode: ``Allowed`` only with one GPU for each pod.
        memory: GPU memory of the job; an equal part of the GPU if it is missing.
        max_slowdown_percent: how much longer a step may take than alone; the limit of the
            installation if it is missing.
        termination: ``Program`` if the program ends its work on the GPU by itself after SIGTERM,
            for example after it has written a checkpoint; ``Client`` if it is missing.
        if_slow: what happens with the job if it came last and sharing does not pay; ``Report`` if
            it is missing.
    """

    mode: Literal["Exclusive", "Allowed"]
    memory: SomeMemory | None = None
    max_slowdown_percent: Annotated[int, Field(ge=0, le=MAX_SLOWDOWN_PERCENT)] | None = None
    termination: Literal["Client", "Program"] | None = None
    if_slow: Literal["Report", "Move"] | None = None

    @property
    def limits(self) -> SharingLimits:
        """The limits in the form of the annotations."""
        memory = None if self.memory is None else parse_bytes(self.memory, "sharing.memory")
        return SharingLimits(
            memory,
            self.max_slowdown_percent,
            moves=self.if_slow == "Move",
            ends_itself=self.termination == "Program",
        )


class Expectation(ApiModel):
    """``GPUJob.spec.expected``.

    Attributes:
        duration_seconds: how long the job runs in total, without the time in which it waits.
    """

    duration_seconds: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None


class GPUJobSpec(ApiModel):
    """``GPUJob.spec``."""

    suspend: bool = False
    replicas: Annotated[int, Field(ge=1, le=1)] = 1
    gpus_per_replica: Annotated[int, Field(ge=1, le=MAX_GPUS_PER_POD)]
    priority_class_name: ObjectName | None = None
    workload: Workload = Workload()
    communication: Communication = Communication()
    placement: PlacementSpec = PlacementSpec()
    resources: ResourcesSpec = ResourcesSpec()
    expected: Expectation = Expectation()
    limits: Limits = Limits()
    profiling: ProfilingSpec = ProfilingSpec()
    sharing: SharingSpec = SharingSpec(mode="Exclusive")
    template: dict[str, Any]


class JobPlacement(ApiModel):
    """``GPUJob.status.placements[]``: intended and observed GPUs of one pod.

    Attributes:
        sensitivity: whether the extender treated the pod as bandwidth-sensitive, and why.
        pattern: communication pattern for which the extender chose the GPUs.
        pattern_fact: the fact of the GPUProfile from which the extender derived ``pattern``, as
            text. None if the job declares its pattern, or if the pattern is unknown.
        utility: None for all policies except Utility.
    """

    pod: ObjectName
    pod_uid: Annotated[PodUid, Field(alias="podUID")]
    node: ObjectName
    topology_generation: Generation | None = None
    intended: Annotated[list[Uuid], Field(max_length=MAX_GPUS_PER_POD)] = []
    observed: Annotated[list[Uuid], Field(max_length=MAX_GPUS_PER_POD)] = []
    model: Annotated[str, Field(max_length=32)] | None = None
    effective_mb_per_s: Annotated[MegabytesPerSecond | None, Field(alias="effectiveMBps")] = None
    aggregate_mb_per_s: Annotated[MegabytesPerSecond | None, Field(alias="aggregateMBps")] = None
    preserved_mb_per_s: Annotated[MegabytesPerSecond | None, Field(alias="preservedMBps")] = None
    sensitivity: Annotated[str, Field(max_length=1024)] | None = None
    pattern: Annotated[str, Field(max_length=64)] | None = None
    pattern_fact: Annotated[str, Field(max_length=512)] | None = None
    utility: UtilityFigures | None = None


class JobFailures(ApiModel):
    """``GPUJob.status.failures``: numbers of pods whose program failed or that kubelet rejected."""

    application: Annotated[int, Field(ge=0)] = 0
    admission: Annotated[int, Field(ge=0)] = 0


class JobThroughput(ApiModel):
    """``GPUJob.status.throughput``: the measured speed of the current pod.

    Attributes:
        micro_steps_per_second: the last known rate of the pod; ``state`` shows whether it is the
            current rate.
        steps_per_second: the rate with its 95 % interval in words, for example ``12.4 ±0.3``, and
            the state if it is not ``Steady``.
    """

    state: MeasurementState
    source: StepsSource
    micro_steps_per_second: MicroStepsPerSecond | None = None
    ci_permille: CiPermille | None = None
    steps_per_second: Annotated[str, Field(max_length=32)] | None = None


class QueueStatus(ApiModel):
    """``GPUJob.status.queue``; only the queue of the operator writes it.

    Attributes:
        position: place in the queue, from 1; None if the job does not wait in the queue.
        reserved_node: node whose GPUs are kept free for the job; None if there is no such node.
        waited_seconds: total time in the queue, without the current wait.
        running_since: start of the current pod.
        ran_seconds: total run time of the former pods.
        pod_error: why the pod could not be created after the last start; None if it was created.
        failed_starts: how often in a row the job was started without getting a pod.
        not_before: the job is not started before this time.
    """

    position: Annotated[int, Field(ge=1)] | None = None
    reason: Annotated[str, Field(max_length=1024)] | None = None
    reserved_node: ObjectName | None = None
    waiting_since: AnnotationTime | None = None
    waited_seconds: Annotated[int, Field(ge=0)] | None = None
    running_since: AnnotationTime | None = None
    ran_seconds: Annotated[int, Field(ge=0)] | None = None
    pod_error: Annotated[str, Field(max_length=1024)] | None = None
    failed_starts: Annotated[int, Field(ge=1)] | None = None
    not_before: AnnotationTime | None = None


class GPUJobStatus(ApiModel):
    """``GPUJob.status``; the phase is derived from the conditions.

    Attributes:
        failed_pod_uids: pods that still exist and that ``failures`` already counts. So the operator
            counts no pod twice.
    """

    observed_generation: Generation | None = None
    phase: Annotated[str, Field(max_length=32)] | None = None
    conditions: Conditions = []
    failures: JobFailures = JobFailures()
    failed_pod_uids: Annotated[list[PodUid], Field(alias="failedPodUIDs", max_length=2048)] = []
    queue: QueueStatus | None = None
    placements: Annotated[list[JobPlacement], Field(max_length=16)] = []
    throughput: JobThroughput | None = None
    resources: JobResources | None = None
