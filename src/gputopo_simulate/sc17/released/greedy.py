"""FCFS and BF of the released program.

Both decide by the free GPUs of machine 0 whether they try a job at all (the gate). Both change one
shared job object for each machine that fits, so the last of these machines wins, not the best.
"""

from collections.abc import Iterator, Sequence

from gputopo_simulate.sc17.profiles import CaffeProfiles
from gputopo_simulate.sc17.released.scores import set_utilities
from gputopo_simulate.sc17.released.state import (
    SOCKETS,
    Cluster,
    ReleasedCaffeJob,
    ReleasedMachine,
)


def place_first_come(
    cluster: Cluster, waiting: Sequence[ReleasedCaffeJob], limit: int, profiles: CaffeProfiles
) -> None:
    """Give GPUs to jobs in the order of their arrival, until one does not fit.

    Args:
        cluster: copy of the machines; GPUs that jobs get are marked as taken.
        waiting: waiting jobs by arrival.
        limit: free GPUs of the gate.
        profiles: measured times, for the utilities; they do not influence the choice.
    """
    for job in waiting:
        if not limit or job.source.gpus > limit:
            return
        fitting = [name for name, each in cluster.items() if len(each.free) >= job.source.gpus]
        if not fitting:
            return
        machine = cluster[fitting[-1]]
        job.machine, job.gpus = fitting[-1], tuple(machine.free[: job.source.gpus])
        job.utilities = set_utilities(job, machine, job.gpus, profiles)
        machine.taken.update(job.gpus)


def place_best_fit(
    cluster: Cluster, waiting: Sequence[ReleasedCaffeJob], limit: int, profiles: CaffeProfiles
) -> None:
    """Give GPUs to all jobs that fit, on the socket with the fewest free GPUs first.

    The GPUs of every machine that is considered are marked as taken, also if the job does not get
    them. The arguments are those of :func:`place_first_come`.
    """
    for job in waiting:
        if not limit or job.source.gpus > limit:
            continue
        for name, machine in cluster.items():
            if len(machine.free) >= job.source.gpus:
                job.machine, job.gpus = name, tuple(sorted(_fullest(machine, job.source.gpus)))
                job.utilities = set_utilities(job, machine, job.gpus, profiles)


def _fullest(machine: ReleasedMachine, count: int) -> Iterator[int]:
    """Take GPUs of the fullest socket, then of the other; of equal sockets, the last is first."""
    while count:
        free = [(len(machine.free_of(socket)), -socket) for socket in range(SOCKETS)]
        _, negated = min(each for each in free if each[0])
        found = machine.free_of(-negated)[:count]
        machine.taken.update(found)
        count -= len(found)
        yield from found
