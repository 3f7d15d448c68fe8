"""What Prometheus is told."""

from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Info

from gputopo_deviceplugin.report.status import Serving
from gputopo_deviceplugin.state import NodeHardware


class AgentMetrics:
    """The agent's metrics, in a registry of their own."""

    def __init__(self) -> None:
        """Start all at zero."""
        self.registry = CollectorRegistry()
        self._gpus = Gauge(
            "gputopo_agent_gpus", "GPUs of this node", ["state"], registry=self.registry
        )
        self._ready = Gauge(
            "gputopo_agent_serving", "1 while kubelet is served", registry=self.registry
        )
        self._connected = Gauge(
            "gputopo_agent_api_server_connected",
            "1 while the API server answers and this node's pods are known",
            registry=self.registry,
        )
        self._differing = Gauge(
            "gputopo_agent_differing_containers",
            "Containers that have other GPUs by kubelet's books than they were given",
            registry=self.registry,
        )
        self._deleted = Gauge(
            "gputopo_agent_gpus_of_deleted_pods",
            "GPUs that processes of deleted or ended pods still use",
            registry=self.registry,
        )
        self._tracking = Gauge(
            "gputopo_agent_process_tracking",
            "1 while the processes of pods can be seen in kubelet's cgroups",
            registry=self.registry,
        )
        self._allocations = Counter(
            "gputopo_agent_allocations",
            "Containers that asked for GPUs",
            ["result"],
            registry=self.registry,
        )
        self._failures = Counter(
            "gputopo_agent_failures",
            "Readings and writes that failed and are tried again",
            ["of"],
            registry=self.registry,
        )
        build = Info("gputopo_build", "Version of gputopo.", registry=self.registry)
        build.info({"version": version("gputopo"), "component": "deviceplugin"})
        for state in ("healthy", "unhealthy"):
            self._gpus.labels(state)
        for result in ("granted", "refused"):
            self._allocations.labels(result)

    def show(
        self,
        hardware: NodeHardware,
        serving: Serving,
        *,
        differing: int,
        deleted: int,
        processes_seen: bool,
        connected: bool,
    ) -> None:
        """Take over the state as it is now."""
        healthy = sum(fault is None for fault in hardware.health.values())
        self._gpus.labels("healthy").set(healthy)
        self._gpus.labels("unhealthy").set(len(hardware.health) - healthy)
        self._ready.set(serving.ready)
        self._connected.set(connected)
        self._differing.set(differing)
        self._deleted.set(deleted)
        self._tracking.set(processes_seen)

    def count_allocation(self, *, granted: bool) -> None:
        """Count a container that got its GPUs, or was refused."""
        self._allocations.labels("granted" if granted else "refused").inc()

    def count_failure(self, of: str) -> None:
        """Count something that failed and is tried again."""
        self._failures.labels(of).inc()
