"""Where the program puts a job, and whom it cuts to make room (its ``cluster.py``)."""

from collections.abc import Iterator

from gputopo_simulate.synergy.model import SynergyError
from gputopo_simulate.synergy.released.state import Job, PerGpu, Servers


def place_share(servers: Servers, job: Job) -> bool:
    """Give a job its proportional share; whether there was room."""
    return _place(servers, job, servers.share, speed=1.0)


def place_greedily(servers: Servers, job: Job) -> bool:
    """Give a job its demand; whether there was room."""
    return _place(servers, job, job.demand, job.speed)


def place_tuned(servers: Servers, job: Job) -> bool:
    """Give a job its demand, else its share, else its share at the cost of others.

    Raises:
        SynergyError: it still does not fit, which ends the program: the share of a job that
            is cut may be more than it had of something.
    """
    if _place(servers, job, job.demand, job.speed):
        return True
    per_gpu = _cut(servers, job)
    if _place(servers, job, per_gpu, job.speed):
        return True
    for number, gpus in _with_room(servers, job.source.gpus):
        for victim in _victims(servers, number, gpus, per_gpu):
            _cut_placed(servers, victim)
    if _place(servers, job, per_gpu, job.speed):
        return True
    raise _given_up(job)


def _place(servers: Servers, job: Job, per_gpu: PerGpu, speed: float) -> bool:
    """Take GPUs one by one, each with its part of the demand, from the first server on."""
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
    servers.hold(job, parts, per_gpu)
    servers.running.append(job)
    for number in parts:
        servers.placed[number].append(job)
    job.run(speed)
    return True


def _fitting(servers: Servers, number: int, per_gpu: PerGpu, most: int) -> int:
    """Return with how many GPUs, ``most`` at most, what goes with them fits on a server."""
    cpus, memory_gb = servers.cpus[number], servers.memory_gb[number]
    while most and (most * per_gpu.cpus > cpus or most * per_gpu.memory_gb > memory_gb):
        most -= 1
    return most


def _cut(servers: Servers, job: Job) -> PerGpu:
    """Return the share of a job that would have more of anything, with its speed set to that."""
    share = servers.share
    if job.demand.cpus <= share.cpus and job.demand.memory_gb <= share.memory_gb:
        return job.demand
    job.speed = 1.0
    return share


def _with_room(servers: Servers, gpus: int) -> Iterator[tuple[int, int]]:
    """Yield servers and how many of the GPUs each would have.

    Several GPUs all on the first server that has so many, else, as a single one, on those with
    the fewest free.
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


def _victims(servers: Servers, number: int, gpus: int, per_gpu: PerGpu) -> list[Job]:
    """Return who is to be cut on a server so that GPUs fit with what goes with them.

    Those on the fewest servers first, then with the most CPUs per GPU, then memory. Whoever
    comes before the last that is needed is cut too, even one with nothing above its share.
    """
    cpus = gpus * per_gpu.cpus - servers.cpus[number]
    memory_gb = gpus * per_gpu.memory_gb - servers.memory_gb[number]
    servers.placed[number].sort(key=_by_excess)
    victims: list[Job] = []
    for job in servers.placed[number]:
        if cpus <= 0 and memory_gb <= 0:
            break
        held = job.parts[number]
        cpus -= max(0.0, held * (job.per_gpu.cpus - servers.share.cpus))
        memory_gb -= max(0.0, held * (job.per_gpu.memory_gb - servers.share.memory_gb))
        victims.append(job)
    return victims


def _by_excess(job: Job) -> tuple[int, float, float]:
    return len(job.parts), -job.per_gpu.cpus, -job.per_gpu.memory_gb


def _cut_placed(servers: Servers, job: Job) -> None:
    """Give a job that is placed its share there instead, and the round again at speed 1."""
    parts = servers.release(job)
    job.take_back()
    servers.hold(job, parts, _cut(servers, job))
    if any(servers.cpus[number] < 0 or servers.memory_gb[number] < 0 for number in parts):
        raise _given_up(job)
    job.run(speed=1.0)


def _given_up(job: Job) -> SynergyError:
    return SynergyError(
        f"job {job.source.id}: gpus: {job.source.gpus} with their share do not fit beside the"
        " others, where the authors' program gives up"
    )
