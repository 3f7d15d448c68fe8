"""Proportional mechanism: CPUs and memory in proportion to GPUs, as clusters do today."""

from collections.abc import Sequence

from gputopo.sizing.fit import fit_by_gpus
from gputopo.sizing.model import ServerCapacity, SizingRequest, SizingResult
from gputopo.sizing.options import OptionsCache
from gputopo.sizing.requests import check_names, runnable
from gputopo.sizing.server_state import PlacedJob, ServerState, sizing_result


def proportional(
    servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]
) -> SizingResult:
    """Give each job the proportional share of its GPUs (a :class:`SizingMechanism`)."""
    check_names(servers, requests)
    cache, states = OptionsCache(servers), [ServerState.idle(server) for server in servers]
    placed = []
    for request in sorted(runnable(servers, requests), key=lambda each: -each.gpus):
        options = cache.get(request)
        slots = fit_by_gpus(states, request.gpus)
        placed.append(PlacedJob(request, options, options.share, slots))
    return sizing_result(requests, placed)
