"""The decision of kubelet's topology manager: the hints of all resources become one set of nodes.

kubelet combines one hint of each resource in every possible way. The result of a combination is the
intersection of its hints. It is preferred if all hints are preferred and equal. This module finds
the same best result without the combinations: 8 NUMA nodes and three resources have 16 million.
"""

from collections.abc import Collection, Sequence

from gputopo.alignment.model import (
    Alignment,
    Hints,
    ManagerPolicy,
    NumaHint,
    NumaMask,
)


def merge_hints(
    policy: ManagerPolicy,
    resources: Sequence[Hints],
    machine: NumaMask,
) -> Alignment:
    """Return the NUMA nodes that kubelet takes.

    Args:
        policy: kubelet's policy.
        resources: hints of each resource that the container or pod requests.
        machine: all NUMA nodes of the machine.
    """
    if policy is ManagerPolicy.NONE:
        return Alignment(None, admitted=True)
    if policy is ManagerPolicy.SINGLE_NUMA_NODE:
        return _single_node(resources, machine)
    fits = all(hints is None or hints for hints in resources)
    limited = [hints for hints in resources if hints]
    if fits and (preferred := _preferred(limited, machine)):
        best = min(preferred, key=lambda mask: (mask.bit_count(), mask))
        return Alignment(best, admitted=True)
    mask = _not_preferred(limited, machine)
    return Alignment(mask, admitted=policy is ManagerPolicy.BEST_EFFORT)


def _single_node(resources: Sequence[Hints], machine: NumaMask) -> Alignment:
    """Return the lowest NUMA node that every resource prefers.

    If this is the only node of the machine, or no resource has a preference, there is no limit.
    """
    limited = [
        [hint for hint in hints if hint.preferred and hint.mask.bit_count() == 1]
        for hints in resources
        if hints is not None
    ]
    common = _preferred(limited, machine)
    if not common:
        return Alignment(None, admitted=False)
    best = min(common)
    return Alignment(None if best == machine else best, admitted=True)


def _preferred(resources: Sequence[Sequence[NumaHint]], machine: NumaMask) -> set[NumaMask]:
    """Return the masks that are a preferred hint of every resource."""
    sets = [{hint.mask for hint in hints if hint.preferred} for hints in resources]
    common = set.intersection(*sets) if sets else {machine}
    return {NumaMask(mask & machine) for mask in common if mask & machine}


def _not_preferred(resources: Sequence[Sequence[NumaHint]], machine: NumaMask) -> NumaMask:
    """Return the best intersection of one hint of each resource.

    kubelet wants as many nodes as the most demanding resource needs, otherwise fewer, otherwise
    more. Resources need n nodes if their smallest hint has n nodes.
    """
    common: Collection[NumaMask] = {machine}
    for hints in resources:
        common = {NumaMask(mask & hint.mask) for mask in common for hint in hints}
    needed = max((min(hint.mask.bit_count() for hint in hints) for hints in resources), default=0)

    def rank(mask: NumaMask) -> tuple[int, int, int]:
        count = mask.bit_count()
        excess = 0 if count == needed else 1 if count < needed else 2
        return excess, abs(count - needed), mask

    return min((mask for mask in common if mask), key=rank, default=machine)
