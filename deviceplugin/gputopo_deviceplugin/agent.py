"""Creates the parts of the node agent and runs their loops."""

import asyncio
import logging

from gputopo.api.shares import share_resource
from gputopo.throughput.exposition import MAX_EXPOSITION_BYTES
from gputopo_deviceplugin.admit.admission import Admission
from gputopo_deviceplugin.admit.cgroups import Cgroups
from gputopo_deviceplugin.admit.device_plugin import GpuDevicePlugin
from gputopo_deviceplugin.admit.lock import AdmissionLock
from gputopo_deviceplugin.admit.numa_report import (
    KubeletCpus,
    NumaReporter,
    ReadConfig,
    config_reader,
)
from gputopo_deviceplugin.admit.offer import DeviceOffer
from gputopo_deviceplugin.admit.tracker import UsageTracker
from gputopo_deviceplugin.apiserver.connection import ApiConnection
from gputopo_deviceplugin.apiserver.events import EventRecorder
from gputopo_deviceplugin.apiserver.monitor import ConnectionMonitor
from gputopo_deviceplugin.apiserver.node_api import NodeApi
from gputopo_deviceplugin.apiserver.node_pods import NodePods
from gputopo_deviceplugin.apiserver.node_watch import NodeWatch
from gputopo_deviceplugin.changes import ChangeSignal
from gputopo_deviceplugin.counters.build import create_poller
from gputopo_deviceplugin.gpus.numa import read_numa_nodes, read_online_cpus
from gputopo_deviceplugin.gpus.session import NvmlSession
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.gpus.topology_file import TopologyFile
from gputopo_deviceplugin.gpus.watch import HardwareWatch
from gputopo_deviceplugin.gpus.xid_mark_store import XidMarkStore
from gputopo_deviceplugin.kubelet.pod_resources import PodResourcesClient
from gputopo_deviceplugin.kubelet.registration import Registrar
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.measure.isolation import run_isolated
from gputopo_deviceplugin.measure.log_reader import LogReader
from gputopo_deviceplugin.measure.measurer import Measurer, MeasureSources
from gputopo_deviceplugin.measure.scraper import RESPONSE_SECONDS, MetricsScraper
from gputopo_deviceplugin.measure.sockets import StepsSockets
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_deviceplugin.nri.connector import NriConnector
from gputopo_deviceplugin.nri.manager import cpu_manager_reader
from gputopo_deviceplugin.report.health import record_health_changes
from gputopo_deviceplugin.report.observer import AllocationObserver
from gputopo_deviceplugin.report.publisher import TopologyPublisher
from gputopo_deviceplugin.report.reporter import StatusReporter
from gputopo_deviceplugin.report.sources import ReportSources
from gputopo_deviceplugin.report.startup import load_known_topology
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_deviceplugin.sharing.client import MpsConnection
from gputopo_deviceplugin.sharing.coordinator import SharingCoordinator
from gputopo_deviceplugin.sharing.daemons import MpsDaemons
from gputopo_deviceplugin.sharing.device_plugin import ShareDevicePlugin
from gputopo_deviceplugin.sharing.presence import MpsPresence
from gputopo_deviceplugin.statefile import StateFile
from gputopo_kube.client import AsyncClient
from gputopo_kube.endpoint import EndpointClient
from gputopo_kube.probes import Pulse

_log = logging.getLogger(__name__)


class Agent:
    """The node agent of one node.

    The parts that read NVML, kubelet and the API server write to shared state and signal each
    change. The loops that offer GPUs to kubelet and publish the GPUTopology wait for the signals.
    """

    def __init__(
        self, settings: AgentSettings, client: AsyncClient, metrics: AgentMetrics, pulse: Pulse
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._pulse = pulse
        self._changes = changes = ChangeSignal()
        self._state = GpuState(settings.shares_per_gpu)
        self._kubelet = KubeletState(changes)
        self.connection = ApiConnection(changes)
        self._api = NodeApi(
            client,
            node=settings.node,
            resource=settings.resource,
            on_response=self.connection.record_response,
        )
        self._monitor = ConnectionMonitor(self.connection, self._api)
        self._node = NodeWatch(self._api, settings, changes)
        self._pods = NodePods(
            self._api.pods, self.connection, changes, silence_seconds=2 * settings.resync_seconds
        )
        self._recorder = EventRecorder(self._api, settings.node, metrics, changes)
        self._pod_resources = PodResourcesClient(settings.pod_resources_socket, settings.resource)
        self._tracker = UsageTracker(
            self._pods,
            Cgroups(settings.cgroup_dir),
            StateFile(settings.state_dir / "usage.json"),
            metrics.record_failure,
        )
        self._offer = DeviceOffer(
            self._state, self._kubelet, self._tracker, self.connection, self._node
        )
        self._measurer = self._create_measurer()
        read_config = config_reader(lambda: self._node.document, settings)
        self._numa = self._create_numa_reporter(read_config)
        self._nri = self._create_nri_connector(read_config)
        self._topology_file = TopologyFile(settings.state_dir)
        self._publisher = TopologyPublisher(self._api)
        self._coordinator: SharingCoordinator | None = None
        lock = AdmissionLock()
        self._registrars = self._create_registrars(lock)
        self._reporter = self._create_reporter(lock)

    def _create_measurer(self) -> Measurer:
        settings, metrics = self._settings, self._metrics
        self._sockets = StepsSockets(settings.state_dir / "steps", metrics.count_failure)
        self._counters = create_poller(settings, self._state, metrics.counters, self._changes)
        sources = MeasureSources(
            self._state, self.connection, self._tracker, self._sockets, self._counters
        )
        measurer = Measurer(settings, sources, self._recorder, metrics.steps, self._changes)
        endpoints = EndpointClient(timeout_seconds=RESPONSE_SECONDS, max_bytes=MAX_EXPOSITION_BYTES)
        self._scraper = MetricsScraper(endpoints, measurer, metrics.steps)
        return measurer

    def _create_numa_reporter(self, read_config: ReadConfig) -> NumaReporter | None:
        if self._settings.publish_numa == "Never":
            return None
        settings = self._settings

        async def read_cpus() -> KubeletCpus:
            allocatable = await self._pod_resources.allocatable_cpus(settings.api_timeout_seconds)
            return KubeletCpus(allocatable, read_online_cpus(settings.system_dir))

        return NumaReporter(
            self._state,
            self._kubelet,
            self._changes,
            read_config,
            read_cpus,
            any_policy=settings.publish_numa == "AnyPolicy",
            retry_seconds=settings.resync_seconds,
        )

    def _create_nri_connector(self, read_config: ReadConfig) -> NriConnector | None:
        settings = self._settings
        if settings.nri_socket is None:
            return None
        return NriConnector(
            self._state,
            cpu_manager_reader(self._kubelet, read_config, retry_seconds=settings.resync_seconds),
            self._changes,
            self._metrics,
            socket=settings.nri_socket,
            system_dir=settings.system_dir,
        )

    def _create_registrars(self, lock: AdmissionLock) -> list[Registrar]:
        """Return the registrar of the GPUs and, if the agent offers shares, that of the shares."""
        settings = self._settings
        admission = Admission(
            self._tracker,
            self._pod_resources,
            lock,
            self._state,
            self._kubelet,
            self._recorder,
            node=settings.node,
            timeout_seconds=settings.admission_timeout_seconds,
        )
        gpus = Registrar(
            GpuDevicePlugin(self._state, self._kubelet, admission, self._sockets, settings),
            self._state,
            self._kubelet,
            plugin_dir=settings.plugin_dir,
            resource=settings.resource,
        )
        if not settings.shares_per_gpu:
            return [gpus]
        return [gpus, self._create_share_registrar(admission)]

    def _create_share_registrar(self, admission: Admission) -> Registrar:
        settings = self._settings
        daemons = MpsDaemons(
            MpsConnection(settings.mps_socket, timeout_seconds=settings.mps_timeout_seconds),
            MpsPresence(settings.mps_socket),
        )
        self._coordinator = SharingCoordinator(
            daemons,
            self._tracker,
            self._state,
            self._recorder,
            self._metrics,
            self._changes,
            node=settings.node,
        )
        admission.sharing = self._coordinator
        kubelet = KubeletState(self._changes)
        plugin = ShareDevicePlugin(self._state, kubelet, admission, self._sockets, settings)
        plugin.coordinator = self._coordinator
        return Registrar(
            plugin,
            self._state,
            kubelet,
            plugin_dir=settings.plugin_dir,
            resource=share_resource(settings.resource),
            with_numa=False,
            before_start=plugin.before_start,
        )

    def _create_reporter(self, lock: AdmissionLock) -> StatusReporter:
        settings = self._settings
        self._observer = AllocationObserver(
            self._tracker,
            self._pod_resources,
            lock,
            self._kubelet,
            self._recorder,
            node=settings.node,
            timeout_seconds=settings.api_timeout_seconds,
        )
        sources = ReportSources(
            state=self._state,
            kubelet=self._kubelet,
            connection=self.connection,
            node=self._node,
            tracker=self._tracker,
            observer=self._observer,
            offer=self._offer,
            measurer=self._measurer,
            numa=self._numa,
            nri=self._nri,
            counters=self._counters,
        )
        return StatusReporter(
            settings,
            sources,
            self._publisher,
            self._topology_file,
            self._metrics,
            self._pulse,
            self._changes,
        )

    async def run(self) -> None:
        """Run until cancelled."""
        self._sockets.open_again()
        try:
            await self._run_loops()
        finally:
            self._sockets.close()
            await self._pod_resources.close()

    async def stop(self) -> None:
        """Publish that the agent stops; then wait, so that pods already bound here get GPUs."""
        if await self._reporter.withdraw():
            await asyncio.sleep(self._settings.drain_seconds)

    async def _run_loops(self) -> None:
        node, tracker = self._node, self._tracker
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._pulse.beat_until_cancelled())
            loops.create_task(self._follow_api_server())
            known = await load_known_topology(
                self.connection, node, self._publisher, self._topology_file, self._metrics
            )
            loops.create_task(self._create_hardware_watch().run(known))
            for registrar in self._registrars:
                loops.create_task(registrar.run())
            if self._coordinator is not None:
                loops.create_task(self._coordinator.run())
                loops.create_task(self._reporter.publish_mps_faults())
            loops.create_task(self._offer.run(self._changes))
            if self._numa is not None:
                loops.create_task(self._numa.run())
            if self._nri is not None:
                loops.create_task(self._nri.run())
            loops.create_task(
                record_health_changes(self._state, node, self._recorder, self._changes)
            )
            loops.create_task(self._reporter.resync())
            loops.create_task(self._reporter.run())
            loops.create_task(tracker.watch_processes(self._changes))
            measuring = [self._measurer.run, self._scraper.run]
            if (logs := self._settings.pod_logs_dir) is not None:
                measuring.append(LogReader(self._measurer, logs, self._metrics.steps).run)
            if self._counters is not None:
                measuring.append(self._counters.run)
            for run in measuring:
                loops.create_task(run_isolated(run, self._metrics.count_failure))

    async def _follow_api_server(self) -> None:
        """Send heartbeats, and list and watch objects, except while the node has no GPUs.

        Such a node has nothing to publish, and the chart runs an agent on every node. The agent
        connects again when NVML finds GPUs, for example because the driver was loaded.
        """
        node, monitor = self._node, self._monitor
        reflectors = (self._pods.run, node.node_reflector.run, node.slice_reflector.run)
        while True:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(monitor.run()),
                    group.create_task(monitor.run_while_responding(*reflectors)),
                ]
                await self._state.wait_idle(idle=True)
                for task in tasks:
                    task.cancel()
            self.connection.record_loss()
            _log.info("no GPUs found; the agent sends no requests to the API server meanwhile")
            await self._state.wait_idle(idle=False)

    def _create_hardware_watch(self) -> HardwareWatch:
        settings = self._settings
        return HardwareWatch(
            self._state,
            # The agent reads sysfs only once. On virtual machines with memory ballooning the size
            # of the memory changes, and each change would create a new generation of the spec.
            NvmlSession(settings.library_dir, read_numa_nodes(settings.system_dir)),
            XidMarkStore(
                StateFile(settings.state_dir / "xids.json"),
                quiet_seconds=settings.xid_quiet_seconds,
            ),
            settings,
            self._node,
            self._pulse,
        )
