"""Decides whether a pod waits for a better placement. This module is the entry point."""

from gputopo.postponement.model import Outlook, WaitDecision, WaitTerms, WaitVerdict


def target_permille(terms: WaitTerms, then_permille: int) -> int:
    """Return the value that a waiting pod waits for.

    This is its minimum, or the best value that its nodes can give if that is lower: no ending pod
    could give more.
    """
    return min(terms.minimum_permille, then_permille)


def decide_wait(terms: WaitTerms, outlook: Outlook, now: float) -> WaitDecision:
    """Return whether a pod waits. A pod that no ending pod could help does not wait.

    Example: the minimum is 700. The best placement has 450 now, and 1000 on idle GPUs: the pod
    waits for 700. With 450 on idle GPUs too, it does not wait. With 600 on idle GPUs, it waits for
    600.
    """
    target = target_permille(terms, outlook.then_permille)
    if outlook.now_permille >= target:
        return WaitDecision(WaitVerdict.REACHED, target)
    if is_expired(terms, now):
        return WaitDecision(WaitVerdict.EXPIRED, 0)
    return WaitDecision(WaitVerdict.WAITS, target)


def is_expired(terms: WaitTerms, now: float) -> bool:
    """Return whether the longest wait of a pod is over, or the pod never waits."""
    return terms.until is None or now >= terms.until
