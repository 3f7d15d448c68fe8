"""Which GPUs of a node a pod can get, if kubelet's topology manager knows their NUMA nodes.

kubelet decides for NUMA nodes before it asks the agent for GPUs. So the extender predicts the
decision, and chooses only among the GPUs that kubelet then accepts (docs/operate/numa.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from gputopo.alignment.accepted import AcceptedGpus, accepted_gpus
from gputopo.alignment.hints import amount_hints
from gputopo.alignment.merge import merge_hints
from gputopo.alignment.model import (
    GpuPool,
    Hints,
    ManagerPolicy,
    ManagerScope,
    NumaMask,
)
from gputopo.topology.model import GpuMask, indices_of, mask_of
from gputopo_cluster.numa_rules import NumaRules
from gputopo_cluster.usage import (
    NodeState,
    NumaObstacle,
    ObstacleKind,
    Restriction,
    RestrictionKind,
)
from gputopo_kube.aligned_containers import AlignedContainer
from gputopo_kube.gpu_containers import ContainerKind

_UNKNOWN_CPUS: Final = "it cannot be predicted which exclusive CPUs the containers of the pod get"
_WAITING: Final = NumaObstacle(
    ObstacleKind.WAITING, "kubelet is still admitting or releasing another pod of the node"
)

Prediction = GpuMask | str
"""The GPUs from which the pod can get any set, or why kubelet rejects the pod."""


def limit_to_numa(state: NodeState, containers: tuple[AlignedContainer, ...]) -> NodeState:
    """Return the state of a node for a pod with these containers.

    The result restricts the pod to the free GPUs that kubelet would give to it. If kubelet would
    reject the pod, the result has an obstacle. A node without NUMA rules stays unchanged.

    Args:
        state: the state of the node.
        containers: in the order in which kubelet allocates.
    """
    rules = state.numa
    size = sum(each.gpus for each in containers)
    if rules is None or state.free.bit_count() < size:
        return state
    if reason := _unsupported(rules, containers):
        return replace(state, obstacle=NumaObstacle(ObstacleKind.PERMANENT, reason))
    if not rules.stable or state.unknown or state.deleted:
        return replace(state, obstacle=_permanent_obstacle(state, rules, containers) or _WAITING)
    cpus = _cpus(rules, free=True)
    # kubelet does not know the NUMA nodes of GPUs in use, and admits a pod on as few NUMA nodes as
    # the free GPUs allow. The policy wants as few as the hardware allows.
    strict = _predict(rules, rules.pool(state.free), containers, cpus)
    now = strict
    if not isinstance(strict, str):
        now = _predict(rules, rules.free_pool(state.free), containers, cpus)
    if not isinstance(now, str):
        return _restricted_to(state, now)
    busy = NumaObstacle(ObstacleKind.BUSY, now)
    return replace(state, obstacle=_permanent_obstacle(state, rules, containers) or busy)


def _permanent_obstacle(
    state: NodeState, rules: NumaRules, containers: Sequence[AlignedContainer]
) -> NumaObstacle | None:
    """Return why kubelet rejects the pod even if the node is idle; None if it does not."""
    every = rules.pool(state.structure.mask)
    idle = _predict(rules, every, containers, _cpus(rules, free=False))
    return NumaObstacle(ObstacleKind.PERMANENT, idle) if isinstance(idle, str) else None


def still_takes(state: NodeState, containers: tuple[AlignedContainer, ...], gpus: GpuMask) -> bool:
    """Return whether kubelet would still give ``gpus``, chosen before, to a pod.

    ``state`` is the state of the node without the pod.
    """
    if state.numa is None:
        return True
    now = limit_to_numa(state, containers)
    return now.obstacle is None and not gpus & ~now.usable(now.free)


def _restricted_to(state: NodeState, allowed: GpuMask) -> NodeState:
    barred = GpuMask(state.free & ~allowed)
    if not barred:
        return state
    found = Restriction(RestrictionKind.NUMA, gpus=barred, lasting=barred)
    return replace(state, restrictions=(*state.restrictions, found))


def _unsupported(rules: NumaRules, containers: Sequence[AlignedContainer]) -> str | None:
    """Return why the NUMA nodes of a pod are not predicted, whatever is free on the node."""
    policy = f"topologyManagerPolicy {rules.manager.policy}"
    if any(each.kind is ContainerKind.INIT for each in containers):
        return f"{policy}: init containers with GPUs or exclusive CPUs are not supported"
    several = sum(each.gpus > 0 for each in containers) > 1
    if several and rules.manager.scope is ManagerScope.CONTAINER:
        return (
            f"{policy}: several containers with GPUs in one pod are supported only with "
            "topologyManagerScope pod"
        )
    return None


def _predict(
    rules: NumaRules,
    pool: GpuPool,
    containers: Sequence[AlignedContainer],
    cpus: Mapping[int, int],
) -> Prediction:
    if rules.manager.scope is ManagerScope.POD:
        whole = AlignedContainer(
            "", sum(each.gpus for each in containers), sum(each.cpus for each in containers)
        )
        several = sum(each.gpus > 0 for each in containers) > 1
        usable, _ = _predict_one(rules, whole, pool, cpus, divided=several)
        return usable
    usable = GpuMask(0)
    for position, each in enumerate(containers):
        one, taken = _predict_one(rules, each, pool, cpus)
        if isinstance(one, str):
            return one
        usable = GpuMask(usable | one)
        if each.cpus and rules.cpus is not None:
            left = _left(cpus, taken, each.cpus)
            if left is None and any(later.cpus for later in containers[position + 1 :]):
                return _UNKNOWN_CPUS
            cpus = left or cpus
    return usable


def _predict_one(
    rules: NumaRules,
    container: AlignedContainer,
    pool: GpuPool,
    cpus: Mapping[int, int],
    *,
    divided: bool = False,
) -> tuple[Prediction, NumaMask | None]:
    """Return the GPUs for one decision of kubelet, and the NUMA nodes that it takes.

    Args:
        rules: the rules of the node.
        container: the container, or the sum of all containers.
        pool: the GPUs of the node.
        cpus: free exclusive CPUs by NUMA node.
        divided: whether several containers divide the GPUs among themselves.
    """
    hints: list[Hints] = []
    if container.gpus:
        hints.append(amount_hints(container.gpus, pool.amounts))
    exclusive = container.cpus if rules.cpus is not None else 0
    if exclusive:
        hints.append(amount_hints(exclusive, rules.cpu_amounts(cpus)))
    alignment = merge_hints(rules.manager.policy, hints, rules.manager.machine)
    if not alignment.admitted or sum(cpus.values()) < exclusive:
        return _rejection(rules, container.gpus, exclusive, pool.free, cpus), None
    if not container.gpus:
        return GpuMask(0), alignment.mask
    accepted = accepted_gpus(alignment, pool, container.gpus)
    if divided and accepted.required and accepted.required != accepted.allowed:
        return _rejection(rules, container.gpus, exclusive, pool.free, cpus), None
    return _usable(accepted), alignment.mask


def _usable(accepted: AcceptedGpus) -> GpuMask:
    """Return GPUs of which the container can get every set of its size.

    If some GPUs are required, the others are those with the lowest indices. So the result has no
    more GPUs than the container gets.
    """
    if not accepted.required:
        return accepted.allowed
    missing = accepted.size - accepted.required.bit_count()
    others = indices_of(GpuMask(accepted.allowed & ~accepted.required))[:missing]
    return GpuMask(accepted.required | mask_of(others))


def _left(cpus: Mapping[int, int], taken: NumaMask | None, amount: int) -> dict[int, int] | None:
    """Return the free CPUs after a container got ``amount``; None if that cannot be predicted."""
    near = [node for node, free in cpus.items() if free and (taken is None or taken >> node & 1)]
    inside = sum(cpus[node] for node in near)
    if inside == amount:
        return {node: 0 if node in near else free for node, free in cpus.items()}
    if len(near) == 1 and inside > amount:
        return {**cpus, near[0]: cpus[near[0]] - amount}
    return None


def _cpus(rules: NumaRules, *, free: bool) -> dict[int, int]:
    return {each.node: each.free if free else each.allocatable for each in rules.cpus or ()}


def _rejection(
    rules: NumaRules, gpus: int, cpus: int, free: GpuMask, free_cpus: Mapping[int, int]
) -> str:
    """Return why kubelet rejects a request, with the free amounts by NUMA node."""
    requested = [f"{gpus} {'GPU' if gpus == 1 else 'GPUs'}"] if gpus else []
    if cpus:
        requested.append(f"{cpus} exclusive {'CPU' if cpus == 1 else 'CPUs'}")
    counts = f"free GPUs {_by_node(rules.pool(free).amounts.free)}"
    if cpus:
        counts += f", CPUs {_by_node(free_cpus)}"
    policy = rules.manager.policy
    kind = "one NUMA node" if policy is ManagerPolicy.SINGLE_NUMA_NODE else "the same NUMA nodes"
    fewest = "" if policy is not ManagerPolicy.RESTRICTED else ", as few as the hardware allows"
    return (
        f"topologyManagerPolicy {policy}: {' and '.join(requested)} do not fit on "
        f"{kind}{fewest} ({counts})"
    )


def _by_node(amounts: Mapping[int, int]) -> str:
    return " ".join(f"{node}:{count}" for node, count in sorted(amounts.items()))
