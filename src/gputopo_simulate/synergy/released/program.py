"""Run the authors' simulator, round by round."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from gputopo_simulate.errors import SimulationError
from gputopo_simulate.progress import ProgressCallback
from gputopo_simulate.synergy.measured import MeasuredProfile
from gputopo_simulate.synergy.model import (
    ROUND_SECONDS,
    SECONDS_PER_HOUR,
    FinishedTrainingJob,
    SimulatedCluster,
    TrainingJob,
    check_jobs,
    first_round_seconds,
    next_round_seconds,
)
from gputopo_simulate.synergy.released.placing import place_greedily, place_share, place_tuned
from gputopo_simulate.synergy.released.state import ReleasedJob, ReleasedServers, ResourcesPerGpu

_GPU_COUNTS: Final = (1, 2, 4, 8, 16)
_STARVED_AFTER_SECONDS: Final = 1000 * SECONDS_PER_HOUR

_PlaceFunction: TypeAlias = Callable[[ReleasedServers, ReleasedJob], bool]
_SortKey: TypeAlias = Callable[[ReleasedJob, float, bool], tuple[float, ...]]

MECHANISMS: Final[Mapping[str, _PlaceFunction]] = MappingProxyType(
    {"proportional": place_share, "greedy": place_greedily, "tune": place_tuned}
)


def run_as_released(
    cluster: SimulatedCluster,
    jobs: Sequence[TrainingJob],
    order: str,
    mechanism: str,
    progress: ProgressCallback | None = None,
) -> tuple[FinishedTrainingJob, ...]:
    """Return all jobs in the order in which they finish, as in the authors' program.

    The authors' program stops when no job is active or the monitored jobs have finished. This
    function runs all jobs. The program supports 3, 4 and 6 CPUs per GPU, and jobs of 1, 2, 4, 8 or
    16 GPUs. ``order`` is a key of :data:`ORDERS`, ``mechanism`` a key of :data:`MECHANISMS`.

    Raises:
        SimulationError: the program has no profile for a job or the cluster, or would fail.
    """
    check_jobs(jobs, cluster)
    by_arrival = sorted(
        (_released_job(job, cluster) for job in jobs), key=lambda job: job.source.arrival_seconds
    )
    finished: list[FinishedTrainingJob] = []
    for ended in _rounds(cluster, by_arrival, ORDERS[order], MECHANISMS[mechanism]):
        finished += ended
        if progress is not None:
            progress(len(finished), len(jobs))
    return tuple(finished)


def _rounds(
    cluster: SimulatedCluster,
    by_arrival: Sequence[ReleasedJob],
    key: _SortKey,
    place: _PlaceFunction,
) -> Iterator[list[FinishedTrainingJob]]:
    servers = ReleasedServers.idle(cluster)
    queue: list[ReleasedJob] = []
    now = first_round_seconds([job.source.arrival_seconds for job in by_arrival])
    arrived = 0
    while arrived < len(by_arrival) or queue:
        if not queue:
            now = max(now, next_round_seconds(now, by_arrival[arrived].source.arrival_seconds))
        while arrived < len(by_arrival) and by_arrival[arrived].source.arrival_seconds <= now:
            queue.append(by_arrival[arrived])
            arrived += 1
        by_share = place is place_share
        queue.sort(key=lambda job: key(job, now, by_share))
        _prepare_round(servers, queue, now)
        servers = ReleasedServers.idle(cluster)
        _place_all(servers, queue, place, choose_first=key is _las)
        now += ROUND_SECONDS
        yield _end_round(servers, queue, now)


def _prepare_round(last: ReleasedServers, queue: Sequence[ReleasedJob], now: float) -> None:
    """Undo the last round's speed reductions. Mark starved jobs, which come first in the queue."""
    for job in last.running:
        job.speed = job.profiled_speed
    if now > _STARVED_AFTER_SECONDS:
        for job in queue:
            job.starved = job.starved or now - job.last_ran_seconds > _STARVED_AFTER_SECONDS


def _place_all(
    servers: ReleasedServers,
    queue: Sequence[ReleasedJob],
    place: _PlaceFunction,
    *,
    choose_first: bool,
) -> None:
    jobs = _chosen_by_gpus(servers, queue, place) if choose_first else queue
    free = sum(servers.gpus)
    for job in jobs:
        if not free:
            break
        if job.source.gpus <= free and place(servers, job):
            free -= job.source.gpus


def _chosen_by_gpus(
    servers: ReleasedServers, queue: Sequence[ReleasedJob], place: _PlaceFunction
) -> list[ReleasedJob]:
    """Return the first jobs of the queue whose GPUs fit, without regard to CPUs and memory."""
    free = sum(servers.gpus)
    chosen = []
    for job in queue:
        if job.source.gpus <= free:
            chosen.append(job)
            free -= job.source.gpus
    return sorted(chosen, key=lambda job: -job.source.gpus) if place is place_tuned else chosen


def _end_round(
    servers: ReleasedServers, queue: list[ReleasedJob], now: float
) -> list[FinishedTrainingJob]:
    ended = []
    for job in servers.running:
        job.last_ran_seconds = now
        job.parts = {}
        if job.is_done:
            ended.append(job)
            queue.remove(job)
    return [FinishedTrainingJob(job.source.id, job.source.arrival_seconds, now) for job in ended]


def _fifo(job: ReleasedJob, now: float, by_share: bool) -> tuple[float, ...]:  # noqa: ARG001, FBT001 - one signature
    return (job.source.arrival_seconds,)


def _srtf(job: ReleasedJob, now: float, by_share: bool) -> tuple[float, ...]:  # noqa: ARG001, FBT001
    remaining = job.remaining_seconds(by_share=by_share)
    return -job.starved, remaining, job.source.arrival_seconds


def _las(job: ReleasedJob, now: float, by_share: bool) -> tuple[float, ...]:  # noqa: ARG001, FBT001
    attained = job.attained_seconds * job.source.gpus
    return -job.starved, attained, job.source.arrival_seconds


def _ftf(job: ReleasedJob, now: float, by_share: bool) -> tuple[float, ...]:  # noqa: FBT001
    """Return a sort key: starved jobs first, then jobs with the lowest finish-time fairness.

    Finish-time fairness is the completion time, with waiting, divided by the run time alone. In
    Themis, from which the authors took this ratio, jobs with the highest ratio come first.
    """
    total = now - job.source.arrival_seconds + job.remaining_seconds(by_share=by_share)
    fairness = total / (job.step_seconds * job.source.iterations)
    return -job.starved, fairness, job.source.arrival_seconds


ORDERS: Final[Mapping[str, _SortKey]] = MappingProxyType(
    {"fifo": _fifo, "srtf": _srtf, "las": _las, "ftf": _ftf}
)


def _released_job(job: TrainingJob, cluster: SimulatedCluster) -> ReleasedJob:
    if job.gpus not in _GPU_COUNTS:
        raise SimulationError(f"job {job.id}: gpus: {job.gpus} is not one of 1, 2, 4, 8, 16")
    profile = _profile(job, cluster)
    demand, speed = _demand(job, profile, cluster)
    return ReleasedJob(job, demand, speed, profile.step_seconds, speed, demand, job.arrival_seconds)


def _profile(job: TrainingJob, cluster: SimulatedCluster) -> MeasuredProfile:
    """Return the job's one-GPU profile, which the authors' program uses for any number of GPUs."""
    singles = {each.cpus_per_gpu: each for each in job.model.profiles if each.gpus == 1}
    if cluster.cpus_per_gpu not in singles:
        raise SimulationError(
            f"job {job.id}: model: {job.model.name} has no profile for"
            f" {cluster.cpus_per_gpu:g} CPUs per GPU, only for"
            f" {', '.join(f'{ratio:g}' for ratio in sorted(singles))}"
        )
    return singles[cluster.cpus_per_gpu]


def _demand(
    job: TrainingJob, profile: MeasuredProfile, cluster: SimulatedCluster
) -> tuple[ResourcesPerGpu, float]:
    """Return a job's demand per GPU, and its speed relative to the proportional share.

    If the job's GPUs fit on one server, the demand is at most the CPUs and memory of this server.
    If this limit reduces the demand, the speed is interpolated by CPUs between the proportional
    share (1) and the full demand. If the job needs several servers, its speed is 1. Its demand for
    CPUs is then the proportional share if the whole job would need more CPUs than one server has.
    The demand for memory follows the same rule.
    """
    wanted = ResourcesPerGpu(profile.best_cpus_per_gpu, profile.best_memory_gb_per_gpu)
    limit = ResourcesPerGpu(cluster.cpus / job.gpus, cluster.memory_gb / job.gpus)
    share = ResourcesPerGpu(cluster.cpus_per_gpu, cluster.memory_gb_per_gpu)
    if job.gpus > cluster.gpus:
        return ResourcesPerGpu(
            wanted.cpus if wanted.cpus <= limit.cpus else share.cpus,
            wanted.memory_gb if wanted.memory_gb <= limit.memory_gb else share.memory_gb,
        ), 1.0
    demand = ResourcesPerGpu(min(wanted.cpus, limit.cpus), min(wanted.memory_gb, limit.memory_gb))
    if demand == wanted:
        return wanted, profile.speed_up
    if wanted.cpus == share.cpus:
        raise SimulationError(
            f"job {job.id}: model: {job.model.name} needs {wanted.memory_gb:g} GB per GPU, more"
            " than a server has; the authors' program cannot compute its speed with less"
        )
    slope = (profile.speed_up - 1) / (wanted.cpus - share.cpus)
    return demand, 1 + slope * (demand.cpus - share.cpus)
