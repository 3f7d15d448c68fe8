"""Tells the API server what is so on this node, and last that the agent ends."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from gputopo.runtime.log import fields
from gputopo.topology.model import GpuUuid, NodeTopology
from gputopo_deviceplugin.admit.offering import SETTLED_SECONDS, DeviceOffer
from gputopo_deviceplugin.changes import ChangeSignal
from gputopo_deviceplugin.contact import Contact
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.gpus.topology_file import TopologyFile
from gputopo_deviceplugin.kubelet.pod_resources import PodResourcesError
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_deviceplugin.node_api import NodeApi
from gputopo_deviceplugin.node_pods import NodePods
from gputopo_deviceplugin.node_watch import NodeWatch
from gputopo_deviceplugin.report.observer import AllocationObserver
from gputopo_deviceplugin.report.publisher import TopologyPublisher
from gputopo_deviceplugin.report.status import Observed, observed_gpus, serving_of
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_deviceplugin.state import GpuState
from gputopo_kube.errors import ApiError
from gputopo_kube.probes import Pulse

_RETRY_SECONDS: Final = 1.0
_START_SECONDS: Final = 10.0
"""Longest wait for the API server at the start, before kubelet is served without it."""

_WRITE_SECONDS: Final = 0.2
"""Shortest time from one write to the next report: many changes at once cost few writes."""

_PROCESS_SECONDS: Final = 0.25
"""Pause between two looks whether a process of a deleted pod has ended."""

_AFTER_START_SECONDS: Final = 0.5
"""Pause between two looks at kubelet's list after its start."""

_WITHDRAW_SECONDS: Final = 3.0
"""Longest wait for the API server when the agent ends: kubelet kills it after some 30 s."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sources:
    """The parts of the agent whose state is reported."""

    current: GpuState
    kubelet: KubeletState
    observer: AllocationObserver
    offering: DeviceOffer
    contact: Contact
    node: NodeWatch
    pods: NodePods


class StatusReporter:
    """Brings what others see up to date: registration, published object, metrics."""

    def __init__(
        self,
        settings: AgentSettings,
        sources: Sources,
        api: NodeApi,
        metrics: AgentMetrics,
        pulse: Pulse,
        changes: ChangeSignal,
    ) -> None:
        """Report what the ``sources`` know."""
        self._settings = settings
        self._current = sources.current
        self._kubelet = sources.kubelet
        self._observer = sources.observer
        self._offering = sources.offering
        self._contact = sources.contact
        self._node = sources.node
        self._pods = sources.pods
        self._known = TopologyFile(settings.state_dir)
        self._metrics = metrics
        self._pulse = pulse
        self._publisher = TopologyPublisher(api)
        self._publishing = asyncio.Lock()
        self._withdrawn = False
        self._looked_at = self._pods.version  # None: no list of kubelet yet
        self._changes = changes

    async def known_topology(self) -> NodeTopology | None:
        """Return the topology of before: as published, or from the state file.

        It waits for the API server, but not for ever: kubelet must know the GPUs of running pods
        when it is restarted.
        """
        try:
            async with asyncio.timeout(_START_SECONDS):
                await self._contact.wait_connected()
                await self._node.wait_read()
                return await self._published()
        except TimeoutError:
            _log.error("starting without the API server")
            return self._known.load()

    async def _published(self) -> NodeTopology | None:
        while True:
            try:
                return await self._publisher.load()
            except ApiError as error:
                self._metrics.record_failure("contact", error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def resync(self) -> None:
        """Read the GPUTopology now and then: another client may have changed it."""
        while True:
            await asyncio.sleep(self._settings.resync_seconds)
            try:
                # Who ends must not take what its successor writes for its own.
                async with self._publishing:
                    if not self._withdrawn and self._contact.connected:
                        await self._publisher.load()
            except ApiError as error:
                self._metrics.record_failure("resync", error)
            self._changes.notify()

    async def watch_processes(self) -> None:
        """Wake up when processes of deleted pods begin to be in the way, and when they end."""
        known: frozenset[GpuUuid] = frozenset()
        while True:
            await asyncio.sleep(_PROCESS_SECONDS)
            gone = frozenset(self._observer.tracker.gone())
            if gone != known:
                known = gone
                self._changes.notify()

    async def run(self) -> None:
        """Report at every change, and now and then, until cancelled."""
        while True:
            seen = self._changes.count
            hardware = self._current.hardware
            if hardware is not None and await self._report(hardware):
                await asyncio.sleep(_WRITE_SECONDS)
            try:
                async with asyncio.timeout(self._pause_seconds()):
                    await self._changes.wait_after(seen)
            except TimeoutError:
                continue

    def _pause_seconds(self) -> float:
        """Return the pause until the next look, a short one after a start of kubelet.

        Then it admits its pods again one by one, and may have lost its records of them: a pod that
        is bound before that is reported would be rejected.
        """
        usual = self._settings.observe_seconds
        settled = self._kubelet.watched_seconds >= SETTLED_SECONDS
        return usual if settled else min(usual, _AFTER_START_SECONDS)

    async def withdraw(self) -> bool:
        """Publish that the agent ends, and nothing any more; return whether that was told."""
        self._withdrawn = True
        try:
            async with asyncio.timeout(_WITHDRAW_SECONDS), self._publishing:
                told = await self._publisher.withdraw()
        except (ApiError, TimeoutError) as error:
            _log.warning("ending untold %s", fields(reason=error or "no answer in time"))
            return False
        _log.info("ending %s", fields(told=told))
        return told

    async def _report(self, hardware: NodeHardware) -> bool:
        """Look and publish; return whether the published status changed."""
        if hardware.topology is not None:
            self._known.save(hardware.topology)
            await self._look()
        self._offering.update()
        idle = hardware.topology is None or not hardware.topology.gpus
        self._pulse.ready = idle or self._kubelet.registered
        return await self._publish(hardware)

    async def _look(self) -> None:
        """Read kubelet's list, and note which changes of pods that accounts for."""
        # Of the time before the look: a status must not claim more than was looked at.
        version = self._pods.version
        try:
            await self._observer.look(connected=self._contact.connected)
        except PodResourcesError as error:
            self._metrics.record_failure("observe", error)
        else:
            self._looked_at = version
            self._offering.listed()

    async def _publish(self, hardware: NodeHardware) -> bool:
        observer, kubelet = self._observer, self._kubelet
        serving = serving_of(
            hardware,
            self._offering.withheld,
            registered=kubelet.registered,
            heard=kubelet.watched,
        )
        tracker = observer.tracker
        gpus = observed_gpus(hardware.health, tracker.users())
        self._metrics.set_gpus(hardware.health)
        self._metrics.set_state(
            serving=serving.ready,
            connected=self._contact.connected,
            differing=len(observer.differing),
            deleted=sum(gpu.pod_deleted is True for gpu in gpus),
            processes_seen=tracker.available,
        )
        # Before the pods were listed, a running pod could be taken for a deleted one.
        if self._pods.version is None:
            return False
        observed = Observed(gpus, self._looked_at, processes_seen=tracker.available)
        differing = [one.message for one in observer.differing]
        try:
            async with self._publishing:
                return self._may_write() and await self._publisher.publish(
                    self._node.document, hardware, observed, serving, differing
                )
        except ApiError as error:
            self._metrics.record_failure("publish", error)
            return False

    def _may_write(self) -> bool:
        """Return whether to publish; without connection a write would delay kubelet's list."""
        known = bool(self._node.document)
        return known and self._contact.connected and not self._withdrawn
