"""The agent's Prometheus metrics."""

import logging
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Info

from gputopo.runtime.log import fields
from gputopo_deviceplugin.gpus.health import Health

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
        self._tracking = Gauge(
            "gputopo_agent_process_tracking",
            "1 while the processes of pods are visible in kubelet's cgroups",
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
        build = Info("gputopo_build", "Version of gputopo.", registry=registry)
        build.info({"version": version("gputopo"), "component": "deviceplugin"})
        for state in ("healthy", "unhealthy"):
            self._gpus.labels(state)
        for result in ("granted", "refused"):
            self._allocations.labels(result)

    def set_state(
        self,
        health: Health,
        *,
        serving: bool,
        connected: bool,
        differing: int,
        deleted: int,
        processes_visible: bool,
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

    def count_allocation(self, *, granted: bool) -> None:
        """Count a container that got its GPUs, or whose request was rejected."""
        self._allocations.labels("granted" if granted else "refused").inc()

    def record_failure(self, operation: str, error: Exception) -> None:
        """Log and count a failed read or write, which the caller repeats."""
        _log.warning("%s failed, trying again %s", operation, fields(reason=error))
        self._failures.labels(operation).inc()
