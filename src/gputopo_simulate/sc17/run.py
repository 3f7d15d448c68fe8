"""Simulate a list of jobs on machines, event by event, without randomness."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from gputopo.mapping.model import UtilitySettings
from gputopo.topology.model import GpuMask, NodeTopology
from gputopo.utility.communication import LevelLengths, sockets
from gputopo.utility.interference import beside
from gputopo.utility.utility import UtilityWeights
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.progress import ProgressCallback
from gputopo_simulate.sc17.machines import SimulatedMachines
from gputopo_simulate.sc17.model import (
    CaffeJob,
    FinishedCaffeJob,
    Sc17Result,
    check_jobs,
    unreachable_minimum,
)
from gputopo_simulate.sc17.policies import Judge, MachineChoice, policy_named
from gputopo_simulate.sc17.profiles import CaffeProfiles, JobKind, Sockets, workload_of

Clock = Callable[[], float]
"""Returns a time in seconds, to measure decisions."""


@dataclass(frozen=True, slots=True)
class Sc17Settings:
    """Settings of a run.

    Attributes:
        policy: a name of :data:`.policies.POLICIES`.
        max_wait_seconds: longest time that a job is postponed, from when it first could start.
        min_utility: replaces the minimum of every job; None to keep those of the list.
    """

    policy: str
    machines: int
    max_wait_seconds: float = inf
    min_utility: float | None = None
    weights: UtilityWeights = field(default_factory=UtilityWeights)
    lengths: LevelLengths = field(default_factory=LevelLengths)


def run(
    topology: NodeTopology,
    jobs: Sequence[CaffeJob],
    profiles: CaffeProfiles,
    settings: Sc17Settings,
    progress: ProgressCallback | None = None,
    clock: Clock | None = None,
) -> Sc17Result:
    """Simulate jobs on equal machines. At equal times jobs end, then arrive, then start.

    A job progresses at a speed that depends on its GPUs and on its neighbours of the moment. Its
    slowdown is the product of that of its links and that beside its worst neighbour.

    Args:
        topology: topology of each machine.
        jobs: the jobs, in any order.
        profiles: measured times of all kinds of these jobs.
        settings: how jobs are placed.
        progress: called after each event.
        clock: measures the time of each decision, if given.

    Raises:
        SimulationError: if a job is invalid, does not fit on an idle machine or would be postponed
            forever.
    """
    check_jobs(jobs, profiles)
    for job in jobs:
        if job.gpus > len(topology.gpus):
            raise SimulationError(
                f"job {job.id}: gpus: {job.gpus}; a machine has {len(topology.gpus)}"
            )
    simulation = _Sc17Simulation(topology, profiles, settings, clock)
    finished = simulation.finish(jobs, progress or (lambda _done, _total: None))
    return Sc17Result(
        settings.policy,
        tuple(finished[job.id] for job in jobs),
        tuple(simulation.decision_seconds),
    )


@dataclass(slots=True)
class _RunningJob:
    """A running job.

    Attributes:
        work: seconds of execution at full speed that remain at time ``since``.
        slowdown: current slowdown.
        version: number of changes of the speed; an end of an older version is void.
    """

    job: CaffeJob
    kind: JobKind
    choice: MachineChoice
    start: float
    utilities: tuple[float, float]
    work: float
    since: float
    slowdown: float = 1.0
    version: int = 0


_ROUNDING: Final = 1e-9


class _Sc17Simulation:
    def __init__(
        self,
        topology: NodeTopology,
        profiles: CaffeProfiles,
        settings: Sc17Settings,
        clock: Clock | None,
    ) -> None:
        self._profiles, self._settings, self._clock = profiles, settings, clock
        utility = UtilitySettings(settings.weights, settings.lengths, profiles.slowdowns)
        self._judge = Judge(topology, profiles, utility)
        self._policy = policy_named(settings.policy, self._judge, profiles)
        self._machines = SimulatedMachines(topology, settings.machines)
        self._sockets = sockets(topology)
        self._queue: list[CaffeJob] = []
        self._postponed_since: dict[int, float] = {}
        self._running: list[dict[GpuMask, _RunningJob]] = [{} for _ in range(settings.machines)]
        self._ends: list[tuple[float, int, int]] = []
        self._by_id: dict[int, _RunningJob] = {}
        self._finished: dict[int, FinishedCaffeJob] = {}
        self.decision_seconds: list[float] = []

    def finish(
        self, jobs: Sequence[CaffeJob], progress: ProgressCallback
    ) -> dict[int, FinishedCaffeJob]:
        """Run until all jobs have ended."""
        by_arrival = sorted(jobs, key=lambda job: job.arrival)
        arrived, now = 0, 0.0
        while len(self._finished) < len(jobs):
            coming = by_arrival[arrived].arrival if arrived < len(jobs) else inf
            now = min(coming, self._next_end(), self._next_bound(now))
            if now == inf:
                raise unreachable_minimum(self._queue[0])
            self._end_all(now)
            while arrived < len(jobs) and by_arrival[arrived].arrival <= now:
                self._queue.append(by_arrival[arrived])
                arrived += 1
            self._start_all(now)
            progress(len(self._finished), len(jobs))
        return self._finished

    def _next_end(self) -> float:
        while self._ends and self._is_void(self._ends[0]):
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else inf

    def _is_void(self, end: tuple[float, int, int]) -> bool:
        _, job, version = end
        return job not in self._by_id or self._by_id[job].version != version

    def _next_bound(self, now: float) -> float:
        """Return when the next postponed job may no longer wait, after ``now``.

        A job whose bound has passed is tried again when a job ends, because it fits nowhere.
        """
        longest = self._settings.max_wait_seconds
        bounds = (since + longest for since in self._postponed_since.values())
        return min((bound for bound in bounds if bound > now), default=inf)

    def _end_all(self, now: float) -> None:
        while self._next_end() <= now:
            end, number, _ = heapq.heappop(self._ends)
            ended = self._by_id.pop(number)
            machine = ended.choice.machine
            self._machines.end(machine, ended.choice.gpus)
            del self._running[machine][ended.choice.gpus]
            self._update_speeds(machine, end)
            self._finished[number] = FinishedCaffeJob(
                ended.job,
                machine,
                ended.choice.gpus,
                ended.start,
                end,
                self._profiles.ideal(ended.kind),
                *ended.utilities,
            )

    def _start_all(self, now: float) -> None:
        """Try all waiting jobs, the oldest first."""
        waiting: list[CaffeJob] = []
        most_free = self._machines.most_free()
        for position, job in enumerate(self._queue):
            if job.gpus <= most_free and self._start(job, now):
                most_free = self._machines.most_free()
                continue
            waiting.append(job)
            if not self._policy.overtakes or not most_free:
                waiting += self._queue[position + 1 :]
                break
        self._queue = waiting

    def _start(self, job: CaffeJob, now: float) -> bool:
        """Start a job that fits, or postpone it; return whether it has started."""
        kind = JobKind(job.net, job.batch, job.gpus)
        began = self._clock() if self._clock else 0.0
        choice = self._policy.choose(kind, self._machines)
        if self._clock:
            self.decision_seconds.append(self._clock() - began)
        state = self._machines.state(choice.machine)
        mapping = self._judge.judged(state, kind, choice.gpus)
        if self._policy.postpones and self._is_too_low(job, mapping.job_utility):
            since = self._postponed_since.setdefault(job.id, now)
            if now < since + self._settings.max_wait_seconds:
                return False
        self._postponed_since.pop(job.id, None)
        utilities = (mapping.job_utility, mapping.utility)
        work = self._profiles.ideal(kind)
        started = _RunningJob(job, kind, choice, now, utilities, work, now)
        self._by_id[job.id] = self._running[choice.machine][choice.gpus] = started
        self._machines.start(choice.machine, choice.gpus, workload_of(kind))
        self._update_speeds(choice.machine, now)
        return True

    def _is_too_low(self, job: CaffeJob, utility: float) -> bool:
        least = self._settings.min_utility
        return utility < (job.min_utility if least is None else least) - _ROUNDING

    def _update_speeds(self, machine: int, now: float) -> None:
        """Compute the slowdown and the end of all jobs of a machine again."""
        for running in self._running[machine].values():
            slowdown = self._slowdown(machine, running)
            running.work = max(0.0, running.work - (now - running.since) / running.slowdown)
            if running.version and slowdown == running.slowdown:
                running.since = now
                continue
            running.since, running.slowdown = now, slowdown
            running.version += 1
            end = now + running.work * slowdown
            heapq.heappush(self._ends, (end, running.job.id, running.version))

    def _slowdown(self, machine: int, running: _RunningJob) -> float:
        gpus = running.choice.gpus
        used = sum(1 for socket in self._sockets if socket & gpus)
        links = self._profiles.link_slowdown(
            running.kind, Sockets.ONE if used == 1 else Sockets.SEVERAL
        )
        others = self._machines.state(machine).node(self._machines.topology).neighbours
        near = beside(gpus, (each for each in others if each.gpus != gpus), self._sockets)
        own, table = workload_of(running.kind), self._profiles.slowdowns
        return links * table.together([table.slowdown(own, other).value for other in near])
