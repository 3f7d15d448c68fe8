"""Writes the messages about the short runs that measure links: their rates and their duration."""

from datetime import datetime
from typing import Final

from gputopo.api.link_runs import LinkRunResult, LinksResult, RunResult
from gputopo.runtime.times import seconds_since

_FAILURES: Final[dict[RunResult, str]] = {
    "Measured": "",
    "NotPlaced": "no GPUs were idle; the job started without measuring",
    "NoContrast": "the links of all GPU sets of the node have about the same bandwidth",
    "TimeLimit": "spec.profiling.maxSeconds was reached before both runs had a sample",
    "Ended": "the program ended before the agent had taken a sample; see the logs of the run",
    "Stopped": "the job was suspended, or its links became known meanwhile",
}


def failed_result(run: LinkRunResult | None) -> LinksResult:
    """Return the final result after a failed run. ``run`` is None if its Job ended too early."""
    result: RunResult = "Ended" if run is None else run.result
    return LinksResult(result=result, message=_FAILURES[result])


def measured_result(started: str, best: LinkRunResult, worst: LinkRunResult) -> LinksResult:
    """Return the result of two measured runs: the slowdown on the worst links, and the duration."""
    high, low = best.micro_steps_per_second or 1, worst.micro_steps_per_second or 1
    seconds = seconds_since(started, datetime.fromisoformat(worst.time))
    message = (
        f"{_described(best)}, {_described(worst)}: the worst links make the job "
        f"{round(100 * (high / low - 1))} % slower; it waited {seconds} s for both runs on node "
        f"{worst.node}"
    )
    return LinksResult(result="Done", message=message)


def _described(run: LinkRunResult) -> str:
    """Return the rate and the bandwidth of a run as text.

    >>> from gputopo.api.link_runs import LinkRunResult
    >>> _described(LinkRunResult(result="Measured", time="2026-01-01T00:00:00Z", node="n1",
    ...     physical_mb_per_s=48000, micro_steps_per_second=12_000_000))
    '12 steps/s with 48 GB/s'
    """
    rate = (run.micro_steps_per_second or 0) / 1e6
    return f"{rate:.4g} steps/s with {(run.physical_mb_per_s or 0) / 1000:g} GB/s"
