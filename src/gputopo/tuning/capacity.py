"""Selects the raises for which a node has capacity, and cuts that kubelet accepts."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from gputopo.api.tuning import Amounts
from gputopo.tuning.model import TunedNode, TunedPod
from gputopo.tuning.pods import amounts_of, floor_of, held_by, left_alone_because
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

    CPUs count as free as soon as a cut of CPUs is planned: such a cut takes effect within seconds.
    kubelet can reject a cut of memory. So memory counts as free only when the cut is in effect, and
    a later decision raises the other pod. If the pods have more of one resource than the node, no
    raise fits, because kubelet checks both resources.

    Example: a node has 8 CPUs and two pods with 4 CPUs. One decision cuts the first pod to 2 CPUs
    and raises the second to 6 CPUs. For memory, the raise needs a second decision.
    """
    cuts = _acceptable(node, [change for change in changes if not change.is_raise])
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


def _acceptable(node: TunedNode, cuts: Sequence[AmountChange]) -> list[AmountChange]:
    """Return the cuts. If the pods have more than the node, cut one of them below its target.

    Kubelet accepts a cut only if all pods then fit on the node. So the first cut is so large that
    all pods fit, but not below the floor of its pod. A later decision raises this pod to its
    target. If every such cut would be below a floor, kubelet defers all cuts until a pod ends.

    Example: a node with 1400m CPU has two pods with 964m, whose targets are 664m. The first is cut
    to 436m, then the second to 664m. Then the first is raised to 664m.
    """
    missing = _missing(node)
    if missing == (0, 0):
        return list(cuts)
    deferred = _deferred_cuts(node, {change.pod.uid for change in cuts})
    larger = [_cut_by(change, missing) for change in (*cuts, *deferred)]
    possible = [
        each for each in larger if min(map(int.__sub__, each.amounts, floor_of(each.pod))) >= 0
    ]
    if not possible:
        return list(cuts)
    first = max(possible, key=lambda each: (each.amounts, each.pod.uid))
    rest = [change for change in cuts if change.pod.uid != first.pod.uid]
    return rest if first.amounts == amounts_of(first.pod) else [first, *rest]


def _missing(node: TunedNode) -> Amounts:
    """Return by how much the amounts that kubelet has allocated exceed the allocatable amounts."""
    counted = [pod.state.allocated or pod.spec.request for pod in node.pods]
    return Amounts(
        *(
            max(0, sum(used) + others - has)
            for *used, others, has in zip(*counted, node.others, node.allocatable, strict=True)
        )
    )


def _deferred_cuts(node: TunedNode, known: AbstractSet[str]) -> Iterator[AmountChange]:
    """Yield the cuts that are in the specs of pods, and that kubelet has not accepted."""
    for pod in node.pods:
        if pod.uid in known or left_alone_because(pod) or pod.state.allocated is None:
            continue
        if raises(pod.spec.request, pod.state.allocated):
            reason = pod.record.reason if pod.record is not None else ""
            yield AmountChange(pod, amounts_of(pod), reason)


def _cut_by(change: AmountChange, missing: Amounts) -> AmountChange:
    """Return the change, cut so far that the pod frees the ``missing`` amounts."""
    held = change.pod.state.allocated or change.pod.spec.request
    most = (
        allocated - less if less else amount
        for amount, allocated, less in zip(change.amounts, held, missing, strict=True)
    )
    return AmountChange(change.pod, Amounts(*map(min, change.amounts, most)), change.reason)


def _more(held: Amounts, amounts: Amounts) -> Amounts:
    """Return what a raise needs beyond ``held``; 0 for a resource of which the pod gets less."""
    return Amounts(max(0, amounts.milli_cpu - held.milli_cpu), max(0, amounts.memory - held.memory))


def _held(pod: TunedPod) -> Amounts:
    """Return what the pod may use now: the maximum of its spec, allocated and applied amounts."""
    held, applied = held_by(pod), pod.state.applied or pod.spec.request
    return Amounts(
        max(held.milli_cpu, amounts_of(pod).milli_cpu, applied.milli_cpu),
        max(held.memory, applied.memory),
    )
