"""Builds the part that serves the GPUs to kubelet, and shares of them if the node offers some."""

from gputopo.api.shares import share_resource
from gputopo_deviceplugin.admit.admission import NO_SHARING, Admission
from gputopo_deviceplugin.admit.build import AdmitPart
from gputopo_deviceplugin.admit.device_plugin import GpuDevicePlugin, StepsFolders
from gputopo_deviceplugin.apiserver.build import ApiPart
from gputopo_deviceplugin.context import AgentContext, Loop
from gputopo_deviceplugin.kubelet.registration import Registrar
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.sharing.client import MpsConnection
from gputopo_deviceplugin.sharing.coordinator import SharingCoordinator
from gputopo_deviceplugin.sharing.daemons import MpsDaemons
from gputopo_deviceplugin.sharing.device_plugin import ShareDevicePlugin
from gputopo_deviceplugin.sharing.presence import MpsPresence


class ServePart:
    """The device plugins of whole GPUs and, if the settings say so, of shares of GPUs.

    Attributes:
        registrars: serve the GPUs and the shares.
        loops: the registrars, and what starts and ends MPS.
    """

    loops: list[Loop]

    def __init__(
        self, context: AgentContext, api: ApiPart, admit: AdmitPart, folders: StepsFolders
    ) -> None:
        settings, state = context.settings, context.state
        coordinator = _coordinator(context, api, admit) if settings.shares_per_gpu else None
        admission = Admission(
            admit.tracker,
            admit.pod_resources,
            admit.lock,
            state,
            admit.kubelet,
            api.recorder,
            settings,
            coordinator or NO_SHARING,
        )
        plugin = GpuDevicePlugin(state, admit.kubelet, admission, folders, settings)
        self.registrars = [_registrar(context, admit.kubelet, plugin, settings.resource)]
        self.loops = [self.registrars[0].run]
        if coordinator is not None:
            kubelet = KubeletState(context.changes)
            shares = ShareDevicePlugin(state, kubelet, admission, folders, settings, coordinator)
            resource = share_resource(settings.resource)
            self.registrars.append(_registrar(context, kubelet, shares, resource, with_numa=False))
            self.loops += [self.registrars[1].run, coordinator.run]


def _registrar(
    context: AgentContext,
    kubelet: KubeletState,
    plugin: GpuDevicePlugin,
    resource: str,
    *,
    with_numa: bool = True,
) -> Registrar:
    return Registrar(
        plugin,
        context.state,
        kubelet,
        plugin_dir=context.settings.plugin_dir,
        resource=resource,
        with_numa=with_numa,
        before_start=plugin.before_start,
    )


def _coordinator(context: AgentContext, api: ApiPart, admit: AdmitPart) -> SharingCoordinator:
    settings = context.settings
    socket, timeout_seconds = settings.mps_socket, settings.mps_timeout_seconds
    return SharingCoordinator(
        MpsDaemons(MpsConnection(socket, timeout_seconds=timeout_seconds), MpsPresence(socket)),
        admit.tracker,
        context.state,
        api.recorder,
        context.metrics,
        context.changes,
        node=settings.node,
    )
