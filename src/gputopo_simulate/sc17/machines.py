"""Simulated machines of one kind: their free GPUs and running jobs, grouped by equal state."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import NamedTuple

from gputopo.mapping.model import MappingNode
from gputopo.topology.model import GpuMask, NodeTopology
from gputopo.utility.interference import RunningNeighbour, WorkloadKind


class MachineState(NamedTuple):
    """What decides about a placement on a machine. Machines of equal state are equivalent.

    Attributes:
        running: GPUs and workload of each running job, by GPUs.
    """

    free: GpuMask
    running: tuple[tuple[GpuMask, WorkloadKind], ...]

    @property
    def free_gpus(self) -> int:
        """Number of free GPUs."""
        return self.free.bit_count()

    def node(self, topology: NodeTopology) -> MappingNode:
        """Return the machine as the mapping sees it."""
        neighbours = tuple(RunningNeighbour(workload, gpus) for gpus, workload in self.running)
        return MappingNode(topology, self.free, neighbours)


class SimulatedMachines:
    """Machines with equal hardware, numbered from 0."""

    def __init__(self, topology: NodeTopology, count: int) -> None:
        self.topology = topology
        idle = MachineState(topology.mask, ())
        self._states = [idle] * count
        self._machines: dict[MachineState, list[int]] = {idle: list(range(count))}

    def groups(self, gpus: int) -> Iterator[tuple[MachineState, int]]:
        """Yield each state with at least so many free GPUs, and its first machine."""
        for state, machines in self._machines.items():
            if state.free_gpus >= gpus:
                yield state, machines[0]

    def most_free(self) -> int:
        """Return the highest number of free GPUs of any machine."""
        return max(state.free_gpus for state in self._machines)

    def state(self, machine: int) -> MachineState:
        """Return the state of a machine."""
        return self._states[machine]

    def start(self, machine: int, gpus: GpuMask, workload: WorkloadKind) -> None:
        """Start a job on free GPUs of a machine."""
        free, running = self._states[machine]
        after = MachineState(
            GpuMask(free & ~gpus), tuple(sorted((*running, (gpus, workload)), key=_by_gpus))
        )
        self._change(machine, after)

    def end(self, machine: int, gpus: GpuMask) -> None:
        """End the job on these GPUs of a machine."""
        free, running = self._states[machine]
        others = tuple(each for each in running if each[0] != gpus)
        self._change(machine, MachineState(GpuMask(free | gpus), others))

    def _change(self, machine: int, after: MachineState) -> None:
        before = self._states[machine]
        same = self._machines[before]
        del same[bisect_left(same, machine)]
        if not same:
            del self._machines[before]
        self._states[machine] = after
        insort(self._machines.setdefault(after, []), machine)


def _by_gpus(running: tuple[GpuMask, WorkloadKind]) -> int:
    return running[0]
