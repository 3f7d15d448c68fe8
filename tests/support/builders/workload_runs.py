"""Samples of a workload, for tests of profiles."""

from datetime import UTC, datetime, timedelta
from math import exp
from typing import Any

from gputopo.api.profile import Sample

_START = datetime(2026, 1, 1, tzinfo=UTC)

BEST_MB_PER_S = 48_000
WORST_MB_PER_S = 10_000


def sample(run: str = "run-0", minute: int = 0, log_time: float = 0.0, **fields: Any) -> Sample:
    """Return a sample with ``exp(log_time)`` seconds per step, by default on the best links.

    ``minute`` counts from the start of 2026.
    """
    time = _START + timedelta(minutes=minute)
    document = {
        "pod_uid": run,
        "container": "main",
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": 60,
        "source": "SDK",
        "micro_steps_per_second": round(1e6 * exp(-log_time)),
        "ci_permille": 2,
        "gpu_model": "V100",
        "gpus": 2,
        "image_digest": "sha256:1",
        "model": "eq2",
        "effective_mb_per_s": BEST_MB_PER_S,
        "best_mb_per_s": BEST_MB_PER_S,
        "worst_mb_per_s": WORST_MB_PER_S,
        "milli_cpu": 8000,
    }
    return Sample.model_validate(document | fields)


def run_of(run: str, log_times: list[float], *, start: int = 0, **fields: Any) -> list[Sample]:
    """Return the samples of one run, one minute apart, from the minute ``start`` on."""
    return [
        sample(run, start + number, log_time, **fields) for number, log_time in enumerate(log_times)
    ]
