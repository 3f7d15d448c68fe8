"""The authors' simulator, round by round."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from gputopo.sensitivity.models import Profile
from gputopo_simulate.synergy.model import (
    ROUND_S,
    SECONDS_PER_HOUR,
    Cluster,
    FinishedJob,
    Progress,
    SynergyError,
    TrainingJob,
    first_round_s,
    next_round_s,
    require_fitting,
)
from gputopo_simulate.synergy.released.placing import place_greedily, place_share, place_tuned
from gputopo_simulate.synergy.released.state import Job, PerGpu, Servers

_GPU_COUNTS: Final = (1, 2, 4, 8, 16)
_STARVED_AFTER_S: Final = 1000 * SECONDS_PER_HOUR

_Place: TypeAlias = Callable[[Servers, Job], bool]
_Key: TypeAlias = Callable[[Job, float, bool], tuple[float, ...]]

MECHANISMS: Final[Mapping[str, _Place]] = MappingProxyType(
    {"proportional": place_share, "greedy": place_greedily, "tune": place_tuned}
)


def run_as_released(
    cluster: Cluster,
    jobs: Sequence[TrainingJob],
    order: str,
    allocation: str,
    progress: Progress | None = None,
) -> tuple[FinishedJob, ...]:
    """Return what the authors' program makes of ``jobs``.

    Unlike it, this goes on where for a while no job is there, and with the jobs that come
    after the monitored ones.

    Args:
        cluster: all servers; the program has profiles for 3, 4 and 6 CPUs per GPU.
        jobs: with 1, 2, 4, 8 or 16 GPUs.
        order: a key of :data:`ORDERS`.
        allocation: a key of :data:`MECHANISMS`.
        progress: told as jobs end.

    Returns:
        Every job, by the time of its end.

    Raises:
        SynergyError: on a job or a cluster that the program has no figures for, or that
            makes it give up.
    """
    require_fitting(jobs, cluster)
    coming = sorted((_job(job, cluster) for job in jobs), key=lambda job: job.source.arrival_s)
    finished: list[FinishedJob] = []
    for ended in _rounds(cluster, coming, ORDERS[order], MECHANISMS[allocation]):
        finished += ended
        if progress is not None:
            progress(len(finished), len(jobs))
    return tuple(finished)


def _rounds(
    cluster: Cluster, coming: Sequence[Job], key: _Key, place: _Place
) -> Iterator[list[FinishedJob]]:
    """Yield who ends at the end of each round."""
    servers = Servers.idle(cluster)
    queue: list[Job] = []
    now = first_round_s([job.source.arrival_s for job in coming])
    arrived = 0
    while arrived < len(coming) or queue:
        if not queue:
            now = max(now, next_round_s(now, coming[arrived].source.arrival_s))
        while arrived < len(coming) and coming[arrived].source.arrival_s <= now:
            queue.append(coming[arrived])
            arrived += 1
        by_share = place is place_share
        queue.sort(key=lambda job: key(job, now, by_share))
        _mark(servers, queue, now)
        servers = Servers.idle(cluster)
        _schedule(servers, queue, place, fixed_set=key is _las)
        now += ROUND_S
        yield _end_round(servers, queue, now)


def _mark(last: Servers, queue: Sequence[Job], now: float) -> None:
    """Forget who was cut in the last round, and put first, from the next on, who starves."""
    for job in last.running:
        job.speed = job.profiled
    if now > _STARVED_AFTER_S:
        for job in queue:
            job.starved = job.starved or now - job.last_ran_s > _STARVED_AFTER_S


def _schedule(servers: Servers, queue: Sequence[Job], place: _Place, *, fixed_set: bool) -> None:
    walk = _fitting(servers, queue, tuned=place is place_tuned) if fixed_set else queue
    free = sum(servers.gpus)
    for job in walk:
        if not free:
            break
        if job.source.gpus <= free and place(servers, job):
            free -= job.source.gpus


def _fitting(servers: Servers, queue: Sequence[Job], *, tuned: bool) -> list[Job]:
    """Return whose GPUs fit, which the program fixes beforehand in this one order."""
    free = sum(servers.gpus)
    chosen = []
    for job in queue:
        if job.source.gpus <= free:
            chosen.append(job)
            free -= job.source.gpus
    return sorted(chosen, key=lambda job: -job.source.gpus) if tuned else chosen


def _end_round(servers: Servers, queue: list[Job], now: float) -> list[FinishedJob]:
    ended = []
    for job in servers.running:
        job.last_ran_s = now
        job.parts = {}
        if job.is_done:
            ended.append(job)
            queue.remove(job)
    return [FinishedJob(job.source.id, job.source.arrival_s, now) for job in ended]


def _fifo(job: Job, now: float, by_share: bool) -> tuple[float, ...]:  # noqa: ARG001, FBT001 - one of the orders
    return (job.source.arrival_s,)


def _srtf(job: Job, now: float, by_share: bool) -> tuple[float, ...]:  # noqa: ARG001, FBT001
    return -job.starved, job.remaining_s(by_share=by_share), job.source.arrival_s


def _las(job: Job, now: float, by_share: bool) -> tuple[float, ...]:  # noqa: ARG001, FBT001
    return -job.starved, job.attained_s * job.source.gpus, job.source.arrival_s


def _ftf(job: Job, now: float, by_share: bool) -> tuple[float, ...]:  # noqa: FBT001
    """The fairest off comes first: the program sorts by this the other way than Themis."""
    taken = now - job.source.arrival_s + job.remaining_s(by_share=by_share)
    return -job.starved, taken / (job.step_s * job.source.iterations), job.source.arrival_s


ORDERS: Final[Mapping[str, _Key]] = MappingProxyType(
    {"fifo": _fifo, "srtf": _srtf, "las": _las, "ftf": _ftf}
)


def _job(job: TrainingJob, cluster: Cluster) -> Job:
    if job.gpus not in _GPU_COUNTS:
        raise SynergyError(f"job {job.id}: gpus: {job.gpus} is not one of 1, 2, 4, 8, 16")
    profile = _profile(job, cluster)
    demand, speed = _demand(job, profile, cluster)
    return Job(job, demand, speed, profile.step_s, speed, demand, job.arrival_s)


def _profile(job: TrainingJob, cluster: Cluster) -> Profile:
    """Return the profile of one GPU, which the program takes for any number of them."""
    singles = {each.cpus_per_gpu: each for each in job.model.profiles if each.gpus == 1}
    if cluster.cpus_per_gpu not in singles:
        raise SynergyError(
            f"job {job.id}: model: {job.model.name} has no profile for"
            f" {cluster.cpus_per_gpu:g} CPUs per GPU, only for"
            f" {', '.join(f'{ratio:g}' for ratio in sorted(singles))}"
        )
    return singles[cluster.cpus_per_gpu]


def _demand(job: TrainingJob, profile: Profile, cluster: Cluster) -> tuple[PerGpu, float]:
    """Return what a job would have, cut to one server, and how much faster that makes it.

    What is cut is taken from the speed-up along a straight line over CPUs. A job of several
    servers has none, and its share of whatever is more than one server has.
    """
    wanted = PerGpu(profile.best_cpus_per_gpu, profile.best_memory_gb_per_gpu)
    most = PerGpu(cluster.cpus / job.gpus, cluster.memory_gb / job.gpus)
    share = PerGpu(cluster.cpus_per_gpu, cluster.memory_gb_per_gpu)
    if job.gpus > cluster.gpus:
        return PerGpu(
            wanted.cpus if wanted.cpus <= most.cpus else share.cpus,
            wanted.memory_gb if wanted.memory_gb <= most.memory_gb else share.memory_gb,
        ), 1.0
    demand = PerGpu(min(wanted.cpus, most.cpus), min(wanted.memory_gb, most.memory_gb))
    if demand == wanted:
        return wanted, profile.speed_up
    if wanted.cpus == share.cpus:
        raise SynergyError(
            f"job {job.id}: model: {job.model.name} wants {wanted.memory_gb:g} GB per GPU, more"
            " than a server has, and the authors' program cannot tell what less does to it"
        )
    slope = (profile.speed_up - 1) / (wanted.cpus - share.cpus)
    return demand, 1 + slope * (demand.cpus - share.cpus)
