"""What the readers of metrics and logs need of the measurer."""

from collections.abc import Collection
from typing import Protocol

from gputopo.throughput.message import StepMessage
from gputopo_deviceplugin.measure.containers import ContainerKey, MeasuredContainer


class StepCounts(Protocol):
    """Takes counts of steps; see ``Measurer``."""

    @property
    def containers(self) -> Collection[MeasuredContainer]:
        """The containers that are measured now."""
        ...

    def add(self, key: ContainerKey, message: StepMessage) -> None:
        """Add a count that has just arrived."""
        ...
