"""Reads the policy of kubelet's CPU manager, again after each restart of kubelet."""

from gputopo_deviceplugin.admit.numa_report import ReadConfig
from gputopo_deviceplugin.kubelet.repeated_read import ReadWithBackoff
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.nri.rule import NOT_READ, CpuManager, cpu_manager
from gputopo_kube.kubelet_config import KubeletConfigError


def cpu_manager_reader(
    kubelet: KubeletState, read_config: ReadConfig, *, retry_seconds: float
) -> ReadWithBackoff[CpuManager]:
    """Return a reader of the policy, which reads again after ``retry_seconds`` if that fails."""

    async def read() -> CpuManager:
        try:
            return cpu_manager(await read_config())
        except KubeletConfigError as error:
            return CpuManager(None, str(error))

    return ReadWithBackoff(
        kubelet,
        read,
        lambda manager: manager.policy is not None,
        initial=NOT_READ,
        retry_seconds=retry_seconds,
    )
