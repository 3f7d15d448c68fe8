"""A decision of the verb bind: pod, node, exact GPUs, and annotations of the Binding."""

from collections.abc import Mapping
from dataclasses import dataclass

from gputopo.api.shares import gpu_of
from gputopo.placement.model import Match
from gputopo.topology.model import mask_of
from gputopo_cluster.claims import Claim
from gputopo_cluster.topologies import UnreadableTopology
from gputopo_cluster.usage import NodeUsage
from gputopo_kube.pods import PodView
from gputopo_scheduling.restrictions import may_use
from gputopo_scheduling.share_options import ChosenShare


@dataclass(frozen=True, slots=True)
class Decision:
    """The GPUs of one node for one pod.

    Attributes:
        claim: the pod, its version, the node and the GPUs. The Binding fails if the pod has another
            version.
        generation: generation of the GPUTopology.
        reason: policy, pattern and bandwidth sensitivity, for the log.
        annotations: annotations that the Binding writes to the pod.
        shared: the share of the GPU that the pod gets; None for whole GPUs.
    """

    claim: Claim
    generation: int
    match: Match
    reason: str
    annotations: Mapping[str, str]
    shared: ChosenShare | None = None

    def is_current(self, usage: NodeUsage | UnreadableTopology | None, pod: PodView) -> bool:
        """Return whether the node is ready, its topology unchanged and its GPUs healthy.

        MPS must be ready for a share, and must not serve a whole GPU.

        The pod must also be allowed to use the GPUs: its labels may have changed. ``usage`` and
        ``pod`` are those of now.
        """
        gpus = self.match.gpus
        return (
            isinstance(usage, NodeUsage)
            and may_use(usage, pod, mask_of(gpus))
            and usage.generation == self.generation
            # A GPUTopology that was deleted and created again starts at generation 1 again.
            and tuple(map(usage.topology.uuid_of.get, gpus)) == tuple(map(gpu_of, self.claim.gpus))
            and usage.not_ready is None
            and mask_of(gpus) & ~usage.healthy == 0
            and mask_of(gpus) & (usage.not_shareable if self.shared else usage.not_whole) == 0
        )
