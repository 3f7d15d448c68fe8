"""Computes how much faster a pod is than before its last resize."""

from gputopo.api.profile import Measurement
from gputopo.api.tuning import TunedRecord


def current_rate(measured: Measurement | None, milli_cpu: int | None) -> int | None:
    """Return the rate of a pod with its current CPU limit, in 10^-6 steps/s; None if unknown.

    A measurement with another limit is from before the last resize.
    """
    if measured is None or measured.milli_cpu not in {None, milli_cpu}:
        return None
    return measured.micro_steps_per_second


def gain_percent(record: TunedRecord | None, micro_steps_per_second: int | None) -> int | None:
    """Return by how much the last resize has raised the rate of a pod, in percent.

    Args:
        record: the record of the pod.
        micro_steps_per_second: the rate since the last resize.

    Returns:
        None before kubelet has carried out the resize, and if one of both rates is unknown.

    >>> from gputopo.api.tuning import Amounts
    >>> few, many, time = Amounts(2000, 0), Amounts(4000, 0), "2026-01-01T00:00:00Z"
    >>> record = TunedRecord(
    ...     uid="u", floor=few, last=few, target=many, since=time, done=True,
    ...     before_micro_steps_per_second=10_000_000,
    ... )
    >>> gain_percent(record, 13_100_000)
    31
    """
    before = record.before_micro_steps_per_second if record and record.done else 0
    if not before or micro_steps_per_second is None:
        return None
    return round(100 * micro_steps_per_second / before) - 100
