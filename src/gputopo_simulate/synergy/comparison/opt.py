"""Synergy-Opt: an upper bound for the throughput of all jobs, and a sizing near this bound.

Section 4.1 and appendix A.1 of the paper describe two linear programs. The first treats all servers
as one and chooses an option (CPUs and memory) for each job. Its optimum is the upper bound for the
sum of throughputs. A job with its proportional share has the throughput 1. The second program
assigns fractions of jobs to servers. It splits at most 3 n jobs if there are n servers. The paper
does not say how fractions become whole GPUs. Here they are rounded, so the jobs of a server may
need more CPUs or memory than it has. Then jobs get their least options (:attr:`JobOptions.least`)
until all fit.
"""

from collections import Counter
from collections.abc import Sequence
from math import inf

from gputopo.sizing.model import ServerCapacity, SizingRequest, SizingResult, total_capacity
from gputopo.sizing.options import OptionChoice, OptionsCache
from gputopo.sizing.prices import find_prices
from gputopo.sizing.requests import check_names, runnable
from gputopo.sizing.server_state import TOLERANCE, PlacedJob, ServerState, Slots, sizing_result
from gputopo.sizing.spare import assign_spare, reduce_overcommitted
from gputopo_simulate.synergy.comparison.solver import LinearProgram, solve


def opt(servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]) -> SizingResult:
    """Choose CPUs and memory of jobs by the first linear program, and servers by the second.

    Arguments and result are those of :class:`SizingMechanism`.

    Raises:
        SolverMissingError: HiGHS is not installed.
        InvalidInputError: there is no server, or two servers or jobs have the same name.
    """
    check_names(servers, requests)
    choices, _ = _choose_options(servers, requests)
    states = [ServerState.idle(server) for server in servers]
    placed = _place_rounded(states, choices, _fractions(servers, choices))
    prices = find_prices(Counter(each.options for each in choices), total_capacity(servers))
    reduce_overcommitted(states, prices)
    assign_spare(placed, prices)
    return sizing_result(requests, placed)


def upper_bound(servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]) -> float:
    """Return an upper limit for the sum of :attr:`Option.value` of all jobs; errors as ``opt``."""
    check_names(servers, requests)
    return _choose_options(servers, requests)[1]


def _choose_options(
    servers: Sequence[ServerCapacity], requests: Sequence[SizingRequest]
) -> tuple[list[OptionChoice], float]:
    """Solve the first program, equations 1 to 5. Return an option for each job, and the bound.

    There is one variable for each efficient option of each job. An option is left out if it
    violates equation 5, or if another option is as fast with fewer resources.
    """
    cache = OptionsCache(servers)
    jobs = [(request, cache.get(request)) for request in runnable(servers, requests)]
    if not jobs:
        return [], 0.0
    variables = [(job, option) for job, (_, own) in enumerate(jobs) for option in own.efficient]
    solution = solve(
        LinearProgram(
            gains=[option.value for _, option in variables],
            columns=[
                [(job, 1.0), *((len(jobs) + which, option[which]) for which in range(3))]
                for job, option in variables
            ],
            limits=[(1.0, 1.0)] * len(jobs) + [(-inf, most) for most in total_capacity(servers)],
            binary=True,
        )
    )
    chosen = dict(
        variable
        for variable, value in zip(variables, solution.values, strict=True)
        if value > 1 / 2
    )
    choices = [OptionChoice(*job, chosen[index]) for index, job in enumerate(jobs)]
    return choices, solution.bound


def _fractions(
    servers: Sequence[ServerCapacity], choices: Sequence[OptionChoice]
) -> list[list[float]]:
    """Solve the second program, equations 15 to 19. Return the fraction of each job per server.

    It is possible that not all jobs fit on servers of different sizes. So the program maximizes the
    sum of the fractions.
    """
    if not choices:
        return []
    jobs, count = len(choices), len(servers)
    limits = [(0.0, 1.0)] * jobs
    for server in servers:
        limits += (
            (-inf, most)
            for most in (server.gpus, server.cpus, server.memory_gb, server.storage_mb_per_s)
        )
    columns = [
        [
            (job, 1.0),
            *(
                (jobs + 4 * index + which, taken)
                for which, taken in enumerate((request.gpus, *option[:3]))
            ),
        ]
        for job, (request, _, option) in enumerate(choices)
        for index in range(count)
    ]
    values = solve(LinearProgram([1.0] * len(columns), columns, limits, binary=False)).values
    return [list(values[job * count : (job + 1) * count]) for job in range(jobs)]


def _place_rounded(
    servers: Sequence[ServerState],
    choices: Sequence[OptionChoice],
    fractions: Sequence[Sequence[float]],
) -> list[PlacedJob]:
    """Place jobs on whole GPUs. A job with a larger fraction on one server is placed earlier."""
    placed = []
    jobs = zip(choices, fractions, strict=True)
    for choice, parts in sorted(jobs, key=lambda job: -max(job[1])):
        placed.append(PlacedJob(*choice, _whole_gpus(servers, choice.request.gpus, parts)))
    return placed


def _whole_gpus(servers: Sequence[ServerState], gpus: int, parts: Sequence[float]) -> Slots:
    """Turn the fraction of a job on each server (``parts``) into whole GPUs of each server.

    The numbers of GPUs are rounded down. Then GPUs are added until the job has all of its GPUs:
    first on the servers with the largest remainders, then on any server with free GPUs.
    """
    taken = [
        min(int(part * gpus + TOLERANCE), server.gpus)
        for part, server in zip(parts, servers, strict=True)
    ]
    by_remainder = sorted(range(len(servers)), key=lambda at: taken[at] - parts[at] * gpus)
    anywhere = [at for at in by_remainder for _ in range(servers[at].gpus)]
    for at in by_remainder + anywhere:
        if sum(taken) < gpus and taken[at] < servers[at].gpus:
            taken[at] += 1
    return [(server, count) for server, count in zip(servers, taken, strict=True) if count]
