"""A topology together with where it was found."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gputopo.topology.model import GpuIndex, GpuMask, NodeTopology, mask_of


@dataclass(frozen=True, slots=True)
class Source:
    """A topology, and what is known of its GPUs besides.

    Attributes:
        name: how to name it to the user.
        in_use: why a GPU is not free, by GPU; of a node of the cluster only.
    """

    name: str
    topology: NodeTopology
    in_use: Mapping[GpuIndex, str] = field(default_factory=dict)

    @property
    def in_use_mask(self) -> GpuMask:
        """The GPUs that are not free."""
        return mask_of(self.in_use)

    @property
    def in_short(self) -> str:
        """How many GPUs of which model."""
        gpus = self.topology.gpus
        models = " and ".join(dict.fromkeys(gpu.model for gpu in gpus if gpu.model))
        return f"{len(gpus)} {'GPU' if len(gpus) == 1 else 'GPUs'}{models and f', {models}'}"
