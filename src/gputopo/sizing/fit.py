"""Find servers with enough free GPUs, CPUs and memory for one job."""

from collections.abc import Sequence

from gputopo.sizing.options import Option
from gputopo.sizing.server_state import TOLERANCE, ServerState, Slots


def first_fit(servers: Sequence[ServerState], gpus: int, option: Option) -> Slots | None:
    """Return the first server on which a job with the resources in ``option`` fits.

    If there is no such server, return the result of :func:`split_over_servers`.
    """
    for server in servers:
        if server.gpus >= gpus and server.has_free(option, 1):
            return [(server, gpus)]
    return split_over_servers(servers, gpus, option)


def best_fit(servers: Sequence[ServerState], gpus: int, option: Option) -> Slots | None:
    """Return the fullest server on which a job with the resources in ``option`` fits.

    It has the fewest free GPUs, then the fewest CPUs, then the least memory. If the job fits on no
    single server, return the result of :func:`split_over_servers`.
    """
    cpus, memory_gb = option.cpus - TOLERANCE, option.memory_gb - TOLERANCE
    storage = option.storage_mb_per_s - TOLERANCE
    found, least = None, (0, 0.0, 0.0)
    for server in servers:  # explicit loop for speed: it runs for each job of a round
        if (
            server.gpus >= gpus
            and server.cpus >= cpus
            and server.memory_gb >= memory_gb
            and server.storage_mb_per_s >= storage
        ):
            free = (server.gpus, server.cpus, server.memory_gb)
            if found is None or free < least:
                found, least = server, free
    return split_over_servers(servers, gpus, option) if found is None else [(found, gpus)]


def fit_by_gpus(servers: Sequence[ServerState], gpus: int) -> Slots:
    """Return servers with enough free GPUs for the job. CPUs and memory are ignored.

    If one server is enough, return the one with the fewest free GPUs. If the job needs several
    servers, return those with the most free GPUs. All servers together must have enough free GPUs.
    """
    fitting = [(server.gpus, index) for index, server in enumerate(servers) if server.gpus >= gpus]
    if fitting:
        return [(servers[min(fitting)[-1]], gpus)]
    slots: Slots = []
    most_free_first = iter(sorted(servers, key=lambda each: -each.gpus))
    while gpus:
        server = next(most_free_first)
        slots.append((server, min(server.gpus, gpus)))
        gpus -= slots[-1][1]
    return slots


def split_over_servers(servers: Sequence[ServerState], gpus: int, option: Option) -> Slots | None:
    """Return the fewest servers over which the job can be split, with equal resources per GPU.

    Return None if the servers lack resources that ``option`` needs, or if the job has only one GPU.
    """
    if gpus == 1:
        return None
    fitting = [(server.max_gpus(option, gpus), index) for index, server in enumerate(servers)]
    slots: Slots = []
    for count, index in sorted(fitting, key=lambda each: (-each[0], each[1])):
        taken = min(count, gpus)
        if taken == 0:
            return None
        slots.append((servers[index], taken))
        gpus -= taken
        if gpus == 0:
            return slots
    return None
