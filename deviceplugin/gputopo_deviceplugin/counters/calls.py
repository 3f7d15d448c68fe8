"""Calls NVML to read the counters of one GPU, and returns plain values.

All methods block, so callers run them in a thread. An error of NVML becomes a ``CounterError``.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

import pynvml

from gputopo_deviceplugin.counters.faults import CounterError, FaultKind, fault_of_code

Value = TypeVar("Value")


class FieldValue(NamedTuple):
    """One value of ``nvmlDeviceGetFieldValues``.

    Attributes:
        code: ``NVML_SUCCESS``, or why this value could not be read.
        value_type: ``NVML_VALUE_TYPE_*``.
        bits: the value as an unsigned integer of its type. Valid only for unsigned types.
        at_us: the driver's time of the value, in microseconds since 1970.
    """

    code: int
    value_type: int
    bits: int
    at_us: int


class GpmMetrics(NamedTuple):
    """Metrics of GPM, each the mean between two times, in microseconds since 1970.

    Attributes:
        values: the value of each metric that was requested; may be NaN.
        codes: the error of NVML for each metric that could not be computed.
    """

    values: Mapping[int, float]
    codes: Mapping[int, int]
    from_us: int
    to_us: int


class GpuCalls:
    """Reads one GPU. Only one thread at a time may call a method.

    GPM computes metrics from two samples. So the first call of ``metrics`` in a new session returns
    None.
    """

    def __init__(self, handle: Any, clock_us: Callable[[], int]) -> None:  # noqa: ANN401 - a ctypes pointer
        """Read the GPU of ``handle``; ``clock_us`` is the time in microseconds since 1970."""
        self._handle: Final = handle
        self._clock_us: Final = clock_us
        self._has_gpm: bool | None = None
        self._older: tuple[Any, int] | None = None
        self._newer: tuple[Any, int] | None = None
        self._sampled = False

    def begin(self) -> None:
        """Begin a read of all counters. All metrics of one read come from the same samples."""
        self._sampled = False

    def fields(self, wanted: Iterable[tuple[int, int]]) -> list[FieldValue]:
        """Return the values of fields, each given by its ID and its scope, such as a link."""
        found = _call(lambda: pynvml.nvmlDeviceGetFieldValues(self._handle, [*wanted]))
        return [_field_value(each) for each in found]

    def utilization(self) -> float:
        """Return the share of time in which any kernel ran, from 0 to 1."""
        return float(_call(lambda: pynvml.nvmlDeviceGetUtilizationRates(self._handle).gpu)) / 100

    def metrics(self, wanted: Iterable[int]) -> GpmMetrics | None:
        """Return metrics of GPM; None if there is only one sample yet."""
        if not self._sampled:
            self._sample()
            self._sampled = True
        if self._older is None or self._newer is None:
            return None
        return _metrics(self._older, self._newer, [*wanted])

    def close(self) -> None:
        """Free the samples of GPM."""
        for sample in (self._older, self._newer):
            if sample is not None:
                _free(sample[0])
        self._older = self._newer = None

    def _sample(self) -> None:
        if self._has_gpm is None:
            support = _call(lambda: pynvml.nvmlGpmQueryDeviceSupport(self._handle))
            self._has_gpm = bool(support.isSupportedDevice)
        if not self._has_gpm:
            raise CounterError(FaultKind.UNSUPPORTED, "this GPU does not support GPM")
        buffer = self._older[0] if self._older else _call(pynvml.nvmlGpmSampleAlloc)
        self._older = None  # the call may change the sample even if it fails
        try:
            _call(lambda: pynvml.nvmlGpmSampleGet(self._handle, buffer))
        except CounterError:
            _free(buffer)
            raise
        self._older, self._newer = self._newer, (buffer, self._clock_us())


def clock_us() -> int:
    """Return the time in microseconds since 1970, as NVML does for fields."""
    return time.time_ns() // 1000


def _metrics(older: tuple[Any, int], newer: tuple[Any, int], wanted: list[int]) -> GpmMetrics:
    request = pynvml.c_nvmlGpmMetricsGet_t()
    request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    request.numMetrics = len(wanted)
    request.sample1, request.sample2 = older[0], newer[0]
    for index, metric in enumerate(wanted):
        request.metrics[index].metricId = metric
    _call(lambda: pynvml.nvmlGpmMetricsGet(request))
    found = request.metrics[: len(wanted)]
    return GpmMetrics(
        {each.metricId: each.value for each in found if not each.nvmlReturn},
        {each.metricId: each.nvmlReturn for each in found if each.nvmlReturn},
        older[1],
        newer[1],
    )


def _field_value(found: Any) -> FieldValue:  # noqa: ANN401 - a struct of pynvml
    narrow = found.valueType == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
    bits = found.value.uiVal if narrow else found.value.ullVal
    return FieldValue(int(found.nvmlReturn), int(found.valueType), int(bits), int(found.timestamp))


def _free(sample: Any) -> None:  # noqa: ANN401 - a ctypes pointer
    with suppress(pynvml.NVMLError):
        pynvml.nvmlGpmSampleFree(sample)


def _call(call: Callable[[], Value]) -> Value:
    try:
        return call()
    except pynvml.NVMLError as error:
        raise fault_of_code(error.value) from error
