"""Publishes what the agent observes on its node, and at the end that the agent stops."""

import asyncio
import logging
from typing import Final

from gputopo.api.alignment import KubeletAlignment
from gputopo.api.shares import gpu_of
from gputopo.api.v1alpha1 import SharingCapacity
from gputopo.runtime.log import fields
from gputopo_deviceplugin.admit.offer import ADMITTED_SECONDS
from gputopo_deviceplugin.changes import ChangeSignal
from gputopo_deviceplugin.clock import loop_time
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.topology_file import TopologyFile
from gputopo_deviceplugin.kubelet.pod_resources import PodResourcesError
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_deviceplugin.report.alignment import alignment_report, bound_pods, kubelet_alignment
from gputopo_deviceplugin.report.node_conditions import mps_condition, ready_condition
from gputopo_deviceplugin.report.publisher import TopologyPublisher
from gputopo_deviceplugin.report.released import ReleasedGpus
from gputopo_deviceplugin.report.sized_capacity import CapacityReport, sized_capacity
from gputopo_deviceplugin.report.sources import ReportSources
from gputopo_deviceplugin.report.status import NodeObservation, observed_gpus
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_kube.errors import ApiError
from gputopo_kube.probes import Pulse

_WRITE_SECONDS: Final = 0.2
"""Shortest time from one write to the next report, so that many changes cause few writes."""

_AFTER_START_SECONDS: Final = 0.5
"""Time between two reads of kubelet's list soon after kubelet's start."""

_UNSTABLE_SECONDS: Final = 0.2
"""The same, while the scheduler places no further pod on the node because of its NUMA nodes."""

_WITHDRAW_SECONDS: Final = 3.0
"""Longest wait for the API server when the agent ends; kubelet kills the agent after 30 s."""

_log = logging.getLogger(__name__)


def pause_seconds(usual: float, *, stable: bool, admitted: bool) -> float:
    """Return the seconds until the next report: at most 0.5 in the 30 s after kubelet's start.

    When kubelet starts, it may have lost the record of which GPUs running pods have. Until the
    agent publishes this loss, the scheduler may bind new pods, which the agent then rejects. The
    time is shorter while kubelet admits or releases a pod for which the next pod must wait.

    Args:
        usual: seconds between two reports at other times.
        stable: whether kubelet has admitted all bound pods and released all others.
        admitted: whether kubelet has had enough time to admit its pods again after its start.
    """
    if not stable:
        return _UNSTABLE_SECONDS
    return usual if admitted else min(usual, _AFTER_START_SECONDS)


class StatusReporter:
    """Updates the published GPUTopology, the metrics and the offered GPUs."""

    def __init__(
        self,
        settings: AgentSettings,
        sources: ReportSources,
        publisher: TopologyPublisher,
        file: TopologyFile,
        metrics: AgentMetrics,
        pulse: Pulse,
        changes: ChangeSignal,
    ) -> None:
        self._settings = settings
        self._sources = sources
        self._publisher = publisher
        self._file = file
        self._metrics = metrics
        self._pulse = pulse
        self._changes = changes
        self._capacity = CapacityReport(settings.measure_publish_seconds)
        self._publishing = asyncio.Lock()
        self._withdrawn = False
        self._stable = True
        self._released = ReleasedGpus()
        # None until kubelet's list was read.
        self._observed_version = self._sources.tracker.pods.version

    async def run(self) -> None:
        """Report at every change and periodically, until cancelled."""
        while True:
            seen = self._changes.count
            hardware = self._sources.state.hardware
            if hardware is not None and await self._report(hardware):
                await asyncio.sleep(_WRITE_SECONDS)
            try:
                async with asyncio.timeout(self._pause_seconds()):
                    await self._changes.wait_after(seen)
            except TimeoutError:
                continue

    async def publish_mps_faults(self) -> None:
        """Publish each change of MPS at once, until cancelled.

        The other reports wait while kubelet admits a pod, and such an admission may wait for MPS.
        """
        published = self._sources.state.mps_faults
        while True:
            seen = self._changes.count
            hardware, faults = self._sources.state.hardware, self._sources.state.mps_faults
            if hardware is not None and faults != published:
                published = faults
                await self._publish(hardware)
            await self._changes.wait_after(seen)

    async def resync(self) -> None:
        """Read the GPUTopology periodically, because another client may have changed it."""
        while True:
            await asyncio.sleep(self._settings.resync_seconds)
            try:
                async with self._publishing:
                    if self._sources.connection.connected:
                        await self._publisher.load()
            except ApiError as error:
                self._metrics.record_failure("resync", error)
            self._changes.notify()

    async def withdraw(self) -> bool:
        """Publish that the agent ends, and stop publishing. Return whether the write succeeded."""
        self._withdrawn = True
        # This agent must not read the writes of its successor as its own.
        self._publisher.stop_loading()
        try:
            async with asyncio.timeout(_WITHDRAW_SECONDS), self._publishing:
                published = await self._publisher.withdraw()
        except (ApiError, TimeoutError) as error:
            reason = str(error) or "no response in time"
            _log.warning("could not publish that the agent ends %s", fields(reason=reason))
            return False
        _log.info("agent ends %s", fields(published=published))
        return published

    def _pause_seconds(self) -> float:
        admitted = self._sources.kubelet.watched_seconds >= ADMITTED_SECONDS
        usual = self._settings.observe_seconds
        return pause_seconds(usual, stable=self._stable, admitted=admitted)

    async def _report(self, hardware: NodeHardware) -> bool:
        """Observe the node, offer GPUs and publish. Return whether the status was written."""
        if hardware.topology is not None:
            self._file.save(hardware.topology)
            await self._observe()
        self._sources.offer.update()
        idle = hardware.topology is None or not hardware.topology.gpus
        self._pulse.ready = idle or self._sources.kubelet.registered
        return await self._publish(hardware)

    async def _observe(self) -> None:
        """Read kubelet's list; store which version of the pods the agent knew before the read."""
        # The list may not include changes of pods that arrive during the read.
        version = self._sources.tracker.pods.version
        try:
            await self._sources.observer.observe(connected=self._sources.connection.connected)
        except PodResourcesError as error:
            self._metrics.record_failure("observe", error)
        else:
            self._observed_version = version
            self._sources.offer.update_assigned()

    def _collect(
        self, hardware: NodeHardware, alignment: KubeletAlignment | None
    ) -> NodeObservation:
        sources, tracker = self._sources, self._sources.tracker
        users, visible = tracker.all_users(), tracker.processes_visible
        registered, watched = sources.kubelet.registered, sources.kubelet.watched
        return NodeObservation(
            hardware=hardware,
            ready=ready_condition(
                hardware, sources.offer.withheld, registered=registered, watched=watched
            ),
            gpus=observed_gpus(hardware.health, users, sources.state.mps_faults),
            differing=[each.message for each in sources.observer.differing],
            pods_version=self._observed_version,
            processes_visible=visible,
            numa=sources.numa.condition if sources.numa else None,
            cpus_bound=sources.nri.condition if sources.nri else None,
            alignment=alignment,
            measured=sources.measurer.published,
            counters=sources.counters.status if sources.counters else None,
            sharing=self._sharing_capacity(),
            mps=mps_condition(sources.state.mps_faults) if sources.state.shares_per_gpu else None,
            sized_capacity=self._capacity.update(
                sized_capacity(
                    sources.node.document,
                    tracker.pods.values(),
                    self._settings.resource,
                )
            ),
        )

    def _sharing_capacity(self) -> SharingCapacity | None:
        most = self._sources.state.shares_per_gpu
        return SharingCapacity(most_pods=most) if most else None

    def _align(self, hardware: NodeHardware) -> KubeletAlignment | None:
        """Return how kubelet takes NUMA nodes, and hide the NUMA nodes of GPUs in use from kubelet.

        This must happen before the status is published, so that kubelet counts what the extender
        then knows.
        """
        numa, topology = self._sources.numa, hardware.topology
        tracker = self._sources.tracker
        if numa is None or numa.aligned_by is None or topology is None:
            self._stable = True
            return None
        unhealthy = {gpu for gpu, fault in hardware.health.items() if fault is not None}
        report = alignment_report(
            kubelet_alignment(
                numa.aligned_by,
                tracker.listed or (),
                tracker.pods,
                cpus=numa.cpus,
            ),
            self._released,
            bound=bound_pods(tracker.pods.values(), self._settings.node),
            used=frozenset(map(gpu_of, tracker.assigned_gpus())) | unhealthy,
            now=loop_time(),
        )
        numa.hide(report.hidden)
        self._stable = report.stable
        return report.alignment

    def _set_metrics(self, observation: NodeObservation) -> None:
        shares, nri = [len(gpu.shares or ()) for gpu in observation.gpus], self._sources.nri
        self._metrics.set_node(
            observation.hardware.health,
            serving=observation.ready.holds,
            api_server_connected=self._sources.connection.connected,
            differing_containers=len(observation.differing),
            gpus_of_deleted_pods=sum(gpu.pod_deleted is True for gpu in observation.gpus),
            shares_in_use=sum(shares),
            shared_gpus=sum(map(bool, shares)),
            unshareable_gpus=sum(gpu.sharing_fault is not None for gpu in observation.gpus),
            process_tracking=observation.processes_visible,
            numa_published=observation.numa is not None and observation.numa.holds,
            nri_connected=nri is not None and nri.condition.holds,
            unbound_containers=nri.unbound if nri else 0,
        )

    async def _publish(self, hardware: NodeHardware) -> bool:
        """Publish what the agent knows now. Return whether the status was written."""
        try:
            async with self._publishing:
                observation = self._collect(hardware, self._align(hardware))
                self._set_metrics(observation)
                if not self._may_write():
                    return False
                written = await self._publisher.publish(self._sources.node.document, observation)
        except ApiError as error:
            self._metrics.record_failure("publish", error)
            return False
        numa = self._sources.numa
        if numa and observation.alignment and self._publisher.stores("alignment"):
            numa.confirm(stable=self._stable)
        return written

    def _may_write(self) -> bool:
        """Return False while disconnected, because a failing write would delay the next report."""
        # Before the pods were listed, a running pod could be mistaken for a deleted one.
        sources = self._sources
        known = bool(sources.node.document) and sources.tracker.pods.version is not None
        return known and sources.connection.connected and not self._withdrawn
