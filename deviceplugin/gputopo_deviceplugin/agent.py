"""The node agent as a whole: its parts and its loops."""

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

from lightkube import AsyncClient

from gputopo.runtime.log import fields
from gputopo.topology.model import NodeTopology
from gputopo_deviceplugin import events
from gputopo_deviceplugin.admission import Admission
from gputopo_deviceplugin.allocate import CONTROL_DEVICES
from gputopo_deviceplugin.compare import Difference
from gputopo_deviceplugin.hardware import HardwareWatch
from gputopo_deviceplugin.health import Health
from gputopo_deviceplugin.identify import Identified, Refusal
from gputopo_deviceplugin.kube import ApiServer, ApiServerError, Document
from gputopo_deviceplugin.lister import Lister, ListError
from gputopo_deviceplugin.metrics import Metrics
from gputopo_deviceplugin.observe import competitor_of, observed_gpus, serving_of
from gputopo_deviceplugin.observer import Observer
from gputopo_deviceplugin.podbook import PodBook
from gputopo_deviceplugin.probes import Pulse
from gputopo_deviceplugin.publish import Publisher, now
from gputopo_deviceplugin.register import Registrar
from gputopo_deviceplugin.server import Servicer
from gputopo_deviceplugin.settings import Settings
from gputopo_deviceplugin.state import Current, Hardware

_BEAT_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


class Agent:
    """Wires the parts; what they decide is decided in them."""

    def __init__(
        self, settings: Settings, client: AsyncClient, metrics: Metrics, pulse: Pulse
    ) -> None:
        """Serve ``settings.node``."""
        self._settings = settings
        self._metrics = metrics
        self._pulse = pulse
        self._current = Current()
        self._wake = asyncio.Event()
        self._background: set[asyncio.Task[None]] = set()
        self._api = ApiServer(client, node=settings.node, resource=settings.resource)
        self._pods = PodBook(self._api, silence_seconds=2 * settings.resync_seconds)
        self._lister = Lister(settings.pod_resources_socket, settings.resource)
        self._publisher = Publisher(self._api)
        self._admission = Admission(
            node=settings.node,
            pods=self._pods,
            lister=self._lister,
            current=self._current,
            controls=partial(_controls, settings),
            timeout_seconds=settings.admission_timeout_seconds,
            on_refusal=self._refused,
            on_grant=self._granted,
        )
        self._registrar = Registrar(
            Servicer(self._current, self._admission, settings.device_dir),
            plugin_dir=settings.plugin_dir,
            resource=settings.resource,
            on_registration=self._registered,
        )
        self._observer = Observer(
            self._admission,
            self._pods,
            node=settings.node,
            timeout_seconds=settings.api_timeout_seconds,
            on_difference=self._differs,
        )
        self._node: Document = {}

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            await self._run_loops()
        finally:
            await self._lister.close()

    async def _run_loops(self) -> None:
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._beat())
            known = await self._first_contact()
            loops.create_task(self._pods.run())
            loops.create_task(self._hardware().run(known))
            loops.create_task(self._registrar.run())
            loops.create_task(self._wake_at_changes())
            loops.create_task(self._resync())
            loops.create_task(self._report())

    def _hardware(self) -> HardwareWatch:
        settings = self._settings
        return HardwareWatch(
            self._current,
            library_dir=settings.library_dir,
            system_dir=settings.system_dir,
            health_seconds=settings.health_seconds,
            retry_seconds=settings.retry_seconds,
            xid_quiet_seconds=settings.xid_quiet_seconds,
        )

    async def _beat(self) -> None:
        while True:
            self._pulse.beat()
            await asyncio.sleep(_BEAT_SECONDS)

    async def _first_contact(self) -> NodeTopology | None:
        """Wait for the API server: without it no pod can be known, and nothing be served."""
        while True:
            try:
                self._node = await self._api.node()
                return await self._publisher.load()
            except ApiServerError as error:
                self._failed("contact", error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _resync(self) -> None:
        """Look now and then whether Node and GPUTopology are still what we take them for."""
        while True:
            await asyncio.sleep(self._settings.resync_seconds)
            try:
                self._node = await self._api.node()
                await self._publisher.load()
            except ApiServerError as error:
                self._failed("resync", error)
            self._wake.set()

    async def _wake_at_changes(self) -> None:
        before: Health = {}
        while True:
            hardware = self._current.hardware
            if hardware is not None:
                self._tell_health(before, hardware.health)
                before = hardware.health
                self._wake.set()
            while self._current.hardware is hardware:
                await self._current.change()

    async def _report(self) -> None:
        """Bring the registration, the published object and the metrics up to date, repeatedly."""
        while True:
            self._wake.clear()
            hardware = self._current.hardware
            if hardware is not None:
                await self._report_once(hardware)
            try:
                async with asyncio.timeout(self._settings.observe_seconds):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _report_once(self, hardware: Hardware) -> None:
        competitor = competitor_of(self._node, self._settings.competitors)
        idle = hardware.topology is None or not hardware.topology.gpus
        refusal = "this node has no GPUs" if idle else competitor
        if refusal != self._registrar.refusal:
            _log.info("serving decided %s", fields(refusal=refusal or "none"))
            self._registrar.refusal = refusal
        registered = self._registrar.registered
        self._pulse.ready = idle or registered
        serving = serving_of(hardware, competitor, registered=registered)
        observer = self._observer
        if hardware.topology is not None:
            try:
                await observer.look()
            except ListError as error:
                self._failed("observe", error)
        self._metrics.show(hardware, serving, differing=len(observer.differing))
        try:
            gpus = observed_gpus(hardware.health, observer.listed, self._pods)
            differing = [one.message for one in observer.differing]
            await self._publisher.publish(self._node, hardware, gpus, serving, differing)
        except ApiServerError as error:
            self._failed("publish", error)

    def _registered(self) -> None:
        self._admission.forget_in_flight()
        self._wake.set()

    def _granted(self, found: Identified) -> None:
        gpus = ",".join(found.gpus)
        _log.info("granted %s", fields(pod=found.pod.key, container=found.container, gpus=gpus))
        self._metrics.count_allocation(granted=True)
        self._wake.set()

    def _refused(self, refusal: Refusal) -> None:
        _log.warning("refused %s", fields(reason=refusal.reason))
        self._metrics.count_allocation(granted=False)
        if refusal.pod is not None:
            event = events.refused(refusal.pod, self._settings.node, refusal.reason, now())
            self._in_background(self._record(event))

    def _differs(self, difference: Difference) -> None:
        _log.error("GPUs differ %s", fields(reason=difference.message))
        event = events.differs(difference.pod, self._settings.node, difference.message, now())
        self._in_background(self._record(event))

    def _tell_health(self, before: Health, after: Health) -> None:
        for gpu, fault in after.items():
            if before.get(gpu) != fault:
                event = events.health_changed(self._node, gpu, fault, now())
                self._in_background(self._record(event))

    async def _record(self, event: Document) -> None:
        try:
            await self._api.create_event(event)
        except ApiServerError as error:
            self._failed("event", error)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _failed(self, what: str, error: Exception) -> None:
        _log.warning("%s failed, trying again %s", what, fields(reason=error))
        self._metrics.count_failure(what)


def _controls(settings: Settings) -> list[str]:
    """Return the control devices that the host has."""
    folder = settings.device_mount or settings.device_dir
    return [name for name in CONTROL_DEVICES if (folder / name).exists()]
