"""Where the program puts a job, and whom it cuts to make room (its ``cluster.py``)."""

from collections.abc import Iterator

from gputopo.simulate.synergy.model import SynergyError
from gputopo.simulate.synergy.released.state import Job, Servers, Vector


def place_share(servers: Servers, job: Job) -> bool:
    """Give a job its proportional share; whether there was room."""
    return _place(servers, job, servers.share.times(job.source.gpus), speed=1.0)


def place_greedily(servers: Servers, job: Job) -> bool:
    """Give a job its demand; whether there was room."""
    return _place(servers, job, job.demand, job.speed)


def place_tuned(servers: Servers, job: Job) -> bool:
    """Give a job its demand, else its share, else its share at the cost of others.

    Raises:
        SynergyError: it still does not fit, which ends the program.
    """
    if _place(servers, job, job.demand, job.speed):
        return True
    demand = _cut(servers, job)
    if _place(servers, job, demand, job.speed):
        return True
    for number, gpus in _with_room(servers, job.source.gpus):
        for victim in _victims(servers, number, demand.times(gpus / job.source.gpus)):
            _cut_placed(servers, victim)
    if _place(servers, job, demand, job.speed):
        return True
    raise SynergyError(
        f"job {job.source.id}: gpus: {job.source.gpus} do not fit beside the others even with"
        " their shares, where the authors' program gives up"
    )


def _place(servers: Servers, job: Job, demand: Vector, speed: float) -> bool:
    """Take GPUs one by one, each with its part of the demand, from the first server on."""
    per_gpu = demand.times(1 / job.source.gpus)
    missing = job.source.gpus
    parts: dict[int, Vector] = {}
    for number, free in enumerate(servers.free):
        taken = _fitting(per_gpu, free, missing)
        if taken:
            parts[number] = per_gpu.times(taken)
            missing -= taken
        if not missing:
            break
    else:
        return False
    servers.hold(job, parts)
    for number in parts:
        servers.placed[number].append(job)
    job.run(speed)
    return True


def _fitting(per_gpu: Vector, free: Vector, most: int) -> int:
    """Return how many GPUs with their parts fit into what is free, ``most`` at most."""
    if not per_gpu.within(free):
        return 0
    taken = 1
    while taken < most and per_gpu.times(taken + 1).within(free):
        taken += 1
    return taken


def _cut(servers: Servers, job: Job) -> Vector:
    """Return the share of a job that would have more of anything, with its speed set to that."""
    share = servers.share.times(job.source.gpus)
    if job.demand.within(share):
        return job.demand
    job.speed = 1.0
    return share


def _with_room(servers: Servers, gpus: int) -> Iterator[tuple[int, float]]:
    """Yield servers and how many of the GPUs each would have.

    Of several GPUs all on the first server that has so many, else from those with the fewest
    free on; a single one likewise.
    """
    numbers = range(len(servers.free))
    if gpus > 1:
        first = next((each for each in numbers if servers.free[each].gpus >= gpus), None)
        if first is not None:
            yield first, gpus
            return
    missing: float = gpus
    found = [(servers.free[each].gpus, each) for each in numbers if servers.free[each].gpus]
    for free, number in sorted(found):
        if missing > 0:
            yield number, min(free, missing)
        missing -= free


def _victims(servers: Servers, number: int, wanted: Vector) -> list[Job]:
    """Return who is to be cut on a server so that ``wanted`` fits.

    Those on the fewest servers first, then with the most CPUs per GPU, then memory. Whoever
    comes before the last that is needed is cut too, even one with nothing above its share.
    """
    need = wanted.beyond(servers.free[number])
    if not any(need):
        return []
    servers.placed[number].sort(key=_by_excess)
    victims = []
    for job in servers.placed[number]:
        gpus = job.parts[number].gpus
        held = job.held
        excess = held.times(gpus / held.gpus).beyond(servers.share.times(gpus))
        need = need.beyond(excess)
        victims.append(job)
        if not any(need):
            break
    return victims


def _by_excess(job: Job) -> tuple[int, float, float]:
    held = job.held
    return len(job.parts), -held.cpus / held.gpus, -held.memory_gb / held.gpus


def _cut_placed(servers: Servers, job: Job) -> None:
    """Give a job that is placed its share there instead, and the round again at speed 1."""
    gpus = {number: part.gpus for number, part in job.parts.items()}
    servers.release(job)
    job.take_back()
    per_gpu = _cut(servers, job).times(1 / job.source.gpus)
    servers.hold(job, {number: per_gpu.times(count) for number, count in gpus.items()})
    job.run(speed=1.0)
