"""Calls NVML through pynvml. An error of one GPU does not affect the other GPUs.

Only ``counters`` calls NVML too. All methods block, so callers run them in threads.
"""

import ctypes
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Final, TypeVar

import pynvml

from gputopo.counters.link_peers import OtherEnd
from gputopo.errors import GputopoError
from gputopo_deviceplugin.gpus.snapshot import NvmlGpu, NvmlLink, NvmlSnapshot, XidEvent

_SONAME: Final = "libnvidia-ml.so.1"
_NUMA_WORDS: Final = 16
_WORD_BITS: Final = 64
_GENERATION_OF_VERSION: Final = {1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 6: 4, 7: 5}
"""NVLink generation by ``NVML_NVLINK_VERSION_*``, which numbers 2.2 and 3.1 separately."""

_OTHER_ENDS: Final = {
    pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH: OtherEnd.SWITCH,
    pynvml.NVML_NVLINK_DEVICE_TYPE_IBMNPU: OtherEnd.HOST,
}

_UNSUPPORTED: Final = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
    }
)

Value = TypeVar("Value")


class NvmlError(GputopoError):
    """NVML is unavailable: there is no library or no driver, or the driver was unloaded."""


class Nvml:
    """An open NVML session."""

    def __init__(self, library_dir: Path) -> None:
        """Load the driver's library and initialise it.

        pynvml loads the library by its SONAME. To make pynvml use ``library_dir``, this method
        first loads the library by its full path; the dynamic linker then reuses this library.

        Raises:
            NvmlError: there is no library or no driver.
        """
        library = library_dir / _SONAME
        try:
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise NvmlError(f"{library}: {error}") from error
        _session_call(pynvml.nvmlInit)

    def close(self) -> None:
        """End the NVML session."""
        _session_call(pynvml.nvmlShutdown)

    def read_gpus(self) -> NvmlSnapshot:
        """Read every GPU.

        Raises:
            NvmlError: NVML cannot count the GPUs.
        """
        handles: dict[int, Any] = {}
        gpus: dict[int, NvmlGpu] = {}
        failures: dict[int, str] = {}
        for index in range(_session_call(pynvml.nvmlDeviceGetCount)):
            try:
                handles[index] = pynvml.nvmlDeviceGetHandleByIndex(index)
                gpus[index] = _read_gpu(index, handles[index])
            except (pynvml.NVMLError, UnicodeDecodeError) as error:
                failures[index] = f"NVML: {error}"
        levels = {
            (a, b): level
            for a, b in combinations(sorted(gpus), 2)
            if (level := _common_ancestor(handles[a], handles[b])) is not None
        }
        version = _session_call(pynvml.nvmlSystemGetDriverVersion)
        return NvmlSnapshot(version, tuple(gpus.values()), failures, levels)


class XidListener:
    """Waits for XID events of the GPUs that NVML can read when the listener is created."""

    def __init__(self) -> None:
        """Register for the XID events of every GPU that supports them.

        Raises:
            NvmlError: NVML does not support events.
        """
        self._set = _session_call(pynvml.nvmlEventSetCreate)
        # Stored now, because the UUID of a GPU that fell off the bus cannot be read.
        self._uuid_of: dict[int | None, str] = {}
        for index in range(_session_call(pynvml.nvmlDeviceGetCount)):
            try:
                self._register(pynvml.nvmlDeviceGetHandleByIndex(index))
            except pynvml.NVMLError:
                continue  # lost or without events; the next read reports a lost GPU

    def wait(self, timeout_milliseconds: int) -> XidEvent | None:
        """Return the next critical XID, or None after ``timeout_milliseconds`` without one.

        Raises:
            NvmlError: this listener no longer works; create a new listener.
        """
        try:
            event = pynvml.nvmlEventSetWait(self._set, timeout_milliseconds)
        except pynvml.NVMLError_Timeout:
            return None
        except pynvml.NVMLError as error:
            raise NvmlError(f"NVML events: {error}") from error
        uuid = self._uuid_of.get(_address(event.device))
        if uuid is None or event.eventType != pynvml.nvmlEventTypeXidCriticalError:
            return None
        return XidEvent(uuid, int(event.eventData))

    def close(self) -> None:
        """Stop listening for XID events."""
        _session_call(lambda: pynvml.nvmlEventSetFree(self._set))

    def _register(self, handle: Any) -> None:  # noqa: ANN401 - a ctypes pointer
        self._uuid_of[_address(handle)] = pynvml.nvmlDeviceGetUUID(handle)
        pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._set)


def _read_gpu(index: int, handle: Any) -> NvmlGpu:  # noqa: ANN401 - a ctypes pointer
    return NvmlGpu(
        index=index,
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        minor=pynvml.nvmlDeviceGetMinorNumber(handle),
        pci_bus_id=_text(pynvml.nvmlDeviceGetPciInfo(handle).busId),
        model=pynvml.nvmlDeviceGetName(handle),
        memory_bytes=pynvml.nvmlDeviceGetMemoryInfo(handle).total,
        numa_node=_nearest_numa_node(handle),
        pcie_generation=_supported(lambda: pynvml.nvmlDeviceGetMaxPcieLinkGeneration(handle), 0),
        pcie_lanes=_supported(lambda: pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle), 0),
        nvlinks=tuple(_nvlinks(handle)),
        mig=bool(_supported(lambda: pynvml.nvmlDeviceGetMigMode(handle)[0], 0)),
        recovery_action=_recovery_action(handle),
    )


def _recovery_action(handle: Any) -> int | None:  # noqa: ANN401 - a ctypes pointer
    wanted = [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION]
    fields: Iterable[Any] = _supported(lambda: pynvml.nvmlDeviceGetFieldValues(handle, wanted), ())
    for field in fields:
        if field.nvmlReturn == pynvml.NVML_SUCCESS:
            return int(field.value.uiVal)
    return None


def _nvlinks(handle: Any) -> Iterator[NvmlLink]:  # noqa: ANN401 - a ctypes pointer
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        if not _supported(partial(pynvml.nvmlDeviceGetNvLinkState, handle, link), 0):
            continue
        kind = _supported(
            partial(pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link),
            pynvml.NVML_NVLINK_DEVICE_TYPE_GPU,  # drivers without this call have no switches
        )
        version = _supported(partial(pynvml.nvmlDeviceGetNvLinkVersion, handle, link), 1)
        generation = _GENERATION_OF_VERSION.get(version, max(_GENERATION_OF_VERSION.values()))
        if kind == pynvml.NVML_NVLINK_DEVICE_TYPE_GPU:
            peer = pynvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link)
            yield NvmlLink(link, generation, _text(peer.busId))
        else:
            yield NvmlLink(link, generation, _OTHER_ENDS.get(kind, OtherEnd.UNKNOWN))


def _nearest_numa_node(handle: Any) -> int | None:  # noqa: ANN401 - a ctypes pointer
    scope = pynvml.NVML_AFFINITY_SCOPE_NODE
    words: Iterable[int] = _supported(
        lambda: pynvml.nvmlDeviceGetMemoryAffinity(handle, _NUMA_WORDS, scope), ()
    )
    for number, word in enumerate(words):
        if word:
            return number * _WORD_BITS + (word & -word).bit_length() - 1
    return None


def _common_ancestor(a: Any, b: Any) -> int | None:  # noqa: ANN401 - ctypes pointers
    try:
        return int(pynvml.nvmlDeviceGetTopologyCommonAncestor(a, b))
    except pynvml.NVMLError:
        return None


def _supported(call: Callable[[], Value], otherwise: Value) -> Value:
    """Return the result of the call, or ``otherwise`` if the platform does not support the call."""
    try:
        return call()
    except pynvml.NVMLError as error:
        if error.value in _UNSUPPORTED:
            return otherwise
        raise


def _session_call(call: Callable[[], Value]) -> Value:
    try:
        return call()
    except pynvml.NVMLError as error:
        raise NvmlError(f"NVML: {error}") from error


def _address(handle: Any) -> int | None:  # noqa: ANN401 - a ctypes pointer
    return ctypes.cast(handle, ctypes.c_void_p).value


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
