"""Describes which counters can be read and why others cannot. Pure functions."""

from collections import Counter
from collections.abc import Collection
from typing import Final

from gputopo.api.v1alpha1 import CounterStatus
from gputopo_deviceplugin.counters.gpu_reader import KINDS, CounterKind, GpuReading

NO_SOURCE: Final = "None"
_LONGEST_MESSAGE: Final = 512


def counter_status(readings: Collection[GpuReading]) -> list[CounterStatus]:
    """Return the status of each kind of counter.

    If the GPUs have different sources, the status names the one of most GPUs, and the message
    states why the other GPUs do not have it.
    """
    return [_status(kind, readings) for kind in KINDS] if readings else []


def unavailable(reason: str) -> list[CounterStatus]:
    """Return the status while no counter can be read because of ``reason``."""
    message = reason[:_LONGEST_MESSAGE]
    return [CounterStatus(kind=kind, source=NO_SOURCE, gpus=0, message=message) for kind in KINDS]


def _status(kind: CounterKind, readings: Collection[GpuReading]) -> CounterStatus:
    having = [each for each in readings if kind in each.sources]
    used = Counter(source for each in having if (source := each.sources[kind]) is not None)
    [(source, _)] = used.most_common(1) or [(NO_SOURCE, 0)]
    message = _faults(kind, having) if having else f"no GPU has this counter: {kind}"
    return CounterStatus(
        kind=kind, source=source, gpus=used.total(), message=message[:_LONGEST_MESSAGE]
    )


def _faults(kind: CounterKind, readings: Collection[GpuReading]) -> str:
    """Return the faults of all GPUs, for example ``GPM: NVML: Insufficient Permissions (8 GPUs)``.

    The text does not depend on the order of the GPUs, so that the status seldom changes.
    """
    faults = Counter(fault for each in readings for fault in each.faults[kind])
    return "; ".join(
        f"{source}: {message} ({count} GPU{'s' * (count > 1)})"
        for (source, message), count in sorted(faults.items())
    )
