"""How the readers of metrics and logs pass counts of steps to the measurer."""

from collections.abc import Collection
from typing import Protocol

from gputopo.throughput.message import StepMessage
from gputopo_deviceplugin.measure.containers import ContainerKey, MeasuredContainer


class StepCounts(Protocol):
    """Receives counts of steps. ``Measurer`` implements this protocol."""

    @property
    def containers(self) -> Collection[MeasuredContainer]:
        """The containers that are measured now."""
        ...

    def add(self, key: ContainerKey, message: StepMessage) -> None:
        """Add a count of steps that was read just now."""
        ...

    def record_unread(self, container: MeasuredContainer, reason: str) -> None:
        """Record an event: for some time, no steps of the container could be read."""
        ...
