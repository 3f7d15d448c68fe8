"""Calls NVML: compute mode and processes of a GPU.

NVML blocks, and can hang. So each call runs in a daemon thread, which does not keep the program
alive, and has a time limit.
"""

import asyncio
import ctypes
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import pynvml

from gputopo.errors import GputopoError
from gputopo_kube.daemon_thread import call_in_daemon_thread

_SONAME: Final = "libnvidia-ml.so.1"
_MODES: Final = {
    pynvml.NVML_COMPUTEMODE_DEFAULT: "DEFAULT",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_THREAD: "EXCLUSIVE_THREAD",
    pynvml.NVML_COMPUTEMODE_PROHIBITED: "PROHIBITED",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS: "EXCLUSIVE_PROCESS",
}
_NUMBERS: Final = {name: number for number, name in _MODES.items()}
DEFAULT: Final = "DEFAULT"
EXCLUSIVE: Final = "EXCLUSIVE_PROCESS"

Value = TypeVar("Value")


class GpuDriverError(GputopoError):
    """NVML is unavailable, does not know the GPU, or rejects the call."""


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """The state of one GPU.

    Attributes:
        memory_bytes: total memory.
        mig: whether MIG is enabled.
        mode: the compute mode.
        used_bytes: memory of each process with a context by PID, MPS servers and their clients
            included.
    """

    memory_bytes: int
    mig: bool
    mode: str
    used_bytes: Mapping[int, int]

    @property
    def processes(self) -> frozenset[int]:
        """The PIDs of the processes."""
        return frozenset(self.used_bytes)


class GpuDriver:
    """The driver of the node. Every method raises ``GpuDriverError`` if it fails."""

    def __init__(self, library_dir: Path, timeout_seconds: float) -> None:
        self._library = library_dir / _SONAME
        self._timeout_seconds = timeout_seconds
        self._turn = asyncio.Lock()
        self._last: asyncio.Future[Any] | None = None
        self._is_open = False

    async def read(self, uuid: str) -> GpuFacts:
        """Return the state of a GPU."""
        return await self._call(partial(self._with_handle, uuid, _facts))

    async def set_mode(self, uuid: str, mode: str) -> None:
        """Set the compute mode of a GPU: ``DEFAULT`` or ``EXCLUSIVE``."""
        number = _NUMBERS[mode]
        await self._call(
            partial(
                self._with_handle,
                uuid,
                lambda handle: pynvml.nvmlDeviceSetComputeMode(handle, number),
            )
        )

    def close(self) -> None:
        """End the NVML session, unless a call hangs."""
        if self._last is None or self._last.done():
            self._close()

    async def _call(self, function: Callable[[], Value]) -> Value:
        async with self._turn:
            if self._last is not None and not self._last.done():
                # The text is published. So it must not change with each check.
                raise GpuDriverError(
                    "NVML: an earlier call has not ended; see the kernel log for NVRM messages, "
                    "and reboot the node if NVML stays unavailable"
                )
            self._last = future = call_in_daemon_thread(function, "nvml")
            try:
                async with asyncio.timeout(self._timeout_seconds):
                    return await asyncio.shield(future)
            except TimeoutError:
                raise GpuDriverError(
                    f"NVML: no response within {self._timeout_seconds:g} s"
                ) from None

    def _with_handle(self, uuid: str, function: Callable[[Any], Value]) -> Value:
        try:
            self._open()
            return function(_find(uuid))
        except pynvml.NVMLError as error:
            # The driver may have been unloaded, so the next call opens NVML again.
            self._close()
            raise GpuDriverError(f"NVML: {error}") from error
        except GpuDriverError:
            self._close()
            raise

    def _open(self) -> None:
        if self._is_open:
            return
        try:
            # pynvml loads the library by its name, and then gets this one.
            ctypes.CDLL(str(self._library), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise GpuDriverError(f"{self._library}: {error}") from error
        pynvml.nvmlInit()
        self._is_open = True

    def _close(self) -> None:
        if self._is_open:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()
        self._is_open = False


def _find(uuid: str) -> Any:  # noqa: ANN401 - a ctypes pointer
    """Return the handle of a GPU, also while NVML has lost another GPU.

    nvmlDeviceGetHandleByUUID is documented to fail if any GPU is lost.
    """
    failures = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            if pynvml.nvmlDeviceGetUUID(handle) == uuid:
                return handle
        except pynvml.NVMLError as error:
            failures.append(f"; GPU with index {index} cannot be read: {error}")
    raise GpuDriverError(f"GPU {uuid}: NVML lists no such GPU{''.join(failures)}")


def _facts(handle: Any) -> GpuFacts:  # noqa: ANN401 - a ctypes pointer
    try:
        mig = bool(pynvml.nvmlDeviceGetMigMode(handle)[0])
    except pynvml.NVMLError:
        mig = False  # not supported
    return GpuFacts(
        memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        mig=mig,
        mode=_MODES.get(pynvml.nvmlDeviceGetComputeMode(handle), "unknown"),
        used_bytes={
            int(each.pid): int(each.usedGpuMemory or 0)
            for each in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        },
    )
