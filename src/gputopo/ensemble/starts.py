"""Chooses which members start now, and on which nodes: flotilla after flotilla, as GPUs get free.

The number of GPUs of a member is that of the plan. A member that ends early frees its GPUs for the
next flotilla: members of flotilla k + 1 start when all members of flotilla k have started, each as
soon as its planned number of GPUs is free. They do not start with fewer GPUs, because the whole
flotilla would then wait for them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from gputopo.ensemble.assignment import assign
from gputopo.ensemble.flotilla import Flotilla, FlotillaMember
from gputopo.ensemble.model import EnsembleSettings, MemberPlacement, NodeGpuCount
from gputopo.ensemble.packing import fits


def free_gpus(
    nodes: Sequence[NodeGpuCount], running: Iterable[MemberPlacement]
) -> list[NodeGpuCount]:
    """Return the nodes with the numbers of GPUs that no member uses.

    A node that has lost GPUs has 0 free GPUs, not a negative number.
    """
    used: dict[str, int] = {}
    for placement in running:
        for node in placement.nodes:
            used[node.name] = used.get(node.name, 0) + node.gpus
    return [NodeGpuCount(node.name, max(0, node.gpus - used.get(node.name, 0))) for node in nodes]


def members_to_start(
    flotillas: Sequence[Flotilla],
    waiting: Collection[str],
    running: Mapping[str, MemberPlacement],
    nodes: Sequence[NodeGpuCount],
    settings: EnsembleSettings,
) -> tuple[MemberPlacement, ...]:
    """Return the members that start now, each with its nodes.

    Args:
        flotillas: the plan.
        waiting: names of the members that have not started. Others of the plan run or have ended.
        running: placements of the members that run.
        nodes: nodes with all GPUs of the ensemble, free or in use by its members.
        settings: limits.
    """
    if not waiting:
        return ()
    free = free_gpus(nodes, running.values())
    started: list[MemberPlacement] = []
    for flotilla in flotillas:
        members = [member for member in flotilla.members if member.name in waiting]
        used = sum(placement.gpus for placement in (*running.values(), *started))
        budget = sum(node.gpus for node in nodes)
        if settings.max_gpus is not None:
            budget = settings.max_gpus
        chosen = _that_fit(members, free, budget - used, settings)
        placed = assign(chosen, free, one_node=settings.one_node) or ()
        started += placed
        free = free_gpus(free, placed)
        if len(placed) < len(members):
            break
    return tuple(started)


def _that_fit(
    members: Sequence[FlotillaMember],
    free: Sequence[NodeGpuCount],
    budget: int,
    settings: EnsembleSettings,
) -> dict[str, int]:
    """Return the members that fit together, with their GPUs, in the order of the flotilla."""
    chosen: dict[str, int] = {}
    gpus = [node.gpus for node in free]
    for member in members:
        sizes = [*chosen.values(), member.gpus]
        if sum(sizes) <= budget and fits(sizes, gpus, one_node=settings.one_node):
            chosen[member.name] = member.gpus
    return chosen
