"""Chooses, among equally good divisions of a node, one that is close to the current amounts.

A mechanism does not know the current amounts of the pods. Of two equally good divisions, it chooses
one by the names of the pods.

Example: two equal pods share 8 CPUs. 5 CPUs for A and 3 for B are as good as 3 for A and 5 for B.
Now A has 5 CPUs and B has 3. The mechanism chooses 3 for A and 5 for B. This module moves 2 CPUs
back to A, because the sum of the values stays the same. So both pods keep their current amounts.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Final

from gputopo.api.tuning import Amounts
from gputopo.tuning.sized import SizedPod, minus, total

_ROUNDING: Final = 1e-9
"""Values are sums of quotients; a smaller difference is none."""

_Division = dict[str, Amounts]


def closest_to_now(
    spare: Amounts, pods: Sequence[SizedPod], chosen: Mapping[str, Amounts]
) -> dict[str, Amounts]:
    """Return a division that is as good as ``chosen``, with fewer changes of the current amounts.

    Pods without a matrix keep the chosen amounts. The result uses at most ``spare`` beyond the
    least amounts of all pods, or as much as ``chosen`` if ``chosen`` uses more.
    """
    result = dict(chosen)
    pods = [pod for pod in pods if pod.matrix is not None]
    wanted = {pod.uid: _within(pod, pod.now) for pod in pods}
    fits = min(_unused(spare, pods, wanted)) >= 0
    if fits and _value(pods, wanted) >= _value(pods, result) - _ROUNDING:
        return result | wanted
    _keep_unused(spare, pods, result, wanted)
    while any(_exchange(*pair, result, wanted) for pair in product(pods, pods, range(2))):
        pass  # ends: each exchange brings two pods closer to their current amounts
    return result


def _within(pod: SizedPod, amounts: Amounts) -> Amounts:
    return Amounts(*map(max, pod.least, map(min, amounts, pod.most)))


def _unused(spare: Amounts, pods: Sequence[SizedPod], division: _Division) -> Amounts:
    more = total(minus(division[pod.uid], pod.least) for pod in pods)
    return minus(spare, more)


def _value(pods: Sequence[SizedPod], division: _Division) -> float:
    return sum(pod.value(division[pod.uid]) for pod in pods)


def _keep_unused(
    spare: Amounts, pods: Sequence[SizedPod], result: _Division, wanted: _Division
) -> None:
    """Give spare amounts to pods that have them now: more CPUs or memory never lower a value."""
    for pod, resource in product(pods, range(2)):
        unused = max(0, _unused(spare, pods, result)[resource])
        missing = max(0, wanted[pod.uid][resource] - result[pod.uid][resource])
        result[pod.uid] = _changed(result[pod.uid], resource, min(unused, missing))


def _exchange(
    giver: SizedPod, taker: SizedPod, resource: int, result: _Division, wanted: _Division
) -> bool:
    """Move an amount that brings both pods closer to ``wanted``; return False if speed is lost."""
    above = result[giver.uid][resource] - wanted[giver.uid][resource]
    below = wanted[taker.uid][resource] - result[taker.uid][resource]
    if min(above, below) <= 0:
        return False
    amount = min(above, below)
    moved = {
        giver.uid: _changed(result[giver.uid], resource, -amount),
        taker.uid: _changed(result[taker.uid], resource, amount),
    }
    both = (giver, taker)
    if _value(both, moved) < _value(both, result) - _ROUNDING:
        return False
    result |= moved
    return True


def _changed(amounts: Amounts, resource: int, more: int) -> Amounts:
    both = [*amounts]
    both[resource] += more
    return Amounts(*both)
