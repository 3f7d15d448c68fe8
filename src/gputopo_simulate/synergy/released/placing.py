"""Place a job, and reduce other jobs to make space, as ``cluster.py`` of Synergy's authors does."""

from collections.abc import Iterator

from gputopo_simulate.errors import SimulationError
from gputopo_simulate.synergy.released.state import ReleasedJob, ReleasedServers, ResourcesPerGpu


def place_share(servers: ReleasedServers, job: ReleasedJob) -> bool:
    """Place a job with its proportional share of CPUs and memory; return whether the job fits."""
    return _place(servers, job, servers.share, speed=1.0)


def place_greedily(servers: ReleasedServers, job: ReleasedJob) -> bool:
    """Place a job with its demand of CPUs and memory; return whether the job fits."""
    return _place(servers, job, job.demand, job.speed)


def place_tuned(servers: ReleasedServers, job: ReleasedJob) -> bool:
    """Place a job with its demand or, if the demand does not fit, with its proportional share.

    If the share does not fit either, first reduce other jobs to their own proportional shares.

    Raises:
        SimulationError: the job does not fit even then, as in the authors' program. For instance, a
            reduced job can use more memory: 9 CPUs and 20 GB become 3 CPUs and 62.5 GB.
    """
    if _place(servers, job, job.demand, job.speed):
        return True
    per_gpu = _reduced(servers, job)
    if _place(servers, job, per_gpu, job.speed):
        return True
    for number, gpus in _target_servers(servers, job.source.gpus):
        for other in _jobs_to_reduce(servers, number, gpus, per_gpu):
            _reduce_placed(servers, other)
    if _place(servers, job, per_gpu, job.speed):
        return True
    raise _does_not_fit(job)


def _place(
    servers: ReleasedServers, job: ReleasedJob, per_gpu: ResourcesPerGpu, speed: float
) -> bool:
    """Place a job by first fit, GPU by GPU. Return whether all GPUs fit."""
    missing = job.source.gpus
    parts: dict[int, int] = {}
    for number, gpus in enumerate(servers.gpus):
        if gpus and (taken := _fitting(servers, number, per_gpu, min(gpus, missing))):
            parts[number] = taken
            missing -= taken
            if not missing:
                break
    else:
        return False
    servers.assign(job, parts, per_gpu)
    servers.running.append(job)
    for number in parts:
        servers.placed[number].append(job)
    job.run_round(speed)
    return True


def _fitting(servers: ReleasedServers, number: int, per_gpu: ResourcesPerGpu, max_gpus: int) -> int:
    """Return for how many GPUs a server has enough free CPUs and memory, at most ``max_gpus``."""
    cpus, memory_gb = servers.cpus[number], servers.memory_gb[number]
    gpus = max_gpus
    while gpus and (gpus * per_gpu.cpus > cpus or gpus * per_gpu.memory_gb > memory_gb):
        gpus -= 1
    return gpus


def _reduced(servers: ReleasedServers, job: ReleasedJob) -> ResourcesPerGpu:
    """Return the demand if the share is enough for it; otherwise set speed 1, return the share."""
    share = servers.share
    if job.demand.cpus <= share.cpus and job.demand.memory_gb <= share.memory_gb:
        return job.demand
    job.speed = 1.0
    return share


def _target_servers(servers: ReleasedServers, gpus: int) -> Iterator[tuple[int, int]]:
    """Yield the servers for a job, each with the number of GPUs that the job would get there.

    A job of several GPUs gets the first server with enough free GPUs. Without such a server, and
    for a job of one GPU, the servers with the fewest free GPUs come first.
    """
    if gpus > 1:
        for number, free in enumerate(servers.gpus):
            if free >= gpus:
                yield number, gpus
                return
    for free, number in sorted((free, number) for number, free in enumerate(servers.gpus) if free):
        if gpus > 0:
            yield number, min(free, gpus)
        gpus -= free


def _jobs_to_reduce(
    servers: ReleasedServers, number: int, gpus: int, per_gpu: ResourcesPerGpu
) -> list[ReleasedJob]:
    """Return the jobs to reduce on a server to free CPUs and memory for ``gpus`` GPUs.

    Jobs are tried in this order: first those on the fewest servers, then those with the most CPUs
    per GPU, then those with the most memory per GPU. The result has all jobs that were tried, also
    those whose reduction frees nothing.
    """
    cpus = gpus * per_gpu.cpus - servers.cpus[number]
    memory_gb = gpus * per_gpu.memory_gb - servers.memory_gb[number]
    servers.placed[number].sort(key=_by_excess)
    chosen: list[ReleasedJob] = []
    for job in servers.placed[number]:
        if cpus <= 0 and memory_gb <= 0:
            break
        held = job.parts[number]
        cpus -= max(0.0, held * (job.held.cpus - servers.share.cpus))
        memory_gb -= max(0.0, held * (job.held.memory_gb - servers.share.memory_gb))
        chosen.append(job)
    return chosen


def _by_excess(job: ReleasedJob) -> tuple[int, float, float]:
    return len(job.parts), -job.held.cpus, -job.held.memory_gb


def _reduce_placed(servers: ReleasedServers, job: ReleasedJob) -> None:
    """Reduce a placed job to its proportional share on the same GPUs.

    The steps of the job in the current round are computed again with speed 1, that of the share.
    """
    parts = servers.release(job)
    job.undo_round()
    servers.assign(job, parts, _reduced(servers, job))
    if any(servers.cpus[number] < 0 or servers.memory_gb[number] < 0 for number in parts):
        raise _does_not_fit(job)
    job.run_round(speed=1.0)


def _does_not_fit(job: ReleasedJob) -> SimulationError:
    return SimulationError(
        f"job {job.source.id}: gpus: {job.source.gpus}; its share does not fit beside the"
        " other jobs; the authors' program fails here"
    )
