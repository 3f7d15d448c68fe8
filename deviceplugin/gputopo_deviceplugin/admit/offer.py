"""Decides from the state of the agent which GPUs kubelet may give to new containers."""

import logging
from collections.abc import Sequence
from typing import Final

from gputopo.runtime.log import fields
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.tracker import UsageTracker
from gputopo_deviceplugin.apiserver.connection import ApiConnection
from gputopo_deviceplugin.apiserver.node_watch import NodeWatch
from gputopo_deviceplugin.conditions import NodeCondition, not_ready
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_kube.changes import ChangeSignal

ADMITTED_SECONDS: Final = 30.0
"""Time that kubelet needs after its start to admit all of its pods again."""

COMPETING: Final = "CompetingAllocator"

_log = logging.getLogger(__name__)


def withholding_condition(
    *, connected: bool, competitor: str | None, without_record: Sequence[str]
) -> NodeCondition | None:
    """Return the reason why new containers must not get GPUs. Return None if they may get GPUs.

    Args:
        connected: whether the API server responds.
        competitor: message about another allocator of this node's GPUs; None if there is none.
        without_record: running pods whose GPUs are missing in kubelet's records.
    """
    if not connected:
        return not_ready("APIServerUnreachable", "the API server does not respond to the agent")
    if competitor is not None:
        return not_ready(COMPETING, competitor)
    if without_record:
        return not_ready(
            "KubeletRecordsLost",
            f"kubelet has no record of the GPUs of these running pods: {', '.join(without_record)};"
            " delete them or drain the node; its GPUs are offered again when the pods have ended",
        )
    return None


class AssignedGpus:
    """The GPUs that kubelet has given to containers.

    Attributes:
        gpus: all GPUs with a container, and possibly GPUs whose container has ended.
        known: whether kubelet has listed its pods since the agent's start.
    """

    def __init__(self) -> None:
        self.gpus: frozenset[GpuUuid] = frozenset()
        self.known = False

    def update(self, gpus: frozenset[GpuUuid], *, complete: bool) -> None:
        """Update the GPUs from kubelet's list.

        Args:
            gpus: the GPUs of all listed containers.
            complete: False if the list may lack pods, for example soon after a start of kubelet.
                Then the method removes no GPU.
        """
        self.gpus = gpus if complete else self.gpus | gpus
        self.known = True

    def add(self, gpus: frozenset[GpuUuid]) -> None:
        """Add GPUs of allocations that kubelet does not list yet."""
        self.gpus |= gpus


class DeviceOffer:
    """Decides which GPUs to offer to kubelet, and whether the agent may register with kubelet.

    Attributes:
        withheld: why new containers must not get GPUs; None if they may get GPUs.
    """

    def __init__(
        self,
        state: GpuState,
        kubelet: KubeletState,
        tracker: UsageTracker,
        connection: ApiConnection,
        node: NodeWatch,
    ) -> None:
        self._state = state
        self._kubelet = kubelet
        self._tracker = tracker
        self._connection = connection
        self._node = node
        self._assigned = AssignedGpus()
        self.withheld: NodeCondition | None = None

    async def run(self, changes: ChangeSignal) -> None:
        """Decide again whenever the API connection or the competing allocator changes."""
        before = self._connection.connected, self._node.competitor
        while True:
            seen = changes.count
            now = self._connection.connected, self._node.competitor
            if now != before:
                before = now
                self.update()
            await changes.wait_after(seen)

    def update_assigned(self) -> None:
        """Update the assigned GPUs. The caller has just read kubelet's list."""
        # An empty list is not complete, because it lacks the agent's own pod.
        admitted = self._kubelet.watched_seconds >= ADMITTED_SECONDS
        complete = bool(self._tracker.listed) and admitted
        self._assigned.update(self._tracker.assigned_gpus(), complete=complete)

    def update(self) -> None:
        """Decide which GPUs to offer, and whether the agent may register with kubelet."""
        hardware = self._state.hardware
        if hardware is None:
            return
        withheld = withholding_condition(
            connected=self._connection.connected,
            competitor=self._node.competitor,
            without_record=sorted({str(key) for key, _ in self._tracker.lost}),
        )
        if withheld != self.withheld:
            cause = withheld.message if withheld else "none"
            _log.warning("obstacle to offering free GPUs changed: %s", fields(reason=cause))
            self.withheld = withheld
        self._assigned.add(self._tracker.assigned_gpus())
        # Until kubelet has listed its pods, each GPU may have a container.
        reason = withheld.message if withheld and self._assigned.known else None
        self._state.withhold(reason, self._assigned.gpus)
        idle = hardware.topology is None or not hardware.topology.gpus
        self._set_unregistered("this node has no GPUs" if idle else self._registration_obstacle())

    def _registration_obstacle(self) -> str | None:
        if self.withheld is None:
            return None
        if not self._assigned.known:
            unread = "kubelet has not listed its pods yet"
            return None if self._kubelet.registered else unread
        competing = self.withheld.reason == COMPETING
        return self.withheld.message if competing and not self._assigned.gpus else None

    def _set_unregistered(self, reason: str | None) -> None:
        if reason != self._state.unregistered_reason:
            cause = reason or "none"
            _log.info("obstacle to registering with kubelet changed: %s", fields(reason=cause))
            self._state.unregistered_reason = reason
