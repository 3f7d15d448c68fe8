"""Run the authors' simulator, step by step."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from gputopo.topology.model import GpuIndex, mask_of
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.progress import ProgressCallback
from gputopo_simulate.sc17.model import (
    CaffeJob,
    FinishedCaffeJob,
    Sc17Result,
    check_jobs,
    unreachable_minimum,
)
from gputopo_simulate.sc17.profiles import CaffeProfiles, JobKind, Sockets
from gputopo_simulate.sc17.released.aware import AwarePlacement, EqualSockets
from gputopo_simulate.sc17.released.greedy import place_best_fit, place_first_come
from gputopo_simulate.sc17.released.scores import SUPPORTED_GPUS, execution_seconds
from gputopo_simulate.sc17.released.state import Cluster, ReleasedCaffeJob, ReleasedMachine

STEP_SECONDS: Final = 1.1
_DIGITS: Final = 1
_MAX_ARRIVAL_SECONDS: Final = 1e6

_POSTPONES: Final[Mapping[str, bool]] = MappingProxyType(
    {"topo-aware": False, "topo-aware-p": True}
)
POLICIES: Final = ("fcfs", "bf", *_POSTPONES)


def run_as_released(
    jobs: Sequence[CaffeJob],
    profiles: CaffeProfiles,
    policy: str,
    machines: int,
    *,
    gate: bool = True,
    swapped: Collection[int] = (),
    progress: ProgressCallback | None = None,
) -> Sc17Result:
    """Simulate jobs on the authors' machines, each with two sockets of two GPUs.

    Args:
        jobs: jobs of 1 to 3 GPUs.
        profiles: measured times.
        policy: one of :data:`POLICIES`.
        machines: number of machines.
        gate: whether the free GPUs of machine 0 decide which jobs are tried, as in the program. If
            not, those of the machine with most free GPUs decide.
        swapped: divisions in which the second of two equal sockets is emptied first
            (:class:`.aware.EqualSockets`); the program's memory decides this.
        progress: called after each step in which a job ends.

    Raises:
        SimulationError: if the program does not support a job or the policy, or would postpone a
            job forever.
    """
    if policy not in POLICIES:
        raise SimulationError(f"policy: {policy!r:.80}; --as-released has {', '.join(POLICIES)}")
    check_jobs(jobs, profiles)
    for job in jobs:
        if job.gpus not in SUPPORTED_GPUS:
            raise SimulationError(f"job {job.id}: gpus: {job.gpus}; --as-released has 1, 2 and 3")
        if job.arrival > _MAX_ARRIVAL_SECONDS:
            raise SimulationError(
                f"job {job.id}: arrival_s: {job.arrival:g}; --as-released simulates every step, so"
                f" at most {_MAX_ARRIVAL_SECONDS:g} is allowed"
            )
    program = _Program(jobs, profiles, policy, machines, gate=gate, swapped=swapped)
    while len(program.finished) < len(jobs):
        ended = len(program.finished)
        program.step()
        if progress is not None and len(program.finished) > ended:
            progress(len(program.finished), len(jobs))
    return Sc17Result(policy, tuple(program.finished[job.id] for job in jobs))


def step_of(seconds: float) -> float:
    """Return the arrival time as the program rounds it: the end of the step.

    >>> step_of(15.039)
    15.4
    """
    rest = seconds % STEP_SECONDS
    return round(seconds - rest + (STEP_SECONDS if rest else 0.0), _DIGITS)


class _Program:
    def __init__(
        self,
        jobs: Sequence[CaffeJob],
        profiles: CaffeProfiles,
        policy: str,
        machines: int,
        *,
        gate: bool,
        swapped: Collection[int],
    ) -> None:
        self._profiles, self._policy, self._gate = profiles, policy, gate
        postpone = _POSTPONES.get(policy, False)
        self._aware = AwarePlacement(profiles, EqualSockets(swapped), postpone=postpone)
        self._cluster: Cluster = {number: ReleasedMachine() for number in range(machines)}
        self._arrivals: dict[float, list[ReleasedCaffeJob]] = {}
        for job in jobs:
            alone = profiles.alone[JobKind(job.net, job.batch, job.gpus), Sockets.ONE]
            released = ReleasedCaffeJob(job, alone)
            self._arrivals.setdefault(step_of(job.arrival), []).append(released)
        self._new: list[ReleasedCaffeJob] = []
        self._waiting: list[ReleasedCaffeJob] = []
        self._now = -STEP_SECONDS
        self.finished: dict[int, FinishedCaffeJob] = {}

    def step(self) -> None:
        """Let jobs arrive, place waiting jobs, and end jobs, in this order.

        Jobs of only one arrival time arrive in one step. The GPUs of a job that ends are free from
        the next step on.
        """
        self._now = 0.0 if self._now < 0 else self._now + STEP_SECONDS
        if self._arrivals and (first := min(self._arrivals)) <= self._now:
            self._new += self._arrivals.pop(first)
        if self._new or self._waiting:
            self._schedule()
        idle = not any(machine.running for machine in self._cluster.values())
        if idle and self._waiting and not self._arrivals:
            raise unreachable_minimum(self._waiting[0].source)
        for number, machine in self._cluster.items():
            for job in _in_table_order(machine):
                self._update(number, machine, job)

    def _schedule(self) -> None:
        if self._policy in _POSTPONES:
            tried = self._tried_by_utility()
            cluster = {name: each.without_taken() for name, each in self._cluster.items()}
            self._aware.place(cluster, tried)
        else:
            tried = sorted([*self._waiting, *self._new], key=lambda job: job.source.arrival)
            cluster = {name: each.copy() for name, each in self._cluster.items()}
            place = place_first_come if self._policy == "fcfs" else place_best_fit
            place(cluster, tried, self._gate_gpus(), self._profiles)
            self._new, self._waiting = [], []
        for job in tried:
            if job.gpus:
                self._start(job)
            else:
                self._waiting.append(job)

    def _tried_by_utility(self) -> list[ReleasedCaffeJob]:
        """Remove the jobs that TOPO-AWARE tries from the two queues: new jobs first."""
        limit = self._gate_gpus()
        tried = [job for job in self._new if job.source.gpus <= limit]
        self._new = [job for job in self._new if job.source.gpus > limit]
        for machine in self._cluster.values():
            free = len(machine.free)
            tried += [job for job in self._waiting if job.source.gpus <= free]
            self._waiting = [job for job in self._waiting if job.source.gpus > free]
        return tried

    def _gate_gpus(self) -> int:
        free = [len(machine.free) for machine in self._cluster.values()]
        return free[0] if self._gate else max(free)

    def _start(self, job: ReleasedCaffeJob) -> None:
        machine = self._cluster[job.machine]
        job.start = self._now
        machine.running[job.source.id] = job
        machine.taken.update(job.gpus)

    def _update(self, number: int, machine: ReleasedMachine, job: ReleasedCaffeJob) -> None:
        """Compute the execution time of a job again, and end the job if the time has passed."""
        job.seconds = execution_seconds(job, machine.running.values(), self._profiles)
        if job.seconds <= self._now - job.start:
            del machine.running[job.source.id]
            machine.taken.difference_update(job.gpus)
            self.finished[job.source.id] = FinishedCaffeJob(
                job.source,
                number,
                mask_of(GpuIndex(gpu) for gpu in job.gpus),
                job.start,
                self._now,
                self._profiles.alone[job.kind, Sockets.ONE],
                *job.utilities,
            )


def _in_table_order(machine: ReleasedMachine) -> list[ReleasedCaffeJob]:
    """Return the running jobs by the last three bits of their IDs, as in a hash table."""
    return sorted(machine.running.values(), key=lambda job: (job.source.id & 7, job.source.id))
