"""Synergy-Opt (section 4.1 and appendix A.1): what could be had at best, and most of that.

The first program takes all servers for one; its optimum is a bound on what any
allocation can reach. The second spreads what each job has in it over the servers, in
parts: of at most three jobs a server they are fractions of GPUs. How these become GPUs the
paper leaves open. Here they are rounded, and what then does not fit goes back to its share.
"""

from collections import Counter
from collections.abc import Sequence
from math import inf

from gputopo.sizing.menu import Menus, Target
from gputopo.sizing.model import Ask, Outcome, Server, whole_capacity
from gputopo.sizing.prices import prices_of
from gputopo.sizing.rooms import ROUNDING, Room, Slots, Tenant, checked, outcome, runnable
from gputopo.sizing.spare import give_spare, relieve
from gputopo_simulate.synergy.comparison.solver import Program, solve


def opt(servers: Sequence[Server], asks: Sequence[Ask]) -> Outcome:
    """Give jobs what the first program gives, where the second does; see :class:`Allocation`.

    Raises:
        SolverMissingError: HiGHS is not installed.
        ValueError: no server, or a server or job named twice.
    """
    checked(servers, asks)
    return outcome(asks, realised(servers, _ideal(servers, asks)[0]))


def upper_bound(servers: Sequence[Server], asks: Sequence[Ask]) -> float:
    """Return what throughputs relative to shares can sum up to at most, of the jobs that run.

    Raises:
        SolverMissingError: HiGHS is not installed.
        ValueError: no server, or a server or job named twice.
    """
    checked(servers, asks)
    return _ideal(servers, asks)[1]


def _ideal(servers: Sequence[Server], asks: Sequence[Ask]) -> tuple[list[Target], float]:
    """Solve the first program, equations 1 to 5: an option for each job, and the bound.

    A variable stands for one job and one of its options. Those that break equation 5 are
    left out, as well as those with more than another and no faster.
    """
    menus = Menus(servers)
    jobs = [(ask, menus[ask]) for ask in runnable(servers, asks)]
    if not jobs:
        return [], 0.0
    choices = [(job, option) for job, (_, menu) in enumerate(jobs) for option in menu.options]
    solution = solve(
        Program(
            gains=[option.worth for _, option in choices],
            columns=[
                [(job, 1.0), *((len(jobs) + which, option[which]) for which in range(3))]
                for job, option in choices
            ],
            limits=[(1.0, 1.0)] * len(jobs) + [(-inf, most) for most in whole_capacity(servers)],
            whole=True,
        )
    )
    chosen = dict(
        choice for choice, value in zip(choices, solution.values, strict=True) if value > 1 / 2
    )
    targets = [Target(ask, menu, chosen[job]) for job, (ask, menu) in enumerate(jobs)]
    return targets, solution.bound


def realised(servers: Sequence[Server], targets: Sequence[Target]) -> list[Tenant]:
    """Return jobs with GPUs, and with what they should have as far as it can be placed.

    Args:
        servers: of one kind, with GPUs enough for all.
        targets: the jobs, what each should have, and a menu whose least option is within
            its share of these servers.
    """
    rooms = [Room.of(server) for server in servers]
    tenants = _rounded(rooms, targets, _fractions(servers, targets))
    prices = prices_of(Counter(target.menu for target in targets), whole_capacity(servers))
    relieve(rooms, prices)
    give_spare(tenants, prices)
    return tenants


def _fractions(servers: Sequence[Server], targets: Sequence[Target]) -> list[list[float]]:
    """Solve the second program, equations 15 to 19: what part of each job is on each server.

    It is feasible where servers are alike; else as much of the jobs as can be is placed.
    """
    if not targets:
        return []
    jobs, count = len(targets), len(servers)
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
                (jobs + 4 * place + which, taken)
                for which, taken in enumerate((ask.gpus, *option[:3]))
            ),
        ]
        for job, (ask, _, option) in enumerate(targets)
        for place in range(count)
    ]
    values = solve(Program([1.0] * len(columns), columns, limits, whole=False)).values
    return [list(values[job * count : (job + 1) * count]) for job in range(jobs)]


def _rounded(
    rooms: Sequence[Room], targets: Sequence[Target], fractions: Sequence[Sequence[float]]
) -> list[Tenant]:
    """Return the jobs on whole GPUs, those that were not split first."""
    tenants = []
    jobs = zip(targets, fractions, strict=True)
    for (ask, menu, option), parts in sorted(jobs, key=lambda job: -max(job[1])):
        tenants.append(Tenant(ask, menu, option, _whole_gpus(rooms, ask.gpus, parts)))
    return tenants


def _whole_gpus(rooms: Sequence[Room], gpus: int, parts: Sequence[float]) -> Slots:
    """Return GPUs as near as can be to a job's parts: what they are rounded down, then the rest.

    The rest goes where most of a GPU was cut off, and then wherever GPUs are free.
    """
    taken = [
        min(int(part * gpus + ROUNDING), room.gpus) for part, room in zip(parts, rooms, strict=True)
    ]
    by_rest = sorted(range(len(rooms)), key=lambda place: taken[place] - parts[place] * gpus)
    anywhere = [place for place in by_rest for _ in range(rooms[place].gpus)]
    for place in by_rest + anywhere:
        if sum(taken) < gpus and taken[place] < rooms[place].gpus:
            taken[place] += 1
    return [(room, count) for room, count in zip(rooms, taken, strict=True) if count]
