"""Decides which pods are resized now, so that amounts do not change for small gains.

A pod is resized for one of three reasons:

1. The pod has less than its least amounts (:attr:`SizedPod.least`). If less than 5 % are missing,
   the pod waits until its last resize was 60 s ago.
2. The pods together have more than the node has for them, because the node has lost capacity or a
   pending pod needs capacity. Then pods are cut to their best amounts, one after another, until all
   pods fit.
3. The sum of :meth:`SizedPod.value` rises by 3 %, or by a tenth of one pod's throughput. This
   reason applies only if no pod of the node was resized in the last 60 s, and no pod was cut for a
   pending pod. Changes below 5 % are left out.

After a resize, the next decision with the same input changes nothing: reasons 1 and 2 do not apply
any more, and reason 3 must wait. Each resize for reason 3 raises the sum, so resizes end.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from gputopo.api.tuning import Amounts
from gputopo.tuning.sized import SizedNode, SizedPod, minus, total

LEAST_GAIN: Final = 0.03
LEAST_GAIN_OF_ONE_POD: Final = 0.1
SMALL_CHANGE: Final = 0.05


def worthwhile(node: SizedNode, best: Mapping[str, Amounts]) -> dict[str, Amounts]:
    """Return the amounts that each pod shall have now, by UID.

    ``best`` has the amounts that :func:`gputopo.tuning.allocate.allocate` has chosen.
    """
    wanted = [best[pod.uid] for pod in node.pods]
    enough = [_enough(pod) for pod in node.pods]
    chosen = _fitting(enough, wanted, node.available)
    cut_for_pending = chosen != enough and any(node.kept_free)
    must_wait = cut_for_pending or any(pod.resized_recently for pod in node.pods)
    if not must_wait:
        better = _without_small_changes(chosen, wanted, node.available)
        if _is_gain(_values(node, chosen), _values(node, better)):
            chosen = better
    return {pod.uid: amounts for pod, amounts in zip(node.pods, chosen, strict=True)}


def _enough(pod: SizedPod) -> Amounts:
    """Return the current amounts of the pod, raised to its least amounts (reason 1)."""
    now = Amounts(*map(min, pod.now, pod.most))
    least = Amounts(*map(max, now, pod.least))
    may_wait = pod.resized_recently and min(minus(now, pod.floor)) >= 0
    return now if may_wait and _is_small(now, least) else least


def _fitting(
    current: Sequence[Amounts], wanted: Sequence[Amounts], available: Amounts
) -> list[Amounts]:
    """Return the current amounts, cut where the pods together have too much (reason 2)."""
    cpus, memory = (
        _cut([each[resource] for each in current], [each[resource] for each in wanted], most)
        for resource, most in enumerate(available)
    )
    return [Amounts(*amounts) for amounts in zip(cpus, memory, strict=True)]


def _cut(current: Sequence[int], wanted: Sequence[int], available: int) -> list[int]:
    """Cut as few pods as possible, first those that are furthest above their wanted amount."""
    result, missing = list(current), sum(current) - available
    for index in sorted(range(len(result)), key=lambda each: wanted[each] - current[each]):
        if missing <= 0 or wanted[index] >= current[index]:
            break
        missing -= current[index] - wanted[index]
        result[index] = wanted[index]
    return result


def _without_small_changes(
    current: Sequence[Amounts], wanted: Sequence[Amounts], available: Amounts
) -> list[Amounts]:
    """Return the wanted amounts, but keep the current amounts of pods with a small change.

    A pod with a small cut keeps its current amounts only if all pods then fit on the node.
    """
    pairs = list(zip(current, wanted, strict=True))
    chosen = [
        now if _is_small(now, new) and min(minus(new, now)) >= 0 else new for now, new in pairs
    ]
    for index, (now, new) in enumerate(pairs):
        more = minus(now, chosen[index])
        if _is_small(now, new) and min(minus(available, total((*chosen, more)))) >= 0:
            chosen[index] = now
    return chosen


def _is_small(now: Amounts, new: Amounts) -> bool:
    return all(
        before == after or abs(after - before) < SMALL_CHANGE * before
        for before, after in zip(now, new, strict=True)
    )


def _values(node: SizedNode, chosen: Sequence[Amounts]) -> float:
    return sum(pod.value(amounts) for pod, amounts in zip(node.pods, chosen, strict=True))


def _is_gain(before: float, after: float) -> bool:
    """Return whether the sum of values rises enough for a resize (reason 3)."""
    least = min(LEAST_GAIN * before, LEAST_GAIN_OF_ONE_POD)
    return after > before and after - before >= least
