"""Why a counter cannot be read."""

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

import pynvml

from gputopo.errors import GputopoError


class FaultKind(Enum):
    """What a fault means for the next read.

    ``UNSUPPORTED``: the GPU or the driver does not have the counter. ``DENIED``: the counter exists
    but must not or cannot be used now; this may change. ``FAILED``: this read failed, and the next
    read may work.
    """

    UNSUPPORTED = auto()
    DENIED = auto()
    FAILED = auto()


class CounterError(GputopoError):
    """A counter could not be read. The message names no GPU and no source."""

    def __init__(self, kind: FaultKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


_KIND_OF_CODE: Final[Mapping[int, FaultKind]] = MappingProxyType(
    {
        # Old GPUs reject fields and metrics that they do not know as invalid.
        pynvml.NVML_ERROR_INVALID_ARGUMENT: FaultKind.UNSUPPORTED,
        pynvml.NVML_ERROR_NOT_SUPPORTED: FaultKind.UNSUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: FaultKind.UNSUPPORTED,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH: FaultKind.UNSUPPORTED,
        pynvml.NVML_ERROR_DEPRECATED: FaultKind.UNSUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION: FaultKind.DENIED,
    }
)


def fault_of_code(code: int) -> CounterError:
    """Return the fault for an error code of NVML."""
    kind = _KIND_OF_CODE.get(code, FaultKind.FAILED)
    return CounterError(kind, f"NVML: {pynvml.NVMLError(code)}")
