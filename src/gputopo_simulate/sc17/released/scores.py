"""Costs and utilities as the released program computes them.

Its interference is the time alone divided by the time together, so a stronger slowdown has a lower
cost. Only the difference between some interference and none has the right sign.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from gputopo_simulate.sc17.profiles import CaffeProfiles, JobKind, Sockets
from gputopo_simulate.sc17.released.state import (
    GPUS_PER_SOCKET,
    SOCKETS,
    ReleasedCaffeJob,
    ReleasedMachine,
    distance,
    socket_of,
)

LEAST_COST: Final = 0.01
_WEIGHT: Final = 0.3333333333333
_LONGEST: Final = {1: LEAST_COST, 2: 40.0, 3: 60.0}
_SHORTEST: Final = {1: LEAST_COST, 2: 1.0, 3: 41.0}
SUPPORTED_GPUS: Final = tuple(_LONGEST)


class ReleasedCosts(NamedTuple):
    """Costs of a GPU set; ``caused`` is None on a machine without jobs."""

    gpus: int
    communication: float
    interference: float
    fragmentation: float
    caused: float | None = None


def communication(gpus: Sequence[int], rows: Iterable[int]) -> float:
    """Return the communication cost of GPUs in a part whose distances have these rows."""
    known = set(rows)
    cost = float(sum(distance(a, b) for a, b in combinations(gpus, 2) if {a, b} & known))
    if cost > 0:
        cost -= _SHORTEST[len(gpus)]
    return cost or LEAST_COST


def interference(
    job: JobKind, machine: ReleasedMachine, gpus: Sequence[int], profiles: CaffeProfiles, own: int
) -> float:
    """Return the interference that a job suffers; ``own`` is its ID."""
    alone = _alone(profiles, job, gpus)
    total = 0.0
    for other in machine.running.values():
        if other.source.id != own and other.is_on(gpus):
            together = profiles.beside.get((job, other.kind), 0.0)
            if together > alone:
                total += alone / together
    return total / len(machine.running) if total else LEAST_COST


def caused_interference(
    job: JobKind, machine: ReleasedMachine, gpus: Sequence[int], profiles: CaffeProfiles
) -> float:
    """Return the interference that a job causes.

    The program exchanges the numbers of GPUs of the two jobs when it looks up their times.
    """
    found = []
    for other in machine.running.values():
        as_large = other.kind._replace(gpus=job.gpus)
        together = profiles.beside.get((as_large, job._replace(gpus=other.kind.gpus)), 0.0)
        if other.is_on(gpus) and together > (alone := _alone(profiles, as_large, gpus)):
            found.append(alone / together)
    total = sum(found)
    return total / len(found) if total else LEAST_COST


def fragmentation(machine: ReleasedMachine, gpus: Sequence[int]) -> float:
    """Return the fragmentation of a machine or part.

    The program removes as many free GPUs as the job has, but those that the job does not get.
    """
    remaining, shares = len(gpus), 0.0
    for socket in range(SOCKETS):
        free = machine.free_of(socket)
        removed = min(remaining, sum(gpu not in gpus for gpu in free))
        remaining -= removed
        shares += (len(free) - removed) / float(GPUS_PER_SOCKET)
    shares /= SOCKETS
    return LEAST_COST if shares in {0.0, 1.0} else shares


class ReleasedUtilities(NamedTuple):
    """Utilities of a placement for the job and for the cluster."""

    job: float
    system: float


def set_utilities(
    job: ReleasedCaffeJob, machine: ReleasedMachine, gpus: Sequence[int], profiles: CaffeProfiles
) -> ReleasedUtilities:
    """Return the utilities of the GPUs that a job gets on a machine, before it runs there."""
    caused = None
    if machine.running:
        caused = caused_interference(job.kind, machine, gpus, profiles)
    costs = ReleasedCosts(
        len(gpus),
        communication(gpus, gpus),
        interference(job.kind, machine, gpus, profiles, job.source.id),
        fragmentation(machine, gpus),
        caused,
    )
    return ReleasedUtilities(job_utility(costs), system_utility(costs))


def job_utility(costs: ReleasedCosts) -> float:
    """Return the utility for the job, in 0..1; fragmentation does not count."""
    power = _WEIGHT + _WEIGHT / 2
    parts = (_communication_norm(costs), max(LEAST_COST, costs.interference))
    return 1 / _sum_of_powers(parts, power) / (1 / (2 * math.sqrt(LEAST_COST)))


def system_utility(costs: ReleasedCosts) -> float:
    """Return the utility for the cluster, in 0..1."""
    suffered = max(LEAST_COST, costs.interference)
    if costs.caused is not None:
        suffered = (suffered + max(LEAST_COST, costs.caused)) / 2
    parts = (_communication_norm(costs), suffered, max(LEAST_COST, costs.fragmentation))
    return 1 / _sum_of_powers(parts, _WEIGHT) / (1 / (3 * math.pow(LEAST_COST, 1.0 / 3)))


def _sum_of_powers(parts: Iterable[float], power: float) -> float:
    return sum(math.pow(part, power) for part in parts)


def _communication_norm(costs: ReleasedCosts) -> float:
    if costs.gpus == 1:
        return LEAST_COST
    return max(LEAST_COST, costs.communication / _LONGEST[costs.gpus])


def sockets_of(gpus: Iterable[int]) -> Sockets:
    """Return whether GPUs are on one socket."""
    return Sockets.ONE if len({socket_of(gpu) for gpu in gpus}) == 1 else Sockets.SEVERAL


def _alone(profiles: CaffeProfiles, kind: JobKind, gpus: Sequence[int]) -> float:
    return profiles.alone.get((kind, sockets_of(gpus)), 0.0)


def execution_seconds(
    job: ReleasedCaffeJob, others: Iterable[ReleasedCaffeJob], profiles: CaffeProfiles
) -> float:
    """Return the execution time of a running job from now on."""
    alone = _alone(profiles, job.kind, job.gpus)
    together = [
        profiles.beside.get((job.kind, other.kind), 0.0)
        for other in others
        if other is not job and other.is_on(job.gpus)
    ]
    worst = max(together, default=0.0)
    return max(job.seconds, alone, worst if worst > alone else 0.0)
