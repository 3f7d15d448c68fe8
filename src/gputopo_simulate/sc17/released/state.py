"""Machines and jobs of the released program. All machines have two sockets of two GPUs."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gputopo_simulate.sc17.model import CaffeJob
from gputopo_simulate.sc17.profiles import JobKind

SOCKETS: Final = 2
GPUS_PER_SOCKET: Final = 2


def socket_of(gpu: int) -> int:
    """Return the socket of a GPU.

    >>> [socket_of(gpu) for gpu in range(4)]
    [0, 0, 1, 1]
    """
    return gpu // GPUS_PER_SOCKET


def distance(a: int, b: int) -> int:
    """Return the program's distance between two different GPUs of a machine."""
    return 1 if socket_of(a) == socket_of(b) else 20


@dataclass(slots=True)
class ReleasedCaffeJob:
    """A job that waits or runs.

    Attributes:
        seconds: execution time. It only rises: once a job has shared a socket, it keeps the time
            of the worst pair until its end.
        gpus: its GPUs in the order in which the program took them; empty while it waits.
        utilities: utility for the job and for the cluster when it was placed.
    """

    source: CaffeJob
    seconds: float
    start: float = 0.0
    machine: int = 0
    gpus: tuple[int, ...] = ()
    utilities: tuple[float, float] = (0.0, 0.0)

    @property
    def kind(self) -> JobKind:
        """What decides its execution time."""
        return JobKind(self.source.net, self.source.batch, self.source.gpus)

    def is_on(self, gpus: Iterable[int]) -> bool:
        """Return whether the job has a GPU on a socket of these GPUs."""
        return not {socket_of(gpu) for gpu in self.gpus}.isdisjoint(map(socket_of, gpus))


@dataclass(slots=True)
class ReleasedMachine:
    """A machine, or a part of it while TOPO-AWARE divides it.

    Attributes:
        sockets: GPUs of each socket in the program's order.
        taken: GPUs that jobs have.
        running: jobs by ID.
    """

    sockets: list[list[int]] = field(default_factory=lambda: [[0, 1], [2, 3]])
    taken: set[int] = field(default_factory=set)
    running: dict[int, ReleasedCaffeJob] = field(default_factory=dict)

    @property
    def free(self) -> list[int]:
        """The free GPUs, in the program's order."""
        return [gpu for socket in self.sockets for gpu in socket if gpu not in self.taken]

    def free_of(self, socket: int) -> list[int]:
        """Return the free GPUs of a socket, in the program's order."""
        return [gpu for gpu in self.sockets[socket] if gpu not in self.taken]

    def copy(self) -> "ReleasedMachine":
        """Return a copy that can be changed; jobs are shared."""
        sockets = [list(socket) for socket in self.sockets]
        return ReleasedMachine(sockets, set(self.taken), dict(self.running))

    def without_taken(self) -> "ReleasedMachine":
        """Return a copy that has only the free GPUs."""
        return ReleasedMachine(
            [self.free_of(socket) for socket in range(SOCKETS)], set(), dict(self.running)
        )


Cluster = dict[int, ReleasedMachine]
"""Machines by number."""
