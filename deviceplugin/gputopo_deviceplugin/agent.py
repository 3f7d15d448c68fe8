"""The node agent as a whole: its parts and its loops."""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Final

from gputopo.topology.model import Gpu, GpuUuid
from gputopo_deviceplugin.admit.admission import Admission
from gputopo_deviceplugin.admit.cgroups import Cgroups
from gputopo_deviceplugin.admit.identify import ContainerAllocation
from gputopo_deviceplugin.admit.offering import DeviceOffer
from gputopo_deviceplugin.admit.service import GpuDevicePlugin
from gputopo_deviceplugin.admit.tracker import UsageTracker
from gputopo_deviceplugin.admit.verify import CONTROL_DEVICES, Grant, grant_of
from gputopo_deviceplugin.changes import ChangeSignal
from gputopo_deviceplugin.contact import Contact
from gputopo_deviceplugin.events import EventRecorder
from gputopo_deviceplugin.gpus.health import Health
from gputopo_deviceplugin.gpus.numa import read_numa_nodes
from gputopo_deviceplugin.gpus.session import NvmlSession
from gputopo_deviceplugin.gpus.watch import HardwareWatch
from gputopo_deviceplugin.gpus.xid_mark_store import XidMarkStore
from gputopo_deviceplugin.kubelet.pod_resources import PodResourcesClient
from gputopo_deviceplugin.kubelet.registration import Registrar
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_deviceplugin.node_api import NodeApi
from gputopo_deviceplugin.node_pods import NodePods
from gputopo_deviceplugin.node_watch import NodeWatch
from gputopo_deviceplugin.report.observer import AllocationObserver
from gputopo_deviceplugin.report.reporter import Sources, StatusReporter
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_deviceplugin.state import GpuState
from gputopo_deviceplugin.statefile import StateFile
from gputopo_kube.client import AsyncClient
from gputopo_kube.probes import Pulse

_BEAT_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


class Agent:
    """Wires the parts; what they decide is decided in them."""

    def __init__(
        self, settings: AgentSettings, client: AsyncClient, metrics: AgentMetrics, pulse: Pulse
    ) -> None:
        """Serve ``settings.node``."""
        self._settings = settings
        self._metrics = metrics
        self._pulse = pulse
        self._current = GpuState()
        self._changes = ChangeSignal()
        self._kubelet = KubeletState(self._changes)
        self._contact = Contact(self._contact_changed)
        self._api = NodeApi(
            client,
            node=settings.node,
            resource=settings.resource,
            on_response=self._contact.heard,
        )
        self._recorder = EventRecorder(self._api, settings.node, metrics, self._changes)
        self._node = NodeWatch(self._api, settings, self._offer_changed)
        self._pods = NodePods(
            self._api.pods,
            silence_seconds=2 * settings.resync_seconds,
            on_list=self._contact.pods_listed,
            on_unread=self._contact.doubt,
            on_end=self._wake_reporter,
        )
        usage = StateFile(settings.state_dir / "usage.json")
        tracker = UsageTracker(
            self._pods, Cgroups(settings.cgroup_dir), usage, metrics.record_failure
        )
        self._lister = PodResourcesClient(settings.pod_resources_socket, settings.resource)
        self._admission = Admission(
            node=settings.node,
            tracker=tracker,
            lister=self._lister,
            current=self._current,
            kubelet=self._kubelet,
            grant=partial(_grant, settings),
            timeout_seconds=settings.admission_timeout_seconds,
            recorder=self._recorder,
        )
        self._registrar = Registrar(
            GpuDevicePlugin(self._current, self._kubelet, self._admission, settings.device_dir),
            self._current,
            self._kubelet,
            plugin_dir=settings.plugin_dir,
            resource=settings.resource,
        )
        self._observer = AllocationObserver(
            self._admission,
            tracker,
            self._kubelet,
            node=settings.node,
            timeout_seconds=settings.api_timeout_seconds,
            recorder=self._recorder,
        )
        self._offering = DeviceOffer(
            self._current,
            self._kubelet,
            self._admission,
            self._observer,
            self._contact,
            self._node,
        )
        sources = Sources(
            self._current,
            self._kubelet,
            self._observer,
            self._offering,
            self._contact,
            self._node,
            self._pods,
        )
        self._reporter = StatusReporter(settings, sources, self._api, metrics, pulse, self._changes)

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            await self._run_loops()
        finally:
            await self._lister.close()

    async def stop(self) -> None:
        """Have the node take no new pods, and serve those on their way; call it before the end."""
        if await self._reporter.withdraw():
            await asyncio.sleep(self._settings.drain_seconds)

    async def _run_loops(self) -> None:
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._beat())
            loops.create_task(self._contact.run(self._api.heartbeat))
            node = self._node
            followers = (self._pods.run, node.node_reflector.run, node.slice_reflector.run)
            loops.create_task(self._contact.follow(*followers))
            known = await self._reporter.known_topology()
            loops.create_task(self._hardware().run(known))
            loops.create_task(self._registrar.run())
            loops.create_task(self._wake_at_changes())
            loops.create_task(self._reporter.resync())
            loops.create_task(self._reporter.run())
            loops.create_task(self._reporter.watch_processes())

    def _hardware(self) -> HardwareWatch:
        settings = self._settings
        return HardwareWatch(
            self._current,
            # Sysfs is read once: on virtual machines with a balloon the memory goes up and down,
            # and each change of the spec would be a new generation of the topology.
            NvmlSession(settings.library_dir, read_numa_nodes(settings.system_dir)),
            XidMarkStore(
                StateFile(settings.state_dir / "xids.json"),
                quiet_seconds=settings.xid_quiet_seconds,
            ),
            settings,
            self._node,
            self._pulse,
        )

    async def _beat(self) -> None:
        while True:
            self._pulse.beat()
            await asyncio.sleep(_BEAT_SECONDS)

    async def _wake_at_changes(self) -> None:
        before: Health = {}
        while True:
            hardware = self._current.hardware
            if hardware is not None:
                self._record_health(before, hardware.health)
                before = hardware.health
                self._wake_reporter()
            changes = self._current.changes
            while self._current.hardware is hardware:
                await changes.wait_after(changes.count)

    def _contact_changed(self) -> None:
        if not self._contact.connected:
            self._api.abandon()
        self._offer_changed()

    def _offer_changed(self) -> None:
        self._offering.update()
        self._wake_reporter()

    def _wake_reporter(self) -> None:
        self._changes.notify()

    def _record_health(self, before: Health, after: Health) -> None:
        for gpu, fault in after.items():
            if before.get(gpu) != fault and self._node.document:
                self._recorder.record_health(self._node.document, gpu, fault)


def _grant(
    settings: AgentSettings, found: ContainerAllocation, gpus: Mapping[GpuUuid, Gpu]
) -> Grant:
    return grant_of(found, gpus, _controls(settings), cdi_kind=settings.injected_cdi_kind)


def _controls(settings: AgentSettings) -> list[str]:
    """Return the control devices that the host has."""
    folder = settings.device_mount or settings.device_dir
    return [name for name in CONTROL_DEVICES if (folder / name).exists()]
