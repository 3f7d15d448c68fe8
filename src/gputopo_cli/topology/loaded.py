"""The result of loading a topology, which commands place jobs on and draw."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gputopo.topology.model import GpuIndex, GpuMask, NodeTopology, mask_of


@dataclass(frozen=True, slots=True)
class LoadedTopology:
    """A node topology with its name for messages.

    Attributes:
        in_use: why a GPU is not free; only for nodes of a cluster.
    """

    name: str
    topology: NodeTopology
    in_use: Mapping[GpuIndex, str] = field(default_factory=dict)

    @property
    def in_use_mask(self) -> GpuMask:
        """The GPUs that are not free."""
        return mask_of(self.in_use)

    @property
    def summary(self) -> str:
        """Number and models of the GPUs."""
        gpus = self.topology.gpus
        models = " and ".join(dict.fromkeys(gpu.model for gpu in gpus if gpu.model))
        return f"{len(gpus)} {'GPU' if len(gpus) == 1 else 'GPUs'}{models and f', {models}'}"
