"""Starts an MPS daemon for each shared GPU, ends it when no pod shares the GPU, reports faults."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from gputopo.api.shares import gpu_of, is_share, share_id
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.identify import (
    AdmissionRejection,
    AdmissionResult,
    ContainerAllocation,
)
from gputopo_deviceplugin.admit.placement import PlacementError, intended_gpus
from gputopo_deviceplugin.admit.tracker import UsageTracker
from gputopo_deviceplugin.apiserver.events import EventRecorder
from gputopo_deviceplugin.gpus.state import GpuState, MpsFaults
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_deviceplugin.sharing.client import (
    MpsError,
    MpsFaultError,
    MpsGpu,
    MpsUnavailableError,
    SharedGpuFault,
)
from gputopo_deviceplugin.sharing.daemons import MpsDaemons
from gputopo_deviceplugin.sharing.excess import MemoryExcess
from gputopo_deviceplugin.sharing.memory import MemoryLimitError, check_memory
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.pods import PodView

_CHECK_SECONDS: Final = 1.0
_KEEP_CHECKS: Final = 5
"""A daemon ends after this many checks without a sharing pod, so that short gaps do not end it."""


def shared_gpus(pods: Iterable[PodView], used: Iterable[GpuUuid], node: str) -> set[GpuUuid]:
    """Return the GPUs that pods share now or are intended to share soon.

    ``used`` are the devices that containers of the node use.
    """
    found = {gpu_of(device) for device in used if is_share(device)}
    for pod in pods:
        if pod.live and pod.shares and not pod.deleting:
            try:
                intended = intended_gpus(pod, node)
            except PlacementError:
                continue  # Allocate rejects it
            named = [each for devices in intended.values() for each in devices]
            found |= {gpu_of(each) for each in named if is_share(each)}
    return found


class SharingCoordinator:
    """Keeps one MPS daemon for each shared GPU of the node.

    While the component for MPS does not respond, GPUs whose daemon goes on take further sharing
    pods. The other GPUs take none, and no pod gets a GPU as a whole that MPS still serves.
    """

    def __init__(
        self,
        daemons: MpsDaemons,
        tracker: UsageTracker,
        state: GpuState,
        recorder: EventRecorder,
        metrics: AgentMetrics,
        changes: ChangeSignal,
        *,
        node: str,
    ) -> None:
        """Start and end ``daemons``. Write what MPS cannot do to ``state``, and signal changes."""
        self._daemons = daemons
        self._tracker = tracker
        self._state = state
        self._recorder = recorder
        self._metrics = metrics
        self._changes = changes
        self._node = node
        self._unused: dict[GpuUuid, int] = {}
        self._reported: set[str] = set()
        self._excess = MemoryExcess(recorder)
        state.mps_faults = MpsFaults(outage="the agent has not read the state of MPS yet")

    def folders(self, gpu: GpuUuid) -> MpsGpu:
        """Return the folders of the daemon of a GPU, which may start later."""
        return self._daemons.folders(gpu)

    async def prepare(self, allocation: ContainerAllocation) -> AdmissionResult:
        """Start MPS on the GPU of a sharing container; end MPS on GPUs that are used as a whole.

        Return the allocation, or a rejection. While the component does not respond, the allocation
        of a share is right too: its container waits for the component before it starts.
        """
        if is_share(allocation.gpus[0]):
            return await self._prepare_share(allocation, gpu_of(allocation.gpus[0]))
        for gpu in sorted(self._daemons.serving() & {*allocation.gpus}):
            try:
                await self._daemons.end(gpu)
            except MpsError as error:
                pod = allocation.pod
                reason = f"pod {pod.key}: {gpu} cannot be used as a whole: {error}"
                return AdmissionRejection(reason, pod)
        return allocation

    async def _prepare_share(
        self, allocation: ContainerAllocation, gpu: GpuUuid
    ) -> AdmissionResult:
        pod = allocation.pod
        try:
            self._check_memory(pod, gpu)
            await self._begin(gpu)
        except MpsUnavailableError:
            return allocation
        except (MpsError, MemoryLimitError) as error:
            reason = f"pod {pod.key}: {gpu} cannot be shared: {error}"
            caused = isinstance(error, MemoryLimitError | MpsFaultError)
            return AdmissionRejection(reason, pod, node_fault=not caused)
        return allocation

    async def before_start(self, gpu: GpuUuid) -> str:
        """Start MPS on the GPU of a sharing container that starts.

        Return why this is not possible; empty if MPS takes clients.
        """
        try:
            await self._daemons.patiently(partial(self._begin, gpu))
        except MpsError as error:
            return f"{gpu} cannot be shared: {error}"
        return ""

    def _check_memory(self, pod: PodView, gpu: GpuUuid) -> None:
        """Check the memory again: a user can change the annotation of a pod that is bound."""
        most = self._state.shares_per_gpu
        users = self._tracker.find_users([share_id(gpu, number) for number in range(most)])
        present = [self._tracker.pods.get(user.key) for user in users.values()]
        others = [each for each in present if each is not None and each.uid != pod.uid]
        hardware = self._state.hardware
        size = hardware.gpus[gpu].memory_bytes if hardware else 0
        check_memory(pod, others, gpu_bytes=size, most_pods=most)

    async def run(self) -> None:
        """Start, end and check daemons until cancelled."""
        while True:
            await self.check()
            await self._daemons.pause(_CHECK_SECONDS)

    async def check(self) -> None:
        """Start, end and check daemons once."""
        users = self._tracker.all_users()
        wanted = shared_gpus(self._tracker.pods.values(), users, self._node)
        try:
            state = await self._daemons.read()
            for fault in state.faults:
                await self._report(fault)
        except MpsError as error:
            self._metrics.record_failure("mps", error)
            self._show_outage(str(error))
            return
        self._excess.report(state.gpus, self._tracker.pods.values())
        not_ended = await self._end_unused(wanted)
        in_use = {*users, *self._tracker.assigned_gpus()}
        started = await self._start(wanted - self._daemons.known.keys() - in_use)
        current = {gpu: it.fault for gpu, it in self._daemons.known.items() if gpu in wanted}
        current.update(started)
        found = {gpu: fault for gpu, fault in current.items() if fault is not None}
        self._show(MpsFaults(sharing=found, whole=not_ended))

    def _show_outage(self, reason: str) -> None:
        serving = self._daemons.serving()
        surviving = {gpu for gpu in serving if self._daemons.surviving(gpu) is not None}
        whole = dict.fromkeys(serving, reason)
        self._show(MpsFaults(whole=whole, outage=reason, surviving=frozenset(surviving)))

    def _show(self, faults: MpsFaults) -> None:
        if faults != self._state.mps_faults:
            self._state.mps_faults = faults
            self._changes.notify()

    async def _begin(self, gpu: GpuUuid) -> None:
        self._unused.pop(gpu, None)
        await self._daemons.start(gpu)

    async def _start(self, gpus: Iterable[GpuUuid]) -> Mapping[GpuUuid, str]:
        """Start daemons before kubelet admits the pods; return why some cannot be started."""
        found: dict[GpuUuid, str] = {}
        for gpu in sorted(gpus):
            try:
                await self._begin(gpu)
            except MpsError as error:
                found[gpu] = str(error)
        return found

    async def _end_unused(self, wanted: set[GpuUuid]) -> Mapping[GpuUuid, str]:
        """End daemons that no pod has used for some time; return why some do not end."""
        unused = self._daemons.known.keys() - wanted
        self._unused = {gpu: self._unused.get(gpu, 0) + 1 for gpu in unused}
        found: dict[GpuUuid, str] = {}
        for gpu in sorted(filter(self._is_due, unused)):
            try:
                # Meanwhile, a container may have got a share of the GPU.
                await self._daemons.end(gpu, only_if=partial(self._is_due, gpu))
            except MpsError as error:
                self._metrics.record_failure("mps", error)
                found[gpu] = str(error)
        return found

    def _is_due(self, gpu: GpuUuid) -> bool:
        """Return whether no pod has shared a GPU for so long that its daemon ends."""
        return self._unused.get(gpu, 0) >= _KEEP_CHECKS

    async def _report(self, fault: SharedGpuFault) -> None:
        """Record an event on each pod that lost its client, then acknowledge the fault."""
        if fault.id not in self._reported:
            by_uid = {pod.uid: pod for pod in self._tracker.pods.values()}
            cause = by_uid.get(fault.cause or "")
            for uid in fault.pods:
                if uid in by_uid:
                    self._recorder.record_sharing_fault(by_uid[uid], cause, fault.message)
        self._reported.add(fault.id)
        await self._daemons.acknowledge(fault)
        self._reported.discard(fault.id)
