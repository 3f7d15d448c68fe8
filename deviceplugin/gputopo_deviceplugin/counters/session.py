"""Reads the counters of all GPUs of the node in an NVML session of its own. Every method blocks."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import pynvml

from gputopo.runtime.log import fields
from gputopo.topology.model import GpuIndex, GpuUuid
from gputopo_deviceplugin.counters.calls import GpuCalls, clock_us
from gputopo_deviceplugin.counters.choice import ReadTime
from gputopo_deviceplugin.counters.exporter import ExporterRates
from gputopo_deviceplugin.counters.faults import CounterError, FaultKind
from gputopo_deviceplugin.counters.gpu_reader import KINDS, GpuReader, GpuReading, unreadable
from gputopo_deviceplugin.gpus.nvml import Nvml, NvmlError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadGpu:
    """A GPU whose counters are read: its index, and the numbers of its active NVLinks."""

    index: GpuIndex
    links: tuple[int, ...]


ExporterState = Mapping[str, ExporterRates] | CounterError
"""What DCGM's exporter shows of each GPU by UUID, or why it shows nothing."""


class CounterSession:
    """Opens NVML when needed, and keeps it open. Only one thread at a time may call a method."""

    def __init__(
        self,
        library_dir: Path,
        clock_us: Callable[[], int] = clock_us,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock_us`` is the time in microseconds since 1970, ``monotonic`` in seconds."""
        self._library_dir: Final = library_dir
        self._clock_us: Final = clock_us
        self._monotonic: Final = monotonic
        self._serials: Final = count()
        self._nvml: Nvml | None = None
        self._readers: dict[tuple[GpuUuid, ReadGpu], GpuReader] = {}

    @property
    def is_open(self) -> bool:
        """Whether NVML is initialised by this session."""
        return self._nvml is not None

    def read(
        self, gpus: Mapping[GpuUuid, ReadGpu], exporter: ExporterState
    ) -> dict[GpuUuid, GpuReading]:
        """Read all counters of ``gpus``.

        Raises:
            NvmlError: NVML cannot be opened.
        """
        if self._nvml is None:
            self._nvml = Nvml(self._library_dir)
        for key in self._readers.keys() - gpus.items():
            self._readers.pop(key).close()
        return {uuid: self._read(uuid, gpu, exporter) for uuid, gpu in gpus.items()}

    def close(self) -> None:
        """End the session, if there is one. Other sessions of this process may go on."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
        if self._nvml is None:
            return
        nvml, self._nvml = self._nvml, None
        try:
            nvml.close()
        except NvmlError as error:
            _log.debug("NVML not closed %s", fields(reason=error))

    def _read(self, uuid: GpuUuid, gpu: ReadGpu, exporter: ExporterState) -> GpuReading:
        try:
            reader = self._reader(uuid, gpu)
        except (pynvml.NVMLError, UnicodeDecodeError) as error:
            kinds = KINDS if gpu.links else KINDS[1:]
            return unreadable(f"NVML: {error}", next(self._serials), kinds)
        return reader.read(ReadTime(self._monotonic(), self._clock_us(), _of_gpu(exporter, uuid)))

    def _reader(self, uuid: GpuUuid, gpu: ReadGpu) -> GpuReader:
        found = self._readers.get((uuid, gpu))
        if found is None:
            calls = GpuCalls(_handle(uuid, gpu.index), self._clock_us)
            found = GpuReader(calls, gpu.links, next(self._serials))
            self._readers[uuid, gpu] = found
        return found


def _handle(uuid: GpuUuid, index: GpuIndex) -> Any:  # noqa: ANN401 - a ctypes pointer
    """Return the handle of a GPU; raise NVMLError if another GPU has its index now."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    if pynvml.nvmlDeviceGetUUID(handle) != uuid:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
    return handle


def _of_gpu(exporter: ExporterState, uuid: GpuUuid) -> ExporterRates | CounterError:
    if isinstance(exporter, CounterError):
        return exporter
    missing = CounterError(FaultKind.FAILED, "the exporter does not show this GPU")
    return exporter.get(uuid, missing)
