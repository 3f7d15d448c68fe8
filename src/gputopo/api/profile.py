"""pydantic models of measurements: samples of a workload, the facts from them, and GPUProfiles."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import Field, ValidationError

from gputopo.api.model import (
    ApiModel,
    Conditions,
    ContainerName,
    Generation,
    MegabytesPerSecond,
    Memory,
    ObjectName,
    PodUid,
    ProfileName,
    Timestamp,
)
from gputopo.patterns.model import MAX_GPUS_PER_POD

MAX_SAMPLES = 64
"""Most samples of one GPUProfile; :mod:`gputopo.profiles.retention` chooses which to keep."""

MAX_NODE_SAMPLES = 32
"""Most samples in the status of one GPUTopology; the newest stay."""

MAX_SHARES = 48
"""Most pods on one GPU: a V100 or newer serves 48 MPS clients."""

MAX_SHARING_FACTS = 32
"""Most facts about sharing of one GPUProfile."""

StepsSource: TypeAlias = Literal["SDK", "Metrics", "Log"]
"""How the agent counts the training steps of a container."""

MeasurementState: TypeAlias = Literal["NoData", "WarmUp", "Steady", "Stalled", "SeveralSenders"]
"""``WarmUp``: the rate still changes. ``Steady``: there is a rate. ``Stalled``: steps have stopped.
``SeveralSenders``: two processes of one container report steps, so no rate is known."""

ProfilingTarget: TypeAlias = Literal["CPUs", "Links"]
"""A resource that gputopo varies during a job to measure its effect on the job's speed."""

WorkloadName = Annotated[str, Field(min_length=1, max_length=317)]
"""``NAMESPACE/PROFILE`` of a pod with a profile, ``NAMESPACE/`` of a pod without one."""

ProfilingSeconds = Annotated[int, Field(ge=1, le=7 * 86_400)]
Gpus = Annotated[int, Field(ge=1, le=MAX_GPUS_PER_POD)]
MicroStepsPerSecond = Annotated[int, Field(ge=0)]
CiPermille = Annotated[int, Field(ge=0)]
Percent = Annotated[int, Field(ge=-100, le=100000)]
SampleCount = Annotated[int, Field(ge=0)]
Amount = Annotated[int, Field(ge=0, le=2**53 - 1)]

_Raw = TypeVar("_Raw")


class SampleTraffic(ApiModel):
    """``samples[].traffic``: what the counters showed of the communication between the GPUs.

    :class:`gputopo.counters.model.Traffic` describes the values.

    Attributes:
        pattern: ``None`` if the GPUs do not communicate, ``Unknown`` if the counters do not show
            the pattern.
        confidence_permille: 0 if the pattern is unknown.
        windows: number of windows from which the pattern was inferred.
    """

    source: Annotated[str, Field(max_length=32)]
    bytes_per_step: Annotated[int, Field(ge=0, le=2**53 - 1)]
    pattern: Annotated[str, Field(max_length=32)] = "Unknown"
    confidence_permille: Annotated[int, Field(ge=0, le=1000)] = 0
    windows: Annotated[int, Field(ge=0, le=10**6)] = 0


class SampleLoad(ApiModel):
    """``samples[].load``: load of the GPUs in one step, mean over the GPUs.

    :class:`gputopo.counters.model.Load` describes the values.
    """

    source: Annotated[str, Field(max_length=32)]
    occupancy_us: Annotated[int, Field(alias="occupancyMicroseconds", ge=0, le=2**53 - 1)]
    dram_us: Annotated[int | None, Field(alias="dramMicroseconds", ge=0, le=2**53 - 1)] = None


class Sample(ApiModel):
    """The speed of one container while its GPUs, limits and neighbours did not change.

    The pod, the container and the time identify a sample.

    Attributes:
        time: end of the measurement, RFC 3339 in UTC.
        seconds: length of the measurement.
        micro_steps_per_second: training steps per second, times 10^6.
        ci_permille: half the width of the 95 % confidence interval, in thousandths of the rate.
        image_digest: digest of the container's image; empty if kubelet does not report it.
        model: name of the bandwidth model; always ``physical``, which supports every node.
        effective_mb_per_s: bandwidth that ``model`` predicts for the container's GPUs. None for one
            GPU. None also if other containers of the pod have GPUs, because the extender predicts
            only one bandwidth for all GPUs of the pod.
        pattern: communication pattern of this bandwidth; bandwidths of two patterns cannot be
            compared.
        best_mb_per_s: highest effective bandwidth of all sets of ``gpus`` GPUs on the node.
        worst_mb_per_s: lowest effective bandwidth of all sets of ``gpus`` GPUs on the node.
        milli_cpu: CPU limit of the container, None without a limit.
        memory_bytes: memory limit of the container, None without a limit.
        socket_neighbours: workloads of other pods with GPUs on the same NUMA nodes; a workload that
            has several pods occurs several times.
        node_neighbours: workloads of all other pods with GPUs on the node.
        gpu_neighbours: workloads of the pods that share the container's GPU; None if there are
            none. The other two lists lack these pods.
        traffic: None if no counters could be read, or with one GPU.
        load: None if no counters could be read, or another container used one of the GPUs.
    """

    pod_uid: Annotated[PodUid, Field(alias="podUID")]
    container: ContainerName
    time: Timestamp
    seconds: Annotated[int, Field(ge=1)]
    source: StepsSource
    micro_steps_per_second: Annotated[int, Field(ge=1)]
    ci_permille: CiPermille
    gpu_model: Annotated[str, Field(alias="gpuModel", max_length=128)]
    gpus: Gpus
    image_digest: Annotated[str, Field(max_length=256)] = ""
    model: Annotated[str, Field(max_length=32)] | None = None
    pattern: Annotated[str, Field(max_length=32)] | None = None
    effective_mb_per_s: Annotated[MegabytesPerSecond | None, Field(alias="effectiveMBps")] = None
    best_mb_per_s: Annotated[MegabytesPerSecond | None, Field(alias="bestMBps")] = None
    worst_mb_per_s: Annotated[MegabytesPerSecond | None, Field(alias="worstMBps")] = None
    milli_cpu: Annotated[int | None, Field(alias="milliCPU", ge=1)] = None
    memory_bytes: Annotated[int | None, Field(ge=1)] = None
    socket_neighbours: Annotated[list[WorkloadName], Field(max_length=64)] = []
    node_neighbours: Annotated[list[WorkloadName], Field(max_length=64)] = []
    gpu_neighbours: Annotated[list[WorkloadName] | None, Field(max_length=MAX_SHARES - 1)] = None
    traffic: SampleTraffic | None = None
    load: SampleLoad | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """The UID of the pod, the container and the time, which identify the sample."""
        return self.pod_uid, self.container, self.time

    @property
    def steps_per_second(self) -> float:
        """Training steps per second."""
        return self.micro_steps_per_second / 1e6


def valid_samples(
    raw: Iterable[_Raw], parse: Callable[[_Raw], Sample] = Sample.model_validate
) -> Iterator[Sample]:
    """Parse samples; skip samples in an unknown format of a newer agent or operator."""
    for each in raw:
        with suppress(ValidationError):
            yield parse(each)


class NodeSample(Sample):
    """``GPUTopology.status.samples[]``: a sample, and the GPUProfile to which it belongs."""

    namespace: ContainerName
    profile: ProfileName

    def to_sample(self) -> Sample:
        """Return the sample without its GPUProfile, as ``GPUProfile.status.samples[]`` has it."""
        return Sample.model_validate(self.model_dump(exclude={"namespace", "profile"}))


class Measurement(ApiModel):
    """``GPUTopology.status.measurements[]``: the current speed of one container with GPUs.

    Attributes:
        micro_steps_per_second: None unless ``state`` is ``Steady``.
        milli_cpu: CPU limit that the container has now, None without a limit.
        profiling: resources (CPUs, links) that gputopo varies to measure their effect.
        profiling_seconds: time limit for the measurement of ``profiling``.
    """

    namespace: ContainerName
    pod: ObjectName
    pod_uid: Annotated[PodUid, Field(alias="podUID")]
    container: ContainerName
    gpus: Gpus
    source: StepsSource
    state: MeasurementState
    profile: ProfileName | None = None
    micro_steps_per_second: MicroStepsPerSecond | None = None
    ci_permille: CiPermille | None = None
    milli_cpu: Annotated[int | None, Field(alias="milliCPU", ge=1)] = None
    profiling: Annotated[list[ProfilingTarget], Field(max_length=2)] = []
    profiling_seconds: ProfilingSeconds | None = None


class LinkFact(ApiModel):
    """``GPUProfile.status.facts.links[]``: the slowdown on slow links with ``gpus`` GPUs.

    Attributes:
        percent: how much longer the workload runs on the worst links of the measured nodes than on
            their best links, in percent.
        low_percent: lower end of the 95 % confidence interval.
        high_percent: upper end of the 95 % confidence interval.
        sensitivity: ``Unknown`` if the interval contains 10 %, the limit for ``Sensitive``.
    """

    gpus: Gpus
    percent: Percent
    low_percent: Percent
    high_percent: Percent
    samples: SampleCount
    sensitivity: Literal["Sensitive", "Insensitive", "Unknown"]


class CpuPoint(ApiModel):
    """Training steps per second of a workload with one CPU limit."""

    milli_cpu: Annotated[int, Field(alias="milliCPU", ge=1)]
    micro_steps_per_second: MicroStepsPerSecond
    ci_permille: CiPermille


class CpuFact(ApiModel):
    """``GPUProfile.status.facts.cpus[]``: how throughput depends on CPUs, with ``gpus`` GPUs.

    Attributes:
        demand_milli_cpu: the lowest CPU limit above which more CPUs raise throughput by less than
            10 %. None if unknown.
    """

    gpus: Gpus
    demand_milli_cpu: Annotated[int | None, Field(alias="demandMilliCPU", ge=1)] = None
    points: Annotated[list[CpuPoint], Field(max_length=64)]


class NeighbourFact(ApiModel):
    """``GPUProfile.status.facts.neighbours[]``: the slowdown that one pod of ``workload`` causes.

    The pod has GPUs on the same NUMA nodes as the slowed pod (``Socket``), or only on other NUMA
    nodes of the same node (``Node``).
    """

    workload: WorkloadName
    scope: Literal["Socket", "Node"]
    percent: Percent
    low_percent: Percent
    high_percent: Percent
    samples: SampleCount


class AloneFact(ApiModel):
    """``GPUProfile.status.facts.alone``: the throughput with one GPU that no other pod shares.

    It is the mean of the samples, whatever ran on other GPUs. ``scaling`` has the throughput
    without any neighbours, and needs more samples.
    """

    micro_steps_per_second: MicroStepsPerSecond
    ci_permille: CiPermille
    samples: SampleCount


class SharingFact(ApiModel):
    """``GPUProfile.status.facts.sharing[]``: the speed while others share the workload's GPU.

    Attributes:
        beside: the workloads of the other pods on the GPU, sorted; a workload that has several
            pods there occurs several times.
        speed_permille: training steps per second, in thousandths of those alone on the GPU.
        ci_permille: half the width of the 95 % confidence interval, in thousandths of the speed.
    """

    beside: Annotated[list[WorkloadName], Field(min_length=1, max_length=MAX_SHARES - 1)]
    speed_permille: Annotated[int, Field(ge=1, le=10_000)]
    ci_permille: CiPermille
    samples: SampleCount


class ScalingFact(ApiModel):
    """``GPUProfile.status.facts.scaling[]``: the throughput of the workload with ``gpus`` GPUs.

    Attributes:
        extrapolated: whether the throughput was computed from measurements with fewer GPUs.
    """

    gpus: Gpus
    micro_steps_per_second: MicroStepsPerSecond
    ci_permille: CiPermille
    extrapolated: bool


class CommunicationFact(ApiModel):
    """``GPUProfile.status.facts.communication[]``: what counters showed with ``gpus`` GPUs.

    Attributes:
        source: source of the bytes, as in :class:`SampleTraffic`; the best of all samples.
        samples: number of samples with this source.
        low_bytes_per_step: lower end of the 95 % confidence interval.
        high_bytes_per_step: upper end of the 95 % confidence interval.
        pattern: ``None`` if the GPUs do not communicate. ``Unknown`` if no sample shows a pattern,
            or if samples contradict each other.
        confidence_permille: share of the windows of all samples that showed ``pattern``; 0 if the
            pattern is unknown.
        share_high_percent: at most this share of a step is communication, on the links of the
            samples. None if the bytes do not limit it.
        slowdown_high_percent: upper end of the slowdown on the worst links, if no communication
            overlaps with computing. None if the bytes do not limit it.
    """

    gpus: Gpus
    source: Annotated[str, Field(max_length=32)]
    samples: SampleCount
    bytes_per_step: Amount
    low_bytes_per_step: Amount
    high_bytes_per_step: Amount
    pattern: Annotated[str, Field(max_length=32)] = "Unknown"
    confidence_permille: Annotated[int, Field(ge=0, le=1000)] = 0
    windows: Amount = 0
    share_high_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    slowdown_high_percent: Percent | None = None


class LoadFact(ApiModel):
    """``GPUProfile.status.facts.load[]``: load of one GPU in one step, with ``gpus`` GPUs.

    Attributes:
        source: as in :class:`SampleLoad`; the best of all samples. Values of two sources differ in
            meaning, so they are never mixed.
        samples: number of samples with this source.
        dram_us: None if no sample of the source has it.
    """

    gpus: Gpus
    source: Annotated[str, Field(max_length=32)]
    samples: SampleCount
    occupancy_us: Annotated[int, Field(alias="occupancyMicroseconds", ge=0, le=2**53 - 1)]
    dram_us: Annotated[int | None, Field(alias="dramMicroseconds", ge=0, le=2**53 - 1)] = None


class WorkloadFacts(ApiModel):
    """``GPUProfile.status.facts``: facts from samples; a fact is missing if it needs more samples.

    Attributes:
        gpu_model: GPU model of the newest sample. Only samples with this GPU model and with the
            container image ``image_digest`` are used.
    """

    gpu_model: Annotated[str, Field(alias="gpuModel", max_length=128)]
    image_digest: Annotated[str, Field(max_length=256)] = ""
    links: Annotated[list[LinkFact], Field(max_length=MAX_GPUS_PER_POD)] = []
    cpus: Annotated[list[CpuFact], Field(max_length=MAX_GPUS_PER_POD)] = []
    neighbours: Annotated[list[NeighbourFact], Field(max_length=64)] = []
    scaling: Annotated[list[ScalingFact], Field(max_length=MAX_GPUS_PER_POD)] = []
    communication: Annotated[list[CommunicationFact], Field(max_length=MAX_GPUS_PER_POD)] = []
    load: Annotated[list[LoadFact], Field(max_length=MAX_GPUS_PER_POD)] = []
    alone: AloneFact | None = None
    sharing: Annotated[list[SharingFact], Field(max_length=MAX_SHARING_FACTS)] = []


class DatasetSpec(ApiModel):
    """``GPUProfile.spec.dataset``: the data that a job reads again in each epoch.

    Attributes:
        storage_mb_per_s: read bandwidth of the storage for one job.
        bytes_per_step: what one GPU of the job reads for one training step.
    """

    size: Memory
    storage_mb_per_s: Annotated[int, Field(alias="storageMBps", ge=1)]
    bytes_per_step: Annotated[int, Field(ge=1)]


class GPUProfileSpec(ApiModel):
    """``GPUProfile.spec``: properties of a workload, set by the user.

    Attributes:
        memory_floor: memory that the processes of a job need without any cached data. The API
            server accepts it only together with ``dataset``.
    """

    bandwidth_sensitivity_percent: Annotated[int, Field(ge=0, le=100)] | None = None
    memory_floor: Memory | None = None
    dataset: DatasetSpec | None = None


class GPUProfileStatus(ApiModel):
    """``GPUProfile.status``: samples of the workload and the facts from them.

    Attributes:
        pod_annotation: value of the annotation ``gputopo.io/facts`` for pods of this workload;
            None if nothing is known.
        sample_count: number of samples, for ``kubectl get``.
        summary: the sensitivity in words, for ``kubectl get``.
    """

    observed_generation: Generation | None = None
    conditions: Conditions = []
    pod_annotation: Annotated[str, Field(max_length=4096)] | None = None
    sample_count: SampleCount | None = None
    summary: Annotated[str, Field(max_length=256)] | None = None
    facts: WorkloadFacts | None = None
    samples: Annotated[list[Sample], Field(max_length=MAX_SAMPLES)] = []


class GPUProfile(ApiModel):
    """The GPUProfile object, without its metadata."""

    spec: GPUProfileSpec = GPUProfileSpec()
    status: GPUProfileStatus = GPUProfileStatus()
