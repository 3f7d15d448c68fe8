"""Tetris, with which the paper compares Synergy (section 5.7): packs jobs by alignment."""

from collections.abc import Sequence
from math import inf

from gputopo.sizing.model import ServerCapacity, SizingRequest, SizingResult
from gputopo.sizing.options import OptionChoice
from gputopo.sizing.server_state import PlacedJob, ServerState, sizing_result
from gputopo_simulate.synergy.comparison.greedy import demands, place_first_fit


def tetris(servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]) -> SizingResult:
    """Fill one server after another. Of the jobs that fit, the job with the best alignment is next.

    Arguments and result are those of :class:`SizingMechanism`. The alignment of a job with a server
    is the dot product of the job's demand and the server's free resources, both as fractions of the
    whole server. Of jobs with equal alignment, the first in the queue is next. A job that fits on
    no single server is split as in :func:`~gputopo_simulate.synergy.comparison.greedy.greedy`.
    """
    waiting = demands(servers, requests)
    states = [ServerState.idle(server) for server in servers]
    placed = []
    for server, state in zip(servers, states, strict=True):
        while fitting := [each for each in waiting if _fits(state, each)]:
            best = max(fitting, key=lambda each: _alignment(server, state, each))
            waiting.remove(best)
            placed.append(PlacedJob(*best, [(state, best.request.gpus)]))
    return sizing_result(requests, [*placed, *place_first_fit(states, waiting)])


def _fits(state: ServerState, choice: OptionChoice) -> bool:
    return state.gpus >= choice.request.gpus and state.has_free(choice.option, 1)


def _alignment(server: ServerCapacity, state: ServerState, choice: OptionChoice) -> float:
    gpus, option = choice.request.gpus, choice.option
    aligned = gpus / server.gpus * state.gpus / server.gpus
    aligned += option.cpus / server.cpus * state.cpus / server.cpus
    aligned += option.memory_gb / server.memory_gb * state.memory_gb / server.memory_gb
    if server.storage_mb_per_s < inf:
        whole = server.storage_mb_per_s
        aligned += option.storage_mb_per_s / whole * state.storage_mb_per_s / whole
    return aligned
