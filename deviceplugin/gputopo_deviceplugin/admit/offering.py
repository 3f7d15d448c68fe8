"""Decides what kubelet is offered, from all that this node's parts know."""

import logging
from typing import Final

from gputopo.runtime.log import fields
from gputopo_deviceplugin.admit.admission import Admission
from gputopo_deviceplugin.admit.offer import AssignedGpus, Withheld, withheld_of
from gputopo_deviceplugin.contact import Contact
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.node_watch import NodeWatch
from gputopo_deviceplugin.report.observer import AllocationObserver
from gputopo_deviceplugin.state import GpuState

SETTLED_SECONDS: Final = 30.0
"""Kubelet has admitted its pods again so long after its start."""

_log = logging.getLogger(__name__)


class DeviceOffer:
    """Keeps ``current`` and the registration at what may be offered.

    Attributes:
        withheld: why GPUs without a container are not offered, None where they are.
    """

    def __init__(
        self,
        current: GpuState,
        kubelet: KubeletState,
        admission: Admission,
        observer: AllocationObserver,
        contact: Contact,
        node: NodeWatch,
    ) -> None:
        """Decide by what these know."""
        self._current = current
        self._kubelet = kubelet
        self._admission = admission
        self._observer = observer
        self._contact = contact
        self._node = node
        self._assigned = AssignedGpus()
        self.withheld: Withheld | None = None

    def listed(self) -> None:
        """Take over kubelet's list, which was just read."""
        # An empty list is that of a kubelet without its pods: the agent's own would be there.
        complete = bool(self._observer.listed) and self._kubelet.watched_seconds >= SETTLED_SECONDS
        self._assigned.listed(self._admission.assigned, complete=complete)

    def update(self) -> None:
        """Decide again."""
        hardware = self._current.hardware
        if hardware is None:
            return
        pods = sorted({str(one.pod.key) for one in self._observer.lost})
        withheld = withheld_of(
            connected=self._contact.connected,
            competitor=self._node.competitor,
            without_record=tuple(pods),
        )
        if withheld != self.withheld:
            reason = withheld.message if withheld else "none"
            _log.warning("GPUs without a container withheld %s", fields(reason=reason))
            self.withheld = withheld
        self._assigned.add(self._admission.assigned)
        # As long as kubelet has not listed its pods, any GPU may have a container.
        known = withheld if self._assigned.known else None
        self._current.withhold(known.message if known else None, self._assigned.gpus)
        idle = hardware.topology is None or not hardware.topology.gpus
        self._refuse("this node has no GPUs" if idle else self._obstacle())

    def _obstacle(self) -> str | None:
        """Return why kubelet must not know the agent at all."""
        if self.withheld is None:
            return None
        if not self._assigned.known:
            unread = "kubelet has not listed its pods yet"
            return None if self._kubelet.registered else unread
        competing = self.withheld.reason == "CompetingAllocator"
        return self.withheld.message if competing and not self._assigned.gpus else None

    def _refuse(self, refusal: str | None) -> None:
        if refusal != self._current.unregistered_reason:
            _log.info("serving decided %s", fields(refusal=refusal or "none"))
            self._current.unregistered_reason = refusal
