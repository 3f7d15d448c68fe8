"""Checks shares of time or of warps, which are from 0 to 1."""

from typing import Final

from gputopo_deviceplugin.counters.faults import CounterError, FaultKind

_MOST: Final = 1.01
"""A mean may exceed 1 by a rounding error of the driver."""


def checked_share(value: float) -> float:
    """Return ``value``, at most 1.

    Raises:
        CounterError: it is not a share; NaN is not either.
    """
    if not 0 <= value <= _MOST:
        raise CounterError(FaultKind.FAILED, f"a share of {value:g} is not possible")
    return min(value, 1.0)
