"""Reports the pods that use more memory of a shared GPU than they may, which MPS permits."""

from collections.abc import Iterable
from typing import Final

from gputopo_deviceplugin.apiserver.events import EventRecorder
from gputopo_deviceplugin.sharing.client import MpsGpu
from gputopo_kube.pods import PodView

_MIB: Final = 2**20


class MemoryExcess:
    """Records one event for each pod, until the pod uses no more than it may again."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._reported: set[str] = set()

    def report(self, gpus: Iterable[MpsGpu], pods: Iterable[PodView]) -> None:
        """Record the events of pods that were not reported yet."""
        found = {each.pod: each for gpu in gpus for each in gpu.pods_above_memory}
        self._reported &= found.keys()
        for pod in pods:
            if pod.uid in found and pod.uid not in self._reported:
                self._reported.add(pod.uid)
                used, limit = found[pod.uid].used_bytes, found[pod.uid].limit_bytes
                self._recorder.record_memory_excess(
                    pod,
                    f"the processes of the pod use {used // _MIB} MiB of GPU memory, and the pod "
                    f"may use {limit // _MIB} MiB; other pods of the GPU may get errors",
                )
