"""Rates of jobs while their amounts do not change."""

import time
from collections.abc import Iterable, Mapping

from learntest.bench import Bench
from resizetest import jobs
from resizetest.recorder import Recorder
from showcase.kubectl import wait_for
from soaktest.client import RejectedError, UnavailableError

PORT = 9090
"""Where the training jobs serve their number of steps."""

QUIET_SECONDS = 75.0
"""The operator changes amounts for more speed at most once in 60 s."""

_LIMIT_SECONDS = 600.0


def steady_rates(
    bench: Bench, recorder: Recorder, names: Iterable[str], seconds: float = QUIET_SECONDS
) -> dict[str, float]:
    """Return the steps per second of jobs over a time in which no amounts changed.

    Raises:
        TimeoutError: amounts do not stop changing.
    """
    chosen, deadline = list(names), time.monotonic() + _LIMIT_SECONDS
    while time.monotonic() < deadline:
        wait_for("the resizes end", lambda: all_applied(bench, recorder), timeout_s=_LIMIT_SECONDS)
        before, began = _steps(bench, chosen), recorder.seconds
        while recorder.seconds < began + seconds and not _changed(bench, recorder, began):
            time.sleep(1)
        if not _changed(bench, recorder, began):
            return _rates(before, _steps(bench, chosen))
    raise TimeoutError(f"not within {_LIMIT_SECONDS:g} s: amounts stop changing")


def all_applied(bench: Bench, recorder: Recorder) -> bool:
    """Return whether kubelet has applied all amounts of the experiment's pods."""
    pods = recorder.timeline.moments[-1].of(bench.namespace).values()
    return not any(pod.problem or pod.allocated != pod.requests for pod in pods)


def describe(bench: Bench, rates: Mapping[str, float]) -> str:
    """Return rates and limits in one line."""
    limits = {name: jobs.limits_of(bench, name).milli_cpu for name in rates}
    return "; ".join(f"{name} {rate:.2f}/s at {limits[name]}m" for name, rate in rates.items())


def _changed(bench: Bench, recorder: Recorder, since: float) -> bool:
    return recorder.timeline.last_change(bench.namespace) > since


def _steps(bench: Bench, names: Iterable[str]) -> dict[str, tuple[float, int]]:
    """Return the time and the number of steps of each job; wait until it makes steps."""
    found = {}
    for name in names:
        steps = wait_for(f"{name} makes steps", lambda: _steps_of(bench, name))  # noqa: B023 - called at once
        found[name] = (time.monotonic(), steps)
    return found


def _steps_of(bench: Bench, name: str) -> int | None:
    """Return the steps of a job, None if its pod does not respond yet."""
    pod = bench.pod_of(name)
    try:
        return None if pod is None else bench.steps_of(pod["metadata"]["name"], PORT)
    except (UnavailableError, RejectedError):
        return None


def _rates(
    before: Mapping[str, tuple[float, int]], after: Mapping[str, tuple[float, int]]
) -> dict[str, float]:
    return {
        name: (after[name][1] - steps) / (after[name][0] - began)
        for name, (began, steps) in before.items()
    }
