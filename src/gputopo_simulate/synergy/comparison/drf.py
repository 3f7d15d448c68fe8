"""Dominant Resource Fairness, for comparison (Synergy, section 5.7)."""

from collections.abc import Sequence

from gputopo.sizing.menu import Target
from gputopo.sizing.model import Ask, Outcome, Server, whole_capacity
from gputopo.sizing.rooms import Room, outcome
from gputopo_simulate.synergy.comparison.greedy import fill, wishes


def drf(servers: Sequence[Server], asks: Sequence[Ask]) -> Outcome:
    """Give demands first fit, to the job with the least dominant share first.

    See :class:`Allocation`. Where each user has one task, and jobs are that here, it is what
    progressive filling comes to: who asks for least of what it asks most of goes first.
    The order of the asks decides between equals.
    """
    wanted = wishes(servers, asks)
    capacity, gpus = whole_capacity(servers), sum(server.gpus for server in servers)

    def dominant_share(target: Target) -> float:
        asked = zip(target.option, capacity, strict=False)
        return max(target.ask.gpus / gpus, *(amount / there_is for amount, there_is in asked))

    rooms = [Room.of(server) for server in servers]
    return outcome(asks, fill(rooms, sorted(wanted, key=dominant_share)))
