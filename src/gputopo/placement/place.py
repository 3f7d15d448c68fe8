"""One job on one node: which of its free GPUs, if any."""

from gputopo.api.enums import PolicyName
from gputopo.patterns.embedding import MAX_NODE_GPUS
from gputopo.placement.model import Match, NoFit, PlacementRequest
from gputopo.placement.options import Options
from gputopo.placement.policies import POLICIES
from gputopo.topology.model import GpuMask, NodeTopology


def place(
    topology: NodeTopology, free: GpuMask, request: PlacementRequest, policy: PolicyName
) -> Match | NoFit:
    """Return the GPUs that ``policy`` chooses for ``request`` among ``free``, or why none.

    The answer depends on the arguments alone. The first call for a node structure and a
    pattern builds their tables (see :func:`gputopo.patterns.embedding.embeddings`).

    Raises:
        ValueError: on a free GPU that the node does not have.
    """
    if strange := free & ~topology.mask:
        raise ValueError(f"free: GPU {strange.bit_length() - 1} is not one of this node")
    return _no_fit(topology, free, request.pattern.size) or _choose(topology, free, request, policy)


def _choose(
    topology: NodeTopology, free: GpuMask, request: PlacementRequest, policy: PolicyName
) -> Match:
    options = Options(topology, free, request)
    return options.match(POLICIES[policy](options))


def _no_fit(topology: NodeTopology, free: GpuMask, size: int) -> NoFit | None:
    needs = f"needs {size} {'GPU' if size == 1 else 'GPUs'}"
    here = len(topology.gpus)
    if here > MAX_NODE_GPUS:
        return NoFit(f"the node has {here} GPUs, at most {MAX_NODE_GPUS} supported", permanent=True)
    if size > here:
        return NoFit(f"{needs}, the node has {here}", permanent=True)
    if size > free.bit_count():
        return NoFit(f"{needs}, {free.bit_count()} free", permanent=False)
    return None
