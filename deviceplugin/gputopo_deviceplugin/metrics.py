"""The agent's Prometheus metrics, grouped by the part of the agent that counts them."""

import logging
from collections.abc import Collection, Mapping
from importlib.metadata import version
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Info

from gputopo.runtime.log import fields
from gputopo.throughput.meter import DropReason
from gputopo_deviceplugin.gpus.health import Health

NODE_GAUGES: Final = {
    "serving": "1 while kubelet is served",
    "api_server_connected": "1 while the API server responds and this node's pods are known",
    "differing_containers": "Containers that have other GPUs by kubelet's pod-resources list than "
    "intended",
    "gpus_of_deleted_pods": "GPUs that processes of deleted or ended pods still use",
    "shares_in_use": "Shares of GPUs that containers use",
    "shared_gpus": "GPUs of which containers use shares",
    "unshareable_gpus": "GPUs that take no further sharing pods, because MPS is not ready",
    "process_tracking": "1 while the processes of pods are visible in kubelet's cgroups",
    "numa_published": "1 while kubelet gets the NUMA nodes of the GPUs",
    "nri_connected": "1 while the container runtime lets the agent limit containers to CPUs near "
    "their GPUs",
    "unbound_containers": "Containers with GPUs that are not limited to the CPUs near them, while "
    "connected",
}
"""Text of each gauge that the reporter sets, by its name after ``gputopo_agent_``."""

OPERATIONS: Final = (
    "contact",
    "event",
    "measure",
    "mps",
    "nri",
    "observe",
    "publish",
    "resync",
    "socket",
    "state",
)
"""Reads and writes that the agent repeats after a failure."""

CPUSET_RESULTS: Final = ("set", "repaired", "released")
"""What the agent does with the CPUs of a container: limit it when it is created or later, or end
the limit."""

MESSAGE_FAULTS: Final = ("Malformed", "TooLarge", "NotMeasured", "Unreadable")
"""Why a report of steps is ignored, before the meter sees it."""

COUNTER_READS: Final = ("read", "failed", "hanging")
"""How a read of the hardware counters of all GPUs ended."""

_log = logging.getLogger(__name__)


class StepMetrics:
    """What the agent measures of the steps of training programs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._rates = Gauge(
            "gputopo_steps_per_second",
            "Training steps per second of a container with a steady rate",
            ["namespace", "pod", "container"],
            registry=registry,
        )
        self._dropped = _counter(
            registry,
            "dropped_steps",
            "Reports of steps, or intervals between them, that were not measured",
            reason=(*MESSAGE_FAULTS, *DropReason),
        )
        self._samples = _counter(registry, "samples", "Samples of steady rates")
        self._rated: frozenset[tuple[str, str, str]] = frozenset()

    def set_rates(self, rates: Mapping[tuple[str, str, str], float]) -> None:
        """Set the rate of each (namespace, pod, container) in steps/s. Remove all other rates."""
        for labels in self._rated - rates.keys():
            self._rates.remove(*labels)
        for labels, rate in rates.items():
            self._rates.labels(*labels).set(rate)
        self._rated = frozenset(rates)

    def count_dropped_steps(self, reason: str, count: int = 1) -> None:
        """Count reports of training steps, or intervals between reports, that the agent ignored."""
        self._dropped.labels(reason).inc(count)

    def count_sample(self) -> None:
        """Count one finished sample of a container's steps per second."""
        self._samples.inc()


class CounterMetrics:
    """What the agent reads from the hardware counters of the GPUs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._reads = _counter(
            registry,
            "counter_reads",
            "Reads of the hardware counters of all GPUs",
            result=COUNTER_READS,
        )
        self._nvlink = Counter(
            "gputopo_agent_nvlink_bytes",
            "Bytes over all NVLinks of a GPU while the agent ran, without headers",
            ["gpu", "direction"],
            registry=registry,
        )
        self._occupancy = Gauge(
            "gputopo_agent_gpu_occupancy_ratio",
            "Mean SM occupancy since the last read; with the source Utilization, time with kernels",
            ["gpu", "source"],
            registry=registry,
        )
        self._dram = Gauge(
            "gputopo_agent_gpu_dram_active_ratio",
            "Share of time in which the DRAM of a GPU transferred data, since the last read",
            ["gpu", "source"],
            registry=registry,
        )
        self._loads: Mapping[tuple[str, str], tuple[float, float | None]] = {}

    def count_counter_read(self, result: str) -> None:
        """Count a read of the hardware counters, with one of ``COUNTER_READS``."""
        self._reads.labels(result).inc()

    def count_nvlink_bytes(self, gpu: str, sent: int, received: int) -> None:
        """Count bytes over all NVLinks of a GPU."""
        self._nvlink.labels(gpu, "sent").inc(sent)
        self._nvlink.labels(gpu, "received").inc(received)

    def set_gpu_loads(self, loads: Mapping[tuple[str, str], tuple[float, float | None]]) -> None:
        """Set occupancy and DRAM activity of each (GPU, source). Remove all others."""
        for labels, (_, dram) in self._loads.items():
            if labels not in loads:
                self._occupancy.remove(*labels)
            if dram is not None and loads.get(labels, (0, None))[1] is None:
                self._dram.remove(*labels)
        for labels, (occupancy, dram) in loads.items():
            self._occupancy.labels(*labels).set(occupancy)
            if dram is not None:
                self._dram.labels(*labels).set(dram)
        self._loads = loads


class AgentMetrics:
    """All metrics of the agent, in a separate registry.

    Attributes:
        registry: has all of them.
        steps: those of the measurement.
        counters: those of the hardware counters.
    """

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self._gpus = Gauge("gputopo_agent_gpus", "GPUs of this node", ["state"], registry=registry)
        self._node = {
            name: Gauge(f"gputopo_agent_{name}", text, registry=registry)
            for name, text in NODE_GAUGES.items()
        }
        self._cpusets = _counter(
            registry, "cpusets", "Containers whose CPUs the agent has set", result=CPUSET_RESULTS
        )
        self._allocations = _counter(
            registry,
            "allocations",
            "Containers that requested GPUs",
            result=("allocated", "rejected"),
        )
        self._failures = _counter(
            registry, "failures", "Reads and writes that failed and are repeated", of=OPERATIONS
        )
        self.steps = StepMetrics(registry)
        self.counters = CounterMetrics(registry)
        build = Info("gputopo_build", "Version of gputopo.", registry=registry)
        build.info({"version": version("gputopo"), "component": "deviceplugin"})
        self.set_node({})

    def set_node(self, health: Health, **values: float) -> None:
        """Set the numbers of healthy and other GPUs, and gauges of ``NODE_GAUGES`` by name."""
        healthy = sum(fault is None for fault in health.values())
        self._gpus.labels("healthy").set(healthy)
        self._gpus.labels("unhealthy").set(len(health) - healthy)
        for name, value in values.items():
            self._node[name].set(value)

    def count_allocation(self, *, rejected: bool) -> None:
        """Count a container that got its GPUs, or whose request was rejected."""
        self._allocations.labels("rejected" if rejected else "allocated").inc()

    def count_cpuset(self, result: str) -> None:
        """Count a container whose CPUs were set, with one of ``CPUSET_RESULTS``."""
        self._cpusets.labels(result).inc()

    def record_failure(self, operation: str, error: Exception) -> None:
        """Log and count a failed read or write. The caller repeats the operation."""
        _log.warning("%s failed, trying again %s", operation, fields(reason=error))
        self.count_failure(operation)

    def count_failure(self, operation: str) -> None:
        """Count a failed read or write. The caller has logged the failure."""
        self._failures.labels(operation).inc()


def _counter(
    registry: CollectorRegistry, name: str, text: str, **label: Collection[str]
) -> Counter:
    """Return a counter with at most one label, whose known values it shows from the start."""
    counter = Counter(f"gputopo_agent_{name}", text, [*label], registry=registry)
    for value in (each for values in label.values() for each in values):
        counter.labels(value)
    return counter
