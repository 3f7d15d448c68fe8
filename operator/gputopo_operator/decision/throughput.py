"""Decides which measured throughput the status of a GPUJob shows, and formats it.

The agent updates the rate of a container up to twice a minute, and consecutive rates of a steady
job differ a little. So the status changes only if a new rate clearly differs from the shown rate.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from gputopo.api.profile import Measurement
from gputopo.api.v1alpha1 import GPUJobStatus, JobPlacement, JobThroughput

LEAST_CHANGE: Final = 0.05
"""Smallest relative change of a rate that is shown."""

WIDE_PERMILLE: Final = 20
"""A shown interval wider than this is replaced by an interval of at most half its width."""

_LOWEST_FIXED, _HIGHEST_FIXED = 0.01, 1e5
"""Numbers between these limits, in steps per second, are shown without an exponent."""

_SIGNIFICANT_DIGITS: Final = 4


def job_throughput(
    before: GPUJobStatus, placements: Sequence[JobPlacement], measured: Mapping[str, Measurement]
) -> JobThroughput | None:
    """Return the throughput of the job's pod for the new status, or None if it is unknown.

    If the agents do not report the pod, for example because it has ended, return its throughput in
    the current status.

    Args:
        before: the current status.
        placements: the new value of ``status.placements``, which names the pod.
        measured: maps the UID of each measured pod to the agent's measurement.
    """
    uids = {place.pod_uid for place in placements}
    kept = uids & {place.pod_uid for place in before.placements}
    shown = before.throughput if kept else None
    found = next((each for uid, each in measured.items() if uid in uids), None)
    if found is None or not differs(shown, found):
        return shown
    return _throughput(found, shown)


def differs(shown: JobThroughput | Measurement | None, found: Measurement) -> bool:
    """Return whether a new measurement differs clearly from the shown measurement.

    - It differs if its state or its source has changed, or if only the new measurement has a rate.
    - It differs if the rate has changed by over ``LEAST_CHANGE`` and the intervals do not overlap.
    - It differs if the shown interval is wide and the new interval is at most half as wide.

    For example, 12.0 ±0.4 is shown. 13.0 ±0.4 differs, because the intervals do not overlap.
    12.1 ±0.2 differs, because its interval is half as wide. 13.0 ±0.8 overlaps: no difference.
    """
    if shown is None or (shown.state, shown.source) != (found.state, found.source):
        return True
    if found.micro_steps_per_second is None or shown.micro_steps_per_second is None:
        return found.micro_steps_per_second is not None
    change = abs(found.micro_steps_per_second - shown.micro_steps_per_second)
    if change > max(_half_width(shown) + _half_width(found), _least_change(shown)):
        return True
    width = shown.ci_permille or 0
    return width > WIDE_PERMILLE and (found.ci_permille or 0) <= width / 2


def shown_rate(status: GPUJobStatus) -> float | None:
    """Return the training steps per second of a running job; None while the rate is not steady."""
    throughput = status.throughput
    if throughput is None or throughput.micro_steps_per_second is None:
        return None
    if throughput.state != "Steady" or status.phase in {"Succeeded", "Failed"}:
        return None
    return throughput.micro_steps_per_second / 1e6


def rate_text(micro_steps_per_second: int, ci_permille: int) -> str:
    """Return the rate and half of its 95 % interval as text of at most 15 characters.

    The interval decides the number of decimals, but the rate has at most 4 significant digits.

    >>> rate_text(12_432_000, 24), rate_text(1_234_000_000, 24), rate_text(4_200, 100)
    ('12.4 ±0.3', '1234 ±30', '0.0042 ±0.0004')
    """
    rate = micro_steps_per_second / 1e6
    half = rate * ci_permille / 1000
    if not (_LOWEST_FIXED <= rate < _HIGHEST_FIXED and half < _HIGHEST_FIXED):
        return f"{rate:.2g} ±{half:.1g}"
    most = min(4, max(0, _SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(rate))))
    decimals = next((places for places in range(most) if half >= 10**-places), most)
    return f"{rate:.{decimals}f} ±{half:.{decimals}f}"


def _throughput(found: Measurement, shown: JobThroughput | None) -> JobThroughput:
    """Return the throughput to show. If ``found`` has no rate, keep the rate of ``shown``."""
    rated = found if found.micro_steps_per_second is not None else shown
    micro = rated.micro_steps_per_second if rated is not None else None
    ci_permille = rated.ci_permille if rated is not None else None
    text = None
    if micro is not None:
        state = "" if found.state == "Steady" else f" ({found.state})"
        text = rate_text(micro, ci_permille or 0) + state
    return JobThroughput(
        state=found.state,
        source=found.source,
        micro_steps_per_second=micro,
        ci_permille=ci_permille,
        steps_per_second=text,
    )


def _half_width(known: JobThroughput | Measurement) -> float:
    return (known.micro_steps_per_second or 0) * (known.ci_permille or 0) / 1000


def _least_change(shown: JobThroughput | Measurement) -> float:
    return (shown.micro_steps_per_second or 0) * LEAST_CHANGE
