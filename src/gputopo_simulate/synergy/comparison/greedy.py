"""Synergy-Greedy: place full demands by first fit, skip jobs that do not fit (section 3.3)."""

from collections.abc import Iterable, Sequence

from gputopo.sizing.fit import first_fit
from gputopo.sizing.model import ServerCapacity, SizingRequest, SizingResult
from gputopo.sizing.options import JobOptions, OptionChoice, OptionsCache
from gputopo.sizing.requests import check_names
from gputopo.sizing.server_state import PlacedJob, ServerState, sizing_result


def greedy(servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]) -> SizingResult:
    """Place each job on the first server where its demand fits (a :class:`SizingMechanism`).

    A job of several GPUs that fits on no single server is split over servers. A job whose demand
    does not fit at all is skipped. So GPUs may stay idle, and a job may wait forever.
    """
    choices = demands(servers, requests)
    states = [ServerState.idle(server) for server in servers]
    return sizing_result(requests, place_first_fit(states, choices))


def demands(
    servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]
) -> list[OptionChoice]:
    """Return for each job its demand or, if idle servers cannot hold it, its proportional share.

    No amount in a returned share exceeds the demand. For example, with a share of 3 CPUs and 60 GB
    and a demand of 12 CPUs and 20 GB, 3 CPUs and 20 GB are returned. Errors: see
    :func:`check_names`.
    """
    check_names(servers, requests)
    cache, idle = OptionsCache(servers), [ServerState.idle(server) for server in servers]
    fits: dict[JobOptions, bool] = {}
    choices = []
    for request in requests:
        options = cache.get(request)
        if options not in fits:
            fits[options] = first_fit(idle, request.gpus, options.demand) is not None
        option = options.demand if fits[options] else options.trimmed_share
        choices.append(OptionChoice(request, options, option))
    return choices


def place_first_fit(
    servers: Sequence[ServerState], choices: Iterable[OptionChoice]
) -> list[PlacedJob]:
    """Place jobs in the given order by first fit; return the jobs that fit."""
    placed = []
    for request, options, option in choices:
        slots = first_fit(servers, request.gpus, option)
        if slots is not None:
            placed.append(PlacedJob(request, options, option, slots))
    return placed
