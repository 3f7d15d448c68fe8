"""Selects the raises for which a node has capacity."""

from collections.abc import Sequence
from dataclasses import dataclass

from gputopo.api.tuning import Amounts
from gputopo.tuning.model import TunedNode, TunedPod
from gputopo.tuning.pods import amounts_of, held_by
from gputopo.tuning.progress import raises


@dataclass(frozen=True, slots=True)
class AmountChange:
    """New amounts for one pod, and the reason in words."""

    pod: TunedPod
    amounts: Amounts
    reason: str

    @property
    def is_raise(self) -> bool:
        """Whether the pod gets more CPUs or more memory."""
        return raises(amounts_of(self.pod), self.amounts)


def fitting(node: TunedNode, changes: Sequence[AmountChange]) -> tuple[AmountChange, ...]:
    """Return the raises that fit on the node, in the given order, and then all cuts.

    CPUs that are cut count as free: a cut of CPUs takes effect within seconds. Memory that is cut
    is not free until the cut is in effect, because kubelet rejects it if the container uses the
    memory. So a raise of memory follows its cuts in a later decision. If a node has less of one
    resource than its pods have, no raise fits: kubelet checks both resources.

    Example: a node has 8 CPUs and two pods with 4 CPUs. A cut to 2 and a raise to 6 CPUs are done
    at once. With 64 GiB instead of 8 CPUs, the cut is done first.
    """
    cuts = [change for change in changes if not change.is_raise]
    cut = {change.pod.uid: change.amounts.milli_cpu for change in cuts}
    used = {pod.uid: _held(pod) for pod in node.pods}
    milli_cpu = sum(cut.get(uid, held.milli_cpu) for uid, held in used.items())
    memory = sum(held.memory for held in used.values())
    free = Amounts(
        node.allocatable.milli_cpu - node.others.milli_cpu - milli_cpu,
        node.allocatable.memory - node.others.memory - memory,
    )
    accepted = []
    for change in (each for each in changes if each.is_raise):
        more = _more(used[change.pod.uid], change.amounts)
        if more.milli_cpu <= free.milli_cpu and more.memory <= free.memory:
            accepted.append(change)
            free = Amounts(free.milli_cpu - more.milli_cpu, free.memory - more.memory)
    return (*accepted, *cuts)


def _more(held: Amounts, amounts: Amounts) -> Amounts:
    """Return what a raise needs beyond what the pod has; what it cuts is not free yet."""
    return Amounts(max(0, amounts.milli_cpu - held.milli_cpu), max(0, amounts.memory - held.memory))


def _held(pod: TunedPod) -> Amounts:
    """Return what the pod may use now: the most of its spec, allocated and applied amounts."""
    held, applied = held_by(pod), pod.state.applied or pod.spec.request
    return Amounts(
        max(held.milli_cpu, amounts_of(pod).milli_cpu, applied.milli_cpu),
        max(held.memory, applied.memory),
    )
