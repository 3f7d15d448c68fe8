"""The agent's Prometheus metrics."""

import logging
from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Info

from gputopo.runtime.log import fields
from gputopo.throughput.meter import DropReason
from gputopo_deviceplugin.gpus.health import Health

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


class AgentMetrics:
    """The agent's metrics, in a separate registry."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self._gpus = Gauge("gputopo_agent_gpus", "GPUs of this node", ["state"], registry=registry)
        self._serving = Gauge(
            "gputopo_agent_serving", "1 while kubelet is served", registry=registry
        )
        self._connected = Gauge(
            "gputopo_agent_api_server_connected",
            "1 while the API server responds and this node's pods are known",
            registry=registry,
        )
        self._differing = Gauge(
            "gputopo_agent_differing_containers",
            "Containers that have other GPUs by kubelet's pod-resources list than intended",
            registry=registry,
        )
        self._deleted = Gauge(
            "gputopo_agent_gpus_of_deleted_pods",
            "GPUs that processes of deleted or ended pods still use",
            registry=registry,
        )
        self._shares = Gauge(
            "gputopo_agent_shares_in_use", "Shares of GPUs that containers use", registry=registry
        )
        self._shared = Gauge(
            "gputopo_agent_shared_gpus", "GPUs of which containers use shares", registry=registry
        )
        self._unshareable = Gauge(
            "gputopo_agent_unshareable_gpus",
            "GPUs that take no further sharing pods, because MPS is not ready",
            registry=registry,
        )
        self._tracking = Gauge(
            "gputopo_agent_process_tracking",
            "1 while the processes of pods are visible in kubelet's cgroups",
            registry=registry,
        )
        self._numa = Gauge(
            "gputopo_agent_numa_published",
            "1 while kubelet gets the NUMA nodes of the GPUs",
            registry=registry,
        )
        self._nri = Gauge(
            "gputopo_agent_nri_connected",
            "1 while the container runtime lets the agent limit containers to CPUs near their GPUs",
            registry=registry,
        )
        self._unbound = Gauge(
            "gputopo_agent_unbound_containers",
            "Containers with GPUs that are not limited to the CPUs near them, while connected",
            registry=registry,
        )
        self._cpusets = Counter(
            "gputopo_agent_cpusets",
            "Containers whose CPUs the agent has set",
            ["result"],
            registry=registry,
        )
        self._allocations = Counter(
            "gputopo_agent_allocations",
            "Containers that requested GPUs",
            ["result"],
            registry=registry,
        )
        self._failures = Counter(
            "gputopo_agent_failures",
            "Reads and writes that failed and are repeated",
            ["of"],
            registry=registry,
        )
        self._rates = Gauge(
            "gputopo_steps_per_second",
            "Training steps per second of a container with a steady rate",
            ["namespace", "pod", "container"],
            registry=registry,
        )
        self._dropped = Counter(
            "gputopo_agent_dropped_steps",
            "Reports of steps, or intervals between them, that were not measured",
            ["reason"],
            registry=registry,
        )
        self._samples = Counter(
            "gputopo_agent_samples", "Samples of steady rates", registry=registry
        )
        self._counter_reads = Counter(
            "gputopo_agent_counter_reads",
            "Reads of the hardware counters of all GPUs",
            ["result"],
            registry=registry,
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
        self._rated: frozenset[tuple[str, str, str]] = frozenset()
        build = Info("gputopo_build", "Version of gputopo.", registry=registry)
        build.info({"version": version("gputopo"), "component": "deviceplugin"})
        for state in ("healthy", "unhealthy"):
            self._gpus.labels(state)
        for result in ("allocated", "rejected"):
            self._allocations.labels(result)
        for result in CPUSET_RESULTS:
            self._cpusets.labels(result)
        for result in COUNTER_READS:
            self._counter_reads.labels(result)
        for operation in OPERATIONS:
            self._failures.labels(operation)
        for reason in (*MESSAGE_FAULTS, *DropReason):
            self._dropped.labels(reason)

    def set_state(
        self,
        health: Health,
        *,
        serving: bool,
        connected: bool,
        differing: int,
        deleted: int,
        processes_visible: bool,
        numa_published: bool,
    ) -> None:
        """Set the gauges of the agent's state."""
        healthy = sum(fault is None for fault in health.values())
        self._gpus.labels("healthy").set(healthy)
        self._gpus.labels("unhealthy").set(len(health) - healthy)
        self._serving.set(serving)
        self._connected.set(connected)
        self._differing.set(differing)
        self._deleted.set(deleted)
        self._tracking.set(processes_visible)
        self._numa.set(numa_published)

    def set_shares(self, *, used: int, gpus: int, unshareable: int) -> None:
        """Set the gauges of the shares in use, of their GPUs, and of GPUs without MPS."""
        self._shares.set(used)
        self._shared.set(gpus)
        self._unshareable.set(unshareable)

    def set_nri(self, *, connected: bool, unbound: int) -> None:
        """Set the gauges of the limits to CPUs near the GPUs."""
        self._nri.set(connected)
        self._unbound.set(unbound)

    def count_allocation(self, *, rejected: bool) -> None:
        """Count a container that got its GPUs, or whose request was rejected."""
        self._allocations.labels("rejected" if rejected else "allocated").inc()

    def count_cpuset(self, result: str) -> None:
        """Count a container whose CPUs were set, with one of ``CPUSET_RESULTS``."""
        self._cpusets.labels(result).inc()

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

    def count_counter_read(self, result: str) -> None:
        """Count a read of the hardware counters, with one of ``COUNTER_READS``."""
        self._counter_reads.labels(result).inc()

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

    def record_failure(self, operation: str, error: Exception) -> None:
        """Log and count a failed read or write. The caller repeats the operation."""
        _log.warning("%s failed, trying again %s", operation, fields(reason=error))
        self.count_failure(operation)

    def count_failure(self, operation: str) -> None:
        """Count a failed read or write. The caller has logged the failure."""
        self._failures.labels(operation).inc()
