"""Defines an occupant: a pod that has GPUs of a node, or gets them by a Binding in flight.

The module ``usage`` lists the occupants of each node. They show which workloads run beside a pod.
"""

from dataclasses import dataclass

from gputopo.topology.model import GpuMask, GpuUuid
from gputopo_kube.document import ObjectKey
from gputopo_kube.pods import PodView


@dataclass(frozen=True, slots=True)
class Occupant:
    """A pod with GPUs of a node.

    Attributes:
        gpus: the GPUs that are annotated, observed, reserved or claimed for the pod.
        unknown: how many further GPUs the pod has that the agent has not identified yet.
        pod: None if another extender has claimed GPUs for the pod and the watch does not show it.
        ended: whether the pod has ended and its containers may still run.
        shares: device IDs of the shares that the pod has; empty for a pod with whole GPUs.
    """

    uid: str
    key: ObjectKey
    gpus: GpuMask
    unknown: int = 0
    pod: PodView | None = None
    ended: bool = False
    shares: frozenset[GpuUuid] = frozenset()

    @property
    def is_stopping(self) -> bool:
        """Whether the pod has ended or is being deleted, so it soon has no GPUs."""
        return self.ended or (self.pod is not None and self.pod.deleting)
