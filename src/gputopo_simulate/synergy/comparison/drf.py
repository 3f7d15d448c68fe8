"""Dominant Resource Fairness (DRF), with which the paper compares Synergy (section 5.7)."""

from collections.abc import Sequence

from gputopo.sizing.model import ServerCapacity, SizingRequest, SizingResult, total_capacity
from gputopo.sizing.options import OptionChoice
from gputopo.sizing.server_state import ServerState, sizing_result
from gputopo_simulate.synergy.comparison.greedy import demands, place_first_fit


def drf(servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]) -> SizingResult:
    """Place jobs with their demands by first fit, the job with the smallest dominant share first.

    Arguments and result are those of :class:`SizingMechanism`. A job demands a fraction of the
    cluster's GPUs, a fraction of its CPUs and a fraction of its memory. The largest of these three
    is the dominant share of the job. DRF's progressive filling of users has the same order if each
    user has one job. Of jobs with equal dominant shares, the first in the queue is placed first.
    """
    choices = demands(servers, requests)
    capacity, gpus = total_capacity(servers), sum(server.gpus for server in servers)

    def dominant_share(choice: OptionChoice) -> float:
        pairs = zip(choice.option, capacity, strict=False)
        return max(choice.request.gpus / gpus, *(amount / total for amount, total in pairs))

    states = [ServerState.idle(server) for server in servers]
    return sizing_result(requests, place_first_fit(states, sorted(choices, key=dominant_share)))
