"""Records each change of a GPU's health, and signals each change to the reporter."""

from gputopo_deviceplugin.apiserver.events import EventRecorder
from gputopo_deviceplugin.apiserver.node_watch import NodeWatch
from gputopo_deviceplugin.gpus.hardware import UNKNOWN
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_kube.changes import ChangeSignal


async def record_health_changes(
    state: GpuState, node: NodeWatch, recorder: EventRecorder, changes: ChangeSignal
) -> None:
    """Whenever the hardware changes, record which GPUs became healthy or unhealthy."""
    before = UNKNOWN
    while True:
        hardware = state.hardware
        if hardware is not None:
            for gpu, fault in hardware.health.items():
                if before.health.get(gpu) != fault and node.document:
                    recorder.record_health(node.document, gpu, fault)
            before = hardware
            changes.notify()
        while state.hardware is hardware:
            await state.changes.wait_after(state.changes.count)
