"""Reads kubelet's pod-resources list periodically; records containers with unintended GPUs."""

from collections.abc import Sequence

from gputopo_deviceplugin.admit.admission import PodResources
from gputopo_deviceplugin.admit.lock import AdmissionLock
from gputopo_deviceplugin.admit.tracker import UsageTracker
from gputopo_deviceplugin.apiserver.events import EventRecorder
from gputopo_deviceplugin.apiserver.node_pods import PodsVersion
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.report.differences import AllocationDifference, find_differences


class AllocationObserver:
    """Updates the usage tracker from kubelet's pod-resources list.

    Attributes:
        differing: containers whose observed GPUs are not the intended GPUs.
        pods_version: which changes of pods the last read includes; None before the first.
    """

    pods_version: PodsVersion | None = None

    def __init__(
        self,
        tracker: UsageTracker,
        pod_resources: PodResources,
        lock: AdmissionLock,
        kubelet: KubeletState,
        recorder: EventRecorder,
        *,
        node: str,
        timeout_seconds: float,
    ) -> None:
        """Limit each read from kubelet and from the API server to ``timeout_seconds``."""
        self._tracker = tracker
        self._pods = tracker.pods
        self._pod_resources = pod_resources
        self._lock = lock
        self._kubelet = kubelet
        self._recorder = recorder
        self._node = node
        self._timeout_seconds = timeout_seconds
        self._registration = kubelet.registrations
        self._with_record: set[tuple[str, str]] = set()
        self.differing: Sequence[AllocationDifference] = ()

    async def observe(self, *, connected: bool = True) -> None:
        """Read kubelet's list, and record each container with unintended GPUs once.

        If the agent is not ``connected`` to the API server, the agent's copy of the pods may be
        outdated. Then the method does not compare the list with the annotations of the pods.

        Raises:
            PodResourcesError: kubelet does not respond. The agent keeps the previous list.
        """
        # The list may not include changes of pods that arrive during the read.
        version = self._pods.version
        async with self._lock.idle():
            listed = await self._pod_resources.list_pods(self._timeout_seconds)
            self._tracker.update_listed(listed)
        if connected:
            await self._compare(listed)
            self._tracker.add_listed()
        self.pods_version = version

    async def _compare(self, listed: Sequence[ListedPod]) -> None:
        using = {pod.key for pod in listed if any(pod.containers.values())}
        await self._pods.refresh(using - self._pods.keys(), self._timeout_seconds)
        found = find_differences(listed, self._pods, self._node)
        # The watch may lag behind kubelet, and may show a former pod of the same name.
        new = {each.pod.key for each in found if each not in self.differing}
        if new:
            unread = await self._pods.refresh(new, self._timeout_seconds)
            found = [
                each
                for each in find_differences(listed, self._pods, self._node)
                if each in self.differing or each.pod.key not in unread
            ]
        for each in found:
            if each not in self.differing:
                self._recorder.record_difference(each.pod, each.message)
        self.differing = found
        self._tracker.lost = {
            (each.pod.key, each.container): each.missing
            for each in self._without_record(listed, found)
        }

    def _without_record(
        self, listed: Sequence[ListedPod], found: Sequence[AllocationDifference]
    ) -> list[AllocationDifference]:
        """Return the running containers whose GPUs kubelet has forgotten and may allocate again.

        Kubelet can forget GPUs only when it starts. If kubelet has listed GPUs of a container after
        this start and no longer lists them, the container has ended, and is left out. Pods that
        are being deleted are left out too, because the agent rejects requests for their containers.
        """
        if self._registration != self._kubelet.registrations:
            self._registration = self._kubelet.registrations
            self._with_record.clear()
        self._with_record |= {
            (self._pods[entry.key].uid, container)
            for entry in listed
            if entry.key in self._pods
            for container, gpus in entry.containers.items()
            if gpus
        }
        return [
            each
            for each in found
            if each.missing
            and not each.pod.deleting
            and (each.uid, each.container) not in self._with_record
        ]
