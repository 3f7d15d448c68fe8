"""GPUProfiles whose facts are known before the soak begins. Pure."""

from datetime import UTC, datetime, timedelta

from gputopo.api.names import API_VERSION
from gputopo.api.profile import GPUProfileSpec, GPUProfileStatus, Sample
from gputopo.profiles.update import updated_status
from gputopo.runtime.times import timestamp
from soaktest.client import Object

_LIMITS = (50, 100, 150, 200, 400, 800, 1600, 2000)
_RUNS = 3
_FULL_SPEED = 10_000_000
_TIME = datetime(2026, 1, 1, tzinfo=UTC)


def profile(name: str) -> Object:
    """Return a GPUProfile without a status."""
    return {"apiVersion": API_VERSION, "kind": "GPUProfile", "metadata": {"name": name}}


def status(name: str, enough: int, generation: int) -> Object:
    """Return the status of a workload with 10 steps per second at ``enough`` CPUs or more.

    Below, its speed is in proportion to its CPUs. The operator computes equal facts from the
    samples, so it leaves the status unchanged.
    """
    samples = [
        _sample(len(_LIMITS) * run + number, gpus, limit, enough)
        for gpus in (1, 2)
        for run in range(_RUNS)
        for number, limit in enumerate(_LIMITS)
    ]
    made = updated_status(
        GPUProfileStatus(),
        GPUProfileSpec(),
        samples,
        name=name,
        generation=generation,
        now=timestamp(datetime.now(UTC)),
    )
    return made.to_json()


def _sample(number: int, gpus: int, limit: int, enough: int) -> Sample:
    return Sample(
        pod_uid=f"00000000-0000-0000-{gpus:04d}-{number:012d}",
        container="main",
        time=timestamp(_TIME + timedelta(minutes=number)),
        seconds=600,
        source="SDK",
        micro_steps_per_second=_FULL_SPEED * min(limit, enough) // enough,
        ci_permille=5,
        gpu_model="simulated",
        gpus=gpus,
        milli_cpu=limit,
    )
