"""Makes the measurements and samples for the status of the GPUTopology. Pure functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gputopo.api.profile import (
    MAX_NODE_SAMPLES,
    Measurement,
    NodeSample,
    SampleLoad,
    SampleTraffic,
)
from gputopo.counters.model import Load, Traffic
from gputopo.throughput.meter import CurrentRate, RateState
from gputopo_deviceplugin.measure.container_meter import FoundSample
from gputopo_deviceplugin.measure.containers import MeasuredContainer
from gputopo_deviceplugin.measure.environment import PHYSICAL_MODEL, LinkBandwidth

_MOST_NEIGHBOURS: Final = 64
_LONGEST_NEIGHBOURS: Final = 16 * 1024
"""Most characters of the names of all neighbours of a sample.

With this limit, a status with all samples fits into etcd, which stores at most 1.5 MB for one
object. Without it, one sample could have 40 kB, on a node with 64 GPUs and with the longest
names."""

_LONGEST_MODEL: Final = 128
_LONGEST_DIGEST: Final = 256
_LONGEST_PATTERN: Final = 32
_MICRO: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class NodeMeasurements:
    """What the agent publishes: the current rates, and the newest samples, oldest first."""

    measurements: tuple[Measurement, ...] = ()
    samples: tuple[NodeSample, ...] = ()


def to_measurement(container: MeasuredContainer, rate: CurrentRate) -> Measurement:
    """Return the current rate of a container as the GPUTopology's status shows it."""
    request, steady = container.request, rate.state is RateState.STEADY
    runtime = container.pod.runtime.containers.get(container.name)
    return Measurement(
        namespace=container.pod.namespace,
        pod=container.pod.name,
        pod_uid=container.pod.uid,
        container=container.name,
        gpus=len(container.gpus),
        source=request.source,
        state=rate.state.value,
        profile=request.profile,
        micro_steps_per_second=_micro(rate.steps_per_second) if steady else None,
        ci_permille=rate.ci_permille if steady else None,
        milli_cpu=runtime.milli_cpu if runtime else None,
        profiling=list(request.targets),
        profiling_seconds=request.profiling_seconds if request.targets else None,
    )


def to_sample(container: MeasuredContainer, found: FoundSample, time: str) -> NodeSample | None:
    """Return the sample for the status, or None if the sample cannot be used.

    It cannot be used without environment or profile, with a rate of 0, or if the names of its
    neighbours are too long for the status.

    Args:
        container: the container.
        found: the rate, and the environment in which it was measured. The container may have
            another environment by now.
        time: the current time in RFC 3339.
    """
    environment, rate = found.environment, found.rate
    micro = _micro(rate.steps_per_second)
    if environment is None or environment.profile is None or not micro:
        return None
    runtime = environment.runtime
    on_socket = [each.workload for each in environment.on_socket][:_MOST_NEIGHBOURS]
    on_node = [each.workload for each in environment.on_node][:_MOST_NEIGHBOURS]
    on_gpu = [each.workload for each in environment.on_gpu]
    if sum(map(len, (*on_socket, *on_node, *on_gpu))) > _LONGEST_NEIGHBOURS:
        return None
    return NodeSample(
        **_bandwidths(environment.bandwidth),
        namespace=container.pod.namespace,
        profile=environment.profile,
        pod_uid=container.pod.uid,
        container=container.name,
        time=time,
        seconds=max(1, round(rate.seconds)),
        source=environment.source,
        micro_steps_per_second=micro,
        ci_permille=rate.ci_permille,
        gpu_model=environment.gpu_model[:_LONGEST_MODEL],
        gpus=len(environment.gpus),
        image_digest=runtime.image_digest[:_LONGEST_DIGEST],
        milli_cpu=runtime.milli_cpu,
        memory_bytes=runtime.memory_bytes,
        socket_neighbours=on_socket,
        node_neighbours=on_node,
        gpu_neighbours=on_gpu or None,
        traffic=_traffic(found.traffic),
        load=_load(found.load),
    )


def _traffic(traffic: Traffic | None) -> SampleTraffic | None:
    if traffic is None or traffic.bytes_per_step is None:
        return None
    shown: dict[str, Any] = {}
    if (found := traffic.pattern) is not None:
        shown["pattern"] = found.kind.value if found.kind is not None else "None"
        shown["confidence_permille"] = found.confidence_permille
        shown["windows"] = found.windows
    return SampleTraffic(source=traffic.source, bytes_per_step=traffic.bytes_per_step, **shown)


def _load(load: Load | None) -> SampleLoad | None:
    if load is None:
        return None
    return SampleLoad(source=load.source, occupancy_us=load.occupancy_us, dram_us=load.dram_us)


def _bandwidths(bandwidth: LinkBandwidth | None) -> dict[str, Any]:
    if bandwidth is None:
        return {}
    return {
        "model": PHYSICAL_MODEL,
        "pattern": bandwidth.pattern[:_LONGEST_PATTERN],
        "effective_mb_per_s": bandwidth.effective,
        "best_mb_per_s": bandwidth.best,
        "worst_mb_per_s": bandwidth.worst,
    }


def merge_samples(published: Sequence[NodeSample], new: Sequence[NodeSample]) -> list[NodeSample]:
    """Append new samples to the published ones; keep the last 32 of this list.

    Samples of the same pod, container and time are duplicates. The list is not sorted by time. When
    the clock was set back, new samples have the earliest times, and a sorted list would lose them.
    """
    merged = {sample.key: sample for sample in (*published, *new)}
    return [*merged.values()][-MAX_NODE_SAMPLES:]


def next_measurements(
    published: Sequence[Measurement], current: Sequence[Measurement]
) -> tuple[Measurement, ...]:
    """Return ``current``. Keep a published rate if the new rate differs from it only by noise.

    Otherwise the agent would write the status twice a minute for each running job.
    """
    known = {(each.pod_uid, each.container): each for each in published}
    return tuple(_choose(known, each) for each in current)


def _choose(known: Mapping[tuple[str, str], Measurement], current: Measurement) -> Measurement:
    before = known.get((current.pod_uid, current.container))
    return before if before is not None and _is_noise(before, current) else current


def _is_noise(before: Measurement, current: Measurement) -> bool:
    """Return whether ``current`` differs from ``before`` only by noise.

    The 95 % intervals of both rates must overlap, and the new interval must be at least half as
    wide as the old interval. Measurements of the same true rate pass this check in more than 99 %
    of all cases. A check that the new interval contains the old rate would fail in 1 of 6 cases.
    """
    old, new = before.micro_steps_per_second, current.micro_steps_per_second
    old_ci, new_ci = before.ci_permille, current.ci_permille
    if old is None or new is None or old_ci is None or new_ci is None:
        return False
    rate = {"micro_steps_per_second": new, "ci_permille": new_ci}
    same = before.model_copy(update=rate) == current
    return same and abs(old - new) * 1000 <= old_ci * old + new_ci * new and old_ci <= 2 * new_ci


def _micro(rate: float | None) -> int | None:
    return None if rate is None else round(rate * _MICRO)
