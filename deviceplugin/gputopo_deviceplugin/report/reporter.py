"""Publishes what the agent observes on its node, and at the end that the agent stops."""

import asyncio
import logging
from functools import partial
from typing import Final

from gputopo.runtime.log import fields
from gputopo.topology.model import NodeTopology
from gputopo_deviceplugin.admit.build import AdmitPart
from gputopo_deviceplugin.admit.offer import ADMITTED_SECONDS
from gputopo_deviceplugin.apiserver.build import ApiPart
from gputopo_deviceplugin.context import AgentContext, Loop
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.topology_file import TopologyFile
from gputopo_deviceplugin.kubelet.pod_resources import PodResourcesError
from gputopo_deviceplugin.measure.build import MeasurePart
from gputopo_deviceplugin.nri.connector import NriConnector
from gputopo_deviceplugin.report.collector import StatusCollector
from gputopo_deviceplugin.report.health import record_health_changes
from gputopo_deviceplugin.report.numa_alignment import NumaAlignment
from gputopo_deviceplugin.report.observer import AllocationObserver
from gputopo_deviceplugin.report.publisher import TopologyPublisher
from gputopo_deviceplugin.report.sized_capacity import CapacityReport
from gputopo_kube.errors import ApiError

_RETRY_SECONDS: Final = 1.0
_START_SECONDS: Final = 10.0
"""Longest wait for the API server at the start. Then the agent starts without it."""

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
    """Updates the published GPUTopology, the metrics and the offered GPUs.

    Attributes:
        loops: publish changes, and record those of the health of GPUs.
    """

    loops: list[Loop]

    def __init__(
        self,
        context: AgentContext,
        api: ApiPart,
        admit: AdmitPart,
        measure: MeasurePart,
        nri: NriConnector | None,
    ) -> None:
        self._settings = settings = context.settings
        self._state, self._changes = context.state, context.changes
        self._metrics, self._pulse = context.metrics, context.pulse
        self._connection, self._node, self._pods = api.connection, api.node, api.pods
        self._kubelet, self._offer = admit.kubelet, admit.offer
        self._file = TopologyFile(settings.state_dir)
        self._publisher = TopologyPublisher(api.requests)
        self._observer = observer = AllocationObserver(
            admit.tracker,
            admit.pod_resources,
            admit.lock,
            admit.kubelet,
            api.recorder,
            node=settings.node,
            timeout_seconds=settings.api_timeout_seconds,
        )
        numa, tracker = admit.numa, admit.tracker
        self._alignment = NumaAlignment(numa, tracker, settings.node) if numa else None
        capacity = CapacityReport(settings.measure_publish_seconds)
        self._collector = StatusCollector(
            context, api, admit, measure, nri, observer, self._alignment, capacity
        )
        self._publishing = asyncio.Lock()
        self._withdrawn = False
        health = partial(record_health_changes, self._state, api.node, api.recorder, self._changes)
        self.loops = [health, self._resync, self._run]
        if settings.shares_per_gpu:
            self.loops.append(self._publish_mps_faults)

    async def load_known(self) -> NodeTopology | None:
        """Return the topology in the node's GPUTopology, or None if the API server has none.

        If the API server does not respond in 10 s, return the topology from the state file. The
        agent waits no longer: a restarted kubelet may reject running pods until the agent reports
        their GPUs.
        """
        try:
            async with asyncio.timeout(_START_SECONDS):
                await self._connection.wait_connected()
                await self._node.wait_read()
                return await self._load_published()
        except TimeoutError:
            _log.error("starting without the API server")
            return self._file.load()

    async def _load_published(self) -> NodeTopology | None:
        while True:
            try:
                return await self._publisher.load()
            except ApiError as error:
                self._metrics.record_failure("contact", error)
                await asyncio.sleep(_RETRY_SECONDS)

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

    async def _run(self) -> None:
        """Report at every change and periodically."""
        while True:
            seen = self._changes.count
            hardware = self._state.hardware
            if hardware is not None and await self._report(hardware):
                await asyncio.sleep(_WRITE_SECONDS)
            await self._changes.wait_after(seen, self._pause_seconds())

    async def _publish_mps_faults(self) -> None:
        """Publish each change of MPS at once.

        The other reports wait while kubelet admits a pod, and such an admission may wait for MPS.
        """
        published = self._state.mps_faults
        while True:
            seen = self._changes.count
            hardware, faults = self._state.hardware, self._state.mps_faults
            if hardware is not None and faults != published:
                published = faults
                await self._publish(hardware)
            await self._changes.wait_after(seen)

    async def _resync(self) -> None:
        """Read the GPUTopology periodically, because another client may have changed it."""
        while True:
            await asyncio.sleep(self._settings.resync_seconds)
            try:
                async with self._publishing:
                    if self._connection.connected:
                        await self._publisher.load()
            except ApiError as error:
                self._metrics.record_failure("resync", error)
            self._changes.notify()

    def _pause_seconds(self) -> float:
        admitted = self._kubelet.watched_seconds >= ADMITTED_SECONDS
        stable = self._alignment is None or self._alignment.stable
        return pause_seconds(self._settings.observe_seconds, stable=stable, admitted=admitted)

    async def _report(self, hardware: NodeHardware) -> bool:
        """Observe the node, offer GPUs and publish. Return whether the status was written."""
        if hardware.topology is not None:
            self._file.save(hardware.topology)
            try:
                await self._observer.observe(connected=self._connection.connected)
            except PodResourcesError as error:
                self._metrics.record_failure("observe", error)
            else:
                self._offer.update_assigned()
        self._offer.update()
        idle = hardware.topology is None or not hardware.topology.gpus
        self._pulse.ready = idle or self._kubelet.registered
        return await self._publish(hardware)

    async def _publish(self, hardware: NodeHardware) -> bool:
        """Publish what the agent knows now. Return whether the status was written."""
        try:
            async with self._publishing:
                observation = self._collector.collect(hardware)
                connected = self._connection.connected
                gauges = self._collector.gauges(observation)
                self._metrics.set_node(hardware.health, api_server_connected=connected, **gauges)
                if not self._may_write():
                    return False
                written = await self._publisher.publish(self._node.document, observation)
        except ApiError as error:
            self._metrics.record_failure("publish", error)
            return False
        if self._alignment and observation.alignment and self._publisher.stores("alignment"):
            self._alignment.confirm()
        return written

    def _may_write(self) -> bool:
        """Return False while disconnected, because a failing write would delay the next report."""
        # Before the pods were listed, a running pod could be mistaken for a deleted one.
        known = bool(self._node.document) and self._pods.version is not None
        return known and self._connection.connected and not self._withdrawn
