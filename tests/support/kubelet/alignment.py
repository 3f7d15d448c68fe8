"""Whether kubelet gives containers the GPUs that were chosen for them, by ``gputopo.alignment``."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gputopo.alignment.accepted import AcceptedGpus, Manager, accepted_gpus
from gputopo.alignment.hints import amount_hints
from gputopo.alignment.merge import merge_hints
from gputopo.alignment.model import Alignment, GpuPool, Hints, ManagerScope
from gputopo.topology.model import GpuMask


@dataclass(frozen=True, slots=True)
class ContainerChoice:
    """A container that requests GPUs, and the GPUs that were chosen for it.

    Attributes:
        others: hints for the CPUs of the container, for the scope ``container``.
    """

    name: str
    gpus: GpuMask
    others: Sequence[Hints] = ()


def align(manager: Manager, pool: GpuPool, size: int, others: Sequence[Hints] = ()) -> Alignment:
    """Return the NUMA nodes for ``size`` GPUs of ``pool``, at least 1, with hints of others."""
    hints = amount_hints(size, pool.amounts)
    return merge_hints(manager.policy, [hints, *others], manager.machine)


def accepts(accepted: AcceptedGpus, gpus: GpuMask) -> bool:
    """Return whether the container gets exactly ``gpus`` if the agent prefers them."""
    inside = gpus & ~accepted.allowed == 0 and accepted.required & ~gpus == 0
    return inside and gpus.bit_count() == accepted.size


def find_conflict(
    manager: Manager,
    pool: GpuPool,
    containers: Sequence[ContainerChoice],
    others: Sequence[Hints] = (),
) -> str | None:
    """Return why kubelet does not give each container its chosen GPUs; None if it does.

    Args:
        manager: kubelet's topology manager.
        pool: the GPUs of the node before the pod.
        containers: the containers with GPUs, in the order in which kubelet allocates.
        others: hints for the CPUs of the pod, for the scope ``pod``.
    """
    whole_pod = None
    if manager.scope is ManagerScope.POD:
        size = sum(each.gpus.bit_count() for each in containers)
        whole_pod = align(manager, pool, size, others)
    for each in containers:
        size = each.gpus.bit_count()
        alignment = whole_pod or align(manager, pool, size, each.others)
        if not alignment.admitted or pool.free.bit_count() < size:
            return f"container {each.name}: kubelet rejects the request for {size} GPUs"
        accepted = accepted_gpus(alignment, pool, size)
        if not accepts(accepted, each.gpus):
            return f"container {each.name}: {_describe(accepted)}, but {each.gpus:#x} were chosen"
        pool = replace(pool, free=GpuMask(pool.free & ~each.gpus))
    return None


def _describe(accepted: AcceptedGpus) -> str:
    allowed = f"{accepted.size} of the GPUs {accepted.allowed:#x}"
    required = f" with {accepted.required:#x}" if accepted.required else ""
    return f"kubelet takes {allowed}{required}"
