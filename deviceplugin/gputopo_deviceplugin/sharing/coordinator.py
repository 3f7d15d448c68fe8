"""Starts an MPS daemon for each shared GPU, ends it when no pod shares the GPU, reports faults."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from gputopo.api.shares import gpu_of, is_share, share_id
from gputopo.runtime.log import fields
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.identify import (
    AdmissionRejection,
    AdmissionResult,
    ContainerAllocation,
)
from gputopo_deviceplugin.admit.placement import PlacementError, intended_gpus
from gputopo_deviceplugin.admit.tracker import UsageTracker
from gputopo_deviceplugin.apiserver.events import EventRecorder
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_deviceplugin.sharing.client import (
    MpsConnection,
    MpsError,
    MpsGpu,
    MpsState,
    SharedGpuFault,
)
from gputopo_deviceplugin.sharing.memory import MemoryLimitError, check_memory
from gputopo_kube.pods import PodView

_CHECK_SECONDS: Final = 1.0
_KEEP_CHECKS: Final = 5
"""A daemon ends after this many checks without a sharing pod, so that short gaps do not end it."""

_log = logging.getLogger(__name__)


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
            found |= {gpu_of(each) for devices in intended.values() for each in devices}
    return found


class SharingCoordinator:
    """Keeps one MPS daemon for each shared GPU of the node."""

    def __init__(
        self,
        client: MpsConnection,
        tracker: UsageTracker,
        state: GpuState,
        recorder: EventRecorder,
        metrics: AgentMetrics,
        *,
        node: str,
    ) -> None:
        """Send requests with ``client``; write the faults of GPUs to ``state``."""
        self._client = client
        self._tracker = tracker
        self._state = state
        self._recorder = recorder
        self._metrics = metrics
        self._node = node
        self._daemons: dict[GpuUuid, MpsGpu] = {}
        self._unused: dict[GpuUuid, int] = {}
        self._reported: set[str] = set()
        self._known = False
        self._lock = asyncio.Lock()

    def daemon(self, gpu: GpuUuid) -> MpsGpu:
        """Return the daemon of a GPU for which :meth:`prepare` has returned an allocation."""
        return self._daemons[gpu]

    async def prepare(self, allocation: ContainerAllocation) -> AdmissionResult:
        """Start MPS on the GPU of a sharing container; end MPS on GPUs that are used as a whole.

        Return the allocation, or a rejection. While MPS serves a GPU, no process can use the GPU
        without MPS.
        """
        pod, gpu = allocation.pod, gpu_of(allocation.gpus[0])
        try:
            if is_share(allocation.gpus[0]):
                purpose = "be shared"
                self._check_memory(pod, gpu)
                await self._begin(gpu)
            else:
                purpose = "be used as a whole"
                for gpu in await self._served(allocation.gpus):
                    async with self._lock:
                        await self._end(gpu)
        except (MpsError, MemoryLimitError) as error:
            return AdmissionRejection(f"pod {pod.key}: {gpu} cannot {purpose}: {error}", pod)
        return allocation

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
            await asyncio.sleep(_CHECK_SECONDS)

    async def check(self) -> None:
        """Start, end and check daemons once."""
        users = self._tracker.all_users()
        wanted = shared_gpus(self._tracker.pods.values(), users, self._node)
        try:
            known = await self._read()
            for fault in known.faults:
                await self._report(fault)
        except MpsError as error:
            self._metrics.record_failure("mps", error)
            self._state.set_sharing_faults(dict.fromkeys(self._gpus, str(error)))
            return
        await self._end_unused(wanted)
        in_use = {*users, *self._tracker.assigned_gpus()}
        started = await self._start(wanted - self._daemons.keys() - in_use)
        current = {gpu.uuid: gpu.fault for gpu in known.gpus if gpu.uuid in wanted}
        current.update(started)
        self._state.set_sharing_faults(
            {gpu: fault for gpu, fault in current.items() if fault is not None}
        )

    async def _read(self) -> MpsState:
        async with self._lock:
            known = await self._client.state()
            self._daemons = {gpu.uuid: gpu for gpu in known.gpus}
            self._known = True
        return known

    async def _served(self, gpus: Iterable[GpuUuid]) -> list[GpuUuid]:
        """Return the GPUs that have a daemon; none if the component has never responded."""
        if not self._known:
            with suppress(MpsError):
                await self._read()
        return [gpu for gpu in gpus if gpu in self._daemons]

    async def _begin(self, gpu: GpuUuid) -> None:
        async with self._lock:
            self._unused.pop(gpu, None)
            self._daemons[gpu] = await self._client.start(gpu)

    async def _end(self, gpu: GpuUuid) -> None:
        await self._client.stop(gpu)
        self._daemons.pop(gpu, None)
        _log.info("ended MPS %s", fields(gpu=gpu))

    async def _start(self, gpus: Iterable[GpuUuid]) -> Mapping[GpuUuid, str]:
        """Start daemons before kubelet admits the pods; return why some cannot be started."""
        found: dict[GpuUuid, str] = {}
        for gpu in sorted(gpus):
            try:
                await self._begin(gpu)
            except MpsError as error:
                found[gpu] = str(error)
        return found

    async def _end_unused(self, wanted: set[GpuUuid]) -> None:
        unused = self._daemons.keys() - wanted
        self._unused = {gpu: self._unused.get(gpu, 0) + 1 for gpu in unused}
        for gpu in sorted(unused):
            async with self._lock:
                # Meanwhile, a container may have got a share of the GPU.
                if self._unused.get(gpu, 0) >= _KEEP_CHECKS:
                    await self._end_or_record(gpu)

    async def _end_or_record(self, gpu: GpuUuid) -> None:
        try:
            await self._end(gpu)
        except MpsError as error:
            self._metrics.record_failure("mps", error)

    async def _report(self, fault: SharedGpuFault) -> None:
        """Record an event on each pod that lost its client, then acknowledge the fault."""
        if fault.id not in self._reported:
            by_uid = {pod.uid: pod for pod in self._tracker.pods.values()}
            cause = by_uid.get(fault.cause or "")
            for uid in fault.pods:
                if uid in by_uid:
                    self._recorder.record_sharing_fault(by_uid[uid], cause, fault.message)
        self._reported.add(fault.id)
        await self._client.acknowledge(fault)
        self._reported.discard(fault.id)

    @property
    def _gpus(self) -> Iterable[GpuUuid]:
        return self._state.hardware.gpus if self._state.hardware else ()
