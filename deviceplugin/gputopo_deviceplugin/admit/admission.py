"""Responds to kubelet's calls GetPreferredAllocation and Allocate.

The agent reads kubelet's pod-resources list during GetPreferredAllocation, but never during
Allocate: after such a read, kubelet may treat the GPUs of an unfinished Allocate as free.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from gputopo.api.shares import is_share
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.identify import (
    AdmissionRejection,
    AdmissionResult,
    ContainerAllocation,
    PreferenceRequest,
    identify,
    unresolved_pods,
)
from gputopo_deviceplugin.admit.lock import AdmissionLock
from gputopo_deviceplugin.admit.tracker import UsageTracker
from gputopo_deviceplugin.admit.verify import (
    excluded_by,
    intended_users,
    preferred_gpus,
    verify,
)
from gputopo_deviceplugin.apiserver.events import EventRecorder
from gputopo_deviceplugin.clock import loop_time
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod, PodResourcesError
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_kube.pods import PodView

_LIST_SECONDS = 1.0
_IN_FLIGHT_SECONDS = 2.0
_RECORDING_SECONDS = 0.2


class PodResources(Protocol):
    """Kubelet's pod-resources API."""

    async def list_pods(self, timeout_seconds: float) -> list[ListedPod]:
        """Return every pod in kubelet's pod-resources list, with its GPUs."""
        ...


class Sharing(Protocol):
    """Starts MPS on the GPUs of sharing pods, and ends it on the GPUs of other pods."""

    async def prepare(self, allocation: ContainerAllocation) -> AdmissionResult:
        """Return the allocation if its container can use the devices, or a rejection."""
        ...


class _NoSharing:
    async def prepare(self, allocation: ContainerAllocation) -> AdmissionResult:
        if not any(map(is_share, allocation.gpus)):
            return allocation
        return AdmissionRejection(
            f"pod {allocation.pod.key}: this node offers no shares of GPUs", allocation.pod
        )


NO_SHARING: Final = _NoSharing()
"""Rejects all sharing pods."""


class Admission:
    """Decides which GPUs a container gets while kubelet admits the container."""

    def __init__(
        self,
        tracker: UsageTracker,
        pod_resources: PodResources,
        lock: AdmissionLock,
        state: GpuState,
        kubelet: KubeletState,
        recorder: EventRecorder,
        settings: AgentSettings,
        sharing: Sharing = NO_SHARING,
    ) -> None:
        """Decide which GPUs the containers of one node get.

        Args:
            tracker: records the users of GPUs.
            pod_resources: reads kubelet's list of pods.
            lock: held during each call from kubelet.
            state: the GPUs that the agent offers to kubelet, with their health.
            kubelet: shows whether kubelet has restarted since GetPreferredAllocation.
            recorder: records allocations and rejections.
            settings: this node's name, and the time limit for all reads from the API server in one
                call.
            sharing: starts and ends MPS on the GPUs of admitted containers.
        """
        self._sharing = sharing
        self._pods = tracker.pods
        self._tracker = tracker
        self._pod_resources = pod_resources
        self._lock = lock
        self._state = state
        self._kubelet = kubelet
        self._recorder = recorder
        self._node = settings.node
        self._timeout_seconds = settings.admission_timeout_seconds
        self._expected: AdmissionResult | None = None
        self._expected_registration = 0
        self._rejected: set[str] = set()

    async def prefer(self, request: PreferenceRequest) -> tuple[GpuUuid, ...] | AdmissionRejection:
        """Return the GPUs that kubelet should allocate, or why the agent rejects the request."""
        async with self._lock.call():
            result = await self._identify(request)
            gpus = preferred_gpus(request, result)
            if isinstance(gpus, AdmissionRejection):
                self._expected = None
                self._lock.set_in_flight(0)
                self._reject(gpus)
            else:
                self._expected = result
                self._expected_registration = self._kubelet.registrations
                self._lock.set_in_flight(_IN_FLIGHT_SECONDS)
            return gpus

    async def allocate(self, gpus: Sequence[GpuUuid]) -> AdmissionResult:
        """Return the container that gets ``gpus``, or why the agent rejects the allocation."""
        async with self._lock.call():
            expected, self._expected = self._expected, None
            if self._expected_registration != self._kubelet.registrations:
                expected = None  # kubelet has restarted since GetPreferredAllocation
            await self._refresh_others(gpus, expected)
            result = self._verify(gpus, expected)
            if isinstance(result, AdmissionRejection) and expected is None and self._state.aligned:
                result = await self._allocate_all(gpus, result)
            if isinstance(result, ContainerAllocation):
                result = await self._sharing.prepare(result)
            self._lock.set_in_flight(_RECORDING_SECONDS)
            if isinstance(result, AdmissionRejection):
                self._reject(result)
            else:
                self._tracker.add_allocation(result)
                self._recorder.record_allocation(result.pod, result.container, result.gpus)
            return result

    async def _allocate_all(
        self, gpus: Sequence[GpuUuid], rejection: AdmissionRejection
    ) -> AdmissionResult:
        """Return the container that gets all GPUs which kubelet could take.

        If the NUMA nodes that kubelet takes have just as many free GPUs as the container requests,
        kubelet does not call GetPreferredAllocation. The container is then found in the same way as
        in that call, and must be intended to get exactly these GPUs.
        """
        taken = frozenset(gpus)
        found = await self._identify(PreferenceRequest(taken, taken, len(taken)))
        if isinstance(found, AdmissionRejection):
            return found if found.pod is not None else rejection
        return self._verify(gpus, found)

    def _verify(self, gpus: Sequence[GpuUuid], expected: AdmissionResult | None) -> AdmissionResult:
        return verify(
            gpus,
            expected,
            self._live_pods(),
            node=self._node,
            users=self._tracker.find_users(excluded_by(gpus)),
            health=self._state.offered_devices,
        )

    async def _identify(self, request: PreferenceRequest) -> AdmissionResult:
        try:
            listed = await self._pod_resources.list_pods(_LIST_SECONDS)
        except PodResourcesError as error:
            return AdmissionRejection(str(error))
        self._tracker.update_listed(listed)
        self._rejected &= {pod.uid for pod in self._pods.values()}
        deadline = loop_time() + self._timeout_seconds
        requesting, others = unresolved_pods(listed, self._pods)
        # The watch may lag behind kubelet: it may show a former pod of the same name, or show an
        # ended pod as live. So the agent reads each pod that may be in admission again. Before a
        # rejection it also reads the pods that led to the rejection again.
        unread = await self._pods.refresh(requesting, deadline - loop_time())
        result = self._evaluate(request, listed)
        if isinstance(result, AdmissionRejection):
            users = self._tracker.listed_users()
            using = {users[gpu].key for gpu in excluded_by(request.available) & users.keys()}
            await self._pods.refresh((others | using) - requesting, deadline - loop_time())
            result = self._evaluate(request, listed)
        if isinstance(result, ContainerAllocation) and unread:
            names = ", ".join(sorted(map(str, unread)))
            return AdmissionRejection(f"the API server did not return these pods in time: {names}")
        return result

    def _evaluate(self, request: PreferenceRequest, listed: list[ListedPod]) -> AdmissionResult:
        return identify(request, listed, self._pods, node=self._node, rejected=self._rejected)

    async def _refresh_others(
        self, gpus: Sequence[GpuUuid], expected: AdmissionResult | None
    ) -> None:
        """Read again the pods that use ``gpus``, except ``expected.pod``: they may have ended."""
        own = expected.pod.uid if isinstance(expected, ContainerAllocation) else None
        intended = intended_users(gpus, own, self._live_pods(), self._node).values()
        users = self._tracker.find_pods(excluded_by(gpus)) | {
            (user.key, user.uid) for user in intended
        }
        others = {key for key, uid in users if own is None or uid != own}
        if others:
            await self._pods.refresh(others, self._timeout_seconds)

    def _live_pods(self) -> list[PodView]:
        """Return this node's pods except the pods that the agent has rejected."""
        return [pod for pod in self._pods.values() if pod.uid not in self._rejected]

    def _reject(self, rejection: AdmissionRejection) -> None:
        if rejection.pod is not None:
            self._rejected.add(rejection.pod.uid)
        self._recorder.record_rejection(rejection.pod, rejection.reason)
