"""Tells the API server what is so on this node, and last that the agent ends."""

import asyncio
import logging
from typing import Final

from gputopo.runtime.log import fields
from gputopo.topology.model import GpuUuid, NodeTopology
from gputopo_deviceplugin.kube import ApiServer, ApiServerError, Document
from gputopo_deviceplugin.lister import ListError
from gputopo_deviceplugin.metrics import Metrics
from gputopo_deviceplugin.observe import Observed, competitor_of, observed_gpus, serving_of
from gputopo_deviceplugin.observer import Observer
from gputopo_deviceplugin.podbook import PodBook
from gputopo_deviceplugin.pods import PodsVersion
from gputopo_deviceplugin.probes import Pulse
from gputopo_deviceplugin.publish import Publisher
from gputopo_deviceplugin.register import Registrar
from gputopo_deviceplugin.settings import Settings
from gputopo_deviceplugin.state import Current, Hardware

_RETRY_SECONDS: Final = 1.0
_WRITE_SECONDS: Final = 0.2
"""Shortest time from one write to the next report: many changes at once cost few writes."""

_PROCESS_SECONDS: Final = 0.25
"""Pause between two looks whether a process of a deleted pod has ended."""

_WITHDRAW_SECONDS: Final = 3.0
"""Longest wait for the API server when the agent ends: kubelet kills it after some 30 s."""

_log = logging.getLogger(__name__)


class Reporter:
    """Brings what others see up to date: registration, published object, metrics.

    Attributes:
        node: the Node object as read last.
        wake: set where something changed that is to be told at once.
    """

    def __init__(
        self,
        settings: Settings,
        current: Current,
        registrar: Registrar,
        observer: Observer,
        pods: PodBook,
        api: ApiServer,
        metrics: Metrics,
        pulse: Pulse,
    ) -> None:
        """Tell what is ``current``, and what ``observer`` finds."""
        self._settings = settings
        self._current = current
        self._registrar = registrar
        self._observer = observer
        self._pods = pods
        self._api = api
        self._metrics = metrics
        self._pulse = pulse
        self._publisher = Publisher(api)
        self._publishing = asyncio.Lock()
        self._withdrawn = False
        self.node: Document = {}
        self.wake = asyncio.Event()

    async def first_contact(self) -> NodeTopology | None:
        """Wait for the API server: without it no pod can be known, and nothing be served."""
        while True:
            try:
                self.node = await self._api.node()
                return await self._publisher.load()
            except ApiServerError as error:
                self.failed("contact", error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def resync(self) -> None:
        """Look now and then whether Node and GPUTopology are still what we take them for."""
        while True:
            await asyncio.sleep(self._settings.resync_seconds)
            try:
                self.node = await self._api.node()
                # Who ends must not take what its successor writes for its own.
                async with self._publishing:
                    if not self._withdrawn:
                        await self._publisher.load()
            except ApiServerError as error:
                self.failed("resync", error)
            self.wake.set()

    async def watch_processes(self) -> None:
        """Wake up when processes of deleted pods begin to be in the way, and when they end."""
        known: frozenset[GpuUuid] = frozenset()
        while True:
            await asyncio.sleep(_PROCESS_SECONDS)
            gone = frozenset(self._observer.tracker.gone())
            if gone != known:
                known = gone
                self.wake.set()

    async def run(self) -> None:
        """Report at every change, and now and then, until cancelled."""
        while True:
            self.wake.clear()
            hardware = self._current.hardware
            if hardware is not None and await self._report(hardware):
                await asyncio.sleep(_WRITE_SECONDS)
            try:
                async with asyncio.timeout(self._settings.observe_seconds):
                    await self.wake.wait()
            except TimeoutError:
                continue

    async def withdraw(self) -> bool:
        """Publish that the agent ends, and nothing any more; return whether that was told."""
        self._withdrawn = True
        try:
            async with asyncio.timeout(_WITHDRAW_SECONDS), self._publishing:
                told = await self._publisher.withdraw()
        except (ApiServerError, TimeoutError) as error:
            _log.warning("ending untold %s", fields(reason=error or "no answer in time"))
            return False
        _log.info("ending %s", fields(told=told))
        return told

    def failed(self, what: str, error: Exception) -> None:
        """Tell of a reading or a write that failed."""
        _log.warning("%s failed, trying again %s", what, fields(reason=error))
        self._metrics.count_failure(what)

    async def _report(self, hardware: Hardware) -> bool:
        """Look and publish; return whether the published status changed."""
        competitor = competitor_of(self.node, self._settings.competitors)
        idle = hardware.topology is None or not hardware.topology.gpus
        refusal = "this node has no GPUs" if idle else competitor
        if refusal != self._registrar.refusal:
            _log.info("serving decided %s", fields(refusal=refusal or "none"))
            self._registrar.refusal = refusal
        self._pulse.ready = idle or self._registrar.registered
        # Of the time before the look: a status must not claim more than was looked at.
        version = self._pods.version
        if hardware.topology is not None:
            try:
                await self._observer.look()
            except ListError as error:
                self.failed("observe", error)
        # Before the pods were listed, a running pod could be taken for a deleted one.
        return version is not None and await self._publish(hardware, competitor, version)

    async def _publish(
        self, hardware: Hardware, competitor: str | None, version: PodsVersion
    ) -> bool:
        observer, registrar = self._observer, self._registrar
        serving = serving_of(
            hardware, competitor, registered=registrar.registered, heard=registrar.heard
        )
        users = observer.tracker.users()
        gpus = observed_gpus(hardware.health, users)
        observed = Observed(gpus, version, processes_seen=observer.tracker.available)
        self._metrics.show(hardware, serving, observed, differing=len(observer.differing))
        differing = [one.message for one in observer.differing]
        try:
            async with self._publishing:
                return not self._withdrawn and await self._publisher.publish(
                    self.node, hardware, observed, serving, differing
                )
        except ApiServerError as error:
            self.failed("publish", error)
            return False
