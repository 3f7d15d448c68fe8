"""Decides the CPUs of a container with GPUs: those of its GPUs' NUMA nodes, or no limit.

All containers with GPUs of a NUMA node share its CPUs. A limit must not take away CPUs that a
container has requested: the containers that are bound to some NUMA nodes must not request more CPUs
than these nodes have. Otherwise a container stays unbound, and runs on all CPUs.

Only for nodes whose kubelet has ``cpuManagerPolicy: none``. With ``static``, kubelet itself writes
the CPUs of each container, again and again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from gputopo.alignment.model import MAX_NODES, AlignmentError

_MILLI: Final = 1000


class CpusetReason(StrEnum):
    """Why a container is bound to CPUs or released from them, or why it is left unchanged."""

    BIND = "Bind"
    BOUND = "Bound"
    RELEASE = "Release"
    NOT_NEEDED = "NotNeeded"
    OTHER_CPUSET = "OtherCpuset"
    OTHER_MANAGER = "OtherManager"
    NUMA_UNKNOWN = "NUMAUnknown"
    TOO_FEW_CPUS = "TooFewCPUs"


@dataclass(frozen=True, slots=True)
class MachineCpus:
    """The CPUs of a node.

    Attributes:
        cpus_of: online CPUs of each NUMA node.
        manager: kubelet's ``cpuManagerPolicy``; None if it is unknown.
    """

    cpus_of: Mapping[int, frozenset[int]]
    manager: str | None

    def __post_init__(self) -> None:
        if len(self.cpus_of) > MAX_NODES:
            raise AlignmentError(f"cpus_of: {len(self.cpus_of)} NUMA nodes are over {MAX_NODES}")

    def cpus(self, nodes: Iterable[int]) -> frozenset[int]:
        """Return the online CPUs of these NUMA nodes."""
        return frozenset().union(*(self.cpus_of[node] for node in nodes))


@dataclass(frozen=True, slots=True)
class GpuContainerCpus:
    """A container with GPUs, as the container runtime describes it.

    Attributes:
        numa_nodes: NUMA nodes of its GPUs; empty if one of them is unknown.
        milli_cpu: CPUs that it requests, in thousandths.
        cpuset: the CPUs to which it is limited; None if it may use all.
    """

    numa_nodes: frozenset[int]
    milli_cpu: int
    cpuset: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class CpusetDecision:
    """What to do with a container.

    Attributes:
        cpus: CPUs to which the container must be limited now; None leaves it unchanged.
    """

    reason: CpusetReason
    cpus: frozenset[int] | None = None


def decide_cpuset(
    container: GpuContainerCpus, others: Sequence[GpuContainerCpus], machine: MachineCpus
) -> CpusetDecision:
    """Decide for one container.

    For example, two NUMA nodes have 8 CPUs each, and a container that requests 6 CPUs is bound to
    node 0. Another container with GPUs of node 0 is bound if it requests at most 2 CPUs.

    Args:
        container: a container that starts, or that runs and may have missed its limit.
        others: the other containers with GPUs of the node, bound or not.
        machine: the CPUs of the node.
    """
    if machine.manager != "none":
        return CpusetDecision(CpusetReason.OTHER_MANAGER)
    nodes = container.numa_nodes
    if not nodes or not nodes <= machine.cpus_of.keys():
        return CpusetDecision(CpusetReason.NUMA_UNKNOWN)
    cpus = machine.cpus(nodes)
    if container.cpuset is not None:
        bound = container.cpuset == cpus
        return CpusetDecision(CpusetReason.BOUND if bound else CpusetReason.OTHER_CPUSET)
    if cpus == machine.cpus(machine.cpus_of):
        return CpusetDecision(CpusetReason.NOT_NEEDED)
    load = [container, *(each for each in others if is_bound(each, machine))]
    if not cpus or not all(_suffices(machine, each, load) for each in _unions(nodes, load)):
        return CpusetDecision(CpusetReason.TOO_FEW_CPUS)
    return CpusetDecision(CpusetReason.BIND, cpus)


def repair_cpusets(
    containers: Mapping[str, GpuContainerCpus], machine: MachineCpus
) -> dict[str, CpusetDecision]:
    """Decide for all containers with GPUs of a node: first for the bound ones, each in its order.

    The caller uses this when containers may have started without a limit, have ended, or request
    other CPUs than before. Bound containers stay bound. But if they now request more CPUs than
    their NUMA nodes have, the last of them are released, and may run on all CPUs. After the
    decisions are carried out, a repetition changes nothing.
    """
    decisions: dict[str, CpusetDecision] = {}
    bound: list[GpuContainerCpus] = []
    for name in sorted(containers, key=lambda name: not is_bound(containers[name], machine)):
        container = containers[name]
        own = is_bound(container, machine)
        free = replace(container, cpuset=None) if own else container
        decision = decide_cpuset(free, bound, machine)
        if decision.cpus is not None:
            bound.append(replace(container, cpuset=decision.cpus))
        if own and decision.reason is CpusetReason.BIND:
            decision = CpusetDecision(CpusetReason.BOUND)
        elif own and decision.reason is CpusetReason.TOO_FEW_CPUS:
            decision = CpusetDecision(CpusetReason.RELEASE, machine.cpus(machine.cpus_of))
        decisions[name] = decision
    return decisions


def is_bound(container: GpuContainerCpus, machine: MachineCpus) -> bool:
    """Return whether a container is limited to the CPUs of its GPUs."""
    nodes = container.numa_nodes
    known = bool(nodes) and nodes <= machine.cpus_of.keys()
    return known and container.cpuset == machine.cpus(nodes)


def _suffices(
    machine: MachineCpus, nodes: frozenset[int], load: Sequence[GpuContainerCpus]
) -> bool:
    """Return whether ``nodes`` have enough CPUs for the containers that are bound inside them.

    If this is true for every union of NUMA nodes of containers, all containers can have their CPUs
    at the same time (Hall's theorem).
    """
    requested = sum(each.milli_cpu for each in load if each.numa_nodes <= nodes)
    return requested <= _MILLI * len(machine.cpus(nodes))


def _unions(nodes: frozenset[int], load: Sequence[GpuContainerCpus]) -> set[frozenset[int]]:
    """Return the unions of ``nodes`` and overlapping NUMA nodes of other containers.

    The CPUs of sets without an overlap suffice together if they suffice for each set. For example,
    with ``nodes`` 0 and containers on 0-1, 1-2 and 3, the unions are 0, 0-1 and 0-2.
    """
    found, pending = {nodes}, [nodes]
    while pending:
        known = pending.pop()
        wider = {known | each.numa_nodes for each in load if known & each.numa_nodes} - found
        found |= wider
        pending += wider
    return found
