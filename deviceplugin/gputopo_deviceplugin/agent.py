"""Connects the parts of the node agent and runs their loops."""

import asyncio

from gputopo_deviceplugin.admit.build import AdmitPart
from gputopo_deviceplugin.apiserver.build import ApiPart
from gputopo_deviceplugin.context import AgentContext
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.gpus.watch import create_hardware_watch
from gputopo_deviceplugin.measure.build import MeasurePart
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_deviceplugin.nri.connector import create_connector
from gputopo_deviceplugin.report.reporter import StatusReporter
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_deviceplugin.sharing.build import ServePart
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.client import AsyncClient
from gputopo_kube.probes import Pulse


class Agent:
    """The node agent of one node.

    The parts that read NVML, kubelet and the API server write to shared state and signal each
    change. The loops that offer GPUs to kubelet and publish the GPUTopology wait for the signals.

    Attributes:
        api: what the API server knows of the node.
        admit: the users of GPUs, and what kubelet is offered.
        measure: the measurement of containers.
        serve: the device plugins.
    """

    def __init__(
        self, settings: AgentSettings, client: AsyncClient, metrics: AgentMetrics, pulse: Pulse
    ) -> None:
        self._settings = settings
        self._pulse = pulse
        self._state = state = GpuState(settings.shares_per_gpu)
        context = AgentContext(settings, metrics, pulse, state, ChangeSignal())
        self.api = api = ApiPart(context, client)
        self.admit = admit = AdmitPart(context, api)
        self.measure = measure = MeasurePart(context, api, admit.tracker)
        self.serve = serve = ServePart(context, api, admit, measure.sockets)
        nri = create_connector(context, admit)
        self._reporter = reporter = StatusReporter(context, api, admit, measure, nri)
        limiting = [nri.run] if nri else []
        self._loops = serve.loops + admit.loops + limiting + reporter.loops + measure.loops
        self._sockets, self._pod_resources = measure.sockets, admit.pod_resources

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
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pulse.beat_until_cancelled())
            group.create_task(self.api.run())
            known = await self._reporter.load_known()
            node, settings = self.api.node, self._settings
            hardware = create_hardware_watch(settings, self._state, node, self._pulse)
            group.create_task(hardware.run(known))
            for loop in self._loops:
                group.create_task(loop())
