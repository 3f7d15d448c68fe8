"""Answers kubelet while it admits a container: reads what the decision needs, then decides.

One call at a time, under one lock. Kubelet's list is read inside the preference and never
inside Allocate: there it could make kubelet forget the GPUs in flight.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from gputopo.topology.model import Gpu, GpuUuid
from gputopo_deviceplugin.admit.identify import (
    AdmissionRejection,
    ContainerAllocation,
    PreferenceRequest,
    identify,
    unsettled,
)
from gputopo_deviceplugin.admit.tracker import UsageTracker
from gputopo_deviceplugin.admit.verify import (
    Grant,
    placed_elsewhere,
    preferred,
    verify,
)
from gputopo_deviceplugin.events import EventRecorder
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod, PodResourcesError
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.state import GpuState
from gputopo_kube.pods import PodView

_LIST_SECONDS = 1.0
_IN_FLIGHT_SECONDS = 2.0
_RECORDING_SECONDS = 0.2


class PodLister(Protocol):
    """Kubelet's books."""

    async def list_pods(self, timeout_seconds: float) -> list[ListedPod]:
        """Return every pod that kubelet knows."""
        ...


class Admission:
    """The agent's side of kubelet's admission of containers."""

    def __init__(
        self,
        *,
        node: str,
        tracker: UsageTracker,
        lister: PodLister,
        current: GpuState,
        kubelet: KubeletState,
        grant: Callable[[ContainerAllocation, Mapping[GpuUuid, Gpu]], Grant],
        timeout_seconds: float,
        recorder: EventRecorder,
    ) -> None:
        """Decide for ``node``; ``grant`` turns GPUs of the node into what a container gets."""
        self._node = node
        self._pods = tracker.pods
        self._tracker = tracker
        self._lister = lister
        self._current = current
        self._kubelet = kubelet
        self._grant_of = grant
        self._timeout_seconds = timeout_seconds
        self._recorder = recorder
        self._lock = asyncio.Lock()
        self._expected: ContainerAllocation | AdmissionRejection | None = None
        self._refused: set[str] = set()
        self._registration = 0
        self._busy_until = 0.0

    async def prefer(self, question: PreferenceRequest) -> tuple[GpuUuid, ...] | AdmissionRejection:
        """Return the GPUs that kubelet should take, or why none."""
        async with self._lock:
            outcome = await self._identify(question)
            self._expected = outcome
            self._registration = self._kubelet.registrations
            self._busy_until = _now() + _IN_FLIGHT_SECONDS
            answer = preferred(question, outcome)
            if isinstance(answer, AdmissionRejection):
                self._expected = None
                self._busy_until = _now()
                self._refuse(answer)
            return answer

    async def allocate(self, gpus: Sequence[GpuUuid]) -> Grant | AdmissionRejection:
        """Return what the container with these GPUs gets, or why it must not have them."""
        async with self._lock:
            expected, self._expected = self._expected, None
            if self._registration != self._kubelet.registrations:
                expected = None  # kubelet has restarted since its request
            deadline = _now() + self._timeout_seconds
            await self._refresh_others(gpus, expected, deadline)
            outcome = self._verify(gpus, expected)
            self._busy_until = _now() + _RECORDING_SECONDS
            if isinstance(outcome, AdmissionRejection):
                self._refuse(outcome)
                return outcome
            self._tracker.grant(outcome)
            self._recorder.record_allocation(outcome.pod, outcome.container, outcome.gpus)
            hardware = self._current.hardware
            return self._grant_of(outcome, hardware.gpus if hardware else {})

    async def observe(self) -> list[ListedPod]:
        """Read kubelet's books while no container is in flight, and keep them as ours.

        Raises:
            ListError: where kubelet does not answer.
        """
        while True:
            await asyncio.sleep(max(0.0, self._busy_until - _now()))
            async with self._lock:
                if self._busy_until <= _now():
                    listed = await self._lister.list_pods(self._timeout_seconds)
                    self._keep(listed)
                    return listed

    @property
    def assigned(self) -> frozenset[GpuUuid]:
        """The GPUs of all containers, by kubelet's list and by grants that it does not list yet."""
        return self._tracker.assigned()

    async def _identify(
        self, question: PreferenceRequest
    ) -> ContainerAllocation | AdmissionRejection:
        try:
            listed = await self._lister.list_pods(_LIST_SECONDS)
        except PodResourcesError as error:
            return AdmissionRejection(str(error))
        self._keep(listed)
        deadline = _now() + self._timeout_seconds
        asking, idle = unsettled(listed, self._pods)
        # The watch may be behind kubelet: the pod of old under a name that is taken anew, a pod
        # that ended. Whoever may be meant is asked for, and of a refusal all that it rests on.
        unread = await self._pods.refresh(asking, deadline - _now())
        outcome = self._judge(question, listed)
        if isinstance(outcome, AdmissionRejection):
            listed_holders = self._tracker.listed()
            holders = {listed_holders[gpu].key for gpu in question.available & {*listed_holders}}
            await self._pods.refresh((idle | holders) - asking, deadline - _now())
            outcome = self._judge(question, listed)
        if isinstance(outcome, ContainerAllocation) and unread:
            names = ", ".join(sorted(map(str, unread)))
            return AdmissionRejection(
                f"the API server does not tell in time what is so now of {names}"
            )
        return outcome

    def _judge(
        self, question: PreferenceRequest, listed: list[ListedPod]
    ) -> ContainerAllocation | AdmissionRejection:
        return identify(question, listed, self._pods, node=self._node, refused=self._refused)

    def _verify(
        self, gpus: Sequence[GpuUuid], expected: ContainerAllocation | AdmissionRejection | None
    ) -> ContainerAllocation | AdmissionRejection:
        return verify(
            gpus,
            expected,
            self._known(),
            node=self._node,
            holders=self._tracker.holders(gpus),
            health=self._current.offered,
        )

    async def _refresh_others(
        self,
        gpus: Sequence[GpuUuid],
        expected: ContainerAllocation | AdmissionRejection | None,
        deadline: float,
    ) -> None:
        """Read other users of these GPUs again: they may have ended since kubelet's list."""
        own = expected.pod.uid if isinstance(expected, ContainerAllocation) else None
        placed = placed_elsewhere(gpus, own, self._known(), self._node)
        users = self._tracker.keys(gpus) | {(one.key, one.uid) for one in placed.values()}
        others = {key for key, uid in users if own is None or uid != own}
        if others:
            await self._pods.refresh(others, deadline - _now())

    def _keep(self, listed: list[ListedPod]) -> None:
        self._tracker.see(listed)
        self._refused &= {pod.uid for pod in self._pods.values()}

    def _known(self) -> list[PodView]:
        """Return this node's pods without those refused: they hold nothing, and never will."""
        return [pod for pod in self._pods.values() if pod.uid not in self._refused]

    def _refuse(self, refusal: AdmissionRejection) -> None:
        if refusal.pod is not None:
            self._refused.add(refusal.pod.uid)
        self._recorder.record_rejection(refusal.pod, refusal.reason)


def _now() -> float:
    return asyncio.get_running_loop().time()
