"""Synergy-Tune, as the text of the paper describes it (section 4.2)."""

from collections.abc import Sequence
from operator import ge

from gputopo.sizing.fit import best_fit, fit_by_gpus
from gputopo.sizing.model import ServerCapacity, SizingRequest, SizingResult
from gputopo.sizing.options import Option, OptionsCache
from gputopo.sizing.requests import check_names, runnable
from gputopo.sizing.server_state import (
    TOLERANCE,
    PlacedJob,
    ServerState,
    Slots,
    sizing_result,
)


def tune(servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]) -> SizingResult:
    """Give jobs their demands. If a job does not fit, reduce other jobs to their trimmed shares.

    Arguments and result are those of :class:`SizingMechanism`. GPUs and queue order alone decide
    which jobs run. Jobs with the most GPUs are placed first, then those with the highest demand for
    CPUs and memory. Each job is placed by best fit. If a demand does not fit:

    1. A job whose demand exceeds its proportional share gets its trimmed share instead: of each
       resource, the smaller of share and demand.
    2. If the trimmed share does not fit either, servers are chosen by GPUs alone. Jobs on these
       servers that exceed their shares get their trimmed shares until the job fits. The job always
       fits if no other job exceeds its share.
    """
    check_names(servers, requests)
    cache, states = OptionsCache(servers), [ServerState.idle(server) for server in servers]
    chosen = [(request, cache.get(request)) for request in runnable(servers, requests)]
    chosen.sort(key=lambda each: (-each[0].gpus, -each[1].demand.cpus, -each[1].demand.memory_gb))
    placed = []
    for request, options in chosen:
        option, slots = options.demand, best_fit(states, request.gpus, options.demand)
        if slots is None:
            option = options.trimmed_share
            if options.demand_exceeds_share:
                slots = best_fit(states, request.gpus, option)
        if slots is None:
            slots = _reduce_others(states, request.gpus, option)
        placed.append(PlacedJob(request, options, option, slots))
    return sizing_result(requests, placed)


def _reduce_others(servers: Sequence[ServerState], gpus: int, option: Option) -> Slots:
    """Choose servers by free GPUs; give jobs there trimmed shares until ``option`` fits."""
    slots = fit_by_gpus(servers, gpus)
    for server, count in slots:
        while not server.has_free(option, count / gpus):
            job = _job_to_reduce(server, option, count / gpus)
            job.change_option(job.options.trimmed_share)
    return slots


def _job_to_reduce(server: ServerState, option: Option, fraction: float) -> PlacedJob:
    """Return the job to reduce to its trimmed share: the one that frees just enough for ``option``.

    If no job frees enough, return the job that frees most. Only jobs whose current option exceeds
    the proportional share are considered.
    """
    reducible = [
        job
        for job in server.jobs
        if job.options.demand_exceeds_share and job.option is job.options.demand
    ]
    freed = [_freed_by(job, server) for job in reducible]
    free = (server.cpus, server.memory_gb, server.storage_mb_per_s)
    missing = [
        needed * fraction - TOLERANCE - had for needed, had in zip(option[:3], free, strict=True)
    ]
    enough = [index for index, amounts in enumerate(freed) if all(map(ge, amounts, missing))]
    if enough:
        return reducible[min(enough, key=freed.__getitem__)]
    return reducible[max(range(len(reducible)), key=lambda index: _covered(freed[index], missing))]


def _freed_by(job: PlacedJob, server: ServerState) -> list[float]:
    """Return the resources on the server that become free if the job gets its trimmed share."""
    gpus = next(gpus for each, gpus in job.slots if each is server)
    before, after = job.option[:3], job.options.trimmed_share[:3]
    return [
        (more - less) * gpus / job.request.gpus for more, less in zip(before, after, strict=True)
    ]


def _covered(freed: Sequence[float], missing: Sequence[float]) -> float:
    """Return how many missing resources are freed. Half of the missing memory counts as 0.5."""
    pairs = zip(freed, missing, strict=True)
    return sum(min(amount / lack, 1) for amount, lack in pairs if lack > 0)
